//! The verdict on an answer: whether its status is one of the contract, what it means for the breaker and the load of its
//! address, and whether a retry may bring a better one.

use http::header::RETRY_AFTER;
use http::{Response, StatusCode};

/// The meaning of an answer's status for its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::backend) enum AnswerVerdict {
    /// The address works, even if the answer is a refusal.
    Well,
    /// The fault may lie with the address or with the request: catalogs answer 500 and 503 to both, and redirect both.
    /// Another address tells.
    Doubtful,
    /// The service behind the address does not work.
    Broken,
}

/// Judges an answer by its status alone, because bodies stream.
pub(in crate::backend) fn judge(status: StatusCode) -> AnswerVerdict {
    match status {
        StatusCode::INTERNAL_SERVER_ERROR | StatusCode::SERVICE_UNAVAILABLE => {
            AnswerVerdict::Doubtful
        }
        StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT => AnswerVerdict::Broken,
        status if !is_known(status) => AnswerVerdict::Doubtful,
        _ => AnswerVerdict::Well,
    }
}

/// True for a success, a refusal and an error, which are all that the contract has, and for 304, which answers a client's
/// own condition. A client that follows a redirect would go past the gateway, or to the table of another mount.
pub(in crate::backend) fn is_known(status: StatusCode) -> bool {
    status.is_success()
        || matches!(status.as_u16(), 400..=599)
        || status == StatusCode::NOT_MODIFIED
}

/// True if the same request may get a better answer if it is sent again. `has_other`: returns true if another address
/// serves.
pub(in crate::backend) fn may_better<B>(
    response: &Response<B>,
    has_other: impl FnOnce() -> bool,
) -> bool {
    judge(response.status()) != AnswerVerdict::Well
        // The catalog says itself when it wants to be asked again.
        && !response.headers().contains_key(RETRY_AFTER)
        // A 500 may mean that the catalog cannot carry out the request, and a redirect stays what it is: a retry at the same
        // address tells nothing.
        && (matches!(response.status().as_u16(), 502..=504) || has_other())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_no_failure() {
        for status in [200, 304, 404, 406, 409, 429, 501, 507] {
            assert_eq!(
                StatusCode::from_u16(status).map(judge).ok(),
                Some(AnswerVerdict::Well)
            );
        }
    }
}
