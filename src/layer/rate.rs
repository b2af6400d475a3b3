//! Refuses callers that ask more often than they may, or that have their share of the requests served at a time.
//!
//! Callers are told apart as [`Caller`] has it. A batch is one request: what is in it is bounded by `batch.max_entries`.

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
use crate::request::caller::Caller;
use crate::request::context::RequestContext;
use crate::request::places::Places;
use buckets::Buckets;

/// Callers that are remembered, at most: about 4 MB. Beyond it those are forgotten who used least of what they may.
const CALLERS: usize = 1 << 17;

/// Makes [`Rate`]; all that it makes share the buckets.
#[derive(Clone)]
pub struct RateLayer {
    rates: Option<Arc<Rates>>,
    places: Option<Arc<Places>>,
}

/// The service.
pub type Rate<S> = GuardService<S, RateLayer>;

/// A token bucket for each caller.
pub struct Rates {
    setting: RateLimit,
    limiter: Limiter<LimiterClock>,
    hasher: RandomState,
}

type Limiter<C> = RateLimiter<u64, Buckets, C, NoOpMiddleware<Duration>>;

/// Time since the limiter was made.
struct LimiterClock(Instant);

impl RateLayer {
    /// `None`: every caller may ask as often as it likes, and the layer does nothing.
    pub fn new(rates: Option<Arc<Rates>>) -> Self {
        let places = None;
        Self { rates, places }
    }

    /// The same, where a caller may not have more of these places than its share either.
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
        // First: a caller that is told to ask less often learns more than one that is told to wait.
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

/// Counts a request to its caller, or refuses it where that one has its share already.
fn share(places: &Places, request: &Request<Body>) -> Result<(), Error> {
    let exchange = RequestContext::of(request.extensions()).exchange.as_ref();
    if exchange.is_none_or(|exchange| places.count(&Caller::of(request), exchange)) {
        return Ok(());
    }
    Err(Error::unavailable(
        "this caller has reached its limit of requests in flight; retry when some have finished",
    )
    .retry_after(1))
}

impl Rates {
    /// The buckets for `setting`; those of `before`, as they are, where it is the same.
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

    /// Takes one request out of the caller's bucket, or says how long it must wait.
    ///
    /// The bucket is found by a hash with a secret key: nobody can choose a name that meets another's bucket, and
    /// among the callers that are remembered two meet by accident once in billions of runs.
    fn take(&self, caller: &Caller<'_>) -> Result<(), Duration> {
        let key = self.hasher.hash_one(caller);
        self.limiter
            .check_key(&key)
            .map_err(|until| until.wait_time_from(self.limiter.clock().now()))
    }

    fn refuse(&self, wait: Duration) -> Error {
        let wait = seconds(wait);
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
        Error::new(Code::Throttling, words).retry_after(wait)
    }
}

/// Rounded up, for whoever comes back too early is refused again.
fn seconds(wait: Duration) -> u64 {
    (wait.as_secs() + u64::from(wait.subsec_nanos() > 0)).max(1)
}

fn quota(setting: RateLimit) -> Quota {
    let one = (setting.period / setting.requests.max(1)).max(Duration::from_nanos(1));
    // What a whole bucket is worth in nanoseconds must fit in 64 bits, with room for a clock that goes on.
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
