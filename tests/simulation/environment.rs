//! The state that a whole simulation shares: the catalogs, the durable log, the history, and the generation that is
//! alive.
//!
//! A gateway belongs to a *generation*. A crash ends it, and the gateway that is started next has another one. From then
//! on the gateway of the old generation reaches nothing, and nothing reaches it, as if its tasks were gone. The messages
//! that it had sent are still under way. While a gateway is stopped, what it sends waits, and so does what it gets.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::catalog::{Catalog, Spot};
use crate::fleet::Troubles;
use crate::fleet::store::Store;
use crate::front::Front;
use crate::history::{Cause, History};
use crate::ledger::Ledger;
use crate::network::Network;
use crate::random::Random;
use crate::scenario::{At, Faults, Scenario, Single, Table};
use crate::trace::Trace;

/// The world: everything but the gateway and its clients.
pub struct World {
    pub scenario: Scenario,
    inner: Mutex<Inner>,
    /// The last generation.
    generation: AtomicU64,
    lives: Mutex<Lives>,
    /// A notification of changes of `lives`. It wakes in the order of waiting, as a repeatable simulation must.
    changed: Notify,
    /// The gateways that share a log, for what happens to them at a point.
    front: OnceLock<Weak<Front>>,
    began: Instant,
}

/// The state that changes.
pub struct Inner {
    pub random: Random,
    pub catalogs: Vec<Depot>,
    pub ledger: Ledger,
    pub network: Network,
    /// The log that gateways share, and the number of requests that they passed on.
    pub store: Store,
    pub passed_on: u64,
    pub troubles: Troubles,
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

/// The generations that are alive.
#[derive(Default)]
struct Lives {
    alive: BTreeSet<u64>,
    /// The last generation of each gateway that shares a log.
    of: BTreeMap<usize, u64>,
    stopped: BTreeSet<u64>,
    /// The time at which the kernel ends a process that does not put this off.
    deadlines: BTreeMap<u64, Instant>,
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
            store: Store::default(),
            passed_on: 0,
            troubles: Troubles::default(),
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
            generation: AtomicU64::new(0),
            lives: Mutex::default(),
            changed: Notify::new(),
            front: OnceLock::new(),
            began: Instant::now(),
        });
        if world.scenario.fleet.is_none() {
            world.begin_life();
        }
        // The first versions have rows, too.
        let cause = Cause {
            own: false,
            behind: false,
            waited_for: true,
            doubled: false,
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

    fn lives(&self) -> MutexGuard<'_, Lives> {
        self.lives.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins the next generation.
    pub fn begin_life(&self) -> u64 {
        let generation = self.generation.fetch_add(1, Ordering::Relaxed) + 1;
        self.lives().alive.insert(generation);
        generation
    }

    /// Begins the next generation of a gateway that shares a log.
    pub fn begin_life_of(&self, gateway: usize) -> u64 {
        let generation = self.begin_life();
        self.lives().of.insert(gateway, generation);
        generation
    }

    /// Returns the generation of a gateway that shares a log; `None` while it is down.
    pub fn life_of(&self, gateway: usize) -> Option<u64> {
        let lives = self.lives();
        let life = lives.of.get(&gateway).copied();
        life.filter(|life| lives.alive.contains(life))
    }

    /// Sets the gateways that share a log.
    pub fn has(&self, front: &Arc<Front>) {
        // A second call changes nothing.
        let _ = self.front.set(Arc::downgrade(front));
    }

    /// Returns the gateways that share a log.
    pub fn front(&self) -> Option<Arc<Front>> {
        self.front.get().and_then(Weak::upgrade)
    }

    pub fn is_alive(&self, generation: u64) -> bool {
        self.lives().alive.contains(&generation)
    }

    /// Returns when this generation has crashed.
    pub async fn death(&self, generation: u64) {
        loop {
            let changed = self.changed.notified();
            if !self.is_alive(generation) {
                return;
            }
            changed.await;
        }
    }

    /// Returns only if the generation is alive and not stopped; the future of a dead one never ends.
    pub async fn if_alive(&self, generation: u64) {
        loop {
            let changed = self.changed.notified();
            {
                let lives = self.lives();
                if lives.alive.contains(&generation) && !lives.stopped.contains(&generation) {
                    return;
                }
            }
            changed.await;
        }
    }

    /// Ends one generation.
    pub fn kill(&self, generation: u64) {
        {
            let lives = &mut *self.lives();
            if !lives.alive.remove(&generation) {
                return;
            }
            lives.stopped.remove(&generation);
            lives.deadlines.remove(&generation);
        }
        let inner = &mut *self.lock();
        inner.history.counts.add("crashes of the gateway", 1);
        self.trace(inner, || format!("KILLED: generation {generation}"));
        self.changed.notify_waiters();
    }

    /// Stops a process for some time. The kernel ends it if it does not put its deadline off.
    pub fn stop_for(
        self: &Arc<Self>,
        generation: u64,
        lasts: Duration,
    ) -> impl Future<Output = ()> + use<> {
        let world = Arc::clone(self);
        let thaws = Instant::now() + lasts;
        let dies = {
            let lives = &mut *self.lives();
            lives.stopped.insert(generation);
            lives.deadlines.get(&generation).copied()
        };
        self.note(|| format!("STOPPED: generation {generation} for {lasts:?}"));
        async move {
            sleep_until(dies.map_or(thaws, |dies| thaws.min(dies))).await;
            if dies.is_some_and(|dies| dies <= thaws) {
                return world.kill(generation);
            }
            world.lives().stopped.remove(&generation);
            world.note(|| format!("CONTINUED: generation {generation}"));
            world.changed.notify_waiters();
        }
    }

    /// Has the kernel end a process after `left`; never if it is zero.
    pub fn end_after(&self, generation: u64, left: Duration) {
        let lives = &mut *self.lives();
        if lives.stopped.contains(&generation) {
            return;
        }
        if left.is_zero() {
            lives.deadlines.remove(&generation);
        } else {
            lives.deadlines.insert(generation, Instant::now() + left);
        }
    }

    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Returns true if something may still happen by chance. Beside one planned fault nothing does, or the course before
    /// it would be another one.
    pub fn is_rough(&self) -> bool {
        let is_planned = matches!(self.scenario.faults, Faults::One { .. });
        !is_planned && self.elapsed() < self.scenario.rough_for
    }

    /// A point at which a gateway may crash. It does if the scenario says so.
    pub fn point(self: &Arc<Self>, generation: u64, what: impl Display) {
        let mut inner = self.lock();
        inner.points += 1;
        let point = inner.points;
        self.trace(&mut inner, || format!("point {point}: {what}"));
        let mut crashes = self.scenario.crashes.iter();
        let crash = crashes.find(|crash| crash.at == At::Point(point));
        if let Some(plan) = self.scenario.fleet.as_ref().filter(|_| !inner.calm) {
            drop(inner);
            if let Some((_, trouble)) = plan.at_points.iter().find(|(at, _)| *at == point) {
                self.troubled(Some(generation), *trouble);
            }
            if let Some(Single::Trouble { point: at, trouble }) = plan.single
                && at == point
            {
                let named = trouble.gateway().and_then(|named| self.life_of(named));
                self.troubled(named, trouble);
            }
            return;
        }
        if let Some(crash) = crash.filter(|_| !inner.calm) {
            drop(inner);
            self.crash(crash.keeps);
        }
    }

    /// Crashes the only gateway. `keeps` is the number of log writes under way that survive; `None`: random.
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
        self.lives().alive.clear();
        self.begin_life();
        self.changed.notify_waiters();
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
