//! The errors of the pages, in the contract's one error format, so that clients need only one parser.

use http::StatusCode;
use serde_json::json;

use super::Page;
use crate::error::code::Code;

/// An error and its explanation.
pub(super) struct Problem {
    code: Code,
    status: StatusCode,
    words: String,
    detail: String,
}

impl Problem {
    /// Creates an error with the code's own status.
    pub(super) fn new(code: Code, words: impl Into<String>) -> Self {
        Self {
            code,
            status: code.status(),
            words: words.into(),
            detail: String::new(),
        }
    }

    /// Returns the code.
    pub(super) fn code(&self) -> Code {
        self.code
    }

    /// Sets another status.
    pub(super) fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    /// Adds a second sentence.
    pub(super) fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = detail.into();
        self
    }

    /// Makes the response to a request for `path`.
    pub(super) fn at(&self, path: &str) -> Page {
        let body = json!({
            "error": self.words,
            "code": self.code.number(),
            "detail": self.detail,
            "instance": path,
        });
        Page::json(self.status, &body)
    }
}
