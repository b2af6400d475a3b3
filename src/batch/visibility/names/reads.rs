//! Listings of the tables of one catalog, as a reader may see them: short answers are read whole, long ones are filtered
//! while they stream. [`watch`](super::watch) says which names they show.

use bytes::{Bytes, BytesMut};
use http::header::CONTENT_LENGTH;
use http::{Request, Response, response};

use super::watch::{ListedNames, NamesChanged};
use crate::backend::Backend;
use crate::batch::visibility::filter::Tally;
use crate::batch::visibility::filtered_body::{
    Beginning, FilteredBody, Outdated, PieceFilter, StreamFailure,
};
use crate::batch::visibility::list_filter::ListFilter;
use crate::batch::visibility::reads::{ANSWER_BYTES, Question, unreadable, whole};
use crate::batch::{Batches, busy};
use crate::body::{Body, CollectError};
use crate::error::Error;
use crate::protocol::identifier::Identifier;
use crate::protocol::query::DEFAULT_DELIMITER;
use crate::protocol::rename::mentions_unfinished;

/// The largest number of requests to a catalog for one listing, when names change while it lists them.
pub(crate) const ROUNDS: usize = 5;

/// The largest number of pages that are passed over in one listing because nothing on them can be shown.
const PAGES: usize = 100;

/// The members of the answer that are lists.
const LISTS: &[&str] = &["tables"];

/// The scope of a listing.
#[derive(Clone)]
pub enum Level {
    /// The tables right below a namespace, by their last names.
    Below(Identifier),
    /// All tables of the catalog, their names joined by the default delimiter.
    All,
}

/// A page of a listing.
struct NamePage {
    filter: ListFilter,
    names: ListedNames,
    /// The numbers of its names, once it is over.
    tally: Option<Tally>,
}

/// The next step after an answer of the catalog.
enum Step {
    Answer(Response<Body>),
    /// Nothing of the page can be shown, and the catalog has more.
    NextPage(String),
}

impl Batches {
    /// Sends a listing of tables and removes the hidden names from the answer, and those of tables that are still being
    /// written. A page may come out short. An empty one is followed by the next page, because many clients take an
    /// empty page for the last one.
    ///
    /// # Errors
    ///
    /// The catalog failed, its answer cannot be read, or names changed in every round (503).
    pub async fn list_tables(
        &self,
        backend: &Backend,
        level: Level,
        request: Request<Body>,
    ) -> Result<Response<Body>, Error> {
        let mut question = Question::new(request).await?;
        let lost = |error| Error::unavailable(unreadable(backend)).with_cause(error);
        let (mut rounds, mut pages) = (0, 0);
        while rounds < ROUNDS {
            let page = NamePage {
                filter: ListFilter::new(LISTS, None),
                names: ListedNames::of(
                    self.names(),
                    backend.catalog(),
                    backend.scope(),
                    level.clone(),
                ),
                tally: None,
            };
            let (head, body) = question.clone().open(backend).await?;
            let has_pages = pages < PAGES;
            let step = match self.begin_list(&head, body).await.map_err(lost)? {
                Beginning::Whole(body) => page.answer(head, body, has_pages),
                Beginning::Long { first, rest } => page.stream(head, first, rest, has_pages).await,
            };
            match step {
                Ok(Step::Answer(answer)) => return Ok(answer),
                Ok(Step::NextPage(next)) => {
                    pages += 1;
                    question = question.with(None, Some(next))?;
                }
                // The client has nothing of it yet.
                Err(StreamFailure::Outdated(_)) => rounds += 1,
                Err(error) => {
                    return Err(Error::unavailable(unreadable(backend)).with_cause(error));
                }
            }
        }
        Err(unsettled())
    }

    /// Reads an answer whole if it is short or a refusal, and otherwise its beginning.
    async fn begin_list(
        &self,
        head: &response::Parts,
        body: Body,
    ) -> Result<Beginning, CollectError> {
        match Beginning::read(body, self.longest_held_list).await? {
            Beginning::Long { first, rest } if !head.status.is_success() => {
                let body = rest.collect_after(first, ANSWER_BYTES).await?;
                Ok(Beginning::Whole(body))
            }
            beginning => Ok(beginning),
        }
    }
}

impl NamePage {
    /// Answers with a body that is there. `has_pages`: an empty page may be passed over.
    fn answer(
        mut self,
        head: response::Parts,
        body: Bytes,
        has_pages: bool,
    ) -> Result<Step, StreamFailure> {
        self.look()?;
        let has_hidden = self.names.hides_some() || mentions_unfinished(&body);
        if !has_hidden || !head.status.is_success() {
            return Ok(Step::Answer(Response::from_parts(head, Body::full(body))));
        }
        let mut shown = BytesMut::with_capacity(body.len());
        self.push(&body, &mut shown)?;
        self.finish(&mut shown)?;
        Ok(match self.next().filter(|_| has_pages) {
            Some(next) => Step::NextPage(next),
            None => Step::Answer(whole(head, shown.freeze())),
        })
    }

    /// Answers with a body of which only the beginning is there.
    async fn stream(
        self,
        mut head: response::Parts,
        first: Bytes,
        rest: Body,
        has_pages: bool,
    ) -> Result<Step, StreamFailure> {
        let mut list = FilteredBody::new(first, rest, self);
        list.read_to_visible().await?;
        if let Some(next) = list.filter.next().filter(|_| has_pages) {
            return Ok(Step::NextPage(next));
        }
        head.headers.remove(CONTENT_LENGTH);
        Ok(Step::Answer(Response::from_parts(head, Body::stream(list))))
    }

    /// The token of the next page, if this one is over, and nothing of it can be shown because of what is hidden.
    fn next(&self) -> Option<String> {
        let tally = self.tally.as_ref()?;
        let is_hidden = tally.hidden > 0 && tally.hidden == tally.listed;
        tally.token.clone().filter(|_| is_hidden)
    }

    fn look(&mut self) -> Result<(), Outdated> {
        let looked = self.names.look();
        looked.map_err(|NamesChanged| Outdated::NamesChanged)
    }
}

impl PieceFilter for NamePage {
    fn push(&mut self, piece: &[u8], out: &mut BytesMut) -> Result<(), StreamFailure> {
        self.look()?;
        Ok(self.filter.push(piece, &self.names, out)?)
    }

    fn finish(&mut self, out: &mut BytesMut) -> Result<(), StreamFailure> {
        self.look()?;
        let tally = self.filter.finish(&self.names, out)?;
        self.tally = Some(tally.clone());
        Ok(())
    }

    fn shows_something(&self) -> bool {
        self.filter.shows_something()
    }

    /// An empty page is shown if the client has its beginning, or if there were too many of them.
    fn check_end(&self) -> Result<(), Outdated> {
        Ok(())
    }
}

impl Level {
    /// The last part of a name in the listing.
    pub(super) fn last<'n>(&self, name: &'n str) -> &'n str {
        match self {
            Self::Below(_) => name,
            Self::All => name.rsplit(DEFAULT_DELIMITER).next().unwrap_or(name),
        }
    }
}

/// The error if names changed in every round.
pub(crate) fn unsettled() -> Error {
    busy("tables were renamed or removed several times during the listing; retry later")
}

#[cfg(test)]
mod tests;
