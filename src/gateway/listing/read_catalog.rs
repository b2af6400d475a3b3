//! Reads a catalog's listing, page by page, within limits, and without keeping a worker for long.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::StatusCode;
use serde::Deserialize;

use super::Catalogs;
use crate::backend::{InternalAnswer, InternalRequest};
use crate::error::Error;
use crate::protocol::operation::Operation;
use crate::route::Mount;

/// The longest time in which one catalog must have listed everything, and in which a page must be complete.
pub(super) const TIME: Duration = Duration::from_secs(60);
/// The size from which on an answer is parsed off the worker, in bytes. It takes about 0.3 ms.
const LARGE: usize = 64 << 10;
/// The number of names that are looked at before other requests of the worker run.
const STEP: usize = 512;

/// The remaining pages, names and bytes that one listing may read, over all catalogs.
#[derive(Debug)]
pub(super) struct Budget {
    pages: AtomicUsize,
    names: AtomicUsize,
    bytes: AtomicUsize,
}

impl Budget {
    pub(super) fn new() -> Self {
        Self {
            pages: AtomicUsize::new(1000),
            names: AtomicUsize::new(1_000_000),
            bytes: AtomicUsize::new(64 << 20),
        }
    }

    /// Takes one page of this size from the budget. Returns false if the budget is exhausted.
    fn take(&self, names: usize, bytes: usize) -> bool {
        let take = |left: &AtomicUsize, some: usize| {
            left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(some)
            })
            .is_ok()
        };
        take(&self.pages, 1) && take(&self.names, names) && take(&self.bytes, bytes)
    }
}

/// The reason for which there is no listing.
#[derive(Debug)]
pub(super) enum ListingError {
    /// An error of the gateway.
    Error(Error),
    /// The catalog's refusal, which is passed on as the answer.
    Refused(Box<InternalAnswer>),
}

impl From<Error> for ListingError {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// One page of a catalog's listing. The contract names the array after its content.
#[derive(Deserialize)]
struct ListedPage {
    namespaces: Option<Vec<String>>,
    tables: Option<Vec<String>>,
    page_token: Option<String>,
}

/// Returns all names that the catalog of `mount` lists in answer to `ask`, following its page
/// tokens.
pub(super) async fn everything<C: Catalogs + ?Sized>(
    catalogs: &C,
    mount: &Mount,
    ask: InternalRequest,
    budget: &Budget,
) -> Result<Vec<String>, ListingError> {
    tokio::time::timeout(TIME, pages(catalogs, mount, ask, budget))
        .await
        .unwrap_or_else(|_| Err(trouble(mount, "did not list everything in time")))
}

async fn pages<C: Catalogs + ?Sized>(
    catalogs: &C,
    mount: &Mount,
    ask: InternalRequest,
    budget: &Budget,
) -> Result<Vec<String>, ListingError> {
    let mut all = Vec::new();
    let mut token: Option<String> = None;
    loop {
        let (names, next) = one_page(catalogs, mount, &ask, token.as_deref(), None, budget).await?;
        all.extend(names);
        match next {
            None => return Ok(all),
            next => token = next,
        }
    }
}

/// Returns the names of one page of a catalog's listing, and the token of the next page.
pub(super) async fn one_page<C: Catalogs + ?Sized>(
    catalogs: &C,
    mount: &Mount,
    ask: &InternalRequest,
    token: Option<&str>,
    limit: Option<usize>,
    budget: &Budget,
) -> Result<(Vec<String>, Option<String>), ListingError> {
    let mut page = ask.clone();
    page.query
        .extend(limit.map(|limit| ("limit", limit.to_string())));
    page.query
        .extend(token.map(|token| ("page_token", token.to_owned())));
    let answer = catalogs
        .ask(mount.backend, page)
        .await
        .map_err(|failure| ListingError::Error(failure.into_error(&mount.backend_name)))?;
    if answer.status != StatusCode::OK {
        return Err(ListingError::Refused(Box::new(answer)));
    }
    let (operation, bytes) = (ask.operation, answer.body.len());
    let listed = off_worker(bytes >= LARGE, move || read(&answer.body, operation)).await?;
    let (names, next) =
        listed.ok_or_else(|| trouble(mount, "gave an answer that is not a listing"))?;
    if !budget.take(names.len(), bytes) {
        return Err(trouble(mount, "lists more than the gateway can merge"));
    }
    let next = next.filter(|next| !next.is_empty());
    if next.is_some() && next.as_deref() == token {
        return Err(trouble(mount, "lists the same page over and over"));
    }
    Ok((names, next))
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

fn read(body: &[u8], operation: Operation) -> Option<(Vec<String>, Option<String>)> {
    let listed: ListedPage = serde_json::from_slice(body).ok()?;
    let names = match operation {
        Operation::ListNamespaces => listed.namespaces,
        _ => listed.tables,
    };
    Some((names?, listed.page_token))
}

pub(super) fn trouble(mount: &Mount, what: &str) -> ListingError {
    let message = format!("backend `{}` {what}", mount.backend_name);
    ListingError::Error(Error::unavailable(message))
}

#[cfg(test)]
mod tests {
    use super::Budget;

    #[test]
    fn a_listing_ends_at_its_bounds() {
        let names = Budget::new();
        assert!(names.take(999_999, 1));
        assert!(names.take(1, 1));
        assert!(!names.take(1, 1));
        let bytes = Budget::new();
        assert!(bytes.take(1, 64 << 20));
        assert!(!bytes.take(1, 1));
        let pages = Budget::new();
        assert!((0..1000).all(|_| pages.take(0, 0)));
        assert!(!pages.take(0, 0));
    }
}
