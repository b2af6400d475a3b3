//! Makes tokens, right ones and wrong ones, down to their bytes.

use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P256_SHA256_FIXED_SIGNING,
    ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair,
    RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512, RSA_PSS_SHA256, RSA_PSS_SHA384,
    RSA_PSS_SHA512, RsaEncoding,
};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD as BASE64};
use serde_json::{Value, json};

/// The keys of one issuer.
pub struct Forge {
    pub rsa: RsaKeyPair,
    pub ec: EcdsaKeyPair,
    ec_asn1: EcdsaKeyPair,
    p384: EcdsaKeyPair,
    ed: Ed25519KeyPair,
}

impl Forge {
    pub fn new() -> Self {
        let random = SystemRandom::new();
        let make = |algorithm: &'static EcdsaSigningAlgorithm| {
            EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap()
        };
        let p256 = make(&ECDSA_P256_SHA256_FIXED_SIGNING);
        let p384 = make(&ECDSA_P384_SHA384_FIXED_SIGNING);
        let read = |algorithm, pkcs8: &[u8]| EcdsaKeyPair::from_pkcs8(algorithm, pkcs8).unwrap();
        let ed = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
        Self {
            rsa: RsaKeyPair::generate(KeySize::Rsa2048).unwrap(),
            ec: read(&ECDSA_P256_SHA256_FIXED_SIGNING, p256.as_ref()),
            ec_asn1: read(&ECDSA_P256_SHA256_ASN1_SIGNING, p256.as_ref()),
            p384: read(&ECDSA_P384_SHA384_FIXED_SIGNING, p384.as_ref()),
            ed: Ed25519KeyPair::from_pkcs8(ed.as_ref()).unwrap(),
        }
    }

    /// The public keys: `rsa` and `ec` bound to RS256 and ES256, `rsa-any`, `p384` and `ed` to no algorithm.
    pub fn key_set(&self) -> Value {
        let mut bound = self.rsa_jwk("rsa");
        bound["alg"] = "RS256".into();
        let mut ec = ec_jwk("ec", "P-256", &self.ec);
        ec["alg"] = "ES256".into();
        let ed = json!({
            "kty": "OKP", "crv": "Ed25519", "kid": "ed", "x": BASE64.encode(self.ed.public_key()),
        });
        let p384 = ec_jwk("p384", "P-384", &self.p384);
        json!({"keys": [bound, self.rsa_jwk("rsa-any"), ec, p384, ed]})
    }

    fn rsa_jwk(&self, kid: &str) -> Value {
        let public = self.rsa.public_key();
        let n = BASE64.encode(public.modulus().big_endian_without_leading_zero());
        let e = BASE64.encode(public.exponent().big_endian_without_leading_zero());
        json!({"kty": "RSA", "use": "sig", "kid": kid, "n": n, "e": e})
    }

    /// The public half of `ec`, as an attacker would embed it.
    pub fn ec_jwk(&self) -> Value {
        ec_jwk("ec", "P-256", &self.ec)
    }

    /// The RSA public key as everyone can have it: PEM, and DER.
    pub fn rsa_public(&self) -> (String, Vec<u8>) {
        let der: PublicKeyX509Der<'_> = self.rsa.public_key().as_der().unwrap();
        let pem = STANDARD.encode(der.as_ref());
        let lines: Vec<&str> = pem
            .as_bytes()
            .chunks(64)
            .map(|l| std::str::from_utf8(l).unwrap())
            .collect();
        let pem = format!(
            "-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n",
            lines.join("\n")
        );
        (pem, der.as_ref().to_vec())
    }

    /// The signature of an algorithm, whatever the header says.
    pub fn sign(&self, algorithm: &str, message: &str) -> Vec<u8> {
        let (random, message) = (SystemRandom::new(), message.as_bytes());
        let rsa = |encoding: &'static dyn RsaEncoding| {
            let mut signature = vec![0; self.rsa.public_modulus_len()];
            self.rsa
                .sign(encoding, &random, message, &mut signature)
                .unwrap();
            signature
        };
        let ec = |key: &EcdsaKeyPair| key.sign(&random, message).unwrap().as_ref().to_vec();
        match algorithm {
            "RS256" => rsa(&RSA_PKCS1_SHA256),
            "RS384" => rsa(&RSA_PKCS1_SHA384),
            "RS512" => rsa(&RSA_PKCS1_SHA512),
            "PS256" => rsa(&RSA_PSS_SHA256),
            "PS384" => rsa(&RSA_PSS_SHA384),
            "PS512" => rsa(&RSA_PSS_SHA512),
            "ES256" => ec(&self.ec),
            "ES256-DER" => ec(&self.ec_asn1),
            "ES384" => ec(&self.p384),
            "EdDSA" => self.ed.sign(message).as_ref().to_vec(),
            _ => panic!("no such algorithm: {algorithm}"),
        }
    }

    /// A token of these parts, signed so.
    pub fn token(&self, algorithm: &str, header: &str, claims: &str) -> String {
        let message = format!("{}.{}", BASE64.encode(header), BASE64.encode(claims));
        let signature = self.sign(algorithm, &message);
        format!("{message}.{}", BASE64.encode(signature))
    }

    /// A good ES256 token but for `header`, whose members are added or replaced (null: removed).
    pub fn with_header(&self, header: &Value) -> String {
        let mut all = json!({"alg": "ES256", "kid": "ec", "typ": "JWT"});
        merge(&mut all, header);
        self.token("ES256", &all.to_string(), &claims(&json!({})))
    }

    /// A good ES256 token but for its claims.
    pub fn with_claims(&self, changed: &Value) -> String {
        self.with_payload(&claims(changed))
    }

    /// A good ES256 token but for its payload.
    pub fn with_payload(&self, payload: &str) -> String {
        self.token("ES256", r#"{"alg":"ES256","kid":"ec"}"#, payload)
    }
}

/// A token signed with a shared secret.
pub fn hmac_token(kid: &str, secret: &[u8]) -> String {
    let header = json!({"alg": "HS256", "kid": kid});
    let message = [header.to_string(), claims(&json!({}))].map(|part| BASE64.encode(part));
    let message = message.join(".");
    let tag = hmac::sign(
        &hmac::Key::new(hmac::HMAC_SHA256, secret),
        message.as_bytes(),
    );
    format!("{message}.{}", BASE64.encode(tag))
}

/// Good claims, but for `changed` (null: removed).
pub fn claims(changed: &Value) -> String {
    let mut all = json!({
        "iss": crate::token::ISSUER, "aud": "catalog", "sub": "tester", "tenant": "acme", "exp": now() + 3600,
    });
    merge(&mut all, changed);
    all.to_string()
}

pub fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs()
}

fn merge(all: &mut Value, changed: &Value) {
    let all = all.as_object_mut().unwrap();
    for (name, value) in changed.as_object().unwrap() {
        match value {
            Value::Null => all.remove(name),
            value => all.insert(name.clone(), value.clone()),
        };
    }
}

fn ec_jwk(kid: &str, curve: &str, key: &EcdsaKeyPair) -> Value {
    let point = &key.public_key().as_ref()[1..];
    let (x, y) = point.split_at(point.len() / 2);
    let (x, y) = (BASE64.encode(x), BASE64.encode(y));
    json!({"kty": "EC", "crv": curve, "use": "sig", "kid": kid, "x": x, "y": y})
}
