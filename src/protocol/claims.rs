//! A caller's claims: kept as they came, and looked at when somebody asks.
//!
//! Most requests are decided without any, and a text is smaller than what is read from it.

use std::sync::OnceLock;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

/// What stands among a caller's claims for the subject of its client certificate. A token's own claim of this name is
/// dropped: whoever issues tokens has not seen the certificate.
pub const TLS_SUBJECT: &str = "tls.subject";

/// Every claim of a token, and [`TLS_SUBJECT`]. What it is made of lets in whoever shows it, so that nothing prints it.
#[derive(Default)]
pub struct Claims {
    /// As it came; empty where there is none.
    token: Box<str>,
    certificate: Option<Box<str>>,
    read: OnceLock<Map<String, Value>>,
}

impl Claims {
    /// The claims of a token that was read and verified, or of none, with the subject of the certificate that it came
    /// with.
    pub fn new(token: &str, certificate: Option<&str>) -> Self {
        Self {
            token: token.into(),
            certificate: certificate.map(Into::into),
            read: OnceLock::new(),
        }
    }

    /// The token, as it came; empty where there is none.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The subject of the certificate that it came with.
    pub fn certificate(&self) -> Option<&str> {
        self.certificate.as_deref()
    }

    /// All of them. A token's own claim by the name of [`TLS_SUBJECT`] is none.
    pub fn all(&self) -> &Map<String, Value> {
        self.read.get_or_init(|| {
            // Without a token there is nothing to read, and nothing is claimed.
            let payload = self.token.split('.').nth(1).unwrap_or_default();
            let payload = URL_SAFE_NO_PAD.decode(payload).unwrap_or_default();
            let claims = serde_json::from_slice(&payload).unwrap_or_default();
            with_certificate(claims, self.certificate())
        })
    }
}

/// The claims with the connection's word on [`TLS_SUBJECT`], and no other.
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
