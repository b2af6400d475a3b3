//! Reads the header of a signed token (JOSE header, RFC 7515, section 4), and refuses members and types that are not
//! safe.

use jsonwebtoken::Header;

use super::Refusal;
use super::json::{self, Text};
use crate::config::{ALGORITHMS, Algorithm, ED25519};

/// Members by which a token would bring its own key, or change how the rest of it is read; each with the reason for
/// its refusal.
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

/// The types of access tokens (RFC 7519, section 5.1; RFC 9068, section 2.1). Other types are made for other uses,
/// such as a log-out, and must not pass for a caller's (RFC 8725, section 3.11).
const TYPES: [&str; 4] = ["jwt", "at+jwt", "application/jwt", "application/at+jwt"];

/// The members that matter; `None` for those that are absent.
#[derive(Default)]
struct Members<'a> {
    /// The index of the first member of [`REFUSED`] that is present.
    refused: Option<usize>,
    typ: Option<Text<'a>>,
    alg: Option<Text<'a>>,
    kid: Option<Text<'a>>,
    /// True if another member is present that must be a string and is none.
    has_no_text: bool,
}

/// Parses a header. Only `alg`, `kid` and `typ` are kept; jsonwebtoken's own parser would keep all members that a
/// stranger writes.
///
/// # Errors
/// It is not a JSON object without repeated members, its algorithm is none of [`ALGORITHMS`], or it has a member of the
/// wrong type or one that is refused.
pub(super) fn parse(bytes: &[u8]) -> Result<Header, Refusal> {
    let mut members = Members::default();
    json::members(bytes, |name, value| members.note(name, value)).ok_or(Refusal::Malformed(
        "its header is not a JSON object without repeated members",
    ))?;
    if let Some(place) = members.refused {
        return Err(Refusal::Header(REFUSED[place].1));
    }
    let typ = match members.typ {
        None => None,
        Some(Text::Text(typ)) if TYPES.iter().any(|one| one.eq_ignore_ascii_case(&typ)) => {
            Some(typ.into_owned())
        }
        Some(_) => return Err(Refusal::Header("its typ is not that of an access token")),
    };
    let algorithm = match members.alg {
        Some(Text::Text(alg)) if alg == ED25519 => Some(Algorithm::EdDSA),
        Some(Text::Text(alg)) => {
            let known = ALGORITHMS.iter().find(|(name, _)| *name == alg);
            known.map(|(_, algorithm)| *algorithm)
        }
        _ => return Err(Refusal::Malformed("its header does not say the algorithm")),
    };
    let kid = match members.kid {
        None => None,
        Some(Text::Text(kid)) => Some(kid.into_owned()),
        Some(Text::Other) => return Err(Refusal::Malformed("its kid is not a string")),
    };
    if members.has_no_text {
        return Err(Refusal::Malformed(
            "a member of its header is not the string that it must be",
        ));
    }
    let mut header = Header::new(algorithm.ok_or(Refusal::Algorithm)?);
    (header.typ, header.kid) = (typ, kid);
    Ok(header)
}

/// True if the `typ` is that of an access token (RFC 9068, section 2.1).
pub(super) fn is_at_jwt(header: &Header) -> bool {
    let typ = header.typ.as_deref();
    typ.is_some_and(|typ| typ.to_ascii_lowercase().ends_with("at+jwt"))
}

impl<'a> Members<'a> {
    fn note(&mut self, name: &str, value: Text<'a>) {
        match name {
            "typ" => self.typ = Some(value),
            "alg" => self.alg = Some(value),
            "kid" => self.kid = Some(value),
            "x5t" | "x5t#S256" | "url" | "nonce" => {
                self.has_no_text |= matches!(value, Text::Other);
            }
            name => {
                let place = REFUSED.iter().position(|(refused, _)| *refused == name);
                self.refused = [self.refused, place].into_iter().flatten().min();
            }
        }
    }
}
