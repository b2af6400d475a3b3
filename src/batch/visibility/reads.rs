//! `version/list` and `version/describe`, as a reader may see them.
//!
//! The order makes it safe: the catalog first, then the state of batches, then the filter. A version prepared in
//! between cannot slip through, and one just aborted is still remembered. If a batch was revealed after the catalog had
//! answered, the answer may show only part of it, and the request is sent again.

mod described;
mod listed;
mod streamed;

use bytes::Bytes;
use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, ETAG, EXPIRES, HeaderName,
    IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, LAST_MODIFIED,
    RANGE,
};
use http::request::Parts;
use http::{HeaderValue, Request, Response, StatusCode, response};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::backend::Backend;
use crate::batch::api::table_lock::READ_WAIT;
use crate::batch::{Batches, TableBranch, TableKey, busy};
use crate::body::Body;
use crate::error::Error;
use crate::error::code::Code;
use crate::protocol::query::Query;

/// The largest answer of a catalog that is read, in bytes.
pub(in crate::batch) const ANSWER_BYTES: usize = 64 << 20;
/// The largest number of requests to a catalog for one answer, when its answers are hidden.
const ROUNDS: usize = 8;

/// The request headers that make the answer depend on an earlier one.
const CONDITIONS: [HeaderName; 6] = [
    IF_MATCH,
    IF_NONE_MATCH,
    IF_MODIFIED_SINCE,
    IF_UNMODIFIED_SINCE,
    IF_RANGE,
    RANGE,
];
/// The response headers that would make a later answer depend on this one, or that say how long it stays valid.
const VALIDATORS: [HeaderName; 3] = [ETAG, LAST_MODIFIED, EXPIRES];

/// A request as it is sent to the catalog, with its body read.
///
/// Conditions are removed from it, and validators from its answer. The catalog evaluates them against its own state,
/// and would answer 304 for a state in which batches have hidden or revealed versions since.
#[derive(Clone)]
pub(in crate::batch) struct Question {
    pub(in crate::batch) parts: Parts,
    body: Bytes,
}

impl Batches {
    /// Sends a `version/describe`. Answers 404 (code 11) for a hidden version. If the request names no version, answers
    /// with the latest visible one.
    ///
    /// # Errors
    ///
    /// The request or the catalog's answer is invalid, the catalog failed, or no version can be shown (503).
    pub async fn describe_version(
        &self,
        backend: &Backend,
        table: TableKey,
        request: Request<Body>,
    ) -> Result<Response<Body>, Error> {
        #[derive(Deserialize, Default)]
        struct Asked {
            version: Option<u64>,
            branch: Option<String>,
        }
        let mut question = Question::new(request).await?;
        let original = question.body.clone();
        // A body of another shape could mean another version or branch to the catalog, so it is refused.
        let asked: Option<Asked> = match original.trim_ascii() {
            b"" => None,
            body => serde_json::from_slice(body)
                .map_err(|error| Error::invalid(format!("`version` or `branch`: {error}")))?,
        };
        let asked = asked.unwrap_or_default();
        let line = TableBranch::new(table, asked.branch);
        // The version that is requested instead of a hidden latest one.
        let mut named = None;
        for _ in 0..ROUNDS {
            let visibility = &self.coordinator.visibility;
            let moment = visibility.moment(&line);
            let (head, body) = question.clone().send(backend).await?;
            let hidden = visibility.hidden(&line);
            if visibility.has_passed(moment) {
                continue;
            }
            // A version was undone, and one above it landed late.
            let gap = named.filter(|_| lacks_version(&head, &body));
            if gap.is_none() && (hidden.is_empty() || !head.status.is_success()) {
                return Ok(whole(head, body));
            }
            let found = gap.or_else(|| version_of(&body));
            let found = found.ok_or_else(|| Error::unavailable(unreadable(backend)))?;
            if gap.is_none() && !hidden.contains(found) {
                return Ok(whole(head, body));
            }
            if asked.version == Some(found) {
                return Err(Error::new(
                    Code::TableVersionNotFound,
                    format!("version {found} of {} does not exist", line.table.table),
                ));
            }
            // The latest version is hidden: request the one below it by its number, if there can be one.
            let below = (1..found).rev().find(|version| !hidden.contains(*version));
            let Some(below) = below else {
                self.wait_for_batch(&line).await?;
                (question.body, named) = (original.clone(), None);
                continue;
            };
            question.name_version(below)?;
            named = Some(below);
        }
        Err(nothing_visible())
    }

    /// Waits until no batch is on the table.
    async fn wait_for_batch(&self, line: &TableBranch) -> Result<(), Error> {
        let table = line.table.clone();
        let hold = self.coordinator.locks.shared(table, READ_WAIT).await;
        hold.map(drop).map_err(|_| nothing_visible())
    }
}

impl TableBranch {
    /// Creates the key of a table's main branch, or of another one; `main` and the empty name are the main branch.
    pub fn new(table: TableKey, branch: Option<String>) -> Self {
        let branch = branch.filter(|branch| !branch.is_empty() && branch != "main");
        Self { table, branch }
    }
}

impl Question {
    /// Reads a request without its conditions.
    pub(in crate::batch) async fn new(request: Request<Body>) -> Result<Self, Error> {
        let (mut parts, body) = request.into_parts();
        for condition in &CONDITIONS {
            parts.headers.remove(condition);
        }
        // An answer that must be read must not be compressed.
        let identity = HeaderValue::from_static("identity");
        parts.headers.insert(ACCEPT_ENCODING, identity);
        let body = body.collect_up_to(ANSWER_BYTES).await;
        let body =
            body.map_err(|error| Error::invalid("the body cannot be read").with_cause(error))?;
        Ok(Self { parts, body })
    }

    /// Returns the request with another `limit` or `page_token`; the same bytes if there is neither.
    pub(in crate::batch) fn with(
        &self,
        limit: Option<u64>,
        token: Option<String>,
    ) -> Result<Self, Error> {
        let mut question = self.clone();
        let limit = limit.map(|limit| ("limit", limit.to_string()));
        for (name, value) in limit
            .into_iter()
            .chain(token.map(|token| ("page_token", token)))
        {
            let uri = &mut question.parts.uri;
            let query = Query::new(uri.query()).with(name, &value);
            let path = format!("{}?{query}", uri.path());
            *uri = path.parse().map_err(|error: http::uri::InvalidUri| {
                Error::internal("the path cannot be written", error)
            })?;
        }
        Ok(question)
    }

    /// Changes the request so that it names this version.
    fn name_version(&mut self, version: u64) -> Result<(), Error> {
        let fields: Option<std::collections::BTreeMap<String, Box<RawValue>>> =
            serde_json::from_slice(&self.body).unwrap_or_default();
        let mut fields = fields.unwrap_or_default();
        let number = serde_json::value::to_raw_value(&version);
        let cannot = |error| Error::internal("the request to the catalog cannot be written", error);
        fields.insert("version".into(), number.map_err(cannot)?);
        self.body = serde_json::to_vec(&fields).map_err(cannot)?.into();
        self.parts.headers.remove(CONTENT_LENGTH);
        Ok(())
    }

    async fn send(self, backend: &Backend) -> Result<(response::Parts, Bytes), Error> {
        let (head, body) = self.open(backend).await?;
        let body = body.collect_up_to(ANSWER_BYTES).await;
        let body =
            body.map_err(|error| Error::unavailable(unreadable(backend)).with_cause(error))?;
        if head.status.is_success() && head.headers.contains_key(CONTENT_ENCODING) {
            return Err(Error::unavailable(unreadable(backend)));
        }
        Ok((head, body))
    }

    /// Sends the request, and returns when the answer begins.
    pub(in crate::batch) async fn open(
        self,
        backend: &Backend,
    ) -> Result<(response::Parts, Body), Error> {
        let request = Request::from_parts(self.parts, Body::full(self.body));
        let response = backend.send(request).await;
        let (mut head, body) = response
            .map_err(|failure| failure.into_error(backend.name()))?
            .into_parts();
        for validator in &VALIDATORS {
            head.headers.remove(validator);
        }
        if head.headers.contains_key(CACHE_CONTROL) {
            let never = HeaderValue::from_static("no-store");
            head.headers.insert(CACHE_CONTROL, never);
        }
        Ok((head, body))
    }
}

fn version_of(body: &[u8]) -> Option<u64> {
    #[derive(Deserialize)]
    struct Version {
        version: u64,
    }
    #[derive(Deserialize)]
    struct Body {
        version: Version,
    }
    let body: Body = serde_json::from_slice(body).ok()?;
    Some(body.version.version)
}

/// True if the catalog answers that there is no such version.
fn lacks_version(head: &response::Parts, body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Refused {
        code: u64,
    }
    let says = |refused: Refused| Code::from_number(refused.code);
    let code = serde_json::from_slice(body).ok().and_then(says);
    head.status == StatusCode::NOT_FOUND && code == Some(Code::TableVersionNotFound)
}

pub(in crate::batch) fn whole(mut head: response::Parts, body: Bytes) -> Response<Body> {
    head.headers.remove(CONTENT_LENGTH);
    Response::from_parts(head, Body::full(body))
}

pub(in crate::batch) fn unreadable(backend: &Backend) -> String {
    format!(
        "backend `{}` gave an answer that cannot be read",
        backend.name()
    )
}

fn nothing_visible() -> Error {
    busy("the table has no committed version yet: it is locked by an unfinished batch; retry later")
}
