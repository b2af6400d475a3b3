//! The response to a caller without permission: it says what is needed, and never what exists.

use http::HeaderValue;

use super::Rule;
use crate::config::Access as Need;
use crate::error::Error;
use crate::error::code::Code;
use crate::error::denied_by::DeniedBy;
use crate::protocol::operation::Access;

/// The reason why a caller is denied. Becomes 403, code 15.
#[derive(Clone, Copy, Debug)]
pub struct Denial<'a> {
    access: Access,
    /// The rule that denies; `None` if there is none.
    rule: Option<&'a Rule>,
    /// True if the caller may not know of the rule.
    hidden: bool,
    /// True if the rule is below the name in the request.
    below: bool,
}

impl<'a> Denial<'a> {
    pub(super) fn new(access: Access, rule: Option<&'a Rule>) -> Self {
        Self {
            access,
            rule,
            hidden: false,
            below: false,
        }
    }

    pub(super) fn below(access: Access, rule: Option<&'a Rule>, hidden: bool) -> Self {
        Self {
            access,
            rule,
            hidden,
            below: true,
        }
    }

    /// The rule that denies; `None` if there is none. For operators only: the caller may not know of it.
    pub fn rule(&self) -> Option<&'a Rule> {
        self.rule
    }

    /// True if the rule is below the name in the request.
    pub fn is_below(&self) -> bool {
        self.below
    }

    /// Returns the rule, if the caller may know of it.
    fn shown(&self) -> Option<&'a Rule> {
        self.rule.filter(|_| !self.hidden)
    }

    fn message(&self) -> String {
        let verb = verb(self.access);
        let reach = if self.below {
            "this also affects the names below, where "
        } else {
            ""
        };
        match self.shown() {
            Some(rule) => format!(
                "not allowed to {verb}: {reach}the rule for {} {}",
                rule.spelled(),
                words(rule.need(self.access))
            ),
            None if self.below => {
                format!("not allowed to {verb}: {reach}another rule does not allow this caller")
            }
            None => format!("not allowed to {verb}: no rule covers this name"),
        }
    }

    /// Returns the rule that denies, for the audit log.
    fn audited(&self) -> DeniedBy {
        let need = self.rule.map(|rule| rule.need(self.access));
        DeniedBy {
            namespace: self.rule.map(Rule::spelled),
            access: verb(self.access),
            needs: need.map_or_else(|| "a rule that covers the name".to_owned(), audited),
        }
    }

    /// Returns the challenge that tells clients which further scope to request (RFC 6750, section
    /// 3.1); `None` if the rule needs no scope, or one that cannot be written in a challenge.
    fn challenge(&self) -> Option<HeaderValue> {
        let need = self.shown().map(|rule| rule.need(self.access));
        // Where the issuer counts, too, a token with a further scope may not help.
        let Some(Need::Scope(scope)) = need else {
            return None;
        };
        // These are the characters of a scope (RFC 6749, section 3.3).
        let legal = |byte: u8| matches!(byte, b'!' | b'#'..=b'[' | b']'..=b'~');
        let challenge = format!(r#"Bearer error="insufficient_scope", scope="{scope}""#);
        scope
            .bytes()
            .all(legal)
            .then(|| HeaderValue::try_from(challenge).ok())?
    }
}

impl From<Denial<'_>> for Error {
    fn from(denial: Denial<'_>) -> Self {
        let error = Self::new(Code::PermissionDenied, denial.message());
        let error = error.denied_by(denial.audited());
        match denial.challenge() {
            Some(challenge) => error.challenge(challenge),
            None => error,
        }
    }
}

fn audited(need: &Need) -> String {
    match need {
        Need::Scope(scope) => format!("scope {scope}"),
        Need::Claim { claim, any_of } => format!("claim {claim}: {}", any_of.join(", ")),
        Need::Issued { issuer, need } => format!("{}, of {issuer}", audited(need)),
        Need::AnyCaller => "any caller".to_owned(),
        Need::Deny => "nobody is allowed".to_owned(),
    }
}

fn verb(access: Access) -> &'static str {
    match access {
        Access::Read => "read",
        Access::Write => "write",
    }
}

/// Describes the permission that a rule needs. The values of a claim are left out, because they
/// name other callers.
fn words(need: &Need) -> String {
    match need {
        Need::Scope(scope) => format!("needs the scope `{scope}`"),
        Need::Claim { claim, .. } => {
            format!("needs the claim `{claim}` with a value that the rule accepts")
        }
        Need::Issued { issuer, need } => match **need {
            Need::AnyCaller => format!("allows callers of {issuer} only"),
            _ => format!("{}, in a token of {issuer}", words(need)),
        },
        Need::AnyCaller => "allows every caller".to_owned(),
        Need::Deny => "allows nobody".to_owned(),
    }
}
