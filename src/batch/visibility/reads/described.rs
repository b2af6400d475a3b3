//! `describe` of a table at catalogs that include its latest version without being asked.
//!
//! Typical catalogs include none, and no version of a batch changes their answer, so these requests need no lock. Only
//! if an answer has a hidden version is the table locked and the request repeated, as for a describe that asks for
//! details.

use http::header::CONTENT_ENCODING;
use http::{Request, Response};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{ANSWER_BYTES, Question, nothing_visible, unreadable, whole};
use crate::backend::Backend;
use crate::batch::visibility::{Epoch, Visibility};
use crate::batch::{Batches, TableBranch, TableKey, busy};
use crate::body::Body;
use crate::error::Error;
use crate::protocol::operation::Access;

impl Batches {
    /// The present epoch. Take it before [`Batches::is_near`], and check it with [`Batches::is_stirred`].
    pub fn read_epoch(&self) -> Epoch {
        self.coordinator.visibility.epoch()
    }

    /// True if anything of the table is hidden, or a record of it is still kept.
    pub fn is_near(&self, table: impl FnOnce() -> TableKey) -> bool {
        self.coordinator.visibility.has(table)
    }

    /// True if batches have hidden anything of the table since, or made it free or visible again.
    pub fn is_stirred(&self, since: Epoch, table: impl Fn() -> TableKey) -> bool {
        let visibility = &self.coordinator.visibility;
        visibility.has(&table) || visibility.has_shown(since, || TableBranch::new(table(), None))
    }

    /// Sends a describe of a table that batches affect. If the answer has a hidden version, repeats the request when no
    /// batch is on the table, waiting at most 2 s.
    ///
    /// # Errors
    ///
    /// The catalog failed, its answer cannot be read, or no version can be shown (503).
    pub async fn describe_table(
        &self,
        backend: &Backend,
        table: TableKey,
        request: Request<Body>,
    ) -> Result<Response<Body>, Error> {
        let question = Question::new(request).await?;
        let line = TableBranch::new(table, branch_of(&question.body));
        let visibility = &self.coordinator.visibility;
        let moment = visibility.moment(&line);
        let (head, body) = question.clone().send(backend).await?;
        let shows = |version| {
            let hidden = visibility.hidden(&line);
            !hidden.contains(version) && !visibility.has_passed(moment)
        };
        if !head.status.is_success() || version_in(&body).is_none_or(shows) {
            return Ok(whole(head, body));
        }
        let _held = self.hold(line.table.clone(), Access::Read).await?;
        let (head, body) = question.send(backend).await?;
        self.check_latest(backend, &line.table).await?;
        let hidden = visibility.hidden(&line);
        if version_in(&body).is_some_and(|version| hidden.contains(version)) {
            return Err(nothing_visible());
        }
        Ok(whole(head, body))
    }

    /// Checks the answer to a describe that was sent at `since`, when no batch was near the table.
    ///
    /// # Errors
    ///
    /// The answer has a version that is hidden, or may have been hidden meanwhile (503); or it cannot be read.
    pub async fn check_described(
        &self,
        backend: &Backend,
        table: TableKey,
        since: Epoch,
        answer: Response<Body>,
    ) -> Result<Response<Body>, Error> {
        if !answer.status().is_success() {
            return Ok(answer);
        }
        let (head, body) = answer.into_parts();
        let body = body.collect_up_to(ANSWER_BYTES).await;
        let body =
            body.map_err(|error| Error::unavailable(unreadable(backend)).with_cause(error))?;
        let line = TableBranch::new(table, None);
        let visibility = &self.coordinator.visibility;
        // The request, which may have named a branch, is gone.
        let shows = |version| {
            !visibility.hides_on_a_branch(&line.table, version)
                && !visibility.has_shown(since, || line.clone())
        };
        if head.headers.contains_key(CONTENT_ENCODING) || !version_in(&body).is_none_or(shows) {
            return Err(busy(
                "a batch changed the table during the describe; retry later",
            ));
        }
        Ok(whole(head, body))
    }
}

impl Visibility {
    /// True if a version of this number is hidden on any branch of the table.
    fn hides_on_a_branch(&self, table: &TableKey, version: u64) -> bool {
        let slots = self.tables.get(table);
        let mut slots = slots.iter().flat_map(|slots| slots.iter());
        slots.any(|slot| {
            let hidden = slot.hides(slot.line(table).branch.as_deref());
            hidden.is_some_and(|hidden| hidden.contains(&version))
        })
    }
}

/// The branch in the body of a describe; `None` if it has none.
fn branch_of(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Asked {
        branch: Option<String>,
    }
    let asked: Asked = serde_json::from_slice(body).ok()?;
    asked.branch
}

/// The version in the answer to a describe; `None` if it has none. Returns `u64::MAX` for a value that is not a number,
/// because a client may take it for any version.
fn version_in(body: &[u8]) -> Option<u64> {
    #[derive(Deserialize)]
    struct Table<'a> {
        #[serde(borrow)]
        version: Option<&'a RawValue>,
    }
    match serde_json::from_slice(body) {
        Ok(Table { version: None }) => None,
        Ok(Table {
            version: Some(version),
        }) => {
            let digits = version.get().trim_matches('"');
            Some(digits.parse().unwrap_or(u64::MAX))
        }
        Err(_) => body
            .trim_ascii_start()
            .starts_with(b"{")
            .then_some(u64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::version_in;

    #[test]
    fn a_version_is_found_however_it_is_written() {
        for (body, version) in [
            (r#"{"table":"t","version":2}"#, Some(2)),
            (r#"{"version":"2"}"#, Some(2)),
            (r#"{"version":2.0}"#, Some(u64::MAX)),
            (r#"{"version":1,"version":2}"#, Some(u64::MAX)),
            (r#" {"version":2"#, Some(u64::MAX)),
            (r#"{"version":null,"location":"l"}"#, None),
            (r#"{"schema":{"version":2}}"#, None),
            ("2", None),
            ("", None),
        ] {
            assert_eq!(version_in(body.as_bytes()), version, "{body}");
        }
    }
}
