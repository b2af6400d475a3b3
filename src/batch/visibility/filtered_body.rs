//! A catalog's answer that is filtered while it streams, with at most one piece of it in memory.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt as _;

use crate::batch::visibility::ListCut;
use crate::batch::visibility::list_filter::Unlistable;
use crate::body::{Body, CollectError};
use crate::error::BoxError;
use crate::util::budget;

/// The most bytes that are filtered at a time. For versions it takes about 0.2 ms.
const STEP: usize = 64 << 10;
/// The bytes that could be passed on instead of filtering one. The turn of a task is eight steps, if it does nothing
/// else.
const COST: usize = 2;
/// The length up to which the text before the first visible element is held, in bytes.
const HEAD: usize = 64 << 10;

/// The filter of one answer. It decides by what batches hide at the moment of the call.
pub(super) trait PieceFilter: Send + Sync {
    /// Adds those of the next bytes to `out` that may be shown.
    ///
    /// # Errors
    ///
    /// The answer must not go on.
    fn push(&mut self, piece: &[u8], out: &mut BytesMut) -> Result<(), StreamFailure>;

    /// Ends the answer, and adds what was held back to `out`.
    ///
    /// # Errors
    ///
    /// The answer must not end like this.
    fn finish(&mut self, out: &mut BytesMut) -> Result<(), StreamFailure>;

    /// True once it is clear that the answer shows something.
    fn shows_something(&self) -> bool;

    /// Checks that an answer whose beginning the client has may end as it does.
    fn check_end(&self) -> Result<(), Outdated>;
}

/// The body of an answer.
pub(super) struct FilteredBody<F> {
    source: Body,
    /// The bytes that have arrived and are not filtered.
    arrived: Bytes,
    pub(super) filter: F,
    is_over: bool,
    /// The bytes to show.
    shown: BytesMut,
    is_failed: bool,
}

/// The reason why an answer does not go on.
#[derive(Debug, thiserror::Error)]
pub(super) enum StreamFailure {
    /// The catalog broke it off.
    #[error("the catalog broke its list off")]
    Lost(#[source] BoxError),
    /// The body cannot be filtered.
    #[error(transparent)]
    Unreadable(Unlistable),
    /// Batches changed what is listed. It can be asked for again.
    #[error(transparent)]
    Outdated(#[from] Outdated),
}

/// A change by a batch with which an answer cannot go on.
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
    #[error("a batch removed or renamed tables while they were listed; ask again")]
    NamesChanged,
}

/// The beginning of an answer.
pub(super) enum Beginning {
    Whole(Bytes),
    Long { first: Bytes, rest: Body },
}

impl Beginning {
    /// Reads an answer whole, or its beginning if it has more bytes than `most`.
    pub(super) async fn read(mut body: Body, most: usize) -> Result<Self, CollectError> {
        let mut first = Bytes::new();
        while !body.is_end_stream() {
            let Some(frame) = body.frame().await else {
                break;
            };
            let Ok(data) = frame.map_err(CollectError::Broken)?.into_data() else {
                continue;
            };
            first = if first.is_empty() {
                data
            } else {
                let mut both = BytesMut::from(first);
                both.extend_from_slice(&data);
                both.freeze()
            };
            if first.len() > most {
                return Ok(Self::Long { first, rest: body });
            }
        }
        Ok(Self::Whole(first))
    }
}

impl<F: PieceFilter> FilteredBody<F> {
    /// Creates the body of an answer that begins with `first`.
    pub(super) fn new(first: Bytes, source: Body, filter: F) -> Self {
        Self {
            source,
            arrived: first,
            filter,
            is_over: false,
            shown: BytesMut::new(),
            is_failed: false,
        }
    }

    /// Reads to the end, and shows nothing.
    pub(super) async fn read_to_end(&mut self) -> Result<(), StreamFailure> {
        self.read_until(|body| {
            body.shown.clear();
            false
        })
        .await
    }

    /// Reads until there is something to show. Returns true at the end of the answer.
    pub(super) async fn read_to_visible(&mut self) -> Result<bool, StreamFailure> {
        self.read_until(|body| body.filter.shows_something() || body.shown.len() > HEAD)
            .await?;
        Ok(self.is_over)
    }

    async fn read_until(
        &mut self,
        mut is_enough: impl FnMut(&mut Self) -> bool,
    ) -> Result<(), StreamFailure> {
        while !self.is_over && !is_enough(self) {
            poll_fn(|cx| self.poll_step(cx)).await?;
        }
        is_enough(self);
        Ok(())
    }

    /// Filters the next piece of the answer, once it is there and the turn of the task is not over.
    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamFailure>> {
        ready!(budget::poll_turn(cx));
        if self.arrived.is_empty() {
            let frame = if self.source.is_end_stream() {
                None
            } else {
                ready!(Pin::new(&mut self.source).poll_frame(cx))
            };
            match frame {
                Some(frame) => {
                    let frame = frame.map_err(StreamFailure::Lost)?;
                    self.arrived = frame.into_data().unwrap_or_default();
                }
                None => {
                    self.filter.finish(&mut self.shown)?;
                    self.is_over = true;
                    return Poll::Ready(Ok(()));
                }
            }
        }
        let piece = self.arrived.split_to(self.arrived.len().min(STEP));
        budget::charge(COST * piece.len());
        Poll::Ready(self.filter.push(&piece, &mut self.shown))
    }

    /// Ends the body with an error, and the catalog's answer with it.
    fn fail(&mut self, failure: StreamFailure) -> Option<Result<Frame<Bytes>, BoxError>> {
        self.is_failed = true;
        self.source = Body::empty();
        self.shown.clear();
        Some(Err(failure.into()))
    }
}

impl From<Unlistable> for StreamFailure {
    fn from(reason: Unlistable) -> Self {
        match reason {
            Unlistable::NotAList => Self::Unreadable(reason),
            Unlistable::Overtaken => Self::Outdated(Outdated::Overtaken),
        }
    }
}

impl<F: PieceFilter + Unpin> http_body::Body for FilteredBody<F> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        loop {
            if this.is_failed {
                return Poll::Ready(None);
            }
            if this.is_over
                && let Err(outdated) = this.filter.check_end()
            {
                return Poll::Ready(this.fail(outdated.into()));
            }
            if !this.shown.is_empty() {
                let shown = this.shown.split().freeze();
                return Poll::Ready(Some(Ok(Frame::data(shown))));
            }
            if this.is_over {
                return Poll::Ready(None);
            }
            if let Err(failure) = ready!(this.poll_step(cx)) {
                return Poll::Ready(this.fail(failure));
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.is_failed || self.is_over && self.shown.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

#[cfg(test)]
mod tests;
