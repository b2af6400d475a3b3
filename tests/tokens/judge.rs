//! Comparison with jsonwebtoken: it must accept every token that the gateway accepts.

use jsonwebtoken::crypto::aws_lc;
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use nsgate::config::ALGORITHMS;
use serde_json::{Map, Value, json};

use crate::forge::{ED25519, NOW, ONE, P256, P384, Pair, RSA, claims, encode, raw, set};
use crate::issuer::{Issuer, JWKS};
use crate::verifier::{Door, one};

/// Checks a token of issuer one for the catalog with jsonwebtoken and its own provider for the signature. The time is
/// not checked.
pub fn judge(token: &str, jwk: &Value) -> Result<(), Error> {
    let algorithm = decode_header(token)?.alg;
    let key = DecodingKey::from_jwk(&serde_json::from_value(jwk.clone()).unwrap())?;
    let mut validation = Validation::new(algorithm);
    validation.set_issuer(&[ONE]);
    validation.set_audience(&["catalog"]);
    validation.set_required_spec_claims(&["exp", "iss", "aud"]);
    // Its clock cannot be set.
    validation.validate_exp = false;
    decode::<Map<String, Value>>(token, &key, &validation)?;
    let (signed, signature) = token.rsplit_once('.').unwrap();
    let stock = (aws_lc::DEFAULT_PROVIDER.verifier_factory)(&algorithm, &key)?;
    let verdict = stock.verify(signed.as_bytes(), &decoded(signature));
    verdict.map_err(|_| ErrorKind::InvalidSignature.into())
}

fn decoded(text: &str) -> Vec<u8> {
    use base64::Engine as _;
    base64::engine::general_purpose::URL_SAFE_NO_PAD
        .decode(text)
        .unwrap()
}

/// The members that a header or a payload gets, in place of its own or beside them.
fn members() -> Vec<(&'static str, &'static str)> {
    const VALUES: [&str; 16] = [
        "null",
        "true",
        "0",
        "-1",
        "1.5",
        "1799999980",
        "1800000000",
        "1800000001.5",
        "1e300",
        r#""""#,
        r#""https://one.test""#,
        r#""catalog""#,
        r#"["catalog"]"#,
        r#"["https://one.test"]"#,
        r#"["catalog",1]"#,
        "{}",
    ];
    const NAMES: [&str; 16] = [
        "iss",
        "aud",
        "exp",
        "nbf",
        "iat",
        "sub",
        "scope",
        "tenant",
        "x5t",
        "x5t#S256",
        "url",
        "nonce",
        "x",
        "$serde_json::private::RawValue",
        "kid",
        "typ",
    ];
    let pairs = NAMES
        .iter()
        .map(|name| VALUES.iter().map(|value| (*name, *value)));
    pairs.flatten().collect()
}

fn text(mut object: Value, (name, value): (&str, &str), after: bool) -> String {
    if !after {
        object.as_object_mut().unwrap().remove(name);
    }
    let object = object.to_string();
    format!(r#"{},"{name}":{value}}}"#, &object[..object.len() - 1])
}

/// Tries members of any type in header and payload, in place of the usual ones and beside them, and parts that are cut
/// off or of another signature, in each algorithm.
#[tokio::test]
async fn what_comes_in_jsonwebtoken_believes_too() {
    let keys: [(&Pair, &str); 4] = [
        (&RSA, "rsa"),
        (&P256, "ec"),
        (&P384, "ec384"),
        (&ED25519, "ed"),
    ];
    let published: Vec<_> = keys.iter().map(|(pair, kid)| pair.jwk(kid)).collect();
    let issuer = Issuer::with(&set(&published)).await;
    let mut config = one(&issuer.uri(JWKS));
    config.algorithms = ALGORITHMS.map(|(_, algorithm)| algorithm).into();
    let door = Door::open(vec![config]).await;
    let (mut believed, mut refused) = (0, 0);
    for (name, algorithm) in ALGORITHMS {
        let (pair, kid) = match algorithm {
            Algorithm::ES256 => keys[1],
            Algorithm::ES384 => keys[2],
            Algorithm::EdDSA => keys[3],
            _ => keys[0],
        };
        let header = json!({"alg": name, "kid": kid});
        let mut tokens = Vec::new();
        // The rest of the parsing does not depend on the algorithm.
        let many = if algorithm == Algorithm::EdDSA {
            256
        } else {
            4
        };
        for member in members().into_iter().take(many) {
            for after in [false, true] {
                let sign = |message: &[u8]| pair.sign(name, message);
                let mut payload = claims();
                payload["iat"] = NOW.into();
                tokens.push(raw(
                    header.to_string(),
                    text(payload.clone(), member, after),
                    sign,
                ));
                tokens.push(raw(
                    text(header.clone(), member, after),
                    payload.to_string(),
                    sign,
                ));
            }
        }
        let good = raw(header.to_string(), claims().to_string(), |message| {
            pair.sign(name, message)
        });
        let (signed, signature) = good.rsplit_once('.').unwrap();
        let mut other = decoded(signature);
        for at in [0, other.len() / 2, other.len() - 1] {
            other[at] ^= 1;
            tokens.push(format!("{signed}.{}", encode(&other)));
            tokens.push(format!("{signed}.{}", encode(&other[..at])));
        }
        tokens.push(good);
        for token in tokens {
            if door.ask(&token).await.is_err() {
                refused += 1;
                continue;
            }
            believed += 1;
            if let Err(why) = judge(&token, &pair.jwk(kid)) {
                panic!("jsonwebtoken refuses {token}: {why}");
            }
        }
    }
    assert!(
        believed > 200 && refused > 200,
        "{believed} believed, {refused} refused"
    );
}
