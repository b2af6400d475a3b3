//! The contract's error codes, and the HTTP status of each.

use http::StatusCode;

/// An error code of the namespace REST contract (`code` in an error body).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[expect(missing_docs, reason = "the contract's own names say it")]
pub enum Code {
    Unsupported = 0,
    NamespaceNotFound = 1,
    NamespaceAlreadyExists = 2,
    NamespaceNotEmpty = 3,
    TableNotFound = 4,
    TableAlreadyExists = 5,
    TableIndexNotFound = 6,
    TableIndexAlreadyExists = 7,
    TableTagNotFound = 8,
    TableTagAlreadyExists = 9,
    TransactionNotFound = 10,
    TableVersionNotFound = 11,
    TableColumnNotFound = 12,
    InvalidInput = 13,
    ConcurrentModification = 14,
    PermissionDenied = 15,
    Unauthenticated = 16,
    ServiceUnavailable = 17,
    Internal = 18,
    InvalidTableState = 19,
    TableSchemaValidationError = 20,
    Throttling = 21,
    TableBranchNotFound = 22,
    TableBranchAlreadyExists = 23,
}

impl Code {
    /// Every code, in the order of their numbers.
    pub const ALL: [Self; 24] = [
        Self::Unsupported,
        Self::NamespaceNotFound,
        Self::NamespaceAlreadyExists,
        Self::NamespaceNotEmpty,
        Self::TableNotFound,
        Self::TableAlreadyExists,
        Self::TableIndexNotFound,
        Self::TableIndexAlreadyExists,
        Self::TableTagNotFound,
        Self::TableTagAlreadyExists,
        Self::TransactionNotFound,
        Self::TableVersionNotFound,
        Self::TableColumnNotFound,
        Self::InvalidInput,
        Self::ConcurrentModification,
        Self::PermissionDenied,
        Self::Unauthenticated,
        Self::ServiceUnavailable,
        Self::Internal,
        Self::InvalidTableState,
        Self::TableSchemaValidationError,
        Self::Throttling,
        Self::TableBranchNotFound,
        Self::TableBranchAlreadyExists,
    ];

    /// The number in the body of an error response.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// Returns the code with this number; `None` if the contract has none.
    pub fn from_number(number: u64) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }

    /// The HTTP status that the contract pairs with the code.
    pub fn status(self) -> StatusCode {
        use Code::*;
        match self {
            Unsupported => StatusCode::NOT_ACCEPTABLE,
            NamespaceNotFound | TableNotFound | TableIndexNotFound | TableTagNotFound
            | TransactionNotFound | TableVersionNotFound | TableColumnNotFound
            | TableBranchNotFound => StatusCode::NOT_FOUND,
            NamespaceAlreadyExists
            | NamespaceNotEmpty
            | TableAlreadyExists
            | TableIndexAlreadyExists
            | TableTagAlreadyExists
            | ConcurrentModification
            | InvalidTableState
            | TableBranchAlreadyExists => StatusCode::CONFLICT,
            InvalidInput | TableSchemaValidationError => StatusCode::BAD_REQUEST,
            PermissionDenied => StatusCode::FORBIDDEN,
            Unauthenticated => StatusCode::UNAUTHORIZED,
            ServiceUnavailable => StatusCode::SERVICE_UNAVAILABLE,
            Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Throttling => StatusCode::TOO_MANY_REQUESTS,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Code;

    #[test]
    fn every_code_is_found_by_its_number() {
        for (number, code) in Code::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(code.number()), number);
            assert_eq!(Code::from_number(number as u64), Some(code));
        }
        assert_eq!(Code::from_number(24), None);
    }
}
