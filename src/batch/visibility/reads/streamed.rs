//! The filter of a long `version/list` that streams.

use bytes::BytesMut;

use crate::batch::visibility::ListWatch;
use crate::batch::visibility::filter::{Tally, Verdict};
use crate::batch::visibility::filtered_body::{Outdated, PieceFilter, StreamFailure};
use crate::batch::visibility::list_filter::{ListFilter, View as _};
use crate::batch::visibility::names::{Names, NamesEpoch};

/// The members of the answer that are lists.
const LISTS: &[&str] = &["versions"];

/// A list of versions, filtered by what is known when a piece has arrived.
pub(super) struct VersionPage {
    filter: ListFilter,
    watch: ListWatch,
    names: (Names, NamesEpoch),
    limit: Option<u64>,
    asked: Option<u64>,
    /// The numbers of its versions, once it is over.
    tally: Option<Tally>,
    /// True if an empty list may be shown.
    may_be_empty: bool,
}

impl VersionPage {
    /// Creates the filter. `names` are those that batches hide, with the moment before the request; `asked` is the limit
    /// that was sent to the catalog.
    pub(super) fn new(
        watch: ListWatch,
        names: (Names, NamesEpoch),
        limit: Option<u64>,
        asked: Option<u64>,
        may_be_empty: bool,
    ) -> Self {
        Self {
            filter: ListFilter::new(LISTS, None),
            watch,
            names,
            limit,
            asked,
            tally: None,
            may_be_empty,
        }
    }

    /// True if something is hidden from the list now. The list then shows no more versions than the client's limit.
    pub(super) fn hides_something(&mut self) -> Result<bool, Outdated> {
        let hides = !self.watch.view()?.is_all();
        if hides {
            self.filter = ListFilter::new(LISTS, self.limit);
        }
        Ok(hides)
    }

    /// The decision on the page, once it is over.
    pub(super) fn verdict(&self) -> Verdict {
        let tally = self.tally.as_ref();
        tally.map_or(Verdict::Untouched, |tally| {
            tally.verdict(self.limit, self.asked)
        })
    }

    /// Checks that no batch gave the name of the table to another one, or took it.
    fn check_name(&self) -> Result<(), Outdated> {
        let (names, since) = &self.names;
        let checked = names.check(*since, || self.watch.table().clone());
        checked.map_err(|_| Outdated::Renamed)
    }
}

impl PieceFilter for VersionPage {
    fn push(&mut self, piece: &[u8], out: &mut BytesMut) -> Result<(), StreamFailure> {
        self.check_name()?;
        let view = self.watch.view().map_err(Outdated::Cut)?;
        Ok(self.filter.push(piece, view, out)?)
    }

    fn finish(&mut self, out: &mut BytesMut) -> Result<(), StreamFailure> {
        self.check_name()?;
        let view = self.watch.view().map_err(Outdated::Cut)?;
        let tally = self.filter.finish(view, out)?;
        self.tally = Some(tally.clone());
        Ok(())
    }

    fn shows_something(&self) -> bool {
        self.filter.shows_something()
    }

    fn check_end(&self) -> Result<(), Outdated> {
        match self.verdict() {
            Verdict::Untouched | Verdict::Shown => Ok(()),
            Verdict::NothingVisible if self.may_be_empty => Ok(()),
            _ => Err(Outdated::Short),
        }
    }
}
