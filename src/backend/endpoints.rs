//! The addresses of one catalog, and the choice of the address for a request.

pub(in crate::backend) mod balance;
pub(in crate::backend) mod breaker;
pub(in crate::backend) mod endpoint;
pub(in crate::backend) mod failure_row;
pub mod health;
mod panic_share;
pub(in crate::backend) mod retry_budget;
pub(in crate::backend) mod verdict;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::endpoints::breaker::{BreakerPass, State};
use crate::backend::endpoints::endpoint::{Endpoint, EndpointHealth, EndpointStatus};
use crate::backend::endpoints::panic_share::PanicShare;
use crate::backend::transport::coarse_clock;
use crate::backend::transport::coarse_clock::Moment;
use crate::config::RestConfig;
use crate::error::BoxError;
use crate::metrics;

/// The addresses of one catalog: at most 64, because each is one bit of a word.
pub(super) struct Endpoints {
    all: Box<[Arc<Endpoint>]>,
    pub(super) board: Arc<EndpointHealth>,
    share: PanicShare,
}

/// The properties of a request that matter for the choice of an address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Selection {
    /// The addresses that the request was sent to, a bit each.
    pub(super) tried: u64,
    /// True if the request goes to another address when this one fails. It is then suitable as a probe.
    pub(super) repeatable: bool,
    /// True for a request of the gateway itself.
    pub(super) own: bool,
}

/// The error if the breakers of all addresses are open, because earlier requests failed.
#[derive(Debug)]
pub(super) struct AllBreakersOpen {
    /// The time until the next probe is allowed.
    pub(super) wait: Duration,
}

impl fmt::Display for AllBreakersOpen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.wait.as_millis();
        write!(
            f,
            "the circuit breaker of every address is open for {millis} ms"
        )
    }
}

impl std::error::Error for AllBreakersOpen {}

impl Endpoints {
    /// Builds the addresses from the configuration. Reads certificate files, and contacts no server.
    pub(super) fn new(
        config: &RestConfig,
        metrics: &Arc<metrics::Backend>,
    ) -> Result<Self, BoxError> {
        let uris = || std::iter::once(&config.uri).chain(&config.endpoints);
        if uris().count() > 64 {
            return Err("a catalog can have 64 addresses at most".into());
        }
        let secure = uris().any(|uri| uri.scheme_str() == Some("https"));
        let tls = secure
            .then(|| {
                crate::backend::transport::tls::client_config(config.tls.as_ref(), config.http2)
            })
            .transpose()?;
        let board = EndpointHealth::new(metrics);
        let endpoint = |uri| Endpoint::new(uri, tls.as_ref(), config, &board).map(Arc::new);
        Ok(Self {
            all: uris().map(endpoint).collect::<Result<_, _>>()?,
            board,
            share: PanicShare::default(),
        })
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Endpoint>> {
        self.all.iter()
    }

    pub(super) fn get(&self, index: usize) -> &Arc<Endpoint> {
        &self.all[index]
    }

    /// Returns the state of each address.
    pub(super) fn standing(&self) -> Vec<EndpointStatus> {
        self.iter().map(|endpoint| endpoint.standing()).collect()
    }

    /// Returns the number of addresses whose breaker is not closed.
    pub(super) fn breakers_open(&self) -> usize {
        let open = |endpoint: &&Arc<Endpoint>| !endpoint.breaker.is_closed();
        self.iter().filter(open).count()
    }

    /// Returns the number of addresses that failed their health check or whose breaker is not closed; `None` if there
    /// is one address only.
    pub(super) fn addresses_down(&self) -> Option<usize> {
        let down = self.all.len().saturating_sub(self.board.serving());
        (self.all.len() > 1).then_some(down)
    }

    /// Returns the number of answers from all addresses so far.
    pub(super) fn answers(&self) -> u64 {
        self.iter().map(|endpoint| endpoint.load.answers()).sum()
    }

    /// True if a request that was at `tried` could go to another address that serves.
    pub(super) fn has_other(&self, tried: u64) -> bool {
        let serves = |endpoint: &Endpoint| endpoint.health.is_up() && endpoint.breaker.is_closed();
        self.bits(serves) & !tried != 0
    }

    /// True if there is any address that a request that was at `tried` was not sent to.
    pub(super) fn has_untried(&self, tried: u64) -> bool {
        self.bits(|_| true) & !tried != 0
    }

    /// Counts a failure of the addresses in `bits`, because another address answered the same request well.
    pub(super) fn record_verdict(&self, bits: u64) {
        for (index, endpoint) in self.all.iter().enumerate() {
            if bits & (1 << index) != 0 {
                endpoint.found_guilty();
            }
        }
    }

    /// Chooses an address that the request was not sent to yet.
    pub(super) fn choose(&self, wish: Selection) -> Result<(usize, BreakerPass), AllBreakersOpen> {
        if let [only] = &*self.all
            && only.breaker.is_closed()
            && wish.tried == 0
        {
            return Ok((0, BreakerPass::Free));
        }
        self.choose_at(wish, coarse_clock::now())
    }

    fn choose_at(
        &self,
        wish: Selection,
        now: Moment,
    ) -> Result<(usize, BreakerPass), AllBreakersOpen> {
        let fresh = self.bits(|_| true) & !wish.tried;
        let up = self.bits(|endpoint| endpoint.health.is_up()) & fresh;
        let closed = self.bits(|endpoint| endpoint.breaker.is_closed()) & fresh;
        let cost = |index: usize| self.all[index].load.cost(now);
        // A request that can go elsewhere is preferred as the probe. If none came for a while, any request is used.
        let probe = |among: u64, patience: fn(&Endpoint) -> u64| {
            let due = self.bits(|endpoint| {
                let overdue = endpoint.breaker.overdue(now);
                overdue.is_some_and(|overdue| overdue >= patience(endpoint))
            });
            let chosen = balance::choose(due & among, cost)?;
            let pass = self.all[chosen].breaker.probe(now)?;
            Some((chosen, pass))
        };
        let at_once = |_: &Endpoint| 0;
        let late = |endpoint: &Endpoint| endpoint.breaker.open_for();
        let free = |among| balance::choose(among, cost).map(|chosen| (chosen, BreakerPass::Free));
        probe(up, if wish.repeatable { at_once } else { late })
            .or_else(|| free(up & closed))
            // A failed health check makes an address the second choice, not worse: the configured path may be wrong.
            .or_else(|| free(closed))
            .or_else(|| probe(fresh, at_once))
            .or_else(|| wish.own.then(|| self.own(fresh, now)).flatten())
            .or_else(|| (wish.tried == 0).then(|| self.share(now)).flatten())
            .ok_or_else(|| {
                if wish.tried == 0 {
                    self.board.refuse();
                }
                self.withheld(now)
            })
    }

    /// Lets a request of the gateway itself through to an address whose breaker is open.
    fn own(&self, among: u64, now: Moment) -> Option<(usize, BreakerPass)> {
        let mut open = self.all.iter().enumerate();
        open.find_map(|(index, endpoint)| {
            let pass = (among & (1 << index) != 0).then(|| endpoint.breaker.own(now))?;
            Some((index, pass?))
        })
    }

    /// Lets a request of the share through, at the address that has the least load.
    fn share(&self, now: Moment) -> Option<(usize, BreakerPass)> {
        if !self.share.take(now) {
            return None;
        }
        let chosen = balance::choose(self.bits(|_| true), |index| self.all[index].load.cost(now))?;
        let pass = self.all[chosen].breaker.share()?;
        self.board.let_through();
        Some((chosen, pass))
    }

    fn withheld(&self, now: Moment) -> AllBreakersOpen {
        let waits = self
            .iter()
            .map(|endpoint| match endpoint.breaker.state(now) {
                State::Open(until) => until - now,
                State::Closed | State::Due => 0,
            });
        AllBreakersOpen {
            wait: Duration::from_micros(waits.min().unwrap_or_default()),
        }
    }

    fn bits(&self, has: impl Fn(&Endpoint) -> bool) -> u64 {
        let bit = |(index, endpoint): (usize, &Arc<Endpoint>)| u64::from(has(endpoint)) << index;
        self.all.iter().enumerate().map(bit).sum()
    }
}
