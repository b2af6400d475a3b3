//! One page of a listing: as many names as the client wants, from as few catalogs as have them.
//!
//! A listing is a sequence of segments, one for each catalog. A page takes the names of the segments in their order, and
//! those of a segment in its catalog's order, with the catalog's own page tokens. So its cost does not depend on how
//! many names there are before or after it.
//!
//! A catalog that ignores `limit` is read to the end of its answer for each page. Names are spelled, and left out if
//! they are not shown, as they arrive, and of all others only those that the page may need are kept (`selection.rs`). So
//! the memory for a page does not depend on how many names there are, and a page is full even if most names are hidden.
//!
//! Names are compared with those that batches hide after they arrived, and a change since the listing was begun ends the
//! page. So what the last comparison has found holds for all names on the page.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::future::join_all;

use super::Catalogs;
use super::answers::lacks_namespace;
use super::read_catalog::{
    Budget, ListingError, NameStream, TIME, in_steps, off_worker, too_much, trouble,
};
use super::requested_page::MANY;
use super::selection::Selection;
use super::token::{Place, Position};
use crate::backend::InternalRequest;
use crate::batch::TableKey;
use crate::error::Error;
use crate::route::Mount;

/// The most catalogs that are asked at once. The first ones are asked alone, and twice as many each time that their
/// names do not fill the page.
const MOST_AT_ONCE: usize = 16;
/// The most names that a catalog is asked for at once.
const MOST_ASKED: usize = 10_000;

/// The names of one catalog in a listing.
pub(super) struct Segment<'a> {
    /// The key by which a position names the segment. Segments are in the order of their keys.
    pub(super) key: String,
    /// The first mount of the catalog.
    pub(super) mount: &'a Mount,
    /// Shared by the segments, of which a page asks few.
    pub(super) ask: Arc<InternalRequest>,
    /// True if the catalog need not have the namespace that is listed.
    pub(super) may_lack: bool,
}

/// The part of a listing that [`page`] does not know.
pub(super) trait Spelling: Sync {
    /// Returns the tables that batches hide now; `None` if names have changed since the listing was begun.
    fn hidden(&self) -> Option<HashSet<TableKey>>;

    /// Returns those of the `listed` names that are shown, as clients must spell them.
    fn spell(
        &self,
        segment: &Segment<'_>,
        hidden: &HashSet<TableKey>,
        listed: Vec<String>,
    ) -> Result<Vec<String>, ListingError>;
}

/// The names of a page, and the position after it if there may be more.
pub(super) type Page = (Vec<String>, Option<Position>);

/// The names of one answer that a page may need.
struct Answer {
    names: Vec<String>,
    /// The place of this answer.
    place: Place,
    /// The number of names that the catalog was asked for.
    asked: usize,
    /// The token of the next one.
    next: Option<String>,
}

/// A listing that is being read.
pub(super) struct Reading<'a, C: ?Sized, S> {
    pub(super) catalogs: &'a C,
    pub(super) spelling: &'a S,
    pub(super) budget: Budget,
}

/// Returns the page of at most `limit` names that begins at `from`; everything if there is neither.
pub(super) async fn page<C: Catalogs + ?Sized>(
    catalogs: &C,
    segments: &[Segment<'_>],
    from: Option<&Position>,
    limit: Option<usize>,
    spelling: &impl Spelling,
) -> Result<Page, ListingError> {
    let reading = Reading {
        catalogs,
        spelling,
        budget: Budget::new(),
    };
    if from.is_none() && limit.is_none() {
        return Ok((reading.everything(segments).await?, None));
    }
    let room = limit.unwrap_or(usize::MAX);
    let read = tokio::time::timeout(TIME, reading.fill(segments, from, room)).await;
    read.unwrap_or_else(|_| {
        let message = format!(
            "the catalogs did not list a page within {} s; retry, or list a namespace below this one",
            TIME.as_secs()
        );
        Err(ListingError::Error(Error::unavailable(message)))
    })
}

impl<C: Catalogs + ?Sized, S: Spelling> Reading<'_, C, S> {
    /// Returns the page of at most `room` names that begins at `from`.
    pub(super) async fn fill(
        &self,
        segments: &[Segment<'_>],
        from: Option<&Position>,
        room: usize,
    ) -> Result<Page, ListingError> {
        let mut names: Vec<String> = Vec::new();
        // The segment of the position may be gone: then the page begins with the one that came after it.
        let mut begin = from.map_or(0, |from| {
            segments.partition_point(|segment| segment.key < from.segment)
        });
        let mut at_once = 1;
        while begin < segments.len() && room > 0 {
            let end = segments.len().min(begin + at_once);
            let left = room - names.len();
            let asked = segments[begin..end].iter().map(|segment| {
                let place = from.filter(|from| from.segment == segment.key);
                let place = place.map(|from| from.place.clone()).unwrap_or_default();
                self.read_some(segment, place, left, left)
            });
            let answers = join_all(asked).await;
            for (number, answer) in (begin..end).zip(answers) {
                let segment = &segments[number];
                let rest = self.fill_from(segment, answer?, &mut names, room).await?;
                let next = segments.get(number + 1);
                if rest.is_some() {
                    return Ok((names, rest));
                }
                if names.len() == room
                    && let Some(next) = next
                {
                    return Ok((names, Some(next.at(Place::default()))));
                }
            }
            begin = end;
            at_once = (at_once * 2).min(MOST_AT_ONCE);
        }
        Ok((names, None))
    }

    /// Adds names of a segment, beginning with `answer`, until there are `room`. Returns the position after them if the
    /// segment may have more.
    async fn fill_from(
        &self,
        segment: &Segment<'_>,
        mut answer: Answer,
        names: &mut Vec<String>,
        room: usize,
    ) -> Result<Option<Position>, ListingError> {
        loop {
            let left = room - names.len();
            let (mut place, asked) = (answer.place, answer.asked);
            if answer.names.len() > left {
                answer.names.truncate(left);
                place.last = answer.names.last().cloned().or(place.last);
                names.extend(answer.names);
                return Ok(Some(segment.at(place)));
            }
            names.extend(answer.names);
            let Some(token) = answer.next else {
                return Ok(None);
            };
            let place = Place {
                token: Some(token),
                ..Place::default()
            };
            let left = room - names.len();
            if left == 0 {
                return Ok(Some(segment.at(place)));
            }
            // Not all names were shown, so more are asked for each time.
            let most = (asked * 2).max(left);
            answer = self.read_some(segment, place, most, left).await?;
        }
    }

    /// Reads `left` names of the answer at `place`, and one more if there are more. The catalog is asked for at most
    /// `most` names unless the place says how many.
    async fn read_some(
        &self,
        segment: &Segment<'_>,
        mut place: Place,
        most: usize,
        left: usize,
    ) -> Result<Answer, ListingError> {
        let limit = place.limit.unwrap_or(most).clamp(1, MOST_ASKED);
        place.limit = Some(limit);
        let selection = Selection::new(place, limit, left);
        self.read(segment, Some(limit), selection).await
    }

    async fn read(
        &self,
        segment: &Segment<'_>,
        limit: Option<usize>,
        mut selection: Selection,
    ) -> Result<Answer, ListingError> {
        match self.select(segment, limit, &mut selection).await {
            Ok(next) => {
                let is_long = selection.len() >= MANY;
                let (names, place) = off_worker(is_long, move || selection.finish()).await?;
                Ok(Answer {
                    names,
                    place,
                    asked: limit.unwrap_or_default(),
                    next,
                })
            }
            Err(error) => {
                // Freeing many names takes long, too.
                off_worker(selection.len() >= MANY, move || drop(selection)).await?;
                Err(error)
            }
        }
    }

    /// Reads one answer into `selection`. Returns the token of the next one.
    async fn select(
        &self,
        segment: &Segment<'_>,
        limit: Option<usize>,
        selection: &mut Selection,
    ) -> Result<Option<String>, ListingError> {
        let (mount, token) = (segment.mount, selection.token());
        let stream = NameStream::open(
            self.catalogs,
            mount,
            &segment.ask,
            token,
            limit,
            &self.budget,
        );
        let mut stream = match stream.await {
            // The namespace exists nevertheless: a mount is below it.
            Err(ListingError::Refused(answer)) if segment.may_lack && lacks_namespace(&answer) => {
                return Ok(None);
            }
            other => other?,
        };
        while let Some(listed) = stream.next().await? {
            let hidden = self.spelling.hidden().ok_or(ListingError::Changed)?;
            let count = listed.len();
            let spell = |listed| self.spelling.spell(segment, &hidden, listed);
            let shown = in_steps(listed, spell).await?;
            let before = selection.bytes();
            selection.add(count, shown);
            if !self.budget.keep(before, selection.bytes()) {
                return Err(too_much(mount));
            }
        }
        stream.finish(selection.token())
    }

    /// Returns all names of all segments.
    async fn everything(&self, segments: &[Segment<'_>]) -> Result<Vec<String>, ListingError> {
        let listed = segments.iter().map(|segment| async move {
            let read = tokio::time::timeout(TIME, self.everything_of(segment)).await;
            read.unwrap_or_else(|_| Err(trouble(segment.mount, "did not list everything in time")))
        });
        let listed: Vec<Result<Vec<String>, ListingError>> = join_all(listed).await;
        let count: usize = listed.iter().flatten().map(Vec::len).sum();
        off_worker(count >= MANY, move || {
            let mut all = Vec::new();
            for names in listed {
                all.extend(names?);
            }
            Ok(all)
        })
        .await?
    }

    async fn everything_of(&self, segment: &Segment<'_>) -> Result<Vec<String>, ListingError> {
        let mut all = Vec::new();
        let mut token = None;
        loop {
            let selection = Selection::everything(token);
            let answer = self.read(segment, None, selection).await?;
            all.extend(answer.names);
            token = answer.next;
            if token.is_none() {
                return Ok(all);
            }
        }
    }
}

impl Segment<'_> {
    fn at(&self, place: Place) -> Position {
        Position {
            segment: self.key.clone(),
            place,
        }
    }
}
