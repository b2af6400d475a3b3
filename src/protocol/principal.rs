//! The caller of a request, as a verified token or certificate describes it, and when one of its scopes or claims has a
//! wanted value.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::claims::{self, Claims};
use super::context::ClaimEntries;

/// An authenticated caller, or the anonymous one. A clone costs one reference count.
#[derive(Clone)]
pub struct Principal(Arc<Identity>);

/// The facts about a caller.
#[derive(Default)]
pub struct Identity {
    /// The `iss` claim; empty for the anonymous caller.
    pub issuer: Arc<str>,
    /// The `sub` claim, or without a token the subject of the client's certificate; empty if there is neither. Unique
    /// within its issuer only.
    pub subject: Arc<str>,
    /// Every claim of the token, and [`claims::TLS_SUBJECT`].
    pub claims: Claims,
    /// The words of `scope` (RFC 8693, section 4.2) or the members of `scp`, separated by spaces.
    pub scopes: Box<str>,
    /// The context entries that the claims set in each request.
    pub context: ClaimEntries,
}

impl Principal {
    /// Returns the anonymous caller, which every client is if no token is required.
    pub fn anonymous() -> Self {
        Self::new(Identity::default())
    }

    /// Returns a caller without a token whose certificate, with this subject, was verified.
    pub fn certified(subject: &str) -> Self {
        Self::new(Identity {
            subject: subject.into(),
            claims: Claims::new("", Some(subject)),
            ..Identity::default()
        })
    }

    /// Returns a caller whose token was verified.
    pub fn new(identity: Identity) -> Self {
        Self(Arc::new(identity))
    }

    /// True if there was no token and no certificate.
    pub fn is_anonymous(&self) -> bool {
        self.0.issuer.is_empty() && self.0.subject.is_empty()
    }

    /// Returns the `iss` claim of the token.
    pub fn issuer(&self) -> &Arc<str> {
        &self.0.issuer
    }

    /// Returns the `sub` claim of the token, unique within its issuer only; without a token, the certificate's
    /// subject.
    pub fn subject(&self) -> &Arc<str> {
        &self.0.subject
    }

    /// Returns the caller's credentials: its token, as it arrived, and the subject of its certificate.
    pub fn shown(&self) -> (&str, Option<&str>) {
        (self.0.claims.token(), self.0.claims.certificate())
    }

    /// Returns every claim of the token, and [`claims::TLS_SUBJECT`].
    pub fn claims(&self) -> &Map<String, Value> {
        self.0.claims.all()
    }

    /// Returns a claim of the token by its name or path, as [`claims::find`] does.
    pub fn claim(&self, name: &str) -> Option<&Value> {
        claims::find(self.claims(), name)
    }

    /// True if the caller's claim of this name has one of the values, by the rules of [`claims::has_any`].
    pub fn has_claim(&self, name: &str, accepted: &[String]) -> bool {
        self.claim(name)
            .is_some_and(|claim| claims::has_any(name, claim, accepted))
    }

    /// True if the token grants `scope`.
    pub fn has_scope(&self, scope: &str) -> bool {
        let mut granted = self.0.scopes.split_ascii_whitespace();
        granted.any(|granted| granted == scope)
    }

    /// Returns the context entries that the claims set in each request.
    pub fn context(&self) -> &ClaimEntries {
        &self.0.context
    }
}

/// Prints only the subject and its issuer, because claims may contain personal data.
impl fmt::Debug for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Principal({:?} of {:?})", self.subject(), self.issuer())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use serde_json::json;

    use super::*;
    use crate::protocol::claims::TLS_SUBJECT;

    fn caller(claims: &Value) -> Principal {
        Principal::new(Identity {
            issuer: "https://one.test".into(),
            claims: claims.as_object().unwrap().clone().into(),
            ..Identity::default()
        })
    }

    #[test]
    fn what_counts_as_a_value_of_a_claim() {
        let cases = [
            (json!("hr"), "hr", true),
            (json!("hr"), "h", false),
            (json!("hr eu"), "hr", false),
            (json!(["eu", "hr"]), "hr", true),
            (json!(["eu", ["hr"]]), "hr", false),
            (json!(["eu", {"hr": true}]), "hr", false),
            (json!([]), "hr", false),
            (json!({"hr": true}), "hr", false),
            (json!(null), "null", false),
            (json!(true), "true", true),
            (json!(true), "tru", false),
            (json!(true), "trues", false),
            (json!([true]), "true", true),
            (json!("true"), "true", true),
            (json!(7), "7", true),
            (json!(7), "70", false),
            (json!(70), "7", false),
            (json!(-7), "-7", true),
            (json!(7.5), "7.5", true),
            (
                json!(18_446_744_073_709_551_615_u64),
                "18446744073709551615",
                true,
            ),
        ];
        for (claim, value, expected) in cases {
            let found = caller(&json!({"team": claim})).has_claim("team", &[value.to_owned()]);
            assert_eq!(found, expected, "{claim} {value}");
        }
        let any = ["x".to_owned(), "hr".to_owned()];
        assert!(caller(&json!({"team": "hr"})).has_claim("team", &any));
        assert!(!caller(&json!({"team": "hr"})).has_claim("teams", &any));
    }

    #[test]
    fn a_dotted_name_is_a_path_only_where_no_claim_has_it() {
        let cases = [
            (
                json!({"realm_access": {"roles": ["hr"]}}),
                "realm_access.roles",
                true,
            ),
            (
                json!({"resource_access": {"gate": {"roles": ["hr"]}}}),
                "resource_access.gate.roles",
                true,
            ),
            (json!({"a.b": "hr", "a": {"b": "eu"}}), "a.b", true),
            (json!({"a.b": "eu", "a": {"b": "hr"}}), "a.b", false),
            (json!({"a.b": null, "a": {"b": "hr"}}), "a.b", false),
            (json!({"a": [{"b": "hr"}]}), "a.b", false),
            (json!({"a": ["hr"]}), "a.0", false),
            (json!({"a": "hr"}), "a.b", false),
            (json!({"a": {"b": {"c": "hr"}}}), "a.b", false),
            (json!({"a": {"b.c": "hr"}}), "a.b.c", true),
            (
                json!({"a": {"b.c": "eu", "b": {"c": "hr"}}}),
                "a.b.c",
                false,
            ),
            (
                json!({"a.b": {"x": "hr"}, "a": {"b": {"c": "hr"}}}),
                "a.b.c",
                false,
            ),
            (
                json!({"resource_access": {"my.gate": {"roles": ["hr"]}}}),
                "resource_access.my.gate.roles",
                true,
            ),
            (
                json!({"https://acme.example/app": {"tenant": "hr"}}),
                "https://acme.example/app.tenant",
                true,
            ),
            (json!({"a": {"": "hr"}}), "a.", true),
            (json!({"scp": "eu hr"}), "scp", true),
            (json!({"scope": "eu hr"}), "scope", true),
            (json!({"groups": "eu hr"}), "groups", false),
            (
                json!({"https://x.test/roles": "hr"}),
                "https://x.test/roles",
                true,
            ),
            (json!({"tls.subject": "hr"}), TLS_SUBJECT, true),
            (json!({"tls": {"subject": "hr"}}), TLS_SUBJECT, false),
        ];
        for (claims, name, expected) in cases {
            let found = caller(&claims).has_claim(name, &["hr".to_owned()]);
            assert_eq!(found, expected, "{claims} {name}");
        }
    }
}
