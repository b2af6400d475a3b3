//! Explains why a log in PostgreSQL cannot be used, so that an operator can act on it.

use std::error::Error as _;

use tokio_postgres::error::SqlState;

/// One failed request to the server.
#[derive(Debug)]
pub(super) struct Trouble {
    /// The cause, in words.
    pub(super) words: String,
    code: Option<SqlState>,
}

impl Trouble {
    /// The trouble with a server that did not answer in time.
    pub(super) fn silent(words: &str) -> Self {
        Self {
            words: words.to_owned(),
            code: None,
        }
    }

    /// True if the server has refused the statement, and may answer others: not if it lets nobody in, or ends.
    pub(super) fn is_refusal(&self) -> bool {
        self.code.as_ref().is_some_and(|code| {
            let is_of_class = |class| code.code().starts_with(class);
            let is_of_the_server = ["08", "28", "57"].into_iter().any(is_of_class);
            !is_of_the_server && *code != SqlState::TOO_MANY_CONNECTIONS
        })
    }

    /// The trouble with a full disk.
    #[cfg(test)]
    pub(super) fn refused(words: &str) -> Self {
        Self {
            words: words.to_owned(),
            code: Some(SqlState::DISK_FULL),
        }
    }

    /// Returns what the operator has to change; `None` if waiting may help.
    pub(super) fn remedy(&self) -> Option<&'static str> {
        match self.code.as_ref()? {
            code if [
                SqlState::UNDEFINED_TABLE,
                SqlState::UNDEFINED_FUNCTION,
                SqlState::INVALID_SCHEMA_NAME,
            ]
            .contains(code) =>
            {
                Some(
                    "The schema is not installed there, or the user has no right to it: run `nsgate log prepare` (with `--grant USER`, if the gateway is not its owner)",
                )
            }
            code if *code == SqlState::INSUFFICIENT_PRIVILEGE => Some(
                "The user lacks rights: run `nsgate log prepare` with `--grant USER`, as the owner of the schema",
            ),
            code if [
                SqlState::INVALID_PASSWORD,
                SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
            ]
            .contains(code) =>
            {
                Some("Check the user in `batch.log` and `batch.log_password`")
            }
            code if *code == SqlState::INVALID_CATALOG_NAME => {
                Some("Create the database, or correct `batch.log`")
            }
            _ => None,
        }
    }

    /// Returns the cause, and the remedy if there is one.
    pub(super) fn explained(&self) -> String {
        match self.remedy() {
            Some(remedy) => format!("{}. {remedy}", self.words),
            None => self.words.clone(),
        }
    }
}

/// Joins the troubles with several servers. One that an operator can mend comes first.
pub(super) fn joined(mut troubles: Vec<Trouble>) -> Trouble {
    troubles.sort_by_key(|trouble| trouble.remedy().is_none());
    let mut words: Vec<String> = Vec::new();
    let mut code = None;
    for trouble in troubles {
        if !words.contains(&trouble.words) {
            words.push(trouble.words);
        }
        code = code.or(trouble.code);
    }
    let words = words.join("; ");
    Trouble { words, code }
}

/// Describes an error of the client library. None of its parts holds the password.
pub(super) fn trouble(error: &tokio_postgres::Error) -> Trouble {
    let code = error.code().cloned();
    let words = match error.as_db_error() {
        Some(said) => format!("{} (SQLSTATE {})", said.message(), said.code().code()),
        None => {
            let mut words = error.to_string();
            let mut below = error.source();
            while let Some(cause) = below {
                let said = cause.to_string();
                if !words.contains(&said) {
                    words = format!("{words}: {said}");
                }
                below = cause.source();
            }
            // The client library's own words do not say where.
            words.replace(
                "password missing",
                "the server asks for a password, and there is none: set `batch.log_password`, or NSGATE_LOG_PASSWORD for `nsgate log`",
            )
        }
    };
    Trouble { words, code }
}
