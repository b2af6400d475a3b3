//! The state that a whole simulation shares: the catalogs, the durable log, the history, and the generation that is
//! alive.
//!
//! A gateway belongs to a *generation*. A crash begins the next one. From then on the gateway of the old generation
//! reaches nothing, and nothing reaches it, as if its tasks were gone. The messages that it had sent are still under
//! way.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::catalog::{Catalog, Spot};
use crate::history::{Cause, History};
use crate::ledger::Ledger;
use crate::network::Network;
use crate::random::Random;
use crate::scenario::{At, Scenario, Table};
use crate::trace::Trace;

/// The world: everything but the gateway and its clients.
pub struct World {
    pub scenario: Scenario,
    inner: Mutex<Inner>,
    /// The generation that is alive.
    generation: AtomicU64,
    /// A notification that wakes in the order of waiting, as a repeatable simulation must.
    crashed: Notify,
    began: Instant,
}

/// The state that changes.
pub struct Inner {
    pub random: Random,
    pub catalogs: Vec<Depot>,
    pub ledger: Ledger,
    pub network: Network,
    pub history: History,
    pub trace: Trace,
    /// The number of points at which a crash could have come.
    pub points: u64,
    /// True if no gateway crashes from now on.
    pub calm: bool,
    /// The number of log writes under way at each crash.
    pub lost: Vec<usize>,
    /// The broken promises that were noticed at once.
    pub wrong: Vec<String>,
    order: u64,
}

/// A catalog and its machine.
pub struct Depot {
    pub catalog: Catalog,
    pub up: bool,
    /// The number of this life of the catalog. A restart ends what it was doing.
    pub life: u64,
}

impl World {
    pub fn new(scenario: Scenario, traced: bool) -> Arc<Self> {
        let mut catalogs: Vec<Depot> = scenario
            .catalogs
            .iter()
            .enumerate()
            .map(|(number, ways)| Depot {
                catalog: Catalog::with(number, *ways),
                up: true,
                life: 0,
            })
            .collect();
        for table in scenario.tables.iter().filter(|table| table.exists) {
            let catalog = &mut catalogs[table.catalog].catalog;
            catalog.seed(&table.there, table.latest);
        }
        let inner = Inner {
            random: Random::new(scenario.seed, 1),
            catalogs,
            ledger: Ledger::default(),
            network: Network::default(),
            history: History::default(),
            trace: Trace::new(traced),
            points: 0,
            calm: false,
            lost: Vec::new(),
            wrong: Vec::new(),
            order: 0,
        };
        let world = Arc::new(Self {
            scenario,
            inner: Mutex::new(inner),
            generation: AtomicU64::new(1),
            crashed: Notify::new(),
            began: Instant::now(),
        });
        // The first versions have rows, too.
        let cause = Cause {
            own: false,
            behind: false,
            waited_for: true,
        };
        for catalog in 0..world.scenario.catalogs.len() {
            world.lock().happened(&world.scenario, catalog, cause);
        }
        world
    }

    pub fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }

    pub fn is_alive(&self, generation: u64) -> bool {
        self.generation() == generation
    }

    /// Returns when this generation has crashed.
    pub async fn death(&self, generation: u64) {
        let crashed = self.crashed.notified();
        if self.is_alive(generation) {
            crashed.await;
        }
    }

    /// Returns only if the generation is alive; the future of a dead one never ends.
    pub async fn if_alive(&self, generation: u64) {
        if !self.is_alive(generation) {
            std::future::pending().await
        }
    }

    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Returns true if faults may still happen.
    pub fn is_rough(&self) -> bool {
        self.elapsed() < self.scenario.rough_for
    }

    /// A point at which the gateway may crash. It does if the scenario says so.
    pub fn point(&self, what: impl Display) {
        let mut inner = self.lock();
        inner.points += 1;
        let point = inner.points;
        self.trace(&mut inner, || format!("point {point}: {what}"));
        let mut crashes = self.scenario.crashes.iter();
        let crash = crashes.find(|crash| crash.at == At::Point(point));
        if let Some(crash) = crash.filter(|_| !inner.calm) {
            drop(inner);
            self.crash(crash.keeps);
        }
    }

    /// Crashes the gateway. `keeps` is the number of log writes under way that survive; `None`: random.
    pub fn crash(&self, keeps: Option<usize>) {
        let inner = &mut *self.lock();
        let under_way = inner.ledger.under_way();
        inner.lost.push(under_way);
        let chance = inner.random.below(under_way as u64 + 1);
        let keeps = keeps.unwrap_or_else(|| usize::try_from(chance).unwrap_or_default());
        for id in inner.ledger.crash(keeps) {
            inner.durable(id);
        }
        inner.history.counts.add("crashes of the gateway", 1);
        let next = self.generation() + 1;
        self.trace(inner, || {
            format!("CRASH: {keeps} of {under_way} writes kept, generation {next} is next")
        });
        self.generation.store(next, Ordering::Relaxed);
        self.crashed.notify_waiters();
    }

    pub fn trace(&self, inner: &mut Inner, line: impl FnOnce() -> String) {
        inner.trace.add(self.began.elapsed(), line);
    }

    pub fn note(&self, line: impl FnOnce() -> String) {
        self.trace(&mut self.lock(), line);
    }
}

impl Inner {
    /// Returns the next place in the order of all events.
    pub fn tick(&mut self) -> u64 {
        self.order += 1;
        self.order
    }

    /// Returns the authors of a line's versions as its catalog holds them.
    pub fn stored(&self, spot: Spot) -> BTreeMap<u64, String> {
        self.catalogs[spot.catalog].catalog.versions(spot)
    }

    /// Returns the line that a name leads to now; `None` if the name or the line does not exist.
    pub fn spot(&self, scenario: &Scenario, table: usize, branch: bool) -> Option<Spot> {
        let Table { catalog, there, .. } = &scenario.tables[table];
        let place = self.catalogs[*catalog].catalog.place(there)?;
        let spot = Spot {
            catalog: *catalog,
            place,
            branch,
        };
        let main = Spot {
            branch: false,
            ..spot
        };
        self.catalogs[*catalog].catalog.has(main).then_some(spot)
    }
}
