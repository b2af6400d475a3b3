//! One issuer's keys: what is known now, and the one fetch that may be under way.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use arc_swap::{ArcSwapOption, Guard};
use bytes::Bytes;
use tokio::sync::watch;

use super::Clock;
use super::fetch::FetchedDocument;
use super::pace::{self, RefreshPolicy, RefreshStep};
use super::set::{KeyMatch, KeySet};
use super::source::Source;
use crate::auth::token::{Header, Policy};
use crate::config;
use crate::error::BoxError;
use crate::error::cause::Causes;
use crate::metrics;

const NO_KEY: &str = "the key set has no key that can verify a token";

/// An issuer whose tokens are accepted.
pub struct Issuer {
    config: config::Issuer,
    policy: Policy,
    source: Source,
    clock: Arc<dyn Clock>,
    /// `None` until keys have come for the first time.
    keys: ArcSwapOption<KeySet>,
    /// What they were read from.
    last: Mutex<Bytes>,
    pace: Mutex<RefreshPolicy>,
    /// How the last fetch went: how long to wait for the next, counting failures.
    outcome: watch::Sender<FetchOutcome>,
    metrics: metrics::Issuer,
}

/// What a token's header leads to.
pub enum KeySearch {
    /// Done: these keys, or none.
    Over(KeyMatch),
    /// The issuer is being asked; look again when [`PendingFetch::over`] returns.
    Wait(PendingFetch),
}

/// A fetch that is under way.
pub struct PendingFetch(watch::Receiver<FetchOutcome>);

#[derive(Debug, Clone, Copy, Default)]
struct FetchOutcome {
    age: Option<Duration>,
    failures: u32,
}

/// Ends the fetch, also when it panics.
struct FetchGuard(Arc<Issuer>);

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
            pace: Mutex::default(),
            outcome: watch::Sender::new(FetchOutcome::default()),
            metrics: metrics.issuer(&config.issuer),
        })
    }

    /// Begins with what `old` knows, if both have their keys from the same place.
    pub(super) fn inherit(&self, old: &Self) {
        if self.config.keys.source != old.config.keys.source {
            return;
        }
        let body = old.last.lock().unwrap_or_else(PoisonError::into_inner);
        if body.is_empty() {
            return;
        }
        // What could be read once can be read again; what fits no algorithm any more is left out.
        let body = body.clone();
        let _ = self.take(FetchedDocument { body, age: None });
        self.metrics.inherit(&old.metrics);
    }

    /// Whether its keys are in a file.
    pub fn has_file(&self) -> bool {
        self.source.poll().is_some()
    }

    /// Whether what is in the file of its keys can be used; true of every other source, without a look.
    ///
    /// # Errors
    /// It cannot be read, is no key set, or has no key that could verify a token.
    pub async fn check_file(&self) -> Result<(), BoxError> {
        if !self.has_file() {
            return Ok(());
        }
        let body = self.source.fetch().await?.body;
        match KeySet::parse(&body, self.policy.algorithms(), |_, _| {})?.is_empty() {
            true => Err("has no key that fits one of the issuer's `algorithms`; add its keys' algorithm there, or write the path of a file with others".into()),
            false => Ok(()),
        }
    }

    /// What it is made from.
    pub fn config(&self) -> &config::Issuer {
        &self.config
    }

    /// What the issuer's tokens must say.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Whether there is a key to verify with.
    pub fn has_keys(&self) -> bool {
        self.known().as_deref().is_some_and(|keys| !keys.is_empty())
    }

    /// What is known now; `None` until keys have come for the first time.
    pub fn known(&self) -> Guard<Option<Arc<KeySet>>> {
        self.keys.load()
    }

    /// The keys for a token's header. An unknown `kid` makes the issuer be asked again, but not more often than
    /// once in ten seconds.
    pub fn search(self: &Arc<Self>, header: &Header) -> KeySearch {
        match self.find(header) {
            KeyMatch::Unknown => {}
            found => return KeySearch::Over(found),
        }
        let mut pace = self.pace();
        // It may have come in the meantime.
        match self.find(header) {
            KeyMatch::Unknown => {}
            found => return KeySearch::Over(found),
        }
        match pace.search(self.clock.steady()) {
            RefreshStep::MakeDo => return KeySearch::Over(KeyMatch::Unknown),
            RefreshStep::Fetch => self.begin(),
            RefreshStep::Wait => {}
        }
        // Subscribed while the lock is held, so that the end of the fetch cannot be missed.
        KeySearch::Wait(PendingFetch(self.outcome.subscribe()))
    }

    /// What is known for a token's header.
    pub fn find(&self, header: &Header) -> KeyMatch {
        match &*self.known() {
            Some(keys) => keys.find(header),
            None => KeyMatch::Unknown,
        }
    }

    /// Fetches the keys now, or waits for the fetch that is under way. Answers how long to wait for the next.
    pub async fn refresh(self: &Arc<Self>) -> Duration {
        let mut over = {
            let mut pace = self.pace();
            if pace.refresh() == RefreshStep::Fetch {
                self.begin();
            }
            self.outcome.subscribe()
        };
        // The sender lives as long as `self`.
        let _ = over.changed().await;
        let FetchOutcome { age, failures } = *over.borrow();
        match self.source.poll() {
            Some(poll) => poll,
            None => pace::wait(age, failures),
        }
    }

    /// Fetches the keys again and again, for as long as the issuer is of use to somebody else.
    pub async fn keep_fresh(issuer: Weak<Self>) {
        while let Some(issuer) = issuer.upgrade() {
            let wait = issuer.refresh().await;
            drop(issuer);
            tokio::time::sleep(wait).await;
        }
    }

    /// In a task of its own: a client that goes away must not stop what others wait for.
    fn begin(self: &Arc<Self>) {
        let under_way = FetchGuard(Arc::clone(self));
        tokio::spawn(async move { under_way.0.fetch().await });
    }

    async fn fetch(&self) {
        let fetched = match tokio::time::timeout(pace::FETCH_TIMEOUT, self.source.fetch()).await {
            Ok(fetched) => fetched,
            Err(_) => Err("no answer in time".into()),
        };
        let taken = fetched.and_then(|fetched| self.take(fetched));
        // An issuer that publishes nothing to verify with is asked again as soon as one that is down.
        let taken = taken.and_then(|age| match self.has_keys() {
            true => Ok(age),
            false => Err(NO_KEY.into()),
        });
        self.metrics.refreshed(taken.is_ok());
        if !self.has_keys() {
            self.metrics.without_keys();
        }
        // Only written here; waiters are woken by `FetchGuard`, when the fetch is over.
        self.outcome.send_if_modified(|outcome| {
            *outcome = match taken {
                Ok(age) => FetchOutcome { age, failures: 0 },
                Err(error) => {
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
                    FetchOutcome {
                        age: None,
                        failures: outcome.failures.saturating_add(1),
                    }
                }
            };
            false
        });
    }

    fn take(&self, fetched: FetchedDocument) -> Result<Option<Duration>, BoxError> {
        let FetchedDocument { body, age } = fetched;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if *last == body {
            return Ok(age);
        }
        let issuer = self.policy.issuer();
        let keys = KeySet::parse(&body, self.policy.algorithms(), |kid, error| {
            tracing::debug!(issuer, kid, cause = &*error, "a published key is ignored");
        })?;
        if keys.is_empty() && self.has_file() {
            // A reload does not take it either. An issuer that publishes such a set takes its keys back.
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

    fn pace(&self) -> MutexGuard<'_, RefreshPolicy> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PendingFetch {
    /// Returns when the fetch is over, which has a bound of its own: a second one would turn away, now and then, those
    /// whose key comes just in time.
    pub async fn over(mut self) {
        let _ = self.0.changed().await;
    }
}

impl Drop for FetchGuard {
    fn drop(&mut self) {
        let mut pace = self.0.pace();
        pace.done();
        self.0.outcome.send_modify(|_| {});
    }
}
