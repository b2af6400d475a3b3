//! The reasons why there is no token, and whose fault it is.

use std::fmt;
use std::sync::Arc;

use http::HeaderValue;

use crate::error::Error;
use crate::error::code::Code;
use crate::error::retry_after::RetryAfter;

/// The access log's word for it: the gateway itself accepted the caller's token.
const EXCHANGE: &str = "exchange";

/// The reason why there is no token. Shared by all requests that waited for the same one.
#[derive(Clone, Debug)]
pub struct Refusal {
    pub(super) fault: Fault,
    /// The reason for the log. It never holds a token or a secret.
    why: Arc<str>,
}

/// The party that is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The token server does not accept the caller's token.
    Token,
    /// The token server accepts the caller's token, and gives this caller none for this catalog.
    Caller,
    /// The token server gives the gateway no usable token.
    Gateway,
    /// The token server does not answer, or not as a token server does.
    Server,
}

impl Refusal {
    pub(super) fn new(fault: Fault, why: impl Into<Arc<str>>) -> Self {
        let why = why.into();
        Self { fault, why }
    }

    /// Returns the refusal for a token server that gives the gateway no usable token.
    pub(super) fn gateway(why: impl Into<Arc<str>>) -> Self {
        Self::new(Fault::Gateway, why)
    }

    /// Returns the refusal for a token server that does not answer, or not as one does.
    pub(super) fn server(why: impl Into<Arc<str>>) -> Self {
        Self::new(Fault::Server, why)
    }

    /// Returns the refusal for a token server that does not answer while a request waits.
    pub(in crate::backend) fn late() -> Self {
        Self::server("the token server did not answer in time")
    }

    /// Interprets the `error` of a token response (RFC 6749, section 5.2; RFC 8693, section 2.2.2).
    ///
    /// A server that does not accept a caller's token, which was sent with `trading`, answers `invalid_request`,
    /// as RFC 8693 requires, or `invalid_grant` or `invalid_token`, as older ones do.
    pub(super) fn answered(error: &str, trading: bool) -> Self {
        let fault = match error {
            "invalid_request" | "invalid_grant" | "invalid_token" if trading => Fault::Token,
            "invalid_target" | "invalid_scope" | "access_denied" if trading => Fault::Caller,
            "server_error" | "temporarily_unavailable" => Fault::Server,
            _ => Fault::Gateway,
        };
        // The description may repeat the request; the code is one of a few words.
        let known = |c: char| c.is_ascii_alphanumeric() || "_-.:/".contains(c);
        let said: String = error.chars().filter(|c| known(*c)).take(60).collect();
        Self::new(fault, format!("the token server answered {said:?}"))
    }

    /// Returns the answer to the caller. It names the backend, but never the token server.
    pub(crate) fn to_error(&self, backend: &str) -> Error {
        match self.fault {
            Fault::Token => Error::new(
                Code::Unauthenticated,
                format!("the token cannot be exchanged for a token of backend `{backend}`"),
            )
            .challenge(HeaderValue::from_static(r#"Bearer error="invalid_token""#))
            .because(EXCHANGE),
            Fault::Caller => Error::new(
                Code::PermissionDenied,
                format!("this caller may not have a token of backend `{backend}`"),
            )
            .because(EXCHANGE),
            Fault::Gateway | Fault::Server => Error::unavailable(format!(
                "cannot get a token of backend `{backend}` at the moment; retry later"
            ))
            .with_retry_after(RetryAfter::SOON),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for Refusal {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_told_as_whose_fault_it_is() {
        let cases = [
            ("invalid_request", true, 401),
            ("invalid_grant", true, 401),
            ("invalid_token", true, 401),
            ("invalid_target", true, 403),
            ("invalid_scope", true, 403),
            ("access_denied", true, 403),
            ("invalid_client", true, 503),
            ("unauthorized_client", true, 503),
            ("unsupported_grant_type", true, 503),
            ("temporarily_unavailable", true, 503),
            ("invalid_request", false, 503),
            ("invalid_scope", false, 503),
        ];
        for (error, trading, status) in cases {
            let answer = Refusal::answered(error, trading).to_error("lake");
            assert_eq!(answer.status().as_u16(), status, "{error} {trading}");
            assert!(answer.message().contains("`lake`"), "{error}");
            let reason = (status != 503).then_some("exchange");
            assert_eq!(answer.reason(), reason, "{error} {trading}");
        }
    }
}
