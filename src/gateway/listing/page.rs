//! One page of a listing: as many names as the client wants, from as few catalogs as have them.
//!
//! A listing is a sequence of segments, one for each catalog. A page takes the names of the segments in their order, and
//! those of a segment in its catalog's order, with the catalog's own page tokens. So its cost does not depend on how
//! many names there are before or after it. A catalog that ignores `limit` is read to the end of its answer for each
//! page, and its names are sorted: nothing else says where the last page ended.

use std::collections::HashSet;

use futures_util::future::join_all;

use super::Catalogs;
use super::answers::lacks_namespace;
use super::read_catalog::{Budget, ListingError, TIME, everything, in_steps, off_worker, one_page};
use super::requested_page::MANY;
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
    pub(super) ask: InternalRequest,
    /// True if the catalog need not have the namespace that is listed.
    pub(super) may_lack: bool,
}

/// The part of a listing that [`page`] does not know.
pub(super) trait Spelling {
    /// Returns the tables that batches hide; `None` if names have changed since the page was begun.
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

/// One page of one catalog.
struct Answer {
    names: Vec<String>,
    /// The place of this page.
    place: Place,
    /// The token of the next one.
    next: Option<String>,
}

/// Returns the page of at most `limit` names that begins at `from`; `None` if names changed meanwhile.
pub(super) async fn page<C: Catalogs + ?Sized>(
    catalogs: &C,
    segments: &[Segment<'_>],
    from: Option<&Position>,
    limit: Option<usize>,
    spelling: &impl Spelling,
) -> Result<Option<Page>, ListingError> {
    let reading = fill(catalogs, segments, from, limit, spelling);
    let read = tokio::time::timeout(TIME, reading).await;
    read.unwrap_or_else(|_| {
        let message = "the catalogs did not list a page in time";
        Err(ListingError::Error(Error::unavailable(message)))
    })
}

async fn fill<C: Catalogs + ?Sized>(
    catalogs: &C,
    segments: &[Segment<'_>],
    from: Option<&Position>,
    limit: Option<usize>,
    spelling: &impl Spelling,
) -> Result<Option<Page>, ListingError> {
    let budget = Budget::new();
    let room = limit.unwrap_or(usize::MAX);
    let mut names: Vec<String> = Vec::new();
    // The segment of the position may be gone: then the page begins with the one that came after it.
    let mut begin = from.map_or(0, |from| {
        segments.partition_point(|segment| segment.key < from.segment)
    });
    let mut at_once = 1;
    while begin < segments.len() && room > 0 {
        let end = segments.len().min(begin + at_once);
        let asked = segments[begin..end].iter().map(|segment| {
            let place = from.filter(|from| from.segment == segment.key);
            let place = place.map(|from| from.place.clone()).unwrap_or_default();
            read(catalogs, segment, place, room - names.len(), &budget)
        });
        let answers = join_all(asked).await;
        for (number, answer) in (begin..end).zip(answers) {
            let segment = &segments[number];
            let mut answer = answer?;
            loop {
                let Some(hidden) = spelling.hidden() else {
                    return Ok(None);
                };
                let each = |listed| spelling.spell(segment, &hidden, listed);
                let shown = in_steps(answer.names, each).await?;
                let (mut place, is_long) = (answer.place, shown.len() >= MANY);
                let asked = place.limit.unwrap_or_default();
                let left = place.clone();
                let mut shown = off_worker(is_long, move || left.skip(shown)).await?;
                if names.len() + shown.len() > room {
                    shown.truncate(room - names.len());
                    place.last = shown.last().cloned().or(place.last);
                    names.extend(shown);
                    return Ok(Some((names, Some(segment.at(place)))));
                }
                names.extend(shown);
                let Some(token) = answer.next else {
                    break;
                };
                let place = Place {
                    token: Some(token),
                    ..Place::default()
                };
                if names.len() == room {
                    return Ok(Some((names, Some(segment.at(place)))));
                }
                // Not all names were shown, so more are asked for each time.
                let most = (asked * 2).max(room - names.len());
                answer = read(catalogs, segment, place, most, &budget).await?;
            }
            if names.len() == room
                && let Some(next) = segments.get(number + 1)
            {
                return Ok(Some((names, Some(next.at(Place::default())))));
            }
        }
        begin = end;
        at_once = (at_once * 2).min(MOST_AT_ONCE);
    }
    Ok(Some((names, None)))
}

/// Reads the page at `place`, with at most `most` names unless the place says how many.
async fn read<C: Catalogs + ?Sized>(
    catalogs: &C,
    segment: &Segment<'_>,
    mut place: Place,
    most: usize,
    budget: &Budget,
) -> Result<Answer, ListingError> {
    let limit = place.limit.unwrap_or(most).clamp(1, MOST_ASKED);
    place.limit = Some(limit);
    let token = place.token.as_deref();
    let read = one_page(
        catalogs,
        segment.mount,
        &segment.ask,
        token,
        Some(limit),
        budget,
    );
    let (names, next) = match read.await {
        // The namespace exists nevertheless: a mount is below it.
        Err(ListingError::Refused(answer)) if segment.may_lack && lacks_namespace(&answer) => {
            (Vec::new(), None)
        }
        other => other?,
    };
    place.is_sorted |= names.len() > limit;
    Ok(Answer { names, place, next })
}

impl Segment<'_> {
    /// Returns all names that the catalog lists.
    pub(super) async fn everything<C: Catalogs + ?Sized>(
        &self,
        catalogs: &C,
        budget: &Budget,
    ) -> Result<Vec<String>, ListingError> {
        match everything(catalogs, self.mount, self.ask.clone(), budget).await {
            Err(ListingError::Refused(answer)) if self.may_lack && lacks_namespace(&answer) => {
                Ok(Vec::new())
            }
            other => other,
        }
    }

    fn at(&self, place: Place) -> Position {
        Position {
            segment: self.key.clone(),
            place,
        }
    }
}

impl Place {
    /// Removes the names of the page up to this place. If the last one is gone, all of an unsorted page are given again:
    /// a name that comes twice does less harm than one that is missing.
    fn skip(&self, mut names: Vec<String>) -> Vec<String> {
        if self.is_sorted {
            names.sort_unstable();
        }
        let Some(last) = &self.last else {
            return names;
        };
        if self.is_sorted {
            let before = names.partition_point(|name| name <= last);
            names.drain(..before);
        } else if let Some(found) = names.iter().position(|name| name == last) {
            names.drain(..=found);
        }
        names
    }
}
