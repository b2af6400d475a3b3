//! A caller's claims: stored as they arrived, and parsed when they are needed.
//!
//! One function finds a claim by its name or path ([`find`]), and one compares it with values ([`has_any`]), wherever a
//! configuration names a claim.
//!
//! Most requests are decided without claims, and the text takes less memory than the parsed claims.

use std::fmt::{self, Write as _};
use std::sync::OnceLock;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

/// The name under which a caller's claims contain the subject of its client certificate. A token's own claim of this
/// name is dropped: the issuer of the token has not seen the certificate.
pub const TLS_SUBJECT: &str = "tls.subject";

/// Every claim of a token, and [`TLS_SUBJECT`]. Never printed: it contains the token, which grants access to anyone who
/// has it.
#[derive(Default)]
pub struct Claims {
    /// The token as it arrived; empty if there is none.
    token: Box<str>,
    certificate: Option<Box<str>>,
    read: OnceLock<Map<String, Value>>,
}

impl Claims {
    /// Returns the claims of a token that was verified (or of no token), with the subject of the certificate that came
    /// with it.
    pub fn new(token: &str, certificate: Option<&str>) -> Self {
        Self {
            token: token.into(),
            certificate: certificate.map(Into::into),
            read: OnceLock::new(),
        }
    }

    /// Returns the token as it arrived; empty if there is none.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Returns the subject of the certificate that came with the token.
    pub fn certificate(&self) -> Option<&str> {
        self.certificate.as_deref()
    }

    /// Returns all claims. A token's own claim with the name [`TLS_SUBJECT`] is not among them.
    pub fn all(&self) -> &Map<String, Value> {
        self.read.get_or_init(|| {
            // Without a token the claims are empty.
            let payload = self.token.split('.').nth(1).unwrap_or_default();
            let payload = URL_SAFE_NO_PAD.decode(payload).unwrap_or_default();
            let claims = serde_json::from_slice(&payload).unwrap_or_default();
            with_certificate(claims, self.certificate())
        })
    }
}

/// Returns the claims with [`TLS_SUBJECT`] from the connection's certificate, and never from the token.
pub fn with_certificate(
    mut claims: Map<String, Value>,
    certificate: Option<&str>,
) -> Map<String, Value> {
    claims.remove(TLS_SUBJECT);
    if let Some(subject) = certificate {
        claims.insert(TLS_SUBJECT.to_owned(), subject.into());
    }
    claims
}

/// Finds a claim by its exact name or, if there is none, by a path through objects: `realm_access.roles` is `roles` in the
/// claim `realm_access`. Of several members with which a path may go on, it goes on with the longest name, and never
/// tries another: names may have dots, as `https://acme.example/tenant` has.
pub fn find<'c>(claims: &'c Map<String, Value>, name: &str) -> Option<&'c Value> {
    if let Some(claim) = claims.get(name) {
        return Some(claim);
    }
    // This claim comes from the connection only, never from the token.
    if name == TLS_SUBJECT {
        return None;
    }
    let mut ends = name.rmatch_indices('.').map(|(end, _)| end);
    let (claim, end) = ends.find_map(|end| Some((claims.get(&name[..end])?, end)))?;
    find(claim.as_object()?, &name[end + 1..])
}

/// True if [`find`] may find a claim of this name in the member `member` of the claims.
pub fn leads_to(member: &str, name: &str) -> bool {
    let rest = name.strip_prefix(member);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// True if the claim `name` has one of the values: as a string, in an array, or as a number or boolean in its JSON
/// spelling. A string of scopes has each of its words (RFC 8693, section 4.2). Always false for an object, and for an
/// array in an array.
pub fn has_any(name: &str, claim: &Value, accepted: &[String]) -> bool {
    let is_accepted = |text: &str| accepted.iter().any(|value| value == text);
    match claim {
        Value::String(text) => {
            let is_words = matches!(name, "scope" | "scp");
            is_accepted(text) || is_words && text.split_ascii_whitespace().any(is_accepted)
        }
        Value::Number(_) | Value::Bool(_) => accepted.iter().any(|value| is_spelled(claim, value)),
        Value::Array(items) => items
            .iter()
            .any(|item| !item.is_array() && has_any(name, item, accepted)),
        Value::Null | Value::Object(_) => false,
    }
}

/// True if `text` is the JSON spelling of a value; compares while writing, without a copy.
fn is_spelled(value: &Value, text: &str) -> bool {
    struct Rest<'a>(&'a str);
    impl fmt::Write for Rest<'_> {
        fn write_str(&mut self, part: &str) -> fmt::Result {
            self.0 = self.0.strip_prefix(part).ok_or(fmt::Error)?;
            Ok(())
        }
    }
    let mut rest = Rest(text);
    write!(rest, "{value}").is_ok() && rest.0.is_empty()
}

impl From<Map<String, Value>> for Claims {
    fn from(claims: Map<String, Value>) -> Self {
        Self {
            read: claims.into(),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_connection_has_a_word_on_its_certificate() {
        let payload = URL_SAFE_NO_PAD.encode(r#"{"a":["b"],"tls.subject":"CN=forged"}"#);
        let token = &format!("h.{payload}.s");
        let cases: [(&str, _, _); 4] = [
            (token, None, json!({"a": ["b"]})),
            (
                token,
                Some("CN=c"),
                json!({"a": ["b"], "tls.subject": "CN=c"}),
            ),
            ("", Some("CN=c"), json!({"tls.subject": "CN=c"})),
            ("", None, json!({})),
        ];
        for (token, certificate, expected) in cases {
            let claims = Claims::new(token, certificate);
            assert_eq!(Some(claims.all()), expected.as_object());
        }
    }
}
