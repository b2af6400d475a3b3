//! The error type that reaches clients: a message for the caller, and a separate cause for the log.
//!
//! Modules have error types of their own and convert them into this one at their edge; only the `rescue`
//! layer turns it into a response.

pub mod cause;
pub mod code;
pub mod denied_by;
pub mod facts;
pub mod origin;
pub mod retry_after;

use std::fmt;

use http::header::{ALLOW, WWW_AUTHENTICATE};
use http::{HeaderName, HeaderValue, StatusCode};

use crate::error::code::Code;
use crate::error::denied_by::DeniedBy;
use crate::error::facts::ErrorFacts;
use crate::error::origin::ErrorOrigin;
use crate::error::retry_after::RetryAfter;

/// Any error, as a cause for the log.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A refusal or failure of one request. Small to move, because everything is behind one pointer.
pub struct Error(Box<Parts>);

struct Parts {
    code: Code,
    status: StatusCode,
    reason: Option<&'static str>,
    denied_by: Option<Box<DeniedBy>>,
    message: String,
    detail: Option<String>,
    transaction: Option<String>,
    facts: Option<Box<ErrorFacts>>,
    retry_after: Option<RetryAfter>,
    headers: Vec<(HeaderName, HeaderValue)>,
    cause: Option<BoxError>,
    is_logged: bool,
    origin: ErrorOrigin,
}

impl Error {
    /// Creates an error with the contract's status for `code`; `message` is for the caller.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self(Box::new(Parts {
            code,
            status: code.status(),
            reason: None,
            denied_by: None,
            message: message.into(),
            detail: None,
            transaction: None,
            facts: None,
            retry_after: None,
            headers: Vec::new(),
            cause: None,
            is_logged: false,
            origin: ErrorOrigin::Gateway,
        }))
    }

    /// Creates an error with status 400 and code 13.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidInput, message)
    }

    /// Creates an error with status 503 and code 17.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(Code::ServiceUnavailable, message)
    }

    /// Creates an error with status 500 and code 18, and with a cause that only the log shows.
    pub fn internal(message: impl Into<String>, cause: impl Into<BoxError>) -> Self {
        Self::new(Code::Internal, message).with_cause(cause)
    }

    /// Sets another status than the code's own, e.g. 413 with code 13.
    #[must_use]
    pub fn with_status(mut self, status: StatusCode) -> Self {
        self.0.status = status;
        self
    }

    /// Sets the reason for the log, one of a few fixed words.
    #[must_use]
    pub fn because(mut self, reason: &'static str) -> Self {
        self.0.reason = Some(reason);
        self
    }

    /// Names the rule that denied the request, for the audit log. The caller is not told.
    #[must_use]
    pub fn denied_by(mut self, rule: DeniedBy) -> Self {
        self.0.denied_by = Some(Box::new(rule));
        self
    }

    /// Adds a second sentence for the caller. It must not hold a secret, an internal address or a stack
    /// trace.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.0.detail = Some(detail.into());
        self
    }

    /// Names the part of the request that the error is about, e.g. `entries[3]`.
    #[must_use]
    pub fn within(mut self, part: &str) -> Self {
        self.0.message = format!("{part}: {}", self.0.message);
        self
    }

    /// Names the batch whose outcome `transaction/{id}/describe` reports.
    #[must_use]
    pub fn with_transaction(mut self, id: impl Into<String>) -> Self {
        self.0.transaction = Some(id.into());
        self
    }

    /// Adds facts as data, for clients that act upon them. Those that are known already stay.
    #[must_use]
    pub fn with_facts(mut self, facts: ErrorFacts) -> Self {
        let known = self.0.facts.take().map(|known| *known).unwrap_or_default();
        self.0.facts = Some(Box::new(known.or(facts)));
        self
    }

    /// Adds a cause that only the log shows.
    #[must_use]
    pub fn with_cause(mut self, cause: impl Into<BoxError>) -> Self {
        self.0.cause = Some(cause.into());
        self
    }

    /// Marks an error that the log has already, for all requests that it concerns: it is not repeated for each.
    #[must_use]
    pub fn already_logged(mut self) -> Self {
        self.0.is_logged = true;
        self
    }

    /// True if the log has the error already.
    #[must_use]
    pub fn is_logged(&self) -> bool {
        self.0.is_logged
    }

    /// Says which part of the system refused or failed.
    #[must_use]
    pub fn of(mut self, origin: ErrorOrigin) -> Self {
        self.0.origin = origin;
        self
    }

    /// The part of the system that refused or failed.
    #[must_use]
    pub fn origin(&self) -> ErrorOrigin {
        self.0.origin
    }

    /// True if it has the words of a catalog, which may name tables.
    #[must_use]
    pub fn is_of_catalog(&self) -> bool {
        self.0.origin == ErrorOrigin::Catalog
    }

    /// Sets `Retry-After`.
    #[must_use]
    pub fn with_retry_after(mut self, wait: RetryAfter) -> Self {
        self.0.retry_after = Some(wait);
        self
    }

    /// Adds the `WWW-Authenticate` challenge (RFC 6750, section 3).
    #[must_use]
    pub fn challenge(mut self, challenge: HeaderValue) -> Self {
        self.0.headers.push((WWW_AUTHENTICATE, challenge));
        self
    }

    /// Adds `Allow` with the methods of the route (RFC 9110, section 10.2.1).
    #[must_use]
    pub fn allow(mut self, methods: &'static str) -> Self {
        self.0
            .headers
            .push((ALLOW, HeaderValue::from_static(methods)));
        self
    }

    /// The contract's code.
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// The HTTP status of the response.
    pub fn status(&self) -> StatusCode {
        self.0.status
    }

    /// The reason for the log; `None` if none was set.
    pub fn reason(&self) -> Option<&'static str> {
        self.0.reason
    }

    /// The rule that denied the request; `None` if it was no rule.
    pub fn rule(&self) -> Option<&DeniedBy> {
        self.0.denied_by.as_deref()
    }

    /// The message for the caller.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The second sentence for the caller; `None` if there is none.
    pub fn detail(&self) -> Option<&str> {
        self.0.detail.as_deref()
    }

    /// The batch whose outcome is reported elsewhere; `None` if the error is about no batch.
    pub fn transaction(&self) -> Option<&str> {
        self.0.transaction.as_deref()
    }

    /// The facts as data; `None` if there are none.
    pub fn facts(&self) -> Option<&ErrorFacts> {
        self.0.facts.as_deref()
    }

    /// The time after which the caller may retry; `None` if none was set.
    pub fn retry_after(&self) -> Option<RetryAfter> {
        self.0.retry_after
    }

    /// The headers that the response carries besides `Retry-After` and the common ones.
    pub fn headers(&self) -> &[(HeaderName, HeaderValue)] {
        &self.0.headers
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("code", &self.0.code)
            .field("status", &self.0.status)
            .field("message", &self.0.message)
            .field("cause", &self.0.cause)
            .finish()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.cause.as_deref().map(|cause| cause as _)
    }
}
