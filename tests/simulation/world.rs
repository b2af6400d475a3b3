//! What the whole of a simulation shares: the catalogs, the durable log, what has happened, and who is alive.
//!
//! A gateway belongs to a *generation*. A crash begins the next one: whatever the gateway of the old one does from then
//! on reaches nobody, and nothing reaches it, so that its tasks might as well be gone. What it had sent is still under
//! way.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::catalog::Catalog;
use crate::history::History;
use crate::ledger::Ledger;
use crate::network::Network;
use crate::random::Random;
use crate::scenario::Scenario;
use crate::trace::Trace;

/// Everything but the gateway and its clients.
pub struct World {
    pub scenario: Scenario,
    inner: Mutex<Inner>,
    /// The generation that lives.
    generation: watch::Sender<u64>,
    began: Instant,
}

/// What changes.
pub struct Inner {
    pub random: Random,
    pub catalogs: Vec<Depot>,
    pub ledger: Ledger,
    pub network: Network,
    pub history: History,
    pub trace: Trace,
    /// How many points at which a crash can come have gone by.
    pub points: u64,
    /// From now on no gateway crashes.
    pub calm: bool,
    /// What was seen to be wrong at once.
    pub wrong: Vec<String>,
    order: u64,
}

/// A catalog and its machine.
pub struct Depot {
    pub catalog: Catalog,
    pub up: bool,
    /// Which of its lives this is: what it was doing ends with one.
    pub life: u64,
}

impl World {
    pub fn new(scenario: Scenario, traced: bool) -> Arc<Self> {
        let mut catalogs: Vec<Depot> = scenario
            .catalogs
            .iter()
            .map(|ways| Depot {
                catalog: Catalog::with(*ways),
                up: true,
                life: 0,
            })
            .collect();
        for table in &scenario.tables {
            catalogs[table.catalog]
                .catalog
                .seed(&table.there, table.latest);
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
            wrong: Vec::new(),
            order: 0,
        };
        Arc::new(Self {
            scenario,
            inner: Mutex::new(inner),
            generation: watch::Sender::new(1),
            began: Instant::now(),
        })
    }

    pub fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn generation(&self) -> u64 {
        *self.generation.borrow()
    }

    pub fn is_alive(&self, generation: u64) -> bool {
        self.generation() == generation
    }

    /// Returns when this generation has crashed.
    pub async fn death(&self, generation: u64) {
        let mut current = self.generation.subscribe();
        let _ = current.wait_for(|current| *current != generation).await;
    }

    /// Goes on only while the generation lives; the future of a dead one never ends.
    pub async fn if_alive(&self, generation: u64) {
        if !self.is_alive(generation) {
            std::future::pending().await
        }
    }

    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Whether faults may still happen.
    pub fn is_rough(&self) -> bool {
        self.elapsed() < self.scenario.rough_for
    }

    /// A point at which the gateway may crash, and does if the scenario says so.
    pub fn point(&self, what: impl Display) {
        let mut inner = self.lock();
        inner.points += 1;
        let point = inner.points;
        self.trace(&mut inner, || format!("point {point}: {what}"));
        let crash = self.scenario.crashes.iter().find(|crash| crash.at == point);
        if let Some(crash) = crash.filter(|_| !inner.calm) {
            let keep = crash.keeps.unwrap_or_else(|| inner.random.below(4));
            let kept = inner
                .ledger
                .crash(usize::try_from(keep).unwrap_or(usize::MAX));
            inner.history.counts.add("crashes of the gateway", 1);
            for id in kept {
                inner.durable(id, &self.scenario);
            }
            let next = self.generation() + 1;
            self.trace(&mut inner, || format!("CRASH: generation {next} is next"));
            drop(inner);
            self.generation.send_replace(next);
        }
    }

    pub fn trace(&self, inner: &mut Inner, line: impl FnOnce() -> String) {
        inner.trace.add(self.began.elapsed(), line);
    }

    pub fn note(&self, line: impl FnOnce() -> String) {
        self.trace(&mut self.lock(), line);
    }
}

impl Inner {
    /// The next place in the order of everything.
    pub fn tick(&mut self) -> u64 {
        self.order += 1;
        self.order
    }

    /// The authors of a table's versions as its catalog holds them.
    pub fn stored(&self, scenario: &Scenario, table: usize) -> BTreeMap<u64, String> {
        let table = &scenario.tables[table];
        self.catalogs[table.catalog].catalog.versions(&table.there)
    }
}
