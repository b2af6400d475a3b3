//! `version/list`: short answers are read whole, long ones are filtered while they stream.
//!
//! A short answer is of one moment: it is filtered when all of it is there, and the request is sent again if a batch was
//! revealed or undone meanwhile. A long one cannot be sent again once the client has its beginning; see
//! [`list_watch`](crate::batch::visibility::list_watch) for what it shows.

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use http::{Request, Response, response};

use super::streamed::VersionPage;
use super::{ANSWER_BYTES, Question, ROUNDS, nothing_visible, unreadable, whole};
use crate::backend::Backend;
use crate::batch::visibility::filter::{FilteredPage, Page, Verdict};
use crate::batch::visibility::filtered_body::{Beginning, FilteredBody, StreamFailure};
use crate::batch::visibility::{Hidden, json_splice};
use crate::batch::{Batches, TableBranch, TableKey};
use crate::body::Body;
use crate::error::Error;
use crate::protocol::query::Query;

/// The list that a client asks for, and what is sent to the catalog for it.
struct ListRequest {
    line: TableBranch,
    limit: Option<u64>,
    /// True if the client has a page token: it has seen versions already, so the rest of the list may be empty.
    is_continued: bool,
    /// The limit for the catalog.
    asked: Option<u64>,
    /// The page token for the catalog; `None` for the client's own.
    token: Option<String>,
    /// True once the versions of a long page were counted, so that the limit for the catalog is high enough.
    is_counted: bool,
}

/// The next step after an answer of the catalog.
enum Step {
    Answer(Response<Body>),
    AskFor(u64),
    NextPage(String),
    NothingVisible,
    /// The answer is outdated, or was only counted.
    Again,
}

impl Batches {
    /// Sends a `version/list` and removes the hidden versions from the answer. If none remains, waits for the batch,
    /// and then answers 503, because an empty list makes clients list the storage themselves.
    ///
    /// # Errors
    ///
    /// The request or the catalog's answer is invalid, the catalog failed, or no version can be shown (503).
    pub async fn list_versions(
        &self,
        backend: &Backend,
        table: TableKey,
        request: Request<Body>,
    ) -> Result<Response<Body>, Error> {
        let question = Question::new(request).await?;
        let mut list = ListRequest::of(&question, table)?;
        let mut waited = false;
        for _ in 0..ROUNDS {
            let more = list.asked.filter(|_| list.asked != list.limit);
            let question = question.with(more, list.token.clone())?;
            match self.list_once(backend, &mut list, question).await? {
                Step::Answer(answer) => return Ok(answer),
                Step::Again => {}
                Step::AskFor(more) => {
                    list.asked = list.asked.map(|asked| asked.saturating_add(more));
                }
                Step::NextPage(next) => list.token = Some(next),
                Step::NothingVisible if waited => break,
                Step::NothingVisible => {
                    self.wait_for_batch(&list.line).await?;
                    (list.token, waited) = (None, true);
                }
            }
        }
        Err(nothing_visible())
    }

    /// Sends one request to the catalog.
    async fn list_once(
        &self,
        backend: &Backend,
        list: &mut ListRequest,
        question: Question,
    ) -> Result<Step, Error> {
        let visibility = &self.coordinator.visibility;
        let (moment, names) = (visibility.moment(&list.line), self.names().moment());
        let (head, body) = question.open(backend).await?;
        if head.status.is_success() && head.headers.contains_key(CONTENT_ENCODING) {
            return Err(Error::unavailable(unreadable(backend)));
        }
        let lost = |error| Error::unavailable(unreadable(backend)).with_cause(error);
        let (first, rest) = match Beginning::read(body, self.longest_held_list).await {
            Err(error) => return Err(lost(error)),
            Ok(Beginning::Whole(body)) => {
                let hidden = visibility.hidden(&list.line);
                if visibility.has_passed(moment) {
                    return Ok(Step::Again);
                }
                return list.filter(backend, head, body, &hidden);
            }
            Ok(Beginning::Long { first, rest }) => (first, rest),
        };
        if !head.status.is_success() {
            let body = rest.collect_after(first, ANSWER_BYTES).await;
            return Ok(Step::Answer(whole(head, body.map_err(lost)?)));
        }
        let watch = visibility.watch_list(&list.line);
        if visibility.has_passed(moment) {
            return Ok(Step::Again);
        }
        let names = (self.names().clone(), names);
        let (limit, asked, may_be_empty) = (list.limit, list.asked, list.is_continued);
        let page = VersionPage::new(watch, names, limit, asked, may_be_empty);
        let stream = FilteredBody::new(first, rest, page);
        match list.stream(head, stream).await {
            Ok(step) => Ok(step),
            // The client has nothing of it yet.
            Err(StreamFailure::Outdated(_)) => Ok(Step::Again),
            Err(error) => Err(Error::unavailable(unreadable(backend)).with_cause(error)),
        }
    }
}

impl ListRequest {
    fn of(question: &Question, table: TableKey) -> Result<Self, Error> {
        let query = Query::new(question.parts.uri.query());
        let branch = query.get("branch")?.map(|branch| branch.into_owned());
        let limit = query.get("limit")?;
        let limit = limit.and_then(|limit| limit.parse::<u64>().ok());
        Ok(Self {
            line: TableBranch::new(table, branch),
            limit,
            is_continued: query.get("page_token")?.is_some(),
            asked: limit,
            token: None,
            is_counted: false,
        })
    }

    /// Removes the hidden versions from a whole answer.
    fn filter(
        &self,
        backend: &Backend,
        head: response::Parts,
        body: Bytes,
        hidden: &Hidden,
    ) -> Result<Step, Error> {
        if hidden.is_empty() || !head.status.is_success() {
            return Ok(Step::Answer(whole(head, body)));
        }
        // With a limit, the versions must be counted.
        let quick = match self.limit {
            None if !self.is_continued => json_splice::without(body, hidden),
            _ => Err(body),
        };
        let body = match quick {
            Ok(body) => return Ok(Step::Answer(whole(head, body))),
            Err(body) => body,
        };
        let page = Page::parse(&body);
        let page =
            page.map_err(|error| Error::unavailable(unreadable(backend)).with_cause(error))?;
        let shown = match page.without(hidden, self.limit, self.asked) {
            FilteredPage::Untouched => body,
            FilteredPage::Shown(body) => body.into(),
            FilteredPage::NothingVisible if self.is_continued => page.emptied().into(),
            FilteredPage::AskFor(more) => return Ok(Step::AskFor(more)),
            FilteredPage::NextPage(next) => return Ok(Step::NextPage(next)),
            FilteredPage::NothingVisible => return Ok(Step::NothingVisible),
        };
        Ok(Step::Answer(whole(head, shown)))
    }

    /// Answers with a long list. Reads it to its end first, without keeping it, if a limit may make it too short.
    async fn stream(
        &mut self,
        mut head: response::Parts,
        mut list: FilteredBody<VersionPage>,
    ) -> Result<Step, StreamFailure> {
        let is_limited = self.limit.is_some() && list.filter.hides_something()?;
        let counts = is_limited && !self.is_counted;
        let is_over = if counts {
            list.read_to_end().await?;
            true
        } else {
            list.read_to_visible().await?
        };
        if is_over {
            match list.filter.verdict() {
                Verdict::AskFor(more) => return Ok(Step::AskFor(more)),
                Verdict::NextPage(next) => return Ok(Step::NextPage(next)),
                Verdict::NothingVisible if !self.is_continued => return Ok(Step::NothingVisible),
                Verdict::Untouched | Verdict::Shown | Verdict::NothingVisible => {}
            }
        }
        if counts {
            self.is_counted = true;
            return Ok(Step::Again);
        }
        head.headers.remove(CONTENT_LENGTH);
        Ok(Step::Answer(Response::from_parts(head, Body::stream(list))))
    }
}
