//! Whoever forges, bends or reuses a token stays outside, and the token stays out of the log.

mod forge;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD as BASE64};
use forge::{Forge, claims, hmac_token, now};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::Client;
use crate::world::{Setup, World};

const EXISTS: &str = "/v1/table/west%24t1/exists";
const OTHER_ISSUER: &str = "https://other.test";
/// All that are supported but RS512, which is left out to be refused.
const ALGORITHMS: &str = "[RS256, RS384, PS256, PS384, PS512, ES256, ES384, EdDSA]";

/// A gateway that trusts `ours`, and `other` for tokens of another issuer with keys of the same names.
async fn world(folder: &TempDir, ours: &Forge, other: &Forge) -> World {
    let file = |name: &str, keys: Value| {
        let path = folder.path().join(name);
        std::fs::write(&path, keys.to_string()).unwrap();
        path.display().to_string()
    };
    let auth = format!(
        "auth:\n  issuers:\n    - issuer: {}\n      audiences: [catalog]\n      algorithms: {ALGORITHMS}\n      \
         keys: {{ file: {} }}\n      require: {{ tenant: [acme, umbrella] }}\n    \
         - issuer: {OTHER_ISSUER}\n      audiences: [catalog]\n      algorithms: [ES256]\n      keys: {{ file: {} }}",
        crate::token::ISSUER,
        file("ours.json", ours.key_set()),
        file("other.json", other.key_set()),
    );
    let setup = Setup::new().mount("[west]", "west").section(&auth);
    setup.start().await.seeded()
}

async fn ask(client: &Client) -> (u16, Option<u64>) {
    let reply = client.post(EXISTS, &json!({})).await;
    let (status, code) = reply.outcome();
    if status == 401 {
        let challenge = reply.header("www-authenticate").unwrap();
        assert!(challenge.starts_with("Bearer"), "{challenge}");
    }
    (status, code)
}

fn bearing(world: &World, token: &str) -> Client {
    let value = format!("Bearer {token}");
    world.anonymous().header("authorization", &value)
}

#[tokio::test]
async fn a_good_token_of_every_algorithm_comes_in() {
    let forge = Forge::new();
    let folder = tempfile::tempdir().unwrap();
    let world = world(&folder, &forge, &Forge::new()).await;
    let cases = [
        ("RS256", "rsa"),
        ("RS256", "rsa-any"),
        ("RS384", "rsa-any"),
        ("PS256", "rsa-any"),
        ("PS384", "rsa-any"),
        ("PS512", "rsa-any"),
        ("ES256", "ec"),
        ("ES384", "p384"),
        ("EdDSA", "ed"),
    ];
    for (algorithm, kid) in cases {
        let header = json!({"alg": algorithm, "kid": kid}).to_string();
        let token = forge.token(algorithm, &header, &claims(&json!({})));
        assert_eq!(
            ask(&bearing(&world, &token)).await,
            (200, None),
            "{algorithm} {kid}"
        );
    }
    let bent = [
        ("audiences in a list", json!({"aud": ["x", "catalog"]})),
        (
            "a required claim in a list",
            json!({"tenant": ["x", "umbrella"]}),
        ),
        ("expired within the leeway", json!({"exp": now() - 5})),
        (
            "not yet valid, within the leeway",
            json!({"nbf": now() + 10}),
        ),
    ];
    for (name, changed) in bent {
        let token = forge.with_claims(&changed);
        assert_eq!(ask(&bearing(&world, &token)).await, (200, None), "{name}");
    }
    let lower = format!("bearer {}", forge.with_claims(&json!({})));
    let client = world.anonymous().header("authorization", &lower);
    assert_eq!(
        ask(&client).await,
        (200, None),
        "the scheme has no case (RFC 9110, section 11.1)"
    );
}

#[tokio::test]
async fn every_attack_is_refused_and_none_is_logged() {
    let (forge, other) = (Forge::new(), Forge::new());
    let folder = tempfile::tempdir().unwrap();
    let world = world(&folder, &forge, &other).await;
    let attacks: Vec<(&str, String)> = [
        algorithms(&forge, &other),
        headers(&forge, &other),
        contents(&forge, &other),
        spellings(&forge),
    ]
    .concat();
    assert!(attacks.len() >= 40, "{}", attacks.len());
    for (name, token) in &attacks {
        assert_eq!(
            ask(&bearing(&world, token)).await,
            (401, Some(16)),
            "{name}: {token}"
        );
        let log = world.log();
        for part in token.split('.').filter(|part| part.len() > 20) {
            assert!(!log.contains(part), "{name} is in the log");
        }
    }
    println!("{} attacks refused", attacks.len());
    let good = forge.with_claims(&json!({}));
    let shapes = [
        ("another scheme", format!("Basic {good}")),
        ("no scheme", good.clone()),
        ("two tokens", format!("Bearer {good} {good}")),
        ("a list of tokens", format!("Bearer {good}, Bearer {good}")),
        ("quoted", format!("Bearer \"{good}\"")),
    ];
    for (name, value) in shapes {
        let client = world.anonymous().header("authorization", &value);
        assert_eq!(ask(&client).await, (401, Some(16)), "{name}");
    }
    let twice = bearing(&world, &good).header("authorization", &format!("Bearer {good}"));
    assert_eq!(ask(&twice).await, (401, Some(16)), "two headers");
    let in_query = format!("{EXISTS}?access_token={good}");
    let reply = world.anonymous().post(&in_query, &json!({})).await;
    assert_eq!(reply.outcome(), (401, Some(16)), "in the query");
    assert_eq!(
        ask(&bearing(&world, &good)).await,
        (200, None),
        "and the good one comes in"
    );
    assert!(!world.log().contains(&good));
}

/// The wrong algorithm, the wrong key, or both.
fn algorithms(forge: &Forge, other: &Forge) -> Vec<(&'static str, String)> {
    let good = claims(&json!({}));
    let unsigned = |alg: &str| {
        let header = json!({"alg": alg, "kid": "ec"}).to_string();
        format!("{}.{}.", BASE64.encode(header), BASE64.encode(&good))
    };
    let signed = |by: &Forge, with: &str, alg: &str, kid: &str| {
        by.token(with, &json!({"alg": alg, "kid": kid}).to_string(), &good)
    };
    let (pem, der) = forge.rsa_public();
    let modulus = forge.key_set()["keys"][0]["n"].as_str().unwrap().to_owned();
    vec![
        ("alg none", unsigned("none")),
        ("alg None", unsigned("None")),
        ("alg nOnE", unsigned("nOnE")),
        ("alg empty", unsigned("")),
        (
            "alg none with a signature",
            signed(forge, "ES256", "none", "ec"),
        ),
        (
            "HS256 with the RSA public key as PEM",
            hmac_token("rsa", pem.as_bytes()),
        ),
        (
            "HS256 with the RSA public key as PEM, trimmed",
            hmac_token("rsa", pem.trim().as_bytes()),
        ),
        (
            "HS256 with the RSA public key as DER",
            hmac_token("rsa", &der),
        ),
        (
            "HS256 with the modulus",
            hmac_token("rsa", modulus.as_bytes()),
        ),
        ("HS256 with an empty secret", hmac_token("rsa", b"")),
        (
            "HS256 for a file that is empty",
            hmac_token("../../../../dev/null", b""),
        ),
        (
            "RS256 by a stranger",
            signed(other, "RS256", "RS256", "rsa"),
        ),
        ("ES256 by a stranger", signed(other, "ES256", "ES256", "ec")),
        ("EdDSA by a stranger", signed(other, "EdDSA", "EdDSA", "ed")),
        (
            "RS256 said of the EC key",
            signed(forge, "RS256", "RS256", "ec"),
        ),
        (
            "ES256 said of the RSA key",
            signed(forge, "ES256", "ES256", "rsa"),
        ),
        (
            "ES384 said of the P-256 key",
            signed(forge, "ES384", "ES384", "ec"),
        ),
        (
            "ES256 said of the P-384 key",
            signed(forge, "ES256", "ES256", "p384"),
        ),
        (
            "EdDSA said of the EC key",
            signed(forge, "EdDSA", "EdDSA", "ec"),
        ),
        (
            "PS256 with a key bound to RS256",
            signed(forge, "PS256", "PS256", "rsa"),
        ),
        (
            "RS256 said, PS256 signed",
            signed(forge, "PS256", "RS256", "rsa-any"),
        ),
        (
            "RS512, which is not on the list",
            signed(forge, "RS512", "RS512", "rsa-any"),
        ),
        (
            "rs256 in lower case",
            signed(forge, "RS256", "rs256", "rsa"),
        ),
        (
            "a signature in DER",
            signed(forge, "ES256-DER", "ES256", "ec"),
        ),
    ]
}

/// Headers that would have the gateway take a key, or a rule, from the token.
fn headers(forge: &Forge, other: &Forge) -> Vec<(&'static str, String)> {
    let embedded = json!({"alg": "ES256", "kid": "ec", "jwk": other.ec_jwk()});
    let twice = r#"{"alg":"ES256","kid":"ec","alg":"ES256"}"#;
    vec![
        (
            "jwk of the attacker",
            other.token("ES256", &embedded.to_string(), &claims(&json!({}))),
        ),
        (
            "jwk beside a good signature",
            forge.with_header(&json!({"jwk": forge.ec_jwk()})),
        ),
        (
            "jku",
            forge.with_header(&json!({"jku": "https://evil.test/jwks"})),
        ),
        (
            "x5u",
            forge.with_header(&json!({"x5u": "https://evil.test/cert"})),
        ),
        ("x5c", forge.with_header(&json!({"x5c": ["MIIB"]}))),
        (
            "crit unknown",
            forge.with_header(&json!({"crit": ["rule"], "rule": 1})),
        ),
        (
            "crit known",
            forge.with_header(&json!({"crit": ["exp"], "exp": 1})),
        ),
        ("crit empty", forge.with_header(&json!({"crit": []}))),
        (
            "b64 false",
            forge.with_header(&json!({"crit": ["b64"], "b64": false})),
        ),
        ("nested", forge.with_header(&json!({"cty": "JWT"}))),
        ("alg missing", forge.with_header(&json!({"alg": null}))),
        ("alg a list", forge.with_header(&json!({"alg": ["ES256"]}))),
        ("kid unknown", forge.with_header(&json!({"kid": "nobody"}))),
        (
            "kid a path",
            forge.with_header(&json!({"kid": "../../etc/passwd"})),
        ),
        (
            "kid a query",
            forge.with_header(&json!({"kid": "ec' OR '1'='1"})),
        ),
        (
            "kid with a NUL",
            forge.with_header(&json!({"kid": "ec\u{0}"})),
        ),
        (
            "kid in another case",
            forge.with_header(&json!({"kid": "EC"})),
        ),
        ("kid a number", forge.with_header(&json!({"kid": 1}))),
        ("kid empty", forge.with_header(&json!({"kid": ""}))),
        ("kid missing, two keys that fit", {
            forge.token("RS256", r#"{"alg":"RS256"}"#, &claims(&json!({})))
        }),
        (
            "alg twice",
            forge.token("ES256", twice, &claims(&json!({}))),
        ),
        (
            "the header is no object",
            forge.token("ES256", "[]", &claims(&json!({}))),
        ),
        (
            "the header is no JSON",
            forge.token("ES256", "{alg:ES256}", &claims(&json!({}))),
        ),
    ]
}

/// Claims that are wrong, missing, or of the wrong type.
fn contents(forge: &Forge, other: &Forge) -> Vec<(&'static str, String)> {
    let with = |changed: Value| forge.with_claims(&changed);
    let good = claims(&json!({}));
    let twice = format!("{},\"exp\":{}}}", good.trim_end_matches('}'), now() + 7200);
    let deep = format!(
        "{},\"x\":{}1{}}}",
        good.trim_end_matches('}'),
        "[".repeat(500),
        "]".repeat(500)
    );
    vec![
        ("expired", with(json!({"exp": now() - 120}))),
        ("expired long ago", with(json!({"exp": 0}))),
        ("no exp", with(json!({"exp": null}))),
        ("exp text", with(json!({"exp": (now() + 3600).to_string()}))),
        ("exp negative", with(json!({"exp": -1}))),
        ("exp a list", with(json!({"exp": [now() + 3600]}))),
        ("exp true", with(json!({"exp": true}))),
        (
            "exp beyond any number",
            forge.with_payload(&good.replacen("\"exp\":", "\"exp\":1e999,\"x\":", 1)),
        ),
        ("exp twice", forge.with_payload(&twice)),
        ("not yet valid", with(json!({"nbf": now() + 600}))),
        ("nbf text", with(json!({"nbf": "0"}))),
        ("aud of others", with(json!({"aud": "else"}))),
        (
            "aud of others in a list",
            with(json!({"aud": ["else", "Catalog"]})),
        ),
        ("aud missing", with(json!({"aud": null}))),
        ("aud a number", with(json!({"aud": 1}))),
        ("aud an object", with(json!({"aud": {"catalog": true}}))),
        ("aud a beginning", with(json!({"aud": "catalo"}))),
        ("iss of others", with(json!({"iss": "https://evil.test"}))),
        (
            "iss with a slash",
            with(json!({"iss": "https://issuer.test/"})),
        ),
        (
            "iss with a NUL",
            with(json!({"iss": "https://issuer.test\u{0}"})),
        ),
        ("iss missing", with(json!({"iss": null}))),
        ("iss a list", with(json!({"iss": [crate::token::ISSUER]}))),
        (
            "iss another, with our key",
            with(json!({"iss": OTHER_ISSUER})),
        ),
        (
            "iss ours, with the key of the other",
            other.with_claims(&json!({})),
        ),
        ("a required claim missing", with(json!({"tenant": null}))),
        (
            "a required claim of others",
            with(json!({"tenant": "evil"})),
        ),
        (
            "a required claim in another case",
            with(json!({"tenant": "ACME"})),
        ),
        (
            "a required claim an object",
            with(json!({"tenant": {"acme": 1}})),
        ),
        ("the payload is a list", forge.with_payload("[]")),
        ("the payload is text", forge.with_payload("\"x\"")),
        ("the payload is no JSON", forge.with_payload("{")),
        ("the payload is empty", forge.with_payload("")),
        ("the payload nests without end", forge.with_payload(&deep)),
    ]
}

/// The same bytes spelled otherwise, and parts too many or too few.
fn spellings(forge: &Forge) -> Vec<(&'static str, String)> {
    let good = forge.with_claims(&json!({}));
    let parts: Vec<&str> = good.split('.').collect();
    let [header, payload, signature] = parts[..] else {
        unreachable!("a token has three parts");
    };
    let swapped = BASE64.encode(claims(&json!({"sub": "root"})));
    let zero = BASE64.encode([0; 64]);
    let bytes = BASE64.decode(signature).unwrap();
    // 64 bytes leave four bits of the last letter unused: another letter with the same two decodes alike elsewhere.
    let last = signature.chars().last().unwrap();
    let alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let next = alphabet
        .chars()
        .nth(alphabet.find(last).unwrap() | 1)
        .unwrap();
    let trailing = format!("{}{next}", &signature[..signature.len() - 1]);
    let huge = forge.with_claims(&json!({"x": "y".repeat(17 << 10)}));
    vec![
        ("empty", String::new()),
        ("one part", header.to_owned()),
        ("two parts", format!("{header}.{payload}")),
        ("no signature", format!("{header}.{payload}.")),
        ("four parts", format!("{good}.x")),
        (
            "five parts, as an encrypted token has",
            format!("{header}.x.y.z.{signature}"),
        ),
        ("only dots", "..".to_owned()),
        (
            "the JSON serialization",
            json!({"payload": payload, "signature": signature}).to_string(),
        ),
        ("another payload", format!("{header}.{swapped}.{signature}")),
        ("a signature of zeros", format!("{header}.{payload}.{zero}")),
        (
            "half a signature",
            format!("{header}.{payload}.{}", BASE64.encode(&bytes[..32])),
        ),
        (
            "a longer signature",
            format!(
                "{header}.{payload}.{}",
                BASE64.encode([&bytes[..], &[0]].concat())
            ),
        ),
        ("padding", format!("{good}==")),
        ("padding inside", format!("{header}=.{payload}.{signature}")),
        (
            "standard base64",
            format!(
                "{header}.{payload}.{}",
                STANDARD.encode([&bytes[..62], &[251, 255]].concat())
            ),
        ),
        ("unused bits set", format!("{header}.{payload}.{trailing}")),
        ("a space inside", format!("{header}. {payload}.{signature}")),
        ("a tab inside", format!("{header}.\t{payload}.{signature}")),
        ("percent-encoded", good.replace('.', "%2E")),
        ("larger than 16 KiB", huge),
    ]
}
