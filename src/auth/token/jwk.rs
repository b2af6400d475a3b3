//! Turns one JSON Web Key (RFC 7517, RFC 7518 section 6, RFC 8037 section 2) into a key that verifies.

use std::fmt;
use std::sync::atomic::AtomicBool;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::{self, AlgorithmParameters, EllipticCurve, KeyOperations, PublicKeyUse};
use jsonwebtoken::{AlgorithmFamily, DecodingKey};
use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};

use super::{Key, provider};
use crate::config::{Algorithm, ED25519};

/// The members that jsonwebtoken reads. For some of them it would accept values that are no strings.
const TEXTS: [&str; 9] = ["kty", "kid", "alg", "use", "crv", "n", "e", "x", "y"];

/// The private part of any key, `d`. Of an RSA key, each of the others leads to it (RFC 7518, section 6.3.2).
const PRIVATE: [&str; 7] = ["d", "p", "q", "dp", "dq", "qi", "oth"];

/// A member of a key set, as it is published. Members without a use here are ignored.
#[derive(Debug)]
pub struct Jwk {
    is_private: bool,
    public: jwk::Jwk,
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
    /// The set has so many keys, and only so many are read.
    #[error("the set has {0} keys, and those after the first {1} are not read")]
    TooMany(usize, usize),
}

impl JwkError {
    /// True if the key is in the set to verify tokens, and cannot: its issuer has made a mistake.
    pub fn is_mistake(&self) -> bool {
        !matches!(self, Self::Usage | Self::Algorithm)
    }
}

impl Jwk {
    /// The member `kid`; `None` if it is absent.
    pub fn id(&self) -> Option<&str> {
        self.public.common.key_id.as_deref()
    }

    /// Returns the key, for those of `allowed` that fit it.
    ///
    /// # Errors
    /// The key is not usable for signatures in any of them.
    pub fn key(&self, allowed: &[Algorithm]) -> Result<Key, JwkError> {
        self.check_usage()?;
        let named = self.public.common.key_algorithm;
        let fits = |algorithm: &Algorithm| {
            allowed.contains(algorithm) && named.is_none_or(|named| named == (*algorithm).into())
        };
        let family = self.family()?.iter().copied();
        let algorithms: Vec<_> = family.filter(fits).collect();
        let first = *algorithms.first().ok_or(JwkError::Algorithm)?;
        let public = self.material()?;
        provider::prepare(first, &public).map_err(|_| JwkError::Malformed)?;
        Ok(Key {
            id: self.id().map(str::to_owned),
            algorithms,
            public,
            retired: AtomicBool::new(false),
        })
    }

    fn check_usage(&self) -> Result<(), JwkError> {
        let common = &self.public.common;
        let usage = common.public_key_use.as_ref();
        let operations = common.key_operations.as_ref();
        if usage.is_some_and(|usage| *usage != PublicKeyUse::Signature)
            || operations.is_some_and(|all| !all.contains(&KeyOperations::Verify))
        {
            return Err(JwkError::Usage);
        }
        if self.is_private {
            return Err(JwkError::Private);
        }
        Ok(())
    }

    /// Returns the algorithms that fit the key's type and curve.
    fn family(&self) -> Result<&'static [Algorithm], JwkError> {
        match &self.public.algorithm {
            AlgorithmParameters::RSA(_) => Ok(AlgorithmFamily::Rsa.algorithms()),
            AlgorithmParameters::EllipticCurve(key) => match key.curve {
                EllipticCurve::P256 => Ok(&[Algorithm::ES256]),
                EllipticCurve::P384 => Ok(&[Algorithm::ES384]),
                _ => Err(JwkError::Algorithm),
            },
            AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => {
                Ok(&[Algorithm::EdDSA])
            }
            // The type is unknown, or it is one of the three and a member is missing.
            AlgorithmParameters::Other(other) => {
                let text = |name| other.fields.get(name).and_then(|value| value.as_str());
                Err(match (text("kty"), text("crv")) {
                    (Some("RSA"), _)
                    | (Some("EC"), Some("P-256" | "P-384"))
                    | (Some("OKP"), Some("Ed25519")) => JwkError::Malformed,
                    _ => JwkError::Algorithm,
                })
            }
            _ => Err(JwkError::Algorithm),
        }
    }

    fn material(&self) -> Result<DecodingKey, JwkError> {
        match &self.public.algorithm {
            AlgorithmParameters::RSA(key) => rsa(&key.n, &key.e),
            AlgorithmParameters::EllipticCurve(key) => {
                let length = if key.curve == EllipticCurve::P256 {
                    32
                } else {
                    48
                };
                let (x, y) = (member(&key.x, length)?, member(&key.y, length)?);
                // The uncompressed point (SEC 1, section 2.3.3).
                Ok(DecodingKey::from_ec_der(&[&[4], &*x, &*y].concat()))
            }
            AlgorithmParameters::OctetKeyPair(key) => {
                let point = member(&key.x, 32)?;
                if is_of_small_order(&point) {
                    return Err(JwkError::SmallOrder);
                }
                Ok(DecodingKey::from_ed_der(&point))
            }
            _ => Err(JwkError::Algorithm),
        }
    }
}

impl<'de> Deserialize<'de> for Jwk {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members)
    }
}

/// Reads a published key.
struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Jwk;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON Web Key")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Jwk, A::Error> {
        let (mut public, mut is_private) = (Map::new(), false);
        while let Some(name) = members.next_key::<String>()? {
            let value = match &*name {
                "alg" => {
                    let alg = members.next_value::<Option<String>>()?;
                    // The same algorithm, and the older of its two names.
                    alg.map(|alg| {
                        if alg == ED25519 {
                            "EdDSA".to_owned()
                        } else {
                            alg
                        }
                    })
                    .into()
                }
                text if TEXTS.contains(&text) => members.next_value::<Option<String>>()?.into(),
                "key_ops" => members.next_value::<Option<Vec<String>>>()?.into(),
                part if PRIVATE.contains(&part) => {
                    is_private |= members.next_value::<Option<IgnoredAny>>()?.is_some();
                    continue;
                }
                _ => {
                    members.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            if public.contains_key(&name) {
                return Err(A::Error::custom(format_args!("duplicate field `{name}`")));
            }
            public.insert(name, value);
        }
        if !public.get("kty").is_some_and(Value::is_string) {
            return Err(A::Error::missing_field("kty"));
        }
        let public = jwk::Jwk::deserialize(Value::Object(public)).map_err(A::Error::custom)?;
        Ok(Jwk { is_private, public })
    }
}

fn rsa(n: &str, e: &str) -> Result<DecodingKey, JwkError> {
    let (n, e) = (number(n)?, number(e)?);
    let first = n.first().ok_or(JwkError::Malformed)?;
    let bits = n.len() * 8 - first.leading_zeros() as usize;
    if !(2048..=8192).contains(&bits) {
        return Err(JwkError::Size);
    }
    // An exponent of 1 makes every message its own signature.
    if e.len() > 8 || e.last().is_none_or(|low| low % 2 == 0) || e == [1] {
        return Err(JwkError::Malformed);
    }
    provider::rsa(&n, &e).map_err(|_| JwkError::Malformed)
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

/// Decodes a member. Some issuers write padding although RFC 7518 forbids it.
fn decode(text: &str) -> Result<Vec<u8>, JwkError> {
    URL_SAFE_NO_PAD
        .decode(text.trim_end_matches('='))
        .map_err(|_| JwkError::Malformed)
}

fn member(text: &str, length: usize) -> Result<Vec<u8>, JwkError> {
    let bytes = decode(text)?;
    if bytes.len() == length {
        Ok(bytes)
    } else {
        Err(JwkError::Malformed)
    }
}

/// Decodes an unsigned integer. Drops leading zeros, which some issuers write although RFC 7518 forbids them.
fn number(text: &str) -> Result<Vec<u8>, JwkError> {
    let mut bytes = decode(text)?;
    let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
    bytes.drain(..zeros);
    Ok(bytes)
}

#[cfg(test)]
mod tests;
