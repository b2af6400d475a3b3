//! Attacks on the signature.

use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::{Attack, attack, keys};
use crate::forge::{
    ED25519, ONE, P256, Pair, RSA, RSA_OF_NOBODY, RSA_OF_TWO, claims, encode, good, header, raw,
    token, with,
};
use serde_json::json;

pub(super) fn attacks() -> Vec<Attack> {
    secrets()
        .into_iter()
        .chain(confusions())
        .chain(tampering())
        .collect()
}

/// Attacks with a token that is signed with a public key as the secret (RFC 8725, section 2.1).
fn secrets() -> Vec<Attack> {
    let mac = |header: &str, algorithm, secret: &[u8]| {
        let key = hmac::Key::new(algorithm, secret);
        let header = json!({"alg": header, "kid": "rsa"}).to_string();
        raw(header, claims().to_string(), |message| {
            hmac::sign(&key, message).as_ref().to_vec()
        })
    };
    let der = RSA.public();
    let pem = format!(
        "-----BEGIN RSA PUBLIC KEY-----\n{}\n-----END RSA PUBLIC KEY-----\n",
        STANDARD.encode(&der)
    );
    let jwk = RSA.jwk("rsa").to_string();
    // The algorithm's name says RSA, but the signature is a MAC.
    vec![
        attack(
            "HS256 with the public key",
            "algorithm",
            mac("HS256", hmac::HMAC_SHA256, &der),
        ),
        attack(
            "HS256 with the public key as PEM",
            "algorithm",
            mac("HS256", hmac::HMAC_SHA256, pem.as_bytes()),
        ),
        attack(
            "HS256 with the public key as JWK",
            "algorithm",
            mac("HS256", hmac::HMAC_SHA256, jwk.as_bytes()),
        ),
        attack(
            "HS256 with the key set",
            "algorithm",
            mac("HS256", hmac::HMAC_SHA256, keys().as_bytes()),
        ),
        attack(
            "HS384 with the public key",
            "algorithm",
            mac("HS384", hmac::HMAC_SHA384, &der),
        ),
        attack(
            "HS512 with the public key",
            "algorithm",
            mac("HS512", hmac::HMAC_SHA512, &der),
        ),
        attack(
            "HS256 with an empty secret",
            "algorithm",
            mac("HS256", hmac::HMAC_SHA256, b""),
        ),
        attack(
            "RS256 that is HS256",
            "signature",
            mac("RS256", hmac::HMAC_SHA256, &der),
        ),
    ]
}

/// Attacks with keys and algorithms that do not belong together.
fn confusions() -> Vec<Attack> {
    let by = |algorithm, kid, pair: &Pair| token(&header(algorithm, kid), &claims(), pair);
    let own = Pair::p256();
    vec![
        attack(
            "a key of nobody",
            "signature",
            by("RS256", "rsa", &RSA_OF_NOBODY),
        ),
        attack(
            "a key of the other issuer",
            "signature",
            by("RS256", "rsa", &RSA_OF_TWO),
        ),
        attack(
            "an own key of the same type",
            "signature",
            by("ES256", "ec", &own),
        ),
        attack(
            "ES256 with the kid of an RSA key",
            "unknown_key",
            by("ES256", "rsa", &P256),
        ),
        attack(
            "RS256 with the kid of an EC key",
            "unknown_key",
            by("RS256", "ec", &RSA),
        ),
        attack(
            "ES256 with the kid of another curve",
            "unknown_key",
            by("ES256", "ec384", &P256),
        ),
        attack(
            "EdDSA with the kid of an EC key",
            "unknown_key",
            by("EdDSA", "ec", &ED25519),
        ),
        attack(
            "ES256 with the kid of an Ed25519 key",
            "unknown_key",
            by("ES256", "ed", &P256),
        ),
        attack(
            "RS256 by a key for PS256",
            "unknown_key",
            by("RS256", "pss", &RSA),
        ),
        attack(
            "RS256 in the padding of PS256",
            "signature",
            raw(
                header("RS256", "rsa").to_string(),
                claims().to_string(),
                |message| RSA.sign("PS256", message),
            ),
        ),
        attack(
            "RS256 with the hash of RS512",
            "signature",
            raw(
                header("RS256", "rsa").to_string(),
                claims().to_string(),
                |message| RSA.sign("RS512", message),
            ),
        ),
    ]
}

fn tampering() -> Vec<Attack> {
    let good = good();
    let parts: Vec<&str> = good.split('.').collect();
    let (h, p, s) = (parts[0], parts[1], parts[2]);
    let admin = encode(with(claims(), json!({"sub": "admin"})).to_string());
    let other = token(
        &header("RS256", "rsa"),
        &with(claims(), json!({"iss": ONE, "x": 1})),
        &RSA,
    );
    let other = other.rsplit('.').next().unwrap();
    let ec = |signature: Vec<u8>| {
        raw(
            header("ES256", "ec").to_string(),
            claims().to_string(),
            |_| signature.clone(),
        )
    };
    let der = raw(
        header("ES256", "ec").to_string(),
        claims().to_string(),
        |message| as_der(&P256.sign("ES256", message)),
    );
    vec![
        attack("another payload", "signature", format!("{h}.{admin}.{s}")),
        attack(
            "another header",
            "signature",
            format!(
                "{}.{p}.{s}",
                encode(header("RS256", "rsa").to_string() + " ")
            ),
        ),
        attack(
            "the signature of another token",
            "signature",
            format!("{h}.{p}.{other}"),
        ),
        attack(
            "a signature that ends early",
            "signature",
            format!("{h}.{p}.{}", &s[..s.len() - 2]),
        ),
        attack(
            "a signature with more behind",
            "signature",
            format!(
                "{h}.{p}.{}",
                encode([&RSA.sign("RS256", format!("{h}.{p}").as_bytes())[..], b"x"].concat())
            ),
        ),
        attack(
            "an RSA signature of zeros",
            "signature",
            format!("{h}.{p}.{}", encode([0; 256])),
        ),
        attack("an EC signature of zeros", "signature", ec(vec![0; 64])),
        attack(
            "an EC signature of ones",
            "signature",
            ec([[0; 31].as_slice(), &[1], &[0; 31], &[1]].concat()),
        ),
        attack("an EC signature as DER", "signature", der),
        attack("an empty EC signature", "malformed", ec(vec![])),
        attack(
            "an Ed25519 signature of zeros",
            "signature",
            raw(
                header("EdDSA", "ed").to_string(),
                claims().to_string(),
                |_| vec![0; 64],
            ),
        ),
    ]
}

/// Encodes two numbers of 32 bytes as ECDSA-Sig-Value (RFC 3279).
fn as_der(fixed: &[u8]) -> Vec<u8> {
    let number = |bytes: &[u8]| {
        let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
        let mut number = bytes[zeros..].to_vec();
        if number[0] > 127 {
            number.insert(0, 0);
        }
        [&[2, number.len() as u8][..], &number].concat()
    };
    let both = [number(&fixed[..32]), number(&fixed[32..])].concat();
    [&[0x30, both.len() as u8][..], &both].concat()
}
