//! Reads a catalog's whole listing, page by page, within limits.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::StatusCode;
use serde::Deserialize;

use super::Catalogs;
use crate::backend::{InternalAnswer, InternalRequest};
use crate::error::Error;
use crate::protocol::operation::Operation;
use crate::route::Mount;

/// The longest time in which one catalog must have listed everything.
const TIME: Duration = Duration::from_secs(60);

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
        let mut page = ask.clone();
        page.query
            .extend(token.iter().map(|token| ("page_token", token.clone())));
        let answer = catalogs
            .ask(mount.backend, page)
            .await
            .map_err(|failure| ListingError::Error(failure.into_error(&mount.backend_name)))?;
        if answer.status != StatusCode::OK {
            return Err(ListingError::Refused(Box::new(answer)));
        }
        let (names, next) = read(&answer, ask.operation)
            .ok_or_else(|| trouble(mount, "gave an answer that is not a listing"))?;
        if !budget.take(names.len(), answer.body.len()) {
            return Err(trouble(mount, "lists more than the gateway can merge"));
        }
        all.extend(names);
        let next = next.filter(|next| !next.is_empty());
        match next {
            None => return Ok(all),
            Some(_) if next == token => {
                return Err(trouble(mount, "lists the same page over and over"));
            }
            Some(_) => token = next,
        }
    }
}

fn read(answer: &InternalAnswer, operation: Operation) -> Option<(Vec<String>, Option<String>)> {
    let listed: ListedPage = serde_json::from_slice(&answer.body).ok()?;
    let names = match operation {
        Operation::ListNamespaces => listed.namespaces,
        _ => listed.tables,
    };
    Some((names?, listed.page_token))
}

fn trouble(mount: &Mount, what: &str) -> ListingError {
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
