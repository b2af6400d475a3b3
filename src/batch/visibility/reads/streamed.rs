//! The body of a long `version/list`: filtered while it streams, with at most one piece of it in memory.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http_body::{Body as _, Frame, SizeHint};

use crate::batch::visibility::filter::{Tally, Verdict};
use crate::batch::visibility::list_filter::{ListFilter, ListView, Unlistable};
use crate::batch::visibility::names::{Names, NamesEpoch};
use crate::batch::visibility::{ListCut, ListWatch};
use crate::body::Body;
use crate::error::BoxError;

/// The most bytes that are filtered at a time. It takes about 0.2 ms.
const STEP: usize = 64 << 10;
/// The number of steps without a byte to show after which other requests of the worker run.
const STEPS: usize = 8;
/// The length up to which the text before the first visible version is held, in bytes.
const HEAD: usize = 64 << 10;

/// The body of a list.
pub(super) struct StreamedList {
    source: Body,
    /// The bytes that have arrived and are not filtered.
    arrived: Bytes,
    filter: ListFilter,
    watch: ListWatch,
    names: (Names, NamesEpoch),
    limit: Option<u64>,
    asked: Option<u64>,
    /// The numbers of its versions, once it is over.
    tally: Option<Tally>,
    /// True if an empty list may be shown.
    may_be_empty: bool,
    /// The bytes to show.
    shown: BytesMut,
    is_failed: bool,
}

/// The reason why a list does not go on.
#[derive(Debug, thiserror::Error)]
pub(super) enum ListFailure {
    /// The catalog broke it off.
    #[error("the catalog broke its list off")]
    Lost(#[source] BoxError),
    /// The body cannot be filtered.
    #[error(transparent)]
    Unreadable(Unlistable),
    /// Batches changed the table meanwhile. It can be asked for again.
    #[error(transparent)]
    Outdated(#[from] Outdated),
}

/// A change by a batch with which a list cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Outdated {
    #[error(transparent)]
    Cut(#[from] ListCut),
    #[error("a batch hides versions that were listed already; ask again")]
    Overtaken,
    #[error("a batch gave or took the name of the table while its versions were listed; ask again")]
    Renamed,
    #[error("batches hide so much of the page that others may be missing; ask again")]
    Short,
}

impl StreamedList {
    /// Creates the body of an answer that begins with `first`. `names` are those that batches hide, with the moment
    /// before the request; `asked` is the limit that was sent to the catalog.
    pub(super) fn new(
        first: Bytes,
        source: Body,
        watch: ListWatch,
        names: (Names, NamesEpoch),
        limit: Option<u64>,
        asked: Option<u64>,
    ) -> Self {
        Self {
            source,
            arrived: first,
            filter: ListFilter::new(None),
            watch,
            names,
            limit,
            asked,
            tally: None,
            may_be_empty: false,
            shown: BytesMut::new(),
            is_failed: false,
        }
    }

    /// True if something is hidden from the list now. The list then shows no more versions than the client's limit.
    pub(super) fn hides_something(&mut self) -> Result<bool, Outdated> {
        let hides = !self.view()?.is_all();
        if hides {
            self.filter = ListFilter::new(self.limit);
        }
        Ok(hides)
    }

    /// Reads to the end, and shows nothing.
    pub(super) async fn read_to_end(&mut self) -> Result<(), ListFailure> {
        self.read_until(|list| {
            list.shown.clear();
            false
        })
        .await
    }

    /// Reads until there is something to show. Returns true at the end of the list.
    pub(super) async fn read_to_visible(
        &mut self,
        may_be_empty: bool,
    ) -> Result<bool, ListFailure> {
        self.may_be_empty = may_be_empty;
        self.read_until(|list| list.filter.shows_something() || list.shown.len() > HEAD)
            .await?;
        Ok(self.tally.is_some())
    }

    /// The decision on the page, once it is over.
    pub(super) fn verdict(&self) -> Verdict {
        let tally = self.tally.as_ref();
        tally.map_or(Verdict::Untouched, |tally| {
            tally.verdict(self.limit, self.asked)
        })
    }

    async fn read_until(
        &mut self,
        mut is_enough: impl FnMut(&mut Self) -> bool,
    ) -> Result<(), ListFailure> {
        let mut steps = 0;
        while self.tally.is_none() && !is_enough(self) {
            poll_fn(|cx| self.poll_step(cx)).await?;
            steps += 1;
            if steps % STEPS == 0 {
                tokio::task::yield_now().await;
            }
        }
        is_enough(self);
        Ok(())
    }

    /// Filters the next piece of the answer, once it is there.
    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ListFailure>> {
        if self.arrived.is_empty() {
            let frame = if self.source.is_end_stream() {
                None
            } else {
                ready!(Pin::new(&mut self.source).poll_frame(cx))
            };
            match frame {
                Some(frame) => {
                    let frame = frame.map_err(ListFailure::Lost)?;
                    self.arrived = frame.into_data().unwrap_or_default();
                }
                None => return Poll::Ready(self.finish()),
            }
        }
        let piece = self.arrived.split_to(self.arrived.len().min(STEP));
        Poll::Ready(self.filter(&piece))
    }

    fn filter(&mut self, piece: &[u8]) -> Result<(), ListFailure> {
        self.check_name()?;
        let view = self.watch.view().map_err(Outdated::Cut)?;
        let pushed = self.filter.push(piece, view, &mut self.shown);
        pushed.map_err(ListFailure::from)
    }

    fn finish(&mut self) -> Result<(), ListFailure> {
        self.check_name()?;
        let view = self.watch.view().map_err(Outdated::Cut)?;
        let tally = self.filter.finish(view, &mut self.shown)?;
        self.tally = Some(tally.clone());
        Ok(())
    }

    fn view(&mut self) -> Result<&ListView, Outdated> {
        Ok(self.watch.view()?)
    }

    /// Checks that no batch gave the name of the table to another one, or took it.
    fn check_name(&self) -> Result<(), Outdated> {
        let (names, since) = &self.names;
        let checked = names.check(*since, || self.watch.table().clone());
        checked.map_err(|_| Outdated::Renamed)
    }

    /// Checks that a list whose beginning the client has may end as it does.
    fn check_end(&self) -> Result<(), Outdated> {
        match self.verdict() {
            Verdict::Untouched | Verdict::Shown => Ok(()),
            Verdict::NothingVisible if self.may_be_empty => Ok(()),
            _ => Err(Outdated::Short),
        }
    }
}

impl From<Unlistable> for ListFailure {
    fn from(reason: Unlistable) -> Self {
        match reason {
            Unlistable::NotAList => Self::Unreadable(reason),
            Unlistable::Overtaken => Self::Outdated(Outdated::Overtaken),
        }
    }
}

impl http_body::Body for StreamedList {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        for _ in 0..STEPS {
            if this.is_failed {
                return Poll::Ready(None);
            }
            if this.tally.is_some()
                && let Err(outdated) = this.check_end()
            {
                return Poll::Ready(this.fail(outdated.into()));
            }
            if !this.shown.is_empty() {
                let shown = this.shown.split().freeze();
                return Poll::Ready(Some(Ok(Frame::data(shown))));
            }
            if this.tally.is_some() {
                return Poll::Ready(None);
            }
            if let Err(failure) = ready!(this.poll_step(cx)) {
                return Poll::Ready(this.fail(failure));
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        self.is_failed || self.tally.is_some() && self.shown.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

impl StreamedList {
    /// Ends the body with an error, and the catalog's answer with it.
    fn fail(&mut self, failure: ListFailure) -> Option<Result<Frame<Bytes>, BoxError>> {
        self.is_failed = true;
        self.source = Body::empty();
        self.shown.clear();
        Some(Err(failure.into()))
    }
}
