//! The parts of simulations of gateways that share a log: the real code of each, a simulated server and networks, and
//! what happens to them; the runs are in `fleet/seeds.rs`.

mod gateway;
pub mod peers;
mod seeds;
mod single_fault;
pub mod store;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use nsgate::batch::fleet::Role;
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::environment::World;
use crate::front::{Front, Running};
use crate::random::Random;
use crate::scenario::{FleetPlan, Trouble};

/// The longest time for which a gateway that ends waits for its batches.
const DRAINS: Duration = Duration::from_secs(10);

/// The longest time in which a gateway finds back to the log once all trouble is over.
const FINDS_BACK: Duration = Duration::from_secs(30);
/// The time in which guards are released that no batch needs.
const RELEASED: Duration = Duration::from_millis(1600);
/// The interval at which it is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The networks that are cut, and until when; and when the last trouble so far is over.
#[derive(Default)]
pub struct Troubles {
    store: BTreeMap<usize, Instant>,
    peers: BTreeMap<(usize, usize), Instant>,
    over: Option<Instant>,
}

impl Troubles {
    /// Returns until when a gateway does not reach the server of the log.
    pub fn cut_from_store(&self, gateway: usize) -> Option<Instant> {
        let until = self.store.get(&gateway).copied();
        until.filter(|until| *until > Instant::now())
    }

    /// Returns until when two gateways do not reach each other.
    pub fn cut_apart(&self, one: usize, other: usize) -> Option<Instant> {
        let until = self.peers.get(&pair(one, other)).copied();
        until.filter(|until| *until > Instant::now())
    }
}

fn pair(one: usize, other: usize) -> (usize, usize) {
    (one.min(other), one.max(other))
}

impl World {
    /// Waits until no gateway is stopped any more, and no network or server is away.
    pub async fn trouble_is_over(&self) {
        while_cut(|| {
            let over = self.lock().troubles.over;
            over.filter(|over| *over > Instant::now())
        })
        .await;
    }

    /// Waits until no request to the server of the log is late any more.
    async fn late_requests_are_there(&self) {
        let last = self.lock().store.answered;
        sleep(last.saturating_sub(self.elapsed())).await;
    }

    fn is_in_trouble(&self, trouble: Trouble) {
        let until = Instant::now() + trouble.lasts();
        let over = &mut self.lock().troubles.over;
        *over = (*over).max(Some(until));
    }

    /// Has something happen at this point. A process that is killed or stopped is the one of `generation`, if there is one.
    pub fn troubled(self: &Arc<Self>, generation: Option<u64>, trouble: Trouble) {
        self.note(|| format!("TROUBLE at this point: {trouble:?}"));
        self.is_in_trouble(trouble);
        match (trouble, generation) {
            (Trouble::Kill { .. }, Some(generation)) => self.kill(generation),
            (Trouble::Stop { lasts, .. }, Some(generation)) => {
                self.lock().history.counts.add("gateways stopped", 1);
                tokio::spawn(self.stop_for(generation, lasts));
            }
            (Trouble::Kill { .. } | Trouble::Stop { .. }, None) => self.misses(),
            (Trouble::End { gateway }, _) => {
                let front = self.front().expect("gateways that share a log");
                tokio::spawn(async move { end(&front, gateway).await });
            }
            (trouble, _) => {
                let world = Arc::clone(self);
                tokio::spawn(async move { world.happen(trouble).await });
            }
        }
    }

    /// Counts a trouble of a gateway that is not there.
    fn misses(&self) {
        let counts = &mut self.lock().history.counts;
        counts.add("troubles of a gateway that is not there", 1);
    }

    /// The number of gateways.
    pub fn gateways(&self) -> usize {
        self.scenario
            .fleet
            .as_ref()
            .map_or(1, |plan| plan.paces.len())
    }

    pub fn plan(&self) -> &FleetPlan {
        self.scenario
            .fleet
            .as_ref()
            .expect("gateways that share a log")
    }
}

impl Front {
    /// Waits until all gateways serve, or until one of them cannot. Returns the owner of the log first.
    pub async fn owner_and_others(&self) -> Vec<usize> {
        let until = Instant::now() + FINDS_BACK;
        let owns = |gateway: &usize| {
            let running = self.running(*gateway).filter(|it| it.is_open);
            running.is_some_and(|it| it.batches.fleet().is_some_and(|it| it.serves_as_owner()))
        };
        let mut gateways: Vec<usize> = (0..self.world.gateways()).collect();
        let is_open = |gateway: &usize| self.running(*gateway).is_some_and(|it| it.is_open);
        while Instant::now() < until && !(gateways.iter().any(owns) && gateways.iter().all(is_open))
        {
            sleep(LOOK_EVERY / 10).await;
        }
        gateways.sort_by_key(|gateway| !owns(gateway));
        gateways
    }

    /// Waits until no table of a directed scenario is guarded any more, unless a batch is open.
    pub async fn guards_are_released(&self) {
        if !self
            .world
            .scenario
            .fleet
            .as_ref()
            .is_some_and(|plan| plan.is_directed)
        {
            // Random scenarios end when they end.
            return;
        }
        let until = Instant::now() + RELEASED;
        while !self.world.lock().store.db.guards.is_empty() && Instant::now() < until {
            if self.open().is_none_or(|open| !open.is_empty()) {
                return;
            }
            sleep(LOOK_EVERY / 2).await;
        }
    }

    /// Waits until every gateway knows what batches do.
    ///
    /// # Errors
    /// The name of one that does not find back.
    pub async fn all_take_part(&self) -> Result<(), String> {
        let gateways = 0..self.world.gateways();
        if gateways.len() == 1 {
            return Ok(());
        }
        self.world.late_requests_are_there().await;
        let knows = |gateway: usize| {
            let running = self.running(gateway).filter(|it| it.is_open);
            let fleet = running.and_then(|it| it.batches.fleet().cloned());
            fleet.is_some_and(|fleet| {
                let left = fleet.counts().lease.unwrap_or_default();
                // A heartbeat whose answer was late costs the lease once.
                let is_renewed = left > self.world.plan().lease / 2;
                fleet.role() != Role::Outside && is_renewed
            })
        };
        let until = Instant::now() + FINDS_BACK;
        while let Some(lost) = gateways.clone().find(|gateway| !knows(*gateway)) {
            if Instant::now() > until {
                return Err(format!("g{lost} does not find back to the log"));
            }
            sleep(LOOK_EVERY).await;
        }
        Ok(())
    }
}

/// Starts the gateways, and what happens to them. Must be called in a `LocalSet`.
pub fn begin(front: &Arc<Front>, plan: &FleetPlan) {
    front.world.has(front);
    for gateway in 0..plan.paces.len() {
        spawn_local(keep_up(Arc::clone(front), gateway));
    }
    for (at, trouble) in plan.troubles.clone() {
        let front = Arc::clone(front);
        spawn_local(async move {
            sleep(at).await;
            happen(&front, trouble).await;
        });
    }
}

/// Starts a gateway, and starts it again after each end.
async fn keep_up(front: Arc<Front>, gateway: usize) {
    let world = &front.world;
    let mut random = Random::new(world.scenario.seed, 20 + gateway as u64);
    sleep(random.millis(0, 20)).await;
    loop {
        let life = world.begin_life_of(gateway);
        world.note(|| format!("g{gateway} starts, generation {life}"));
        tokio::select! {
            biased;
            () = world.death(life) => {}
            () = gateway::start(&front, gateway, life) => world.death(life).await,
        }
        front.runs(gateway, None);
        let (least, most) = world.scenario.dead_for;
        sleep(random.millis(least, most)).await;
    }
}

async fn happen(front: &Arc<Front>, trouble: Trouble) {
    let world = &front.world;
    world.note(|| format!("TROUBLE: {trouble:?}"));
    world.is_in_trouble(trouble);
    let life = |gateway: usize| front.running(gateway).map(|it: Running| it.generation);
    match trouble {
        Trouble::Kill { gateway } => {
            if let Some(life) = life(gateway) {
                world.kill(life);
            }
        }
        Trouble::End { gateway } => end(front, gateway).await,
        Trouble::Stop { gateway, lasts } => {
            if let Some(life) = life(gateway) {
                world.lock().history.counts.add("gateways stopped", 1);
                world.stop_for(life, lasts).await;
            }
        }
        trouble => world.happen(trouble).await,
    }
}

impl World {
    async fn happen(&self, trouble: Trouble) {
        let world = self;
        match trouble {
            Trouble::CutStore { gateway, lasts } => {
                let inner = &mut *world.lock();
                inner.history.counts.add("cuts", 1);
                inner.troubles.store.insert(gateway, Instant::now() + lasts);
            }
            Trouble::CutPeers {
                gateways: (one, other),
                lasts,
            } => {
                let inner = &mut *world.lock();
                inner.history.counts.add("cuts", 1);
                let until = Instant::now() + lasts;
                inner.troubles.peers.insert(pair(one, other), until);
            }
            Trouble::Restart { lasts } => {
                let Some(server) = world.crash_store() else {
                    return;
                };
                sleep(lasts).await;
                world.start_store(server);
            }
            Trouble::FailOver { hangs } => {
                let Some(server) = world.hang_store() else {
                    return;
                };
                sleep(hangs).await;
                world.promote_other(server);
                sleep(hangs).await;
                world.end_hang(server);
            }
            // These happen to processes.
            Trouble::Kill { .. } | Trouble::End { .. } | Trouble::Stop { .. } => {}
        }
    }
}

/// Ends a process in order, as SIGTERM does.
async fn end(front: &Arc<Front>, gateway: usize) {
    let world = &front.world;
    let Some(running) = front.running(gateway) else {
        return world.misses();
    };
    let (life, batches) = (running.generation, Arc::clone(&running.batches));
    front.runs(
        gateway,
        Some(Running {
            is_open: false,
            ..running
        }),
    );
    world
        .lock()
        .history
        .counts
        .add("gateways ended in order", 1);
    // A batch that waits for a failing catalog is left to the next owner.
    let _ = timeout(DRAINS, batches.at_rest()).await;
    world.if_alive(life).await;
    let closed = batches.close().await;
    world.note(|| format!("g{gateway} has ended: {:?}", closed.err()));
    world.kill(life);
}

/// Waits while something is cut.
async fn while_cut(until: impl Fn() -> Option<Instant>) {
    while let Some(until) = until() {
        sleep_until(until).await;
    }
}
