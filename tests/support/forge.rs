//! Makes keys, and tokens of any shape signed with them.

use std::sync::LazyLock;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair,
    KeyPair, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512, RSA_PSS_SHA256, RSA_PSS_SHA384,
    RSA_PSS_SHA512, RsaEncoding, RsaKeyPair,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

/// The time of every test, in seconds since the epoch.
pub const NOW: u64 = 1_800_000_000;
pub const ONE: &str = "https://one.test";
pub const TWO: &str = "https://two.test";

pub enum Pair {
    Rsa(RsaKeyPair),
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

pub static RSA: LazyLock<Pair> = LazyLock::new(Pair::rsa);
pub static RSA_OF_TWO: LazyLock<Pair> = LazyLock::new(Pair::rsa);
pub static RSA_OF_NOBODY: LazyLock<Pair> = LazyLock::new(Pair::rsa);
pub static P256: LazyLock<Pair> = LazyLock::new(Pair::p256);
pub static P384: LazyLock<Pair> = LazyLock::new(|| {
    let algorithm = &ECDSA_P384_SHA384_FIXED_SIGNING;
    Pair::P384(EcdsaKeyPair::generate(algorithm).unwrap())
});
pub static ED25519: LazyLock<Pair> =
    LazyLock::new(|| Pair::Ed25519(Ed25519KeyPair::generate().unwrap()));

impl Pair {
    fn rsa() -> Self {
        Self::Rsa(RsaKeyPair::generate(KeySize::Rsa2048).unwrap())
    }

    pub fn p256() -> Self {
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        Self::P256(EcdsaKeyPair::generate(algorithm).unwrap())
    }

    /// The public key as a JSON Web Key (RFC 7517).
    pub fn jwk(&self, kid: &str) -> Value {
        let mut jwk = match self {
            Self::Rsa(pair) => {
                // RSAPublicKey (RFC 8017, A.1.1) of 2048 bits: n of 256 bytes, e = 65537.
                let der = pair.public_key().as_ref();
                let (n, e) = (encode(&der[9..265]), encode([1, 0, 1]));
                json!({"kty": "RSA", "n": n, "e": e})
            }
            Self::P256(pair) => point("P-256", pair.public_key().as_ref()),
            Self::P384(pair) => point("P-384", pair.public_key().as_ref()),
            Self::Ed25519(pair) => {
                json!({"kty": "OKP", "crv": "Ed25519", "x": encode(pair.public_key())})
            }
        };
        jwk["kid"] = kid.into();
        jwk
    }

    /// Signs a message with a JWS algorithm of this type of key.
    pub fn sign(&self, algorithm: &str, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::Rsa(pair) => {
                let encoding: &'static dyn RsaEncoding = match algorithm {
                    "RS384" => &RSA_PKCS1_SHA384,
                    "RS512" => &RSA_PKCS1_SHA512,
                    "PS256" => &RSA_PSS_SHA256,
                    "PS384" => &RSA_PSS_SHA384,
                    "PS512" => &RSA_PSS_SHA512,
                    _ => &RSA_PKCS1_SHA256,
                };
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(encoding, &random, message, &mut signature)
                    .unwrap();
                signature
            }
            Self::P256(pair) | Self::P384(pair) => {
                pair.sign(&random, message).unwrap().as_ref().to_vec()
            }
            Self::Ed25519(pair) => pair.sign(message).as_ref().to_vec(),
        }
    }

    /// The bytes of the public key. A server that confuses algorithms would use them as an HMAC
    /// secret.
    pub fn public(&self) -> Vec<u8> {
        match self {
            Self::Rsa(pair) => pair.public_key().as_ref().to_vec(),
            Self::P256(pair) | Self::P384(pair) => pair.public_key().as_ref().to_vec(),
            Self::Ed25519(pair) => pair.public_key().as_ref().to_vec(),
        }
    }
}

fn point(curve: &str, point: &[u8]) -> Value {
    // An uncompressed point is the byte 4, then x and y of the same length.
    let (x, y) = point[1..].split_at(point.len() / 2);
    json!({"kty": "EC", "crv": curve, "x": encode(x), "y": encode(y)})
}

pub fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A key set of these keys.
pub fn set(keys: &[Value]) -> String {
    json!({ "keys": keys }).to_string()
}

/// `{"alg": …, "kid": …}`.
pub fn header(algorithm: &str, kid: &str) -> Value {
    json!({"alg": algorithm, "kid": kid, "typ": "JWT"})
}

/// Claims that issuer one's tokens may have, valid for five minutes.
pub fn claims() -> Value {
    json!({
        "iss": ONE, "aud": "catalog", "sub": "ann", "exp": NOW + 300, "tenant": "acme",
        "scope": "catalog.read catalog.write",
    })
}

/// Returns `base` with members added or replaced; a null removes the member.
pub fn with(mut base: Value, members: Value) -> Value {
    let Value::Object(members) = members else {
        panic!("an object");
    };
    for (name, value) in members {
        match value {
            Value::Null => drop(base.as_object_mut().unwrap().remove(&name)),
            value => base[name] = value,
        }
    }
    base
}

/// A token of exactly this header and payload.
pub fn raw(
    header: impl AsRef<[u8]>,
    payload: impl AsRef<[u8]>,
    sign: impl Fn(&[u8]) -> Vec<u8>,
) -> String {
    let signed = format!("{}.{}", encode(header), encode(payload));
    let signature = sign(signed.as_bytes());
    format!("{signed}.{}", encode(signature))
}

/// A token signed by `pair` in the header's algorithm.
pub fn token(header: &Value, claims: &Value, pair: &Pair) -> String {
    let algorithm = header["alg"].as_str().unwrap_or("RS256");
    raw(header.to_string(), claims.to_string(), |message| {
        pair.sign(algorithm, message)
    })
}

/// A good token of issuer one.
pub fn good() -> String {
    token(&header("RS256", "rsa"), &claims(), &RSA)
}
