//! Tokens of an issuer whose only key was generated for this test run.

use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde_json::{Value, json};

/// The `iss` of every token.
pub const ISSUER: &str = "https://issuer.test";

static KEY: LazyLock<EcdsaKeyPair> = LazyLock::new(|| {
    let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, &SystemRandom::new()).unwrap();
    EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref()).unwrap()
});

/// The issuer's JSON Web Key Set (RFC 7517).
pub fn key_set() -> Value {
    // An uncompressed point is the byte 4, then x and y of 32 bytes each.
    let point = &KEY.public_key().as_ref()[1..];
    let (x, y) = (BASE64.encode(&point[..32]), BASE64.encode(&point[32..]));
    json!({"keys": [{
        "kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": "one", "x": x, "y": y,
    }]})
}

/// Makes a token that is valid for an hour; `claims` are added to the usual ones or replace them.
pub fn token(claims: &Value) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let mut all = json!({
        "iss": ISSUER, "aud": "catalog", "sub": "tester", "exp": now.as_secs() + 3600,
    });
    for (claim, value) in claims.as_object().into_iter().flatten() {
        all[claim] = value.clone();
    }
    let header = json!({"alg": "ES256", "kid": "one", "typ": "JWT"});
    let encode = |part: &Value| BASE64.encode(part.to_string());
    let signed = format!("{}.{}", encode(&header), encode(&all));
    let signature = KEY.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
    format!("{signed}.{}", BASE64.encode(signature.as_ref()))
}
