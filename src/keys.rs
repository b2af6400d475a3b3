//! The issuers' keys: fetched at start, kept fresh in the background, looked for again when a token names one
//! that is not known.
//!
//! A failed fetch never takes keys away; a key that an issuer no longer publishes is retired, and what was
//! verified with it is believed no more.

mod clock;
mod fetch;
mod issuer;
mod pace;
mod set;
mod source;

use std::sync::Arc;

use tokio::task::JoinHandle;

use crate::config;
use crate::error::BoxError;
use crate::metrics;

pub use clock::{Clock, SystemClock};
pub use issuer::{Issuer, Search, Wait};
pub use set::{Found, KeySet};

/// The keys of every configured issuer.
pub struct Keys {
    issuers: Vec<Arc<Issuer>>,
}

/// Keeps the keys fresh while it lives.
pub struct Refresh(Vec<JoinHandle<()>>);

impl Keys {
    /// No keys yet: nothing is fetched before [`Keys::start`].
    ///
    /// # Errors
    /// An issuer's `ca` that cannot be read, or holds no certificate.
    pub fn new(
        auth: &config::Auth,
        clock: &Arc<dyn Clock>,
        metrics: &metrics::Auth,
    ) -> Result<Self, BoxError> {
        let issuers = auth.issuers.iter().map(|issuer| {
            let issuer = Issuer::new(issuer, Arc::clone(clock), metrics)?;
            Ok(Arc::new(issuer))
        });
        Ok(Self {
            issuers: issuers.collect::<Result<_, BoxError>>()?,
        })
    }

    /// Begins to fetch, and goes on until the answer is dropped. Needs a running tokio runtime.
    #[must_use]
    pub fn start(&self) -> Refresh {
        let loops = self.issuers.iter().map(|issuer| {
            let issuer = Arc::clone(issuer);
            tokio::spawn(async move { issuer.keep_fresh().await })
        });
        Refresh(loops.collect())
    }

    /// Whether every issuer has keys.
    pub fn ready(&self) -> bool {
        self.issuers.iter().all(|issuer| issuer.has_keys())
    }

    /// The issuers, as configured.
    pub fn issuers(&self) -> &[Arc<Issuer>] {
        &self.issuers
    }
}

impl Drop for Refresh {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}
