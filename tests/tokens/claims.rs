//! A claim has one reading, whether a rule, `require` or `context` names it.

use serde_json::{Value, json};

use crate::forge::{RSA, claims, header, set, token, with};
use crate::issuer::{Issuer, JWKS};
use crate::verifier::{Door, one};

/// Makes a token with these claims besides the usual ones.
fn with_claims(members: Value) -> String {
    token(&header("RS256", "rsa"), &with(claims(), members), &RSA)
}

/// Opens a door that wants the claim `name`, with one of these values if there are any, and makes context of it.
async fn door(keys: &Issuer, name: &str, accepted: &[&str]) -> Door {
    let mut config = one(&keys.uri(JWKS));
    let accepted = accepted.iter().map(|&value| value.to_owned()).collect();
    config.require = [(name.to_owned(), accepted)].into();
    config.context = [("tenant".to_owned(), name.to_owned())].into();
    Door::open(vec![config]).await
}

#[tokio::test]
async fn a_claim_is_found_by_name_or_path_wherever_it_is_named() {
    let token = with_claims(json!({
        "https://acme.example/tenant": "acme",
        "https://acme.example/app": {"tenant": "acme"},
        "realm_access": {"tenant": "acme", "more": {"x.y": "acme"}},
        "a.b": {"c": "acme"},
        "a": {"b": {"c": "eu", "d": "acme"}},
        "scope": "eu acme",
        "scp": "eu acme",
        "list": [["acme"]],
    }));
    // The name, the context that it makes, and whether it has the value.
    let cases = [
        ("https://acme.example/tenant", Some("acme"), true),
        ("https://acme.example/app.tenant", Some("acme"), true),
        ("realm_access.tenant", Some("acme"), true),
        ("realm_access.more.x.y", Some("acme"), true),
        ("a.b.c", Some("acme"), true),
        ("a.b.d", None, false),
        ("scope", Some("eu acme"), true),
        ("scp", Some("eu acme"), true),
        ("list", Some(r#"[["acme"]]"#), false),
        ("realm_access.more", Some(r#"{"x.y":"acme"}"#), false),
        ("realm_access.none", None, false),
        ("realm_access.", None, false),
    ];
    let keys = Issuer::with(&set(&[RSA.jwk("rsa")])).await;
    for (name, context, has_value) in cases {
        let present = door(&keys, name, &[]).await.ask(&token).await;
        assert_eq!(present.is_ok(), context.is_some(), "{name}");
        if let Ok(principal) = present {
            let found = principal.context().iter().next();
            assert_eq!(found.map(|entry| entry.value()), context, "{name}");
            let of_rule = principal.has_claim(name, &["acme".to_owned()]);
            assert_eq!(of_rule, has_value, "{name}");
        }
        let required = door(&keys, name, &["acme"]).await.ask(&token).await;
        assert_eq!(required.is_ok(), has_value, "{name}");
    }
}
