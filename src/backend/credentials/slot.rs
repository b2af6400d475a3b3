//! One token: used while it is valid, renewed before it ends, by one fetch at a time.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use http::HeaderValue;
use tokio::time::Instant;

use super::refusal::Refusal;
use super::timing::{Backoff, REFETCH, TokenLifetime};
use crate::util::single_flight::{Ended, Locked, SingleFlight};

/// The slot of one token.
#[derive(Default)]
pub(super) struct Slot {
    token: ArcSwapOption<Token>,
    fetches: SingleFlight<TokenFetches>,
}

/// A token as it is sent, and its times.
#[derive(Debug)]
pub(super) struct Token {
    /// The value of `Authorization`; sensitive.
    pub(super) value: HeaderValue,
    pub(super) life: TokenLifetime,
}

/// The fetches so far.
#[derive(Default)]
struct TokenFetches {
    backoff: Backoff,
    /// The reason why the last fetch failed; `None` if it succeeded.
    refusal: Option<Refusal>,
    /// The time when a token was last forgotten because a catalog refused it.
    forgot: Option<Instant>,
}

/// The result of a lookup.
pub(super) enum SlotLookup {
    /// A valid token.
    Token(HeaderValue),
    /// No token, because a fetch failed a moment ago.
    Refused(Refusal),
    /// No token yet, but a fetch is under way.
    Wait(FetchWait),
}

/// A fetch that is under way.
pub(super) struct FetchWait {
    slot: Arc<Slot>,
    ended: Ended<TokenFetches>,
}

impl Slot {
    /// Returns the token, or the fetch that is to bring it. `fetch` is called if none is under way, and must end by
    /// itself after some seconds, whatever its server does.
    pub(super) fn look<F>(self: &Arc<Self>, fetch: impl FnOnce() -> F) -> SlotLookup
    where
        F: Future<Output = Result<Token, Refusal>> + Send + 'static,
    {
        let now = Instant::now();
        if let Some(token) = &*self.token.load()
            && now < token.life.until
        {
            if now >= token.life.refresh {
                self.begin(&mut self.fetches.lock(), now, fetch);
            }
            return SlotLookup::Token(token.value.clone());
        }
        let mut fetches = self.fetches.lock();
        // It may have come in the meantime.
        if let Some(value) = self.usable() {
            return SlotLookup::Token(value);
        }
        if !self.begin(&mut fetches, now, fetch)
            && let Some(refusal) = &fetches.refusal
        {
            return SlotLookup::Refused(refusal.clone());
        }
        SlotLookup::Wait(FetchWait {
            slot: Arc::clone(self),
            ended: fetches.ended(),
        })
    }

    /// Notes that a catalog has refused `value`, and forgets it. Returns true if another token may be accepted, false
    /// if a token was already forgotten a moment ago.
    pub(super) fn refused(&self, value: &HeaderValue) -> bool {
        let mut fetches = self.fetches.lock();
        let held = self.token.load_full();
        if held.is_none_or(|token| token.value != *value) {
            return true;
        }
        let now = Instant::now();
        if fetches.forgot.is_some_and(|last| now < last + REFETCH) {
            return false;
        }
        fetches.forgot = Some(now);
        self.token.store(None);
        true
    }

    /// Starts a fetch, unless one is under way. Returns false if none is, because the last one failed a moment ago.
    fn begin<F>(
        self: &Arc<Self>,
        fetches: &mut Locked<'_, TokenFetches>,
        now: Instant,
        fetch: impl FnOnce() -> F,
    ) -> bool
    where
        F: Future<Output = Result<Token, Refusal>> + Send + 'static,
    {
        if !fetches.is_running() && fetches.backoff.is_closed(now) {
            return false;
        }
        if let Some(running) = fetches.start() {
            let (slot, fetch) = (Arc::clone(self), fetch());
            // In a task of its own: a request that goes away must not stop what others wait for.
            tokio::spawn(async move {
                let _running = running;
                slot.take(fetch.await);
            });
        }
        true
    }

    fn take(&self, answer: Result<Token, Refusal>) {
        let mut fetches = self.fetches.lock();
        match answer {
            Ok(token) => {
                self.token.store(Some(Arc::new(token)));
                fetches.backoff.succeeded();
                fetches.refusal = None;
            }
            Err(refusal) => {
                fetches.backoff.failed(Instant::now());
                fetches.refusal = Some(refusal);
            }
        }
    }

    fn usable(&self) -> Option<HeaderValue> {
        let held = self.token.load();
        let token = held.as_ref()?;
        (Instant::now() < token.life.until).then(|| token.value.clone())
    }
}

impl FetchWait {
    /// The token, when it has come, or why it has not. It takes as long as the fetch, which has an end of its own: were
    /// there another for those who wait, they would be gone before it is known that the server is to be left alone.
    pub(super) async fn over(self) -> Result<HeaderValue, Refusal> {
        self.ended.wait().await;
        if let Some(value) = self.slot.usable() {
            return Ok(value);
        }
        let refusal = self.slot.fetches.lock().refusal.clone();
        Err(refusal.unwrap_or_else(|| Refusal::server("the token expired before it was used")))
    }
}

#[cfg(test)]
mod tests;
