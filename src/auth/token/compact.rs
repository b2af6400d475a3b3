//! Splits a signed token into its three parts, decodes them and limits its size (compact form, RFC 7515, section 7.1).

use std::sync::Arc;

use base64::Engine as _;

use super::claims::Claims;
use super::{Header, Headers, Refusal, header};

/// The longest token of any configuration, in bytes.
pub const MAX_BYTES: usize = 64 << 10;

/// The decoder, which uses vector instructions if the processor has them.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
static BASE64URL: std::sync::LazyLock<base64::engine::Simd> = std::sync::LazyLock::new(|| {
    base64::engine::Simd::url_safe(base64::engine::general_purpose::NO_PAD)
});
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64URL;

/// A token that has been parsed and proves nothing yet.
pub struct UnverifiedToken<'a> {
    text: &'a str,
    header: Arc<Header>,
    /// The encoded header; `None` if it was among the known ones.
    new: Option<&'a str>,
    payload: Vec<u8>,
    claims: Claims,
    signed: &'a [u8],
    signature: &'a str,
}

impl<'a> UnverifiedToken<'a> {
    /// Parses a token strictly: nothing that two readers could understand differently is accepted. A header that
    /// is among `known` is not parsed again.
    ///
    /// # Errors
    /// The token is too long, has not three parts, is not base64url without padding and stray bits (RFC 7515,
    /// section 2), has a header or payload that is not an object without repeated members, or a header that is not
    /// accepted.
    pub fn read(token: &'a str, known: &Headers) -> Result<Self, Refusal> {
        if token.len() > MAX_BYTES {
            return Err(Refusal::Malformed("it is longer than 64 KiB"));
        }
        let (encoded, payload, signature) = split(token)?;
        let signed = &token.as_bytes()[..token.len() - signature.len() - 1];
        let (header, new) = match known.get(encoded) {
            Some(header) => (header, None),
            None => (header::parse(&decode(encoded)?)?.into(), Some(encoded)),
        };
        let payload = decode(payload)?;
        let claims = Claims::read(&payload).ok_or(Refusal::Malformed(
            "its payload is not a JSON object without repeated members",
        ))?;
        decode(signature)?;
        Ok(Self {
            text: token,
            header,
            new,
            payload,
            claims,
            signed,
            signature,
        })
    }

    /// The token as it came.
    pub(super) fn text(&self) -> &'a str {
        self.text
    }

    /// The header, which says how the token was signed.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The header, encoded and parsed; `None` if it was among the known ones.
    pub fn unknown_header(&self) -> Option<(&'a str, Arc<Header>)> {
        self.new.map(|encoded| (encoded, Arc::clone(&self.header)))
    }

    /// The issuer that the token names; `None` if it names none.
    pub fn issuer(&self) -> Option<&str> {
        self.claims.issuer.as_deref()
    }

    /// The signed bytes: header and payload as they came, with the dot between them.
    pub(super) fn signed(&self) -> &[u8] {
        self.signed
    }

    /// Returns the signature, still encoded. It is known to be valid base64url.
    pub(super) fn signature(&self) -> &str {
        self.signature
    }

    /// Returns the claims by which every token is judged, and the payload that they were read from.
    pub(super) fn into_claims(self) -> (Claims, Vec<u8>) {
        (self.claims, self.payload)
    }
}

fn split(token: &str) -> Result<(&str, &str, &str), Refusal> {
    let mut dots = memchr::memchr_iter(b'.', token.as_bytes());
    match (dots.next(), dots.next(), dots.count()) {
        (Some(_), Some(last), 0) if last + 1 == token.len() => {
            Err(Refusal::Malformed("it is not signed"))
        }
        (Some(first), Some(last), 0) => {
            let (header, payload) = (&token[..first], &token[first + 1..last]);
            Ok((header, payload, &token[last + 1..]))
        }
        (Some(_), Some(_), 2) => Err(Refusal::Malformed("encrypted tokens are not supported")),
        _ => Err(Refusal::Malformed("it does not have three parts")),
    }
}

/// Decodes one part of the token.
fn decode(part: &str) -> Result<Vec<u8>, Refusal> {
    let malformed = Refusal::Malformed("a part of it is not base64url without padding");
    BASE64URL.decode(part).map_err(|_| malformed)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests say what they expect")]

    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    use super::*;

    #[test]
    fn vectors_accept_no_more_than_what_decodes_byte_by_byte() {
        let bytes: Vec<u8> = (0..=255).collect();
        for length in [0, 1, 2, 3, 46, 47, 48, 49, 50, 120] {
            let text = URL_SAFE_NO_PAD.encode(&bytes[..length]);
            assert_eq!(decode(&text).unwrap(), &bytes[..length]);
            for place in 0..text.len() {
                for other in 0..128 {
                    let mut text = text.clone().into_bytes();
                    text[place] = other;
                    let text = String::from_utf8(text).unwrap();
                    let expected = URL_SAFE_NO_PAD.decode(&text).ok();
                    assert_eq!(decode(&text).ok(), expected, "{text}");
                }
            }
        }
    }
}
