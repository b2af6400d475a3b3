//! Turns one JSON Web Key (RFC 7517, RFC 7518 section 6, RFC 8037 section 2) into a key that verifies.

use std::sync::atomic::AtomicBool;

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, ParsedPublicKey,
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512,
    RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters,
    RsaPublicKeyComponents,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;

use super::Key;
use crate::config::Algorithm;

/// A member of a key set, as it is published. Members without a use here are ignored.
#[derive(Debug, Default, Deserialize)]
pub struct Jwk {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    key_ops: Option<Vec<String>>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
    d: Option<serde::de::IgnoredAny>,
    p: Option<serde::de::IgnoredAny>,
    q: Option<serde::de::IgnoredAny>,
    dp: Option<serde::de::IgnoredAny>,
    dq: Option<serde::de::IgnoredAny>,
    qi: Option<serde::de::IgnoredAny>,
    oth: Option<serde::de::IgnoredAny>,
}

/// The reason why a published key cannot verify tokens. A set may well hold keys for other uses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JwkError {
    /// `use` or `key_ops` exclude signatures.
    #[error("it is not for signatures")]
    Usage,
    /// The private part was published with the key: anyone may have signed with it.
    #[error("it holds its private part")]
    Private,
    /// No algorithm of the issuer fits the key's type and its own `alg`.
    #[error("it fits no algorithm that the issuer signs with")]
    Algorithm,
    /// The key has fewer than 2048 or more than 8192 bits.
    #[error("an RSA key has 2048 to 8192 bits")]
    Size,
    /// The key is a point for which anyone can make signatures.
    #[error("its point has a small order, so that anybody can sign for it")]
    SmallOrder,
    /// The members do not make a key.
    #[error("its members do not make a key")]
    Malformed,
}

impl Jwk {
    /// The member `kid`; `None` if it is absent.
    pub fn id(&self) -> Option<&str> {
        self.kid.as_deref()
    }

    /// Returns the key, for those of `allowed` that fit it.
    ///
    /// # Errors
    /// The key is not usable for signatures in any of them.
    pub fn key(&self, allowed: &[Algorithm]) -> Result<Key, JwkError> {
        self.check_usage()?;
        let family = self.family();
        let named = |algorithm: &Algorithm| match &self.alg {
            Some(alg) => Algorithm::ALL.contains(&(alg, *algorithm)),
            None => true,
        };
        let fitting = family.iter().copied();
        let fitting: Vec<_> = fitting
            .filter(|a| allowed.contains(a) && named(a))
            .collect();
        if fitting.is_empty() {
            return Err(JwkError::Algorithm);
        }
        let parsed = fitting.into_iter().map(|a| Ok((a, self.parse(a)?)));
        Ok(Key {
            id: self.kid.clone(),
            verifiers: parsed.collect::<Result<_, _>>()?,
            retired: AtomicBool::new(false),
        })
    }

    fn check_usage(&self) -> Result<(), JwkError> {
        if self.usage.as_deref().is_some_and(|usage| usage != "sig") {
            return Err(JwkError::Usage);
        }
        if self
            .key_ops
            .as_ref()
            .is_some_and(|ops| !ops.iter().any(|op| op == "verify"))
        {
            return Err(JwkError::Usage);
        }
        // Each of the others leads to `d` of an RSA key (RFC 7518, section 6.3.2).
        let private = [
            &self.d, &self.p, &self.q, &self.dp, &self.dq, &self.qi, &self.oth,
        ];
        if private.iter().any(|part| part.is_some()) {
            return Err(JwkError::Private);
        }
        Ok(())
    }

    /// Returns the algorithms that fit the key's type and curve.
    fn family(&self) -> &'static [Algorithm] {
        use Algorithm::{ES256, ES384, EdDSA, PS256, PS384, PS512, RS256, RS384, RS512};
        match (self.kty.as_str(), self.crv.as_deref()) {
            ("RSA", _) => &[RS256, RS384, RS512, PS256, PS384, PS512],
            ("EC", Some("P-256")) => &[ES256],
            ("EC", Some("P-384")) => &[ES384],
            ("OKP", Some("Ed25519")) => &[EdDSA],
            _ => &[],
        }
    }

    fn parse(&self, algorithm: Algorithm) -> Result<ParsedPublicKey, JwkError> {
        match algorithm {
            Algorithm::RS256 => self.rsa(&RSA_PKCS1_2048_8192_SHA256),
            Algorithm::RS384 => self.rsa(&RSA_PKCS1_2048_8192_SHA384),
            Algorithm::RS512 => self.rsa(&RSA_PKCS1_2048_8192_SHA512),
            Algorithm::PS256 => self.rsa(&RSA_PSS_2048_8192_SHA256),
            Algorithm::PS384 => self.rsa(&RSA_PSS_2048_8192_SHA384),
            Algorithm::PS512 => self.rsa(&RSA_PSS_2048_8192_SHA512),
            Algorithm::ES256 => ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.point(32)?)
                .map_err(|_| JwkError::Malformed),
            Algorithm::ES384 => ParsedPublicKey::new(&ECDSA_P384_SHA384_FIXED, self.point(48)?)
                .map_err(|_| JwkError::Malformed),
            Algorithm::EdDSA => self.edwards(),
        }
    }

    fn edwards(&self) -> Result<ParsedPublicKey, JwkError> {
        let point = member(&self.x, 32)?;
        if is_of_small_order(&point) {
            return Err(JwkError::SmallOrder);
        }
        ParsedPublicKey::new(&ED25519, point).map_err(|_| JwkError::Malformed)
    }

    fn rsa(&self, parameters: &'static RsaParameters) -> Result<ParsedPublicKey, JwkError> {
        let (n, e) = (number(&self.n)?, number(&self.e)?);
        let first = n.first().ok_or(JwkError::Malformed)?;
        let bits = n.len() * 8 - first.leading_zeros() as usize;
        if !(2048..=8192).contains(&bits) {
            return Err(JwkError::Size);
        }
        // An exponent of 1 makes every message its own signature.
        if e.len() > 8 || e.last().is_none_or(|low| low % 2 == 0) || e == [1] {
            return Err(JwkError::Malformed);
        }
        let components = RsaPublicKeyComponents { n, e };
        components
            .to_parsed_public_key(parameters)
            .map_err(|_| JwkError::Malformed)
    }

    /// Returns the uncompressed point (SEC 1, section 2.3.3) of a curve whose coordinates have `length` bytes.
    fn point(&self, length: usize) -> Result<Vec<u8>, JwkError> {
        let (x, y) = (member(&self.x, length)?, member(&self.y, length)?);
        Ok([&[4], &*x, &*y].concat())
    }
}

/// True if a point of Ed25519 is one of the eight whose order divides 8, in any of their encodings. Signatures exist
/// that verify with such a point for most messages, and no private key is needed to make them.
fn is_of_small_order(point: &[u8]) -> bool {
    // These are values of the coordinate y, little-endian, without the sign of x: 0, 1, p - 1, p, p + 1, and two of
    // order 8.
    const ORDER_8: [[u8; 32]; 2] = [
        [
            0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef,
            0x98, 0xf0, 0xd5, 0xdf, 0xac, 0x05, 0xd3, 0xc6, 0x33, 0x39, 0xb1, 0x38, 0x02, 0x88,
            0x6d, 0x53, 0xfc, 0x05,
        ],
        [
            0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10,
            0x67, 0x0f, 0x2a, 0x20, 0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77,
            0x92, 0xac, 0x03, 0x7a,
        ],
    ];
    let [first, middle @ .., last] = point else {
        return true;
    };
    let last = last & 0x7f;
    let is_around = |low: &[u8], fill: u8, high: u8| {
        low.contains(first) && middle.iter().all(|byte| *byte == fill) && last == high
    };
    let is_eighth = |known: &[u8; 32]| {
        let (end, rest) = (known[31], &known[1..31]);
        *first == known[0] && middle == rest && last == end
    };
    is_around(&[0, 1], 0, 0)
        || is_around(&[0xec, 0xed, 0xee], 0xff, 0x7f)
        || ORDER_8.iter().any(is_eighth)
}

fn decode(member: &Option<String>) -> Result<Vec<u8>, JwkError> {
    let text = member.as_deref().ok_or(JwkError::Malformed)?;
    URL_SAFE_NO_PAD
        .decode(text)
        .map_err(|_| JwkError::Malformed)
}

fn member(member: &Option<String>, length: usize) -> Result<Vec<u8>, JwkError> {
    let bytes = decode(member)?;
    if bytes.len() == length {
        Ok(bytes)
    } else {
        Err(JwkError::Malformed)
    }
}

/// Decodes an unsigned integer. Drops leading zeros, which some issuers write although RFC 7518 forbids them.
fn number(member: &Option<String>) -> Result<Vec<u8>, JwkError> {
    let mut bytes = decode(member)?;
    let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
    bytes.drain(..zeros);
    Ok(bytes)
}

#[cfg(test)]
mod tests;
