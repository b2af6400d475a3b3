//! Refuses callers that send too many requests, or that have their share of the places.
//!
//! Callers are told apart as [`Caller`] defines it. A batch is one request: `batch.max_entries` limits its contents.

mod buckets;

use std::hash::{BuildHasher as _, RandomState};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::{Quota, RateLimiter};
use http::Request;
use tower::Layer;

use super::guard::{Guard, GuardService};
use crate::body::Body;
use crate::config::RateLimit;
use crate::error::Error;
use crate::error::code::Code;
use crate::error::retry_after::RetryAfter;
use crate::metrics::Limit;
use crate::request::caller::Caller;
use crate::request::context::RequestContext;
use crate::request::places::Places;
use buckets::Buckets;

/// The most callers that are remembered: about 4 MB. Beyond it, those that have used the least of their limit are
/// forgotten.
const CALLERS: usize = 1 << 17;

/// Makes [`Rate`] services, which share the buckets.
#[derive(Clone)]
pub struct RateLayer {
    rates: Option<Arc<Rates>>,
    places: Option<Arc<Places>>,
}

/// The service of [`RateLayer`].
pub type Rate<S> = GuardService<S, RateLayer>;

/// A token bucket for each caller.
pub struct Rates {
    setting: RateLimit,
    limiter: Limiter<LimiterClock>,
    hasher: RandomState,
}

type Limiter<C> = RateLimiter<u64, Buckets, C, NoOpMiddleware<Duration>>;

/// A clock that begins when the limiter is made.
struct LimiterClock(Instant);

impl RateLayer {
    /// Limits callers to `rates`; `None` stands for no limit, and the layer does nothing then.
    pub fn new(rates: Option<Arc<Rates>>) -> Self {
        let places = None;
        Self { rates, places }
    }

    /// Limits, in addition, each caller to its share of `places`.
    #[must_use]
    pub fn sharing(self, places: Arc<Places>) -> Self {
        Self {
            places: Some(places),
            ..self
        }
    }
}

impl<S> Layer<S> for RateLayer {
    type Service = Rate<S>;

    fn layer(&self, inner: S) -> Rate<S> {
        GuardService::new(inner, self.clone())
    }
}

impl Guard for RateLayer {
    fn admit(&self, request: &mut Request<Body>) -> Result<(), Error> {
        // The rate is checked first: a caller that is told to send less often learns more than one that is told to
        // wait.
        if let Some(rates) = &self.rates
            && let Err(wait) = rates.take(&Caller::of(request))
        {
            return Err(rates.refuse(wait));
        }
        if let Some(places) = &self.places
            && places.is_scarce()
        {
            share(places, request)?;
        }
        Ok(())
    }
}

/// Counts a request toward its caller's share, or refuses it if the caller has its share already.
fn share(places: &Places, request: &Request<Body>) -> Result<(), Error> {
    let exchange = RequestContext::of(request.extensions()).exchange.as_ref();
    if exchange.is_none_or(|exchange| places.count(&Caller::of(request), exchange)) {
        return Ok(());
    }
    Err(Error::unavailable(
        "this caller has reached its limit of requests in flight; retry when some have finished",
    )
    .because(Limit::Share.as_str())
    .with_retry_after(RetryAfter::SOON))
}

impl Rates {
    /// Returns the buckets for `setting`, those of `before` if the setting is the same; `None` if there is no limit.
    pub fn renew(setting: Option<RateLimit>, before: Option<&Arc<Self>>) -> Option<Arc<Self>> {
        let setting = setting?;
        match before {
            Some(before) if before.setting == setting => Some(Arc::clone(before)),
            _ => Some(Arc::new(Self::remembering(CALLERS, setting))),
        }
    }

    fn remembering(callers: usize, setting: RateLimit) -> Self {
        Self {
            setting,
            limiter: RateLimiter::new(
                quota(setting),
                Buckets::new(callers),
                LimiterClock(Instant::now()),
            ),
            hasher: RandomState::new(),
        }
    }

    /// Takes one request out of the caller's bucket; the error is the time to wait.
    ///
    /// The bucket is found by a hash with a secret key. So no caller can choose a name that shares another's bucket,
    /// and among the callers that are remembered two share one by accident once in billions of runs.
    fn take(&self, caller: &Caller<'_>) -> Result<(), Duration> {
        let key = self.hasher.hash_one(caller);
        self.limiter
            .check_key(&key)
            .map_err(|until| until.wait_time_from(self.limiter.clock().now()))
    }

    fn refuse(&self, wait: Duration) -> Error {
        let wait = RetryAfter::rest(wait);
        let RateLimit {
            requests,
            period,
            burst,
        } = self.setting;
        let period = match period.as_secs() {
            60 => "minute",
            3600 => "hour",
            _ => "second",
        };
        let words = format!(
            "too many requests from this caller: {requests} per {period} are allowed, {burst} at once; retry in {wait} s"
        );
        Error::new(Code::Throttling, words)
            .because(Limit::Rate.as_str())
            .with_retry_after(wait)
    }
}

fn quota(setting: RateLimit) -> Quota {
    let one = (setting.period / setting.requests.max(1)).max(Duration::from_nanos(1));
    // The value of a full bucket in nanoseconds must fit in 64 bits, with room for a clock that goes on.
    let most = u64::MAX / 4 / u64::try_from(one.as_nanos()).unwrap_or(u64::MAX);
    let burst = u32::try_from(most).unwrap_or(u32::MAX).min(setting.burst);
    Quota::with_period(one)
        .unwrap_or(Quota::per_second(NonZeroU32::MIN))
        .allow_burst(NonZeroU32::new(burst).unwrap_or(NonZeroU32::MIN))
}

impl Clock for LimiterClock {
    type Instant = Duration;

    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

#[cfg(test)]
mod tests;
