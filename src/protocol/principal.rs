//! Who is calling: what a verified token says.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::context::ClaimEntries;

/// An authenticated caller, or the anonymous one. A clone costs one reference count.
#[derive(Clone)]
pub struct Principal(Arc<Identity>);

/// What there is to know about a caller.
#[derive(Default)]
pub struct Identity {
    /// `iss`; empty for the anonymous caller.
    pub issuer: Arc<str>,
    /// `sub`; empty for the anonymous caller and for a token without one. Unique within its issuer only.
    pub subject: Arc<str>,
    /// Every claim of the token.
    pub claims: Map<String, Value>,
    /// The words of `scope` (RFC 8693, section 4.2) or the members of `scp`.
    pub scopes: Vec<String>,
    /// What the claims set in the context of each request.
    pub context: ClaimEntries,
}

impl Principal {
    /// The caller that everyone is where no token is asked for.
    pub fn anonymous() -> Self {
        Self::new(Identity::default())
    }

    /// A caller whose token was verified.
    pub fn new(identity: Identity) -> Self {
        Self(Arc::new(identity))
    }

    /// Whether there was no token.
    pub fn is_anonymous(&self) -> bool {
        self.0.issuer.is_empty()
    }

    /// `iss` of the token.
    pub fn issuer(&self) -> &Arc<str> {
        &self.0.issuer
    }

    /// `sub` of the token, unique within its issuer only.
    pub fn subject(&self) -> &Arc<str> {
        &self.0.subject
    }

    /// Every claim of the token.
    pub fn claims(&self) -> &Map<String, Value> {
        &self.0.claims
    }

    /// Whether the token grants `scope`.
    pub fn has_scope(&self, scope: &str) -> bool {
        self.0.scopes.iter().any(|granted| granted == scope)
    }

    /// What the claims set in the context of each request.
    pub fn context(&self) -> &ClaimEntries {
        &self.0.context
    }
}

/// Claims may hold personal data, so only the subject and its issuer are shown.
impl fmt::Debug for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Principal({:?} of {:?})", self.subject(), self.issuer())
    }
}
