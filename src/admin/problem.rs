//! What is answered instead of a page: the contract's one error shape, so that one reader of errors does for all.

use http::StatusCode;
use serde_json::json;

use super::Page;
use crate::error::code::Code;

/// A no, and why.
pub(super) struct Problem {
    code: Code,
    status: StatusCode,
    words: String,
    detail: String,
}

impl Problem {
    /// Answered with the code's own status.
    pub(super) fn new(code: Code, words: impl Into<String>) -> Self {
        Self {
            code,
            status: code.status(),
            words: words.into(),
            detail: String::new(),
        }
    }

    /// Answered with another status.
    pub(super) fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    /// Adds a second sentence.
    pub(super) fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = detail.into();
        self
    }

    /// The answer to a request for `path`.
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
