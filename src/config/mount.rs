//! `mounts` and `authorization`: what belongs to whom, and who may touch it.

/// One entry of `mounts`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The prefix as clients spell it; `[]` is the fallback. No name is empty.
    pub namespace: Vec<String>,
    /// The backend that serves it: a key of `backends`.
    pub backend: String,
    /// The prefix as the catalog spells it; equal to `namespace` unless configured.
    pub backend_namespace: Vec<String>,
}

/// One entry of `authorization`: what callers need below `namespace`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthorizationRule {
    /// The prefix it covers; `[]` covers everything.
    pub namespace: Vec<String>,
    /// For operations that read.
    pub read: Access,
    /// For operations that write.
    pub write: Access,
}

/// What a caller needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// This scope in the token's `scope`.
    Scope(String),
    /// Any one of the values in this claim.
    Claim {
        /// The claim's name.
        claim: String,
        /// Never empty.
        any_of: Vec<String>,
    },
    /// Nobody may.
    Deny,
}

impl Mount {
    /// `namespace` served by `backend` under the same path.
    #[must_use]
    pub fn new(namespace: &[&str], backend: &str) -> Self {
        Self::rerooted(namespace, backend, namespace)
    }

    /// `namespace` served by `backend`, where it is called `backend_namespace`.
    #[must_use]
    pub fn rerooted(namespace: &[&str], backend: &str, backend_namespace: &[&str]) -> Self {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Self {
            namespace: owned(namespace),
            backend: backend.to_owned(),
            backend_namespace: owned(backend_namespace),
        }
    }
}
