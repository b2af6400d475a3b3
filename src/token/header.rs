//! The header of a signed token (JOSE header, RFC 7515, section 4).

use serde_json::{Map, Value};

use super::Refusal;
use crate::config::Algorithm;

/// What a token says about its own signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// How it says it was signed.
    pub algorithm: Algorithm,
    /// Which key it says signed it.
    pub key_id: Option<String>,
}

/// Members by which a token would bring its own key, or change how the rest of it is read.
const REFUSED: [(&str, &str); 9] = [
    ("jwk", "a token must not bring its own key (jwk)"),
    ("jku", "a token must not say where keys are (jku)"),
    ("x5u", "a token must not say where keys are (x5u)"),
    ("x5c", "a token must not bring its own key (x5c)"),
    ("crit", "extensions (crit) are not supported"),
    ("b64", "unencoded payloads (b64) are not supported"),
    ("cty", "nested tokens (cty) are not supported"),
    ("enc", "encrypted tokens are not supported"),
    ("zip", "compressed tokens are not supported"),
];

/// Types of access tokens (RFC 7519, section 5.1; RFC 9068, section 2.1). Others are made for other uses, such
/// as a log-out, and must not pass for a caller's (RFC 8725, section 3.11).
const TYPES: [&str; 4] = ["jwt", "at+jwt", "application/jwt", "application/at+jwt"];

impl Header {
    /// # Errors
    /// An algorithm that is none of [`Algorithm::ALL`], members of the wrong type, members that are refused.
    pub(super) fn parse(members: &Map<String, Value>) -> Result<Self, Refusal> {
        for (name, why) in REFUSED {
            if members.contains_key(name) {
                return Err(Refusal::Header(why));
            }
        }
        match members.get("typ") {
            None => {}
            Some(Value::String(typ)) if TYPES.contains(&&*typ.to_ascii_lowercase()) => {}
            Some(_) => return Err(Refusal::Header("its typ is not that of an access token")),
        }
        let algorithm = match members.get("alg") {
            Some(Value::String(alg)) => Algorithm::ALL.iter().find(|(name, _)| name == alg),
            _ => return Err(Refusal::Malformed("its header does not say the algorithm")),
        };
        let key_id = match members.get("kid") {
            None => None,
            Some(Value::String(kid)) => Some(kid.clone()),
            Some(_) => return Err(Refusal::Malformed("its kid is not a string")),
        };
        Ok(Self {
            algorithm: algorithm.ok_or(Refusal::Algorithm)?.1,
            key_id,
        })
    }
}
