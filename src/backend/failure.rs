//! The reasons why a catalog gave no answer, and whether it can have acted.

use std::fmt;

use http::StatusCode;

use super::Refusal;
use super::endpoints::AllBreakersOpen;
use crate::body::Interrupted;
use crate::error::cause::{Causes, chain, is_about_our_certificate};
use crate::error::retry_after::RetryAfter;
use crate::error::{BoxError, Error};

/// The reason why there is no answer, or none that could be read.
#[derive(Debug)]
pub enum Failure {
    /// A request of which nothing reached the catalog: refused, unknown host, TLS, an open breaker. The catalog cannot
    /// have acted.
    NotSent(BoxError),
    /// No request, because there is no token for this catalog, which cannot have acted.
    NoToken(Refusal),
    /// The exchange broke after some of the request may have been sent. The catalog may have acted.
    Lost(BoxError),
    /// No answer came in time. The catalog may have acted, or may still act.
    TimedOut,
    /// The answer is larger than the gateway's limit. The catalog has acted.
    TooLarge,
    /// An answer with a status that the contract does not have, such as a redirect. The catalog may have acted.
    Strange(StatusCode),
}

impl Failure {
    /// Returns the failure of a request that was sent over a new connection, on which no answer has come yet:
    /// not sent if the catalog ended the handshake over the gateway's certificate, else lost.
    pub(super) fn after_sending(cause: BoxError) -> Self {
        if is_about_our_certificate(&*cause) {
            Self::NotSent(cause)
        } else {
            Self::Lost(cause)
        }
    }

    /// True if the catalog can have acted on the request.
    pub fn may_have_acted(&self) -> bool {
        !matches!(self, Self::NotSent(_) | Self::NoToken(_))
    }

    /// Returns the open breakers, if they are the reason why the request was not sent.
    fn withheld(&self) -> Option<&AllBreakersOpen> {
        match self {
            Self::NotSent(cause) => cause.downcast_ref(),
            _ => None,
        }
    }

    /// True if there was an attempt to send the request.
    pub(super) fn was_tried(&self) -> bool {
        !matches!(self, Self::NoToken(_)) && self.withheld().is_none()
    }

    /// True if the request's body from the caller broke off while it was sent to the catalog.
    fn is_the_callers(&self) -> bool {
        let Self::Lost(cause) = self else {
            return false;
        };
        chain(cause.as_ref()).any(|cause| cause.is::<Interrupted>())
    }

    /// Converts the failure into the answer to the caller: 503, code 17, naming the backend and not its address;
    /// 401 or 403 if the caller gets no token for this catalog; 400, code 13, if the caller broke off; 502, code 17, for a
    /// redirect.
    pub fn into_error(self, backend: &str) -> Error {
        if self.is_the_callers() {
            return Error::invalid("the request body was cut off before its end").with_cause(self);
        }
        if let Some(withheld) = self.withheld() {
            let wait = RetryAfter::rest(withheld.wait);
            let message = format!(
                "backend `{backend}` is unavailable (circuit breaker open); retry after {wait} s"
            );
            let error = Error::unavailable(message).with_retry_after(wait);
            // The opening of the breaker is in the log, and its end with the number of refused requests.
            return error.with_cause(self).already_logged();
        }
        let said = match &self {
            Self::NoToken(refusal) => return refusal.to_error(backend).with_cause(self),
            Self::NotSent(_) => "cannot be reached",
            Self::Lost(_) => "closed the connection before it answered",
            Self::TimedOut => "did not answer in time",
            Self::TooLarge => "sent an answer that is too large for the gateway",
            Self::Strange(status) => {
                let message = format!(
                    "backend `{backend}` answered with status {}, which is not of the contract; redirects are not followed",
                    status.as_u16()
                );
                let error = Error::unavailable(message).with_status(StatusCode::BAD_GATEWAY);
                return error.with_cause(self);
            }
        };
        Error::unavailable(format!("backend `{backend}` {said}")).with_cause(self)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotSent(cause) => write!(f, "not sent: {}", Causes(cause.as_ref())),
            Self::NoToken(refusal) => write!(f, "no token: {refusal}"),
            Self::Lost(cause) => write!(f, "lost: {}", Causes(cause.as_ref())),
            Self::TimedOut => f.write_str("timed out"),
            Self::TooLarge => f.write_str("answer too large"),
            Self::Strange(status) => write!(
                f,
                "answered {}, which the contract does not have: if it is a redirect, write where it leads into `uri`",
                status.as_u16()
            ),
        }
    }
}

impl std::error::Error for Failure {}
