//! Attacks with what a token's header says about its own signature.

use super::{Attack, attack};
use crate::forge::{P256, P384, Pair, RSA, RSA_OF_NOBODY, claims, header, raw, set, token, with};
use serde_json::{Value, json};

pub(super) fn attacks() -> Vec<Attack> {
    algorithms()
        .into_iter()
        .chain(key_ids())
        .chain(members())
        .collect()
}

/// Makes a token whose header has these members beside the usual ones.
fn signed(members: Value) -> String {
    token(&with(header("RS256", "rsa"), members), &claims(), &RSA)
}

fn algorithms() -> Vec<Attack> {
    let unsigned = |algorithm: &str, signature: &'static [u8]| {
        let header = header(algorithm, "rsa");
        raw(header.to_string(), claims().to_string(), |_| {
            signature.to_vec()
        })
    };
    let not_listed = |algorithm, kid, pair: &Pair| token(&header(algorithm, kid), &claims(), pair);
    vec![
        attack(
            "alg none without a signature",
            "malformed",
            unsigned("none", b""),
        ),
        attack(
            "alg none with a signature",
            "algorithm",
            unsigned("none", b"signature"),
        ),
        attack("alg None", "algorithm", unsigned("None", b"signature")),
        attack("alg nOnE", "algorithm", unsigned("nOnE", b"signature")),
        attack("alg empty", "algorithm", unsigned("", b"signature")),
        attack(
            "alg in lower case",
            "algorithm",
            signed(json!({"alg": "rs256"})),
        ),
        attack(
            "alg with a space",
            "algorithm",
            signed(json!({"alg": "RS256 "})),
        ),
        attack(
            "alg unheard of",
            "algorithm",
            signed(json!({"alg": "XS256"})),
        ),
        attack(
            "alg of another curve",
            "algorithm",
            signed(json!({"alg": "ES256K"})),
        ),
        attack("no alg", "malformed", signed(json!({"alg": null}))),
        attack("alg a number", "malformed", signed(json!({"alg": 256}))),
        attack(
            "alg an array",
            "malformed",
            signed(json!({"alg": ["RS256"]})),
        ),
        attack(
            "RS512, which is not listed",
            "algorithm",
            not_listed("RS512", "rsa", &RSA),
        ),
        attack(
            "PS384, which is not listed",
            "algorithm",
            not_listed("PS384", "rsa", &RSA),
        ),
        attack(
            "ES384, which is not listed",
            "algorithm",
            not_listed("ES384", "ec384", &P384),
        ),
    ]
}

fn key_ids() -> Vec<Attack> {
    let named = |kid: &str| signed(json!({ "kid": kid }));
    let number = raw(
        json!({"alg": "RS256", "kid": 0}).to_string(),
        claims().to_string(),
        |message| RSA.sign("RS256", message),
    );
    let null = raw(
        r#"{"alg":"RS256","kid":null}"#,
        claims().to_string(),
        |message| RSA.sign("RS256", message),
    );
    vec![
        attack("kid a path", "unknown_key", named("../../../../dev/null")),
        attack(
            "kid a file of the gateway",
            "unknown_key",
            named("/proc/self/environ"),
        ),
        attack(
            "kid an address",
            "unknown_key",
            named("http://127.0.0.1/jwks#rsa"),
        ),
        attack(
            "kid a query",
            "unknown_key",
            named("rsa' UNION SELECT 'key"),
        ),
        attack(
            "kid a command",
            "unknown_key",
            named("rsa; cat /etc/passwd |"),
        ),
        attack("kid with a NUL", "unknown_key", named("rsa\0")),
        attack("kid in another case", "unknown_key", named("RSA")),
        attack("kid empty", "unknown_key", named("")),
        attack("kid unknown", "unknown_key", named("nobody")),
        attack("kid of the encryption key", "unknown_key", named("enc")),
        attack("kid a number", "malformed", number),
        attack("kid null", "malformed", null),
        attack(
            "no kid where two keys fit",
            "unknown_key",
            token(&json!({"alg": "PS256"}), &claims(), &RSA),
        ),
    ]
}

fn members() -> Vec<Attack> {
    let theirs = RSA_OF_NOBODY.jwk("rsa");
    let forged = |members: Value| {
        token(
            &with(header("RS256", "rsa"), members),
            &claims(),
            &RSA_OF_NOBODY,
        )
    };
    let twice = |text: &str| {
        raw(text, claims().to_string(), |message| {
            RSA.sign("RS256", message)
        })
    };
    vec![
        attack(
            "jwk of the forger",
            "header",
            forged(json!({"jwk": theirs})),
        ),
        attack(
            "jwk of the issuer",
            "header",
            signed(json!({"jwk": RSA.jwk("rsa")})),
        ),
        attack(
            "jku of the forger",
            "header",
            forged(json!({"jku": "https://forger.test/jwks"})),
        ),
        attack(
            "jku of the issuer",
            "header",
            signed(json!({"jku": "https://one.test/jwks"})),
        ),
        attack(
            "jku with the keys in it",
            "header",
            forged(json!({"jku": format!("data:application/json,{}", set(&[theirs]))})),
        ),
        attack(
            "x5u",
            "header",
            forged(json!({"x5u": "https://forger.test/chain.pem"})),
        ),
        attack(
            "x5c",
            "header",
            forged(json!({"x5c": ["MIIBszCCAVmgAwIBAgI"]})),
        ),
        attack(
            "crit of what nobody knows",
            "header",
            signed(json!({"crit": ["x"], "x": 1})),
        ),
        attack(
            "crit of what everybody knows",
            "header",
            signed(json!({"crit": ["exp"]})),
        ),
        attack("crit empty", "header", signed(json!({"crit": []}))),
        attack("b64 false", "header", signed(json!({"b64": false}))),
        attack(
            "b64 false and critical",
            "header",
            signed(json!({"b64": false, "crit": ["b64"]})),
        ),
        attack(
            "cty JWT, a token in a token",
            "header",
            token(
                &with(header("RS256", "rsa"), json!({"cty": "JWT"})),
                &json!(token(&header("ES256", "ec"), &claims(), &P256)),
                &RSA,
            ),
        ),
        attack("zip", "header", signed(json!({"zip": "DEF"}))),
        attack("enc", "header", signed(json!({"enc": "A256GCM"}))),
        attack(
            "typ of a log-out",
            "header",
            signed(json!({"typ": "logout+jwt"})),
        ),
        attack(
            "typ of a proof of possession",
            "header",
            signed(json!({"typ": "dpop+jwt"})),
        ),
        attack("typ a number", "header", signed(json!({"typ": 1}))),
        attack(
            "alg twice",
            "malformed",
            twice(r#"{"alg":"none","alg":"RS256","kid":"rsa"}"#),
        ),
        attack(
            "kid twice",
            "malformed",
            twice(r#"{"alg":"RS256","kid":"x","kid":"rsa"}"#),
        ),
        attack(
            "kid twice, once with an escape",
            "malformed",
            twice(r#"{"alg":"RS256","kid":"x","k\u0069d":"rsa"}"#),
        ),
    ]
}
