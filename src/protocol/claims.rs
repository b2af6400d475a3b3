//! A caller's claims: kept as they came, and looked at when somebody asks.
//!
//! Most requests are decided without any, and a text is smaller than what is read from it.

use std::sync::OnceLock;

use serde_json::{Map, Value};

use super::principal::TLS_SUBJECT;

/// Every claim of a token, and [`TLS_SUBJECT`].
#[derive(Debug, Default)]
pub struct Claims {
    /// The token's payload; empty where there is no token.
    json: Vec<u8>,
    certificate: Option<Box<str>>,
    read: OnceLock<Map<String, Value>>,
}

impl Claims {
    /// The claims of a payload that is known to be a JSON object without repeated members, with the subject of the
    /// certificate that it came with.
    pub fn new(json: Vec<u8>, certificate: Option<&str>) -> Self {
        Self {
            json,
            certificate: certificate.map(Into::into),
            read: OnceLock::new(),
        }
    }

    /// All of them. A token's own claim by the name of [`TLS_SUBJECT`] is none.
    pub fn all(&self) -> &Map<String, Value> {
        self.read.get_or_init(|| {
            // Without a token there is nothing to read, and nothing is claimed.
            let claims = serde_json::from_slice(&self.json).unwrap_or_default();
            with_certificate(claims, self.certificate.as_deref())
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
        let token = br#"{"a":["b"],"tls.subject":"CN=forged"}"#;
        let cases: [(&[u8], _, _); 4] = [
            (token, None, json!({"a": ["b"]})),
            (
                token,
                Some("CN=c"),
                json!({"a": ["b"], "tls.subject": "CN=c"}),
            ),
            (b"", Some("CN=c"), json!({"tls.subject": "CN=c"})),
            (b"", None, json!({})),
        ];
        for (json, certificate, expected) in cases {
            let claims = Claims::new(json.to_vec(), certificate);
            assert_eq!(Some(claims.all()), expected.as_object());
        }
    }
}
