//! The keys of the issuers.
//!
//! Keys are fetched at start, refreshed in the background, and fetched again when a token names one that is not
//! known. A failed fetch never removes keys. A key that its issuer no longer publishes is retired, and tokens that
//! were verified with it are no longer accepted.

mod clock;
mod https_client;
mod issuer;
mod pace;
mod set;
mod source;

use std::path::Path;
use std::sync::Arc;

use futures_util::future::join_all;

use crate::config;
use crate::error::BoxError;
use crate::metrics;

pub use clock::{Clock, SystemClock};
pub use issuer::{FetchTrouble, Issuer, KeySearch, PendingFetch};
pub use set::{KeyMatch, KeySet};

/// The keys of every configured issuer.
pub struct Keys {
    issuers: Vec<Arc<Issuer>>,
}

impl Keys {
    /// Creates the issuers without keys: nothing is fetched before [`Keys::keep_fresh`].
    ///
    /// # Errors
    /// An issuer's `ca` cannot be read, or holds no certificate.
    pub fn new(
        auth: &config::Auth,
        clock: &Arc<dyn Clock>,
        metrics: &metrics::Auth,
    ) -> Result<Self, BoxError> {
        let none = Self {
            issuers: Vec::new(),
        };
        none.succeeded(auth, clock, metrics, |_| true)
    }

    /// Creates the issuers of another configuration. An issuer that has not changed, with the files that it names,
    /// is taken over as it is. A changed one whose keys have the same source starts with the known keys. `same` is
    /// true for a file that has not changed.
    ///
    /// # Errors
    /// The errors of [`Keys::new`].
    pub fn succeeded(
        &self,
        auth: &config::Auth,
        clock: &Arc<dyn Clock>,
        metrics: &metrics::Auth,
        same: impl Fn(&Path) -> bool,
    ) -> Result<Self, BoxError> {
        let issuers = auth.issuers.iter().map(|wanted| {
            let old = self
                .issuers
                .iter()
                .find(|old| old.config().issuer == wanted.issuer);
            if let Some(old) = old
                && old.config() == wanted
                && wanted.keys.ca.as_deref().is_none_or(&same)
            {
                return Ok(Arc::clone(old));
            }
            let issuer = Issuer::new(wanted, Arc::clone(clock), metrics)?;
            if let Some(old) = old {
                issuer.inherit(old);
            }
            Ok(Arc::new(issuer))
        });
        Ok(Self {
            issuers: issuers.collect::<Result<_, BoxError>>()?,
        })
    }

    /// True if both have the same issuer objects, and not only issuers of the same names.
    pub fn are(&self, others: &Self) -> bool {
        self.issuers.len() == others.issuers.len()
            && self.issuers.iter().all(|issuer| others.has(issuer))
    }

    /// True if this very issuer object is one of them.
    pub fn has(&self, issuer: &Arc<Issuer>) -> bool {
        self.issuers.iter().any(|known| Arc::ptr_eq(known, issuer))
    }

    /// Fetches the keys, and refreshes them as long as it is polled. Needs a tokio runtime.
    pub async fn keep_fresh(&self) {
        let issuers = self.issuers.iter();
        join_all(issuers.map(|issuer| Issuer::keep_fresh(Arc::downgrade(issuer)))).await;
    }

    /// Returns the issuers whose keys have not come yet.
    pub fn missing(&self) -> impl Iterator<Item = &str> {
        let without = self.issuers.iter().filter(|issuer| !issuer.has_keys());
        without.map(|issuer| issuer.policy().issuer())
    }

    /// The issuers, as configured.
    pub fn issuers(&self) -> &[Arc<Issuer>] {
        &self.issuers
    }
}
