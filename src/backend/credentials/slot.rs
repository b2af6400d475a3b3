//! One token: used while it is good, fetched anew before it ends, by one fetch at a time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwapOption;
use http::HeaderValue;
use tokio::sync::watch;
use tokio::time::Instant;

use super::refusal::Refusal;
use super::timing::{Backoff, REFETCH, TokenLifetime};

/// The place of one token.
#[derive(Default)]
pub(super) struct Slot {
    token: ArcSwapOption<Token>,
    flight: Mutex<TokenFetch>,
    over: watch::Sender<()>,
}

/// A token as it is sent, and its times.
#[derive(Debug)]
pub(super) struct Token {
    /// Of `Authorization`; sensitive.
    pub(super) value: HeaderValue,
    pub(super) life: TokenLifetime,
}

/// The fetch.
#[derive(Default)]
struct TokenFetch {
    under_way: bool,
    backoff: Backoff,
    /// Why the last one brought nothing.
    refusal: Option<Refusal>,
    /// When a token was last forgotten because a catalog refused it.
    forgot: Option<Instant>,
}

/// What there is for a request.
pub(super) enum SlotLookup {
    /// A token.
    Token(HeaderValue),
    /// None, and it was asked for a moment ago.
    Refused(Refusal),
    /// None yet.
    Wait(FetchWait),
}

/// A fetch that is under way.
pub(super) struct FetchWait {
    slot: Arc<Slot>,
    over: watch::Receiver<()>,
}

/// Ends the fetch, also when it panics.
struct FetchGuard(Arc<Slot>);

impl Slot {
    /// The token, or the fetch that is to bring it: `fetch` is called where nobody fetches yet, and ends by itself after
    /// some seconds, whatever its server does.
    pub(super) fn look<F>(self: &Arc<Self>, fetch: impl FnOnce() -> F) -> SlotLookup
    where
        F: Future<Output = Result<Token, Refusal>> + Send + 'static,
    {
        let now = Instant::now();
        if let Some(token) = &*self.token.load()
            && now < token.life.until
        {
            if now >= token.life.refresh {
                self.begin(&mut self.flight(), now, fetch);
            }
            return SlotLookup::Token(token.value.clone());
        }
        let mut flight = self.flight();
        // It may have come in the meantime.
        if let Some(value) = self.usable() {
            return SlotLookup::Token(value);
        }
        if !self.begin(&mut flight, now, fetch)
            && let Some(refusal) = &flight.refusal
        {
            return SlotLookup::Refused(refusal.clone());
        }
        // Subscribed while the lock is held, so that the end of the fetch cannot be missed.
        SlotLookup::Wait(FetchWait {
            slot: Arc::clone(self),
            over: self.over.subscribe(),
        })
    }

    /// A catalog has refused `value`. Whether another may be better: it was forgotten, unless that was tried a moment
    /// ago.
    pub(super) fn refused(&self, value: &HeaderValue) -> bool {
        let mut flight = self.flight();
        let held = self.token.load_full();
        if held.is_none_or(|token| token.value != *value) {
            return true;
        }
        let now = Instant::now();
        if flight.forgot.is_some_and(|last| now < last + REFETCH) {
            return false;
        }
        flight.forgot = Some(now);
        self.token.store(None);
        true
    }

    /// False: nobody is fetching, since the last fetch failed a moment ago.
    fn begin<F>(
        self: &Arc<Self>,
        flight: &mut TokenFetch,
        now: Instant,
        fetch: impl FnOnce() -> F,
    ) -> bool
    where
        F: Future<Output = Result<Token, Refusal>> + Send + 'static,
    {
        if flight.under_way {
            return true;
        }
        if flight.backoff.is_closed(now) {
            return false;
        }
        flight.under_way = true;
        // In a task of its own: a request that goes away must not stop what others wait for.
        let (landing, fetch) = (FetchGuard(Arc::clone(self)), fetch());
        tokio::spawn(async move { landing.0.take(fetch.await) });
        true
    }

    fn take(&self, answer: Result<Token, Refusal>) {
        let mut flight = self.flight();
        match answer {
            Ok(token) => {
                self.token.store(Some(Arc::new(token)));
                flight.backoff.succeeded();
                flight.refusal = None;
            }
            Err(refusal) => {
                flight.backoff.failed(Instant::now());
                flight.refusal = Some(refusal);
            }
        }
    }

    fn usable(&self) -> Option<HeaderValue> {
        let held = self.token.load();
        let token = held.as_ref()?;
        (Instant::now() < token.life.until).then(|| token.value.clone())
    }

    fn flight(&self) -> MutexGuard<'_, TokenFetch> {
        self.flight.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FetchWait {
    /// The token, when it has come, or why it has not. It takes as long as the fetch, which has an end of its own: were
    /// there another for those who wait, they would be gone before it is known that the server is to be left alone.
    pub(super) async fn over(mut self) -> Result<HeaderValue, Refusal> {
        // The slot is here, so that its end is told.
        let _ = self.over.changed().await;
        if let Some(value) = self.slot.usable() {
            return Ok(value);
        }
        let refusal = self.slot.flight().refusal.clone();
        Err(refusal.unwrap_or_else(|| Refusal::server("the token expired before it was used")))
    }
}

impl Drop for FetchGuard {
    fn drop(&mut self) {
        self.0.flight().under_way = false;
        self.0.over.send_modify(|()| {});
    }
}

#[cfg(test)]
mod tests;
