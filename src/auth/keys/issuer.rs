//! The keys of one issuer: finds the key for a token, runs at most one fetch at a time, and keeps the known keys in use,
//! without a limit of time, while fetches fail.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use arc_swap::{ArcSwapOption, Guard};
use bytes::Bytes;
use tokio::time::Instant;

use super::Clock;
use super::https_client::FetchedDocument;
use super::pace::{self, RefreshPolicy};
use super::set::{KeyMatch, KeySet};
use super::source::Source;
use crate::auth::token::{Header, Policy, Refusal, UnverifiedToken, VerifiedToken};
use crate::config;
use crate::error::BoxError;
use crate::error::cause::Causes;
use crate::metrics;
use crate::util::single_flight::{Ended, Running, SingleFlight};
use crate::util::sleep::sleep_while_owned;

const NO_KEY: &str = "the key set has no key that can verify a token";

/// An issuer whose tokens are accepted.
pub struct Issuer {
    config: config::Issuer,
    policy: Policy,
    source: Source,
    clock: Arc<dyn Clock>,
    /// The known keys; `None` until keys have come for the first time.
    keys: ArcSwapOption<KeySet>,
    /// The document that the known keys were read from.
    last: Mutex<Bytes>,
    fetches: SingleFlight<Fetches>,
    metrics: metrics::Issuer,
}

/// The result of a search for the key of a token.
pub enum KeySearch {
    /// The search is over, with or without keys.
    Over(KeyMatch),
    /// A fetch is running; search again when [`PendingFetch::over`] returns.
    Wait(PendingFetch),
}

/// A fetch that is running.
pub struct PendingFetch(Ended<Fetches>);

/// The fetches so far.
#[derive(Debug, Default)]
struct Fetches {
    policy: RefreshPolicy,
    /// The lifetime that the issuer gave the keys of the last fetch.
    age: Option<Duration>,
    /// Failures in a row.
    failures: u32,
    /// The error of the last fetch; `None` if it succeeded.
    error: Option<String>,
}

/// The failures of an issuer's fetches since the last one that succeeded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FetchTrouble {
    /// The number of failures in a row.
    pub failures: u32,
    /// The last error; `None` if there was none.
    pub error: Option<String>,
}

impl Issuer {
    pub(super) fn new(
        config: &config::Issuer,
        clock: Arc<dyn Clock>,
        metrics: &metrics::Auth,
    ) -> Result<Self, BoxError> {
        Ok(Self {
            config: config.clone(),
            policy: Policy::new(config),
            source: Source::new(config)?,
            clock,
            keys: ArcSwapOption::empty(),
            last: Mutex::default(),
            fetches: SingleFlight::default(),
            metrics: metrics.issuer(&config.issuer),
        })
    }

    /// Starts with the keys that `old` knows, if both have the same source.
    pub(super) fn inherit(&self, old: &Self) {
        if self.config.keys.source != old.config.keys.source {
            return;
        }
        let body = old.last.lock().unwrap_or_else(PoisonError::into_inner);
        if body.is_empty() {
            return;
        }
        // The document could be read before, so it can be read again; keys that fit no algorithm any more are left
        // out.
        let body = body.clone();
        let _ = self.take(FetchedDocument { body, age: None });
        self.metrics.inherit(&old.metrics);
    }

    /// True if the keys of the issuer are in a file.
    pub fn has_file(&self) -> bool {
        self.source.poll().is_some()
    }

    /// Checks whether the file of the issuer's keys can be used. Always succeeds for other sources, without reading
    /// them.
    ///
    /// # Errors
    /// The file cannot be read, is no key set, or has no key that could verify a token.
    pub async fn check_file(&self) -> Result<(), BoxError> {
        if !self.has_file() {
            return Ok(());
        }
        let body = self.source.fetch().await?.body;
        if KeySet::parse(&body, self.policy.algorithms(), |_, _| {})?.is_empty() {
            Err("has no key that fits one of the issuer's `algorithms`; add its keys' algorithm there, or write the path of a file with others".into())
        } else {
            Ok(())
        }
    }

    /// The configuration of the issuer.
    pub fn config(&self) -> &config::Issuer {
        &self.config
    }

    /// The rules for the issuer's tokens.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// True if there is a key to verify with.
    pub fn has_keys(&self) -> bool {
        self.known().as_deref().is_some_and(|keys| !keys.is_empty())
    }

    /// The failures since the last fetch that succeeded.
    pub fn trouble(&self) -> FetchTrouble {
        let fetches = self.fetches.lock();
        FetchTrouble {
            failures: fetches.failures,
            error: fetches.error.clone(),
        }
    }

    /// The time since the keys were last fetched; `None` if there are none.
    pub fn keys_age(&self) -> Option<Duration> {
        self.metrics.age()
    }

    /// The known keys; `None` until keys have come for the first time.
    pub fn known(&self) -> Guard<Option<Arc<KeySet>>> {
        self.keys.load()
    }

    /// Searches the keys for a token's header. An unknown `kid` causes a fetch, but at most once in ten seconds.
    pub fn search(self: &Arc<Self>, header: &Header) -> KeySearch {
        match self.find(header) {
            KeyMatch::Unknown => {}
            found => return KeySearch::Over(found),
        }
        let mut fetches = self.fetches.lock();
        // The key may have come in the meantime.
        match self.find(header) {
            KeyMatch::Unknown => {}
            found => return KeySearch::Over(found),
        }
        if !fetches.is_running() && !fetches.policy.may_search(self.clock.steady()) {
            return KeySearch::Over(KeyMatch::Unknown);
        }
        self.begin(fetches.start());
        KeySearch::Wait(PendingFetch(fetches.ended()))
    }

    /// Finds the known keys for a token's header, without a fetch.
    pub fn find(&self, header: &Header) -> KeyMatch {
        match &*self.known() {
            Some(keys) => keys.find(header),
            None => KeyMatch::Unknown,
        }
    }

    /// Refuses a token that no key of the issuer could make acceptable.
    ///
    /// # Errors
    /// The issuer does not sign with the token's algorithm.
    pub fn accepts(&self, token: &UnverifiedToken<'_>) -> Result<(), Refusal> {
        if self.policy.algorithms().contains(&token.header().alg) {
            Ok(())
        } else {
            Err(Refusal::Algorithm)
        }
    }

    /// Verifies a token with the keys that were found for its header, as [`Policy::judge`] does.
    ///
    /// # Errors
    /// The errors of [`Policy::judge`], or there is no such key.
    pub fn judge(
        &self,
        token: UnverifiedToken<'_>,
        found: KeyMatch,
        now: Duration,
        certificate: Option<&str>,
    ) -> Result<VerifiedToken, Refusal> {
        let keys = match found {
            KeyMatch::Keys(keys) => keys,
            KeyMatch::Unknown if self.known().is_none() => return Err(Refusal::NoKeys),
            KeyMatch::Unknown | KeyMatch::Unfit => return Err(Refusal::UnknownKey),
        };
        self.policy.judge(token, keys, now, certificate)
    }

    /// Fetches the keys once, outside of a running gateway.
    ///
    /// # Errors
    /// The keys cannot be fetched, or none of them can verify a token.
    pub async fn fetch_once(&self) -> Result<(), BoxError> {
        self.fetch_and_take().await.map(drop)
    }

    /// Fetches the keys now, or waits for the fetch that is running. Returns the time to wait before the next one.
    pub async fn refresh(self: &Arc<Self>) -> Duration {
        let ended = {
            let mut fetches = self.fetches.lock();
            self.begin(fetches.start());
            fetches.ended()
        };
        ended.wait().await;
        let wait = || {
            let fetches = self.fetches.lock();
            pace::wait(fetches.age, fetches.failures)
        };
        self.source.poll().unwrap_or_else(wait)
    }

    /// Fetches the keys again and again, as long as the issuer is in use elsewhere.
    pub async fn keep_fresh(object: Weak<Self>) {
        while let Some(issuer) = object.upgrade() {
            let wait = issuer.refresh().await;
            drop(issuer);
            sleep_while_owned(&object, Instant::now() + wait).await;
        }
    }

    /// Runs the fetch in a task of its own: a client that disconnects must not stop what others wait for.
    fn begin(self: &Arc<Self>, running: Option<Running<Fetches>>) {
        let Some(running) = running else {
            return;
        };
        let issuer = Arc::clone(self);
        tokio::spawn(async move {
            let _running = running;
            issuer.fetch().await;
        });
    }

    async fn fetch_and_take(&self) -> Result<Option<Duration>, BoxError> {
        let fetched = match tokio::time::timeout(pace::FETCH_TIMEOUT, self.source.fetch()).await {
            Ok(fetched) => fetched,
            Err(_) => Err("no answer in time".into()),
        };
        let age = self.take(fetched?)?;
        // An issuer that publishes no usable key is retried as soon as one that is down.
        if self.has_keys() {
            Ok(age)
        } else {
            Err(NO_KEY.into())
        }
    }

    async fn fetch(&self) {
        let taken = self.fetch_and_take().await;
        self.metrics.refreshed(taken.is_ok());
        if !self.has_keys() {
            self.metrics.without_keys();
        }
        let mut fetches = self.fetches.lock();
        let failures = fetches.failures;
        (fetches.age, fetches.failures) = match &taken {
            Ok(age) => (*age, 0),
            Err(_) => (None, failures.saturating_add(1)),
        };
        let error = taken.as_ref().err();
        fetches.error = error.map(|error| Causes(&**error).to_string());
        drop(fetches);
        if let Err(error) = taken {
            let stays = if self.has_keys() {
                "the old keys stay in use"
            } else {
                "there are none, so its tokens are refused"
            };
            tracing::warn!(
                issuer = self.policy.issuer(),
                cause = %Causes(&*error),
                "cannot fetch the issuer's keys: {stays}"
            );
        }
    }

    fn take(&self, fetched: FetchedDocument) -> Result<Option<Duration>, BoxError> {
        let FetchedDocument { body, age } = fetched;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if *last == body {
            return Ok(age);
        }
        let issuer = self.policy.issuer();
        let keys = KeySet::parse(&body, self.policy.algorithms(), |kid, error| {
            if error.is_mistake() {
                tracing::warn!(issuer, kid, cause = %error, "a published key cannot be used: tokens that it has signed are refused");
            } else {
                tracing::debug!(issuer, kid, cause = %error, "a published key is ignored");
            }
        })?;
        if keys.is_empty() && self.has_file() {
            // A reload refuses such a file, too. An issuer that publishes such a set withdraws its keys.
            return Err(NO_KEY.into());
        }
        let known = self.known();
        let old = known.as_deref();
        let keys = Arc::new(match old {
            Some(old) => keys.succeed(old),
            None => keys,
        });
        self.keys.store(Some(Arc::clone(&keys)));
        if let Some(old) = old {
            old.retire_but(&keys);
        }
        *last = body;
        Ok(age)
    }
}

impl PendingFetch {
    /// Waits until the fetch is over. It has a timeout of its own: a second one here would now and then refuse callers
    /// whose key comes just in time.
    pub async fn over(self) {
        self.0.wait().await;
    }
}
