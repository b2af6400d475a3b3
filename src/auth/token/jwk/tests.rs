#![allow(clippy::unwrap_used, reason = "tests say what they expect")]

use serde_json::{Value, json};

use super::{Jwk, JwkError};
use crate::auth::token::{Headers, Key, UnverifiedToken};
use crate::config::{ALGORITHMS, Algorithm};

/// The example values of RFC 7515, A.2.
const N: &str = "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ";
const PAYLOAD: &str = "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
const RS256: &str = "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw";
/// The example values of RFC 7515, A.3.
const X: &str = "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU";
const Y: &str = "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0";
const ES256: &str =
    "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
/// The example key of RFC 8037, A.2.
const ED: &str = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";

fn all() -> Vec<Algorithm> {
    ALGORITHMS.map(|(_, algorithm)| algorithm).into()
}

fn key(jwk: Value) -> Result<Key, JwkError> {
    let jwk: Jwk = serde_json::from_value(jwk).unwrap();
    jwk.key(&all())
}

fn algorithms(key: &Key) -> Vec<Algorithm> {
    all()
        .into_iter()
        .filter(|algorithm| key.fits(*algorithm))
        .collect()
}

#[test]
fn the_signatures_of_the_standard_are_verified() {
    let rsa = key(json!({"kty": "RSA", "n": N, "e": "AQAB"})).unwrap();
    let ec = key(json!({"kty": "EC", "crv": "P-256", "x": X, "y": Y})).unwrap();
    let rs256 = format!("eyJhbGciOiJSUzI1NiJ9.{PAYLOAD}.{RS256}");
    let es256 = format!("eyJhbGciOiJFUzI1NiJ9.{PAYLOAD}.{ES256}");
    let (rs256, es256) = (
        UnverifiedToken::read(&rs256, &Headers::default()).unwrap(),
        UnverifiedToken::read(&es256, &Headers::default()).unwrap(),
    );
    assert!(rsa.has_signed(&rs256) && ec.has_signed(&es256));
    assert!(!rsa.has_signed(&es256) && !ec.has_signed(&rs256));
}

#[test]
fn a_key_serves_the_algorithms_of_its_type() {
    use Algorithm::{ES256, EdDSA, PS256, PS384, PS512, RS256, RS384, RS512};
    let rsa = json!({"kty": "RSA", "n": N, "e": "AQAB"});
    let mut pss = rsa.clone();
    pss["alg"] = "PS384".into();
    let mut zero = rsa.clone();
    zero["n"] = format!("AAAA{N}").into();
    let rsas = vec![RS256, RS384, RS512, PS256, PS384, PS512];
    let cases = [
        (rsa, rsas.clone()),
        (zero, rsas),
        (pss, vec![PS384]),
        (
            json!({"kty": "EC", "crv": "P-256", "x": X, "y": Y}),
            vec![ES256],
        ),
        (
            json!({"kty": "OKP", "crv": "Ed25519", "x": ED, "use": "sig"}),
            vec![EdDSA],
        ),
    ];
    for (jwk, expected) in cases {
        assert_eq!(algorithms(&key(jwk.clone()).unwrap()), expected, "{jwk}");
    }
    let jwk: Jwk = serde_json::from_value(json!({"kty": "RSA", "n": N, "e": "AQAB"})).unwrap();
    assert_eq!(algorithms(&jwk.key(&[PS512, ES256]).unwrap()), [PS512]);
    assert_eq!(jwk.key(&[ES256]).unwrap_err(), JwkError::Algorithm);
}

#[test]
fn a_key_that_is_not_fit_is_no_key() {
    let rsa = |name: &str, value: &str| {
        let mut jwk = json!({"kty": "RSA", "n": N, "e": "AQAB"});
        jwk[name] = value.into();
        jwk
    };
    let ec = |name: &str, value: &str| {
        let mut jwk = json!({"kty": "EC", "crv": "P-256", "x": X, "y": Y});
        jwk[name] = value.into();
        jwk
    };
    let (low, long) = ("_".repeat(168), "_".repeat(1400));
    let cases = [
        (rsa("use", "enc"), JwkError::Usage),
        (
            json!({"kty": "RSA", "n": N, "e": "AQAB", "key_ops": ["sign"]}),
            JwkError::Usage,
        ),
        (rsa("d", "AQAB"), JwkError::Private),
        (rsa("alg", "HS256"), JwkError::Algorithm),
        (rsa("alg", "RSA-OAEP"), JwkError::Algorithm),
        (rsa("alg", "ES256"), JwkError::Algorithm),
        (rsa("kty", "oct"), JwkError::Algorithm),
        (rsa("n", &low), JwkError::Size),
        (rsa("n", &long), JwkError::Size),
        (rsa("n", ""), JwkError::Malformed),
        (rsa("n", "not base64url"), JwkError::Malformed),
        (rsa("e", "AQ"), JwkError::Malformed),
        (rsa("e", "Ag"), JwkError::Malformed),
        (rsa("e", ""), JwkError::Malformed),
        (ec("crv", "P-521"), JwkError::Algorithm),
        (ec("crv", "secp256k1"), JwkError::Algorithm),
        (ec("crv", "P-384"), JwkError::Malformed),
        (ec("x", Y), JwkError::Malformed),
        (ec("y", "AA"), JwkError::Malformed),
        (
            json!({"kty": "EC", "crv": "P-256", "x": X}),
            JwkError::Malformed,
        ),
        (
            json!({"kty": "OKP", "crv": "Ed448", "x": ED}),
            JwkError::Algorithm,
        ),
        (
            json!({"kty": "OKP", "crv": "X25519", "x": ED}),
            JwkError::Algorithm,
        ),
        (
            json!({"kty": "OKP", "crv": "Ed25519", "x": "AAAA"}),
            JwkError::Malformed,
        ),
    ];
    for (jwk, expected) in cases {
        assert_eq!(key(jwk.clone()).unwrap_err(), expected, "{jwk}");
    }
}

/// Checks that a point for which anyone can sign is refused, and a key that comes with a private
/// factor.
#[test]
fn what_anybody_can_sign_with_is_no_key() {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let mut points = Vec::new();
    for (first, fill, last) in [
        (0, 0, 0),
        (1, 0, 0),
        (0xec, 0xff, 0x7f),
        (0xed, 0xff, 0x7f),
        (0xee, 0xff, 0x7f),
    ] {
        let mut point = [fill; 32];
        (point[0], point[31]) = (first, last);
        points.push(point);
    }
    for hex in [
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    ] {
        let byte = |place: usize| u8::from_str_radix(&hex[2 * place..2 * place + 2], 16).unwrap();
        points.push(std::array::from_fn(byte));
    }
    for point in points {
        for sign in [0, 0x80] {
            let mut point = point;
            point[31] |= sign;
            let x = URL_SAFE_NO_PAD.encode(point);
            let jwk = json!({"kty": "OKP", "crv": "Ed25519", "x": x});
            assert_eq!(key(jwk).err(), Some(JwkError::SmallOrder), "{point:02x?}");
        }
    }
    let fine = json!({"kty": "OKP", "crv": "Ed25519", "x": ED});
    assert!(key(fine).is_ok());
    for part in ["d", "p", "q", "dp", "dq", "qi", "oth"] {
        let mut jwk = json!({"kty": "RSA", "n": N, "e": "AQAB"});
        jwk[part] = json!("AQAB");
        assert_eq!(key(jwk).err(), Some(JwkError::Private), "{part}");
    }
}

#[test]
fn what_is_written_in_another_way_is_no_key() {
    let rest = format!(r#""n":"{N}","e":"AQAB""#);
    let read = |text: &str| serde_json::from_str::<Jwk>(text);
    let cases = [
        format!(r#"{{{rest}}}"#),
        format!(r#"{{"kty":null,{rest}}}"#),
        format!(r#"{{"kty":{{"RSA":null}},{rest}}}"#),
        format!(r#"{{"kty":"RSA","alg":{{"RS256":null}},{rest}}}"#),
        format!(r#"{{"kty":"RSA","alg":5,{rest}}}"#),
        format!(r#"{{"kty":"RSA","kid":1,{rest}}}"#),
        format!(r#"{{"kty":"RSA","kid":"a","kid":"b",{rest}}}"#),
        format!(r#"{{"kty":"RSA","e":"AQAB",{rest}}}"#),
        format!(r#"{{"kty":"RSA","key_ops":"verify",{rest}}}"#),
        format!(r#"{{"kty":"RSA","key_ops":["verify",1],{rest}}}"#),
        format!(r#"{{"kty":"RSA","use":["sig"],{rest}}}"#),
        format!(r#"{{"kty":"RSA","crv":5,{rest}}}"#),
        format!(r#"["RSA","{N}","AQAB"]"#),
        "5".to_owned(),
    ];
    for text in cases {
        assert!(read(&text).is_err(), "{text}");
    }
    let odd = r#""x5c":5,"x5u":{},"x5t":[],"x5t#S256":null,"k":7,"kid":null,"alg":null,"use":null,"key_ops":null,"d":null"#;
    let jwk = read(&format!(r#"{{"kty":"RSA",{odd},{rest}}}"#)).unwrap();
    assert_eq!(algorithms(&jwk.key(&all()).unwrap()).len(), 6);
    let private = read(&format!(r#"{{"kty":"RSA","d":{{}},{rest}}}"#)).unwrap();
    assert_eq!(private.key(&all()).unwrap_err(), JwkError::Private);
    let secret = read(r#"{"kty":"oct","k":"c2VjcmV0","alg":"HS256"}"#).unwrap();
    assert_eq!(secret.key(&all()).unwrap_err(), JwkError::Algorithm);
    assert_eq!(
        secret.key(&[Algorithm::HS256]).unwrap_err(),
        JwkError::Algorithm
    );
}
