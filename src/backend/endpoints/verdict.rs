//! The verdict on an answer, by its status: what it means for the breaker and the load of its address, and for a retry.

use http::StatusCode;

/// The meaning of an answer's status for its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::backend) enum AnswerVerdict {
    /// The address works, even if the answer is a refusal.
    Well,
    /// The fault may lie with the address or with the request: catalogs answer 500 and 503 to both. Another address
    /// tells.
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
        _ => AnswerVerdict::Well,
    }
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
