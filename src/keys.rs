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

use futures_util::future::join_all;

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

impl Keys {
    /// No keys yet: nothing is fetched before [`Keys::keep_fresh`].
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

    /// Fetches the keys, and goes on as long as it is polled. Needs a tokio runtime.
    pub async fn keep_fresh(&self) {
        join_all(self.issuers.iter().map(Issuer::keep_fresh)).await;
    }

    /// The issuers whose keys have not come yet: while there are any, the gateway is not ready.
    pub fn missing(&self) -> impl Iterator<Item = &str> {
        let without = self.issuers.iter().filter(|issuer| !issuer.has_keys());
        without.map(|issuer| issuer.policy().issuer())
    }

    /// The issuers, as configured.
    pub fn issuers(&self) -> &[Arc<Issuer>] {
        &self.issuers
    }
}
