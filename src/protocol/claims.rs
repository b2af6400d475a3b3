//! A caller's claims: stored as they arrived, and parsed when they are needed.
//!
//! Most requests are decided without claims, and the text takes less memory than the parsed claims.

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
