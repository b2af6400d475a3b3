//! Reads the names of a catalog's listing as they arrive, within limits, and without keeping a worker for long.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;

use super::Catalogs;
use crate::backend::{AnswerStream, Failure, InternalAnswer, InternalRequest};
use crate::error::Error;
use crate::protocol::name_scanner::{NameScanner, NotAListing};
use crate::route::Mount;

/// The longest time in which one catalog must have listed everything, and in which a page must be complete.
pub(super) const TIME: Duration = Duration::from_secs(60);
/// The bytes of an answer that are read before other requests of the worker run. They take about 0.1 ms, and as a rule
/// have as many names as [`STEP`].
const PIECE: usize = 8 << 10;
/// The bytes that reading a frame of an answer counts for at least, because empty ones take time, too.
const FRAME: usize = 64;
/// The number of names that are looked at before other requests of the worker run.
const STEP: usize = 512;
/// The number of names that are taken from an answer together, because finding those that batches hide costs the same for
/// one name and for many.
const GROUP: usize = 4096;

/// The remaining pages and bytes that one listing may read, and bytes of names that it may keep, over all catalogs.
#[derive(Debug)]
pub(super) struct Budget {
    pages: AtomicUsize,
    read: AtomicUsize,
    kept: AtomicUsize,
}

impl Budget {
    pub(super) fn new() -> Self {
        Self::of(1000, 1 << 30, 64 << 20)
    }

    pub(super) fn of(pages: usize, read: usize, kept: usize) -> Self {
        Self {
            pages: AtomicUsize::new(pages),
            read: AtomicUsize::new(read),
            kept: AtomicUsize::new(kept),
        }
    }

    /// Adds the names that a selection has now, `after`, to what is kept, instead of those that it had `before`. Returns
    /// false if they are too many bytes.
    pub(super) fn keep(&self, before: usize, after: usize) -> bool {
        if after <= before {
            self.kept.fetch_add(before - after, Ordering::Relaxed);
            return true;
        }
        take(&self.kept, after - before)
    }
}

/// Takes `some` from what is left. Returns false if it is not enough.
fn take(left: &AtomicUsize, some: usize) -> bool {
    let taken = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
        left.checked_sub(some)
    });
    taken.is_ok()
}

/// The reason for which there is no listing.
#[derive(Debug)]
pub(super) enum ListingError {
    /// An error of the gateway.
    Error(Error),
    /// The catalog's refusal, which is passed on as the answer.
    Refused(Box<InternalAnswer>),
    /// Batches changed names while catalogs listed them. The catalogs must be asked again.
    Changed,
}

impl From<Error> for ListingError {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// The names of one page of a catalog's listing.
pub(super) struct NameStream<'a> {
    mount: &'a Mount,
    answer: AnswerStream<'a>,
    /// The bytes that have arrived and are not read.
    arrived: Bytes,
    scanner: NameScanner,
    is_over: bool,
    budget: &'a Budget,
    /// The bytes that were read since other requests of the worker ran.
    unpaused: usize,
}

impl<'a> NameStream<'a> {
    /// Asks the catalog of `mount` for a page.
    pub(super) async fn open<C: Catalogs + ?Sized>(
        catalogs: &'a C,
        mount: &'a Mount,
        ask: &InternalRequest,
        token: Option<&str>,
        limit: Option<usize>,
        budget: &'a Budget,
    ) -> Result<Self, ListingError> {
        if !take(&budget.pages, 1) {
            return Err(too_much(mount));
        }
        let mut page = ask.clone();
        page.query
            .extend(limit.map(|limit| ("limit", limit.to_string())));
        page.query
            .extend(token.map(|token| ("page_token", token.to_owned())));
        let failed = |failure: Failure| failure.into_error(&mount.backend_name);
        let answer = catalogs.open_answer(mount.backend, page).await;
        let answer = answer.map_err(failed)?;
        // Any success lists names, which are not all for the caller.
        if !answer.status.is_success() {
            let refusal = answer.whole().await.map_err(failed)?;
            return Err(ListingError::Refused(Box::new(refusal)));
        }
        Ok(Self {
            mount,
            answer,
            arrived: Bytes::new(),
            scanner: NameScanner::new(ask.operation),
            is_over: false,
            budget,
            unpaused: 0,
        })
    }

    /// Returns the next names; `None` after the last ones, which can be none.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<String>>, ListingError> {
        if self.is_over {
            return Ok(None);
        }
        let mut names = Vec::new();
        while names.len() < GROUP {
            let Some(piece) = self.piece().await? else {
                self.is_over = true;
                break;
            };
            let read = self.scanner.push(&piece, &mut names);
            read.map_err(|NotAListing| no_listing(self.mount))?;
        }
        Ok(Some(names))
    }

    /// Returns the next bytes; `None` at the end of the answer.
    async fn piece(&mut self) -> Result<Option<Bytes>, ListingError> {
        while self.arrived.is_empty() {
            self.pause(FRAME).await;
            let arrived = self.answer.next().await;
            let arrived = arrived.map_err(|failure| failure.into_error(&self.mount.backend_name));
            let Some(arrived) = arrived? else {
                return Ok(None);
            };
            if !take(&self.budget.read, arrived.len()) {
                return Err(too_much(self.mount));
            }
            self.arrived = arrived;
        }
        let piece = self.arrived.split_to(self.arrived.len().min(PIECE));
        self.pause(piece.len()).await;
        Ok(Some(piece))
    }

    /// Ends the answer. Returns the token of the next page, which must not be that of this page.
    pub(super) fn finish(self, token: Option<&str>) -> Result<Option<String>, ListingError> {
        let next = self.scanner.finish();
        let next = next.map_err(|NotAListing| no_listing(self.mount))?;
        let next = next.filter(|next| !next.is_empty());
        if next.is_some() && next.as_deref() == token {
            return Err(trouble(self.mount, "lists the same page over and over"));
        }
        Ok(next)
    }

    /// Lets other requests of the worker run if `more` bytes are too many to be read before.
    async fn pause(&mut self, more: usize) {
        self.unpaused += more;
        if self.unpaused > PIECE {
            tokio::task::yield_now().await;
            self.unpaused = more;
        }
    }
}

/// Runs `work`, on another thread if `is_long`, because all requests of a worker wait for what runs on it.
pub(super) async fn off_worker<T: Send + 'static>(
    is_long: bool,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    if !is_long {
        return Ok(work());
    }
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| Error::unavailable("the listing was given up"))
}

/// Converts names in steps. Between two of them, other requests of the worker run.
pub(super) async fn in_steps(
    names: Vec<String>,
    each: impl Fn(Vec<String>) -> Result<Vec<String>, ListingError>,
) -> Result<Vec<String>, ListingError> {
    if names.len() <= STEP {
        return each(names);
    }
    let mut all = Vec::with_capacity(names.len());
    let mut rest = names.into_iter();
    while rest.len() > 0 {
        let step = rest.by_ref().take(STEP).collect();
        all.extend(each(step)?);
        tokio::task::yield_now().await;
    }
    Ok(all)
}

pub(super) fn trouble(mount: &Mount, what: &str) -> ListingError {
    let message = format!("backend `{}` {what}", mount.backend_name);
    ListingError::Error(Error::unavailable(message))
}

pub(super) fn too_much(mount: &Mount) -> ListingError {
    trouble(mount, "lists more than the gateway can merge")
}

fn no_listing(mount: &Mount) -> ListingError {
    trouble(mount, "gave an answer that is not a listing")
}
