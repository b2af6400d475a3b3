//! The rule that denied a request, for the audit log.

use serde::Serialize;

/// The rule that denied a request. The caller may not know of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeniedBy {
    /// The namespace of the rule as the configuration writes it; `None` if no rule covers the name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The access that was needed: `read` or `write`.
    pub access: &'static str,
    /// The permission that the caller lacks.
    pub needs: String,
}
