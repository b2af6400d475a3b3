//! Runs one simulation from its beginning to the checks.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Once};
use std::time::Duration;

use futures_util::future::BoxFuture;
use nsgate::batch::OpenBatch;
use nsgate::metrics::{BatchState, Metrics};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::catalog::Spot;
use crate::check;
use crate::clients::{Client, Wanted};
use crate::clock;
use crate::environment::World;
use crate::front::Front;
use crate::history::{Counts, Outcome, Saw};
use crate::scenario::{At, Scenario};

/// The result of a simulation.
pub struct Ended {
    pub wrong: Vec<String>,
    pub counts: Counts,
    pub trace: Vec<String>,
    pub hash: u64,
    /// The number of points at which a crash could come, and of messages, until the simulation had settled; with gateways
    /// that share a log, until the clients had their answers and the tables were not guarded any more.
    pub points: u64,
    pub messages: u64,
    /// The number of requests to the server of the shared log by then, and to other gateways.
    pub to_the_log: u64,
    pub passed_on: u64,
    /// The number of log writes under way at each crash.
    pub lost: Vec<usize>,
}

/// The longest time in which the clients must have all of their answers.
const PATIENCE: Duration = Duration::from_secs(3 * 3600);
/// The longest time that everything may take to settle after the last fault.
const SETTLES: Duration = Duration::from_secs(40 * 60);

/// The time after which a settled table can be written to again.
const FREE_AGAIN: Duration = Duration::from_secs(1);

thread_local! {
    static PANICS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Records the panics of the gateway's tasks, by thread: a task's panic fails no test by itself.
pub fn watch_panics() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICS.with_borrow_mut(|panics| panics.push(panic.to_string()));
            before(panic);
        }));
    });
}

pub fn simulate(scenario: Scenario, metrics: &Arc<Metrics>, traced: bool) -> Ended {
    simulate_with(scenario, metrics, traced, None)
}

/// The script of a client, step by step.
pub type Script = Box<dyn FnOnce(Client) -> BoxFuture<'static, ()> + Send>;

/// Runs a simulation with one more client, which follows its script.
pub fn simulate_with(
    scenario: Scenario,
    metrics: &Arc<Metrics>,
    traced: bool,
    script: Option<Script>,
) -> Ended {
    PANICS.with_borrow_mut(Vec::clear);
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    let local = tokio::task::LocalSet::new();
    let mut ended = runtime.block_on(local.run_until(run(scenario, metrics, traced, script)));
    ended.wrong.extend(PANICS.take());
    ended
}

async fn run(
    scenario: Scenario,
    metrics: &Arc<Metrics>,
    traced: bool,
    script: Option<Script>,
) -> Ended {
    clock::begin();
    let world = World::new(scenario, traced);
    let front = Front::new(&world, metrics);
    match &world.scenario.fleet {
        None => drop(tokio::spawn(Arc::clone(&front).keep_up())),
        Some(plan) => crate::fleet::begin(&front, plan),
    }
    for outage in world.scenario.outages.clone() {
        let world = Arc::clone(&world);
        tokio::spawn(async move {
            sleep(outage.at).await;
            world.stop(outage.catalog);
            sleep(outage.lasts).await;
            world.resume(outage.catalog);
        });
    }
    let mut playing = JoinSet::new();
    for (number, (role, begins)) in world.scenario.clients.iter().copied().enumerate() {
        let client = Client::new(&front, 10 + number as u64);
        playing.spawn(async move {
            sleep(begins).await;
            client.play(role).await;
        });
    }
    if let Some(script) = script {
        playing.spawn(script(Client::new(&front, 9)));
    }
    for crash in &world.scenario.crashes {
        if let (At::Time(at), keeps) = (crash.at, crash.keeps) {
            let world = Arc::clone(&world);
            playing.spawn(async move {
                sleep(at).await;
                world.crash(keeps);
            });
        }
    }
    let mut wrong = Vec::new();
    if timeout(PATIENCE, playing.join_all()).await.is_err() {
        wrong.push("a client never got an answer".to_owned());
    }
    front.guards_are_released().await;
    let (mut points, mut messages, to_the_log, passed_on) = {
        let inner = world.lock();
        let store = &inner.store;
        (
            inner.points,
            inner.network.messages,
            store.requests,
            inner.passed_on,
        )
    };
    let outages = world.scenario.outages.iter().map(|it| it.at + it.lasts);
    let rough_for = outages.fold(world.scenario.rough_for, Duration::max);
    sleep(rough_for.saturating_sub(world.elapsed())).await;
    world.trouble_is_over().await;
    // Hazards and watches do not block the end. With `to_the_end`, only hazards may remain.
    let mut hazards = Vec::new();
    let quiet = [
        &[BatchState::Hazard, BatchState::Watching][..],
        &[BatchState::Hazard],
    ];
    for quiet in &quiet[..if world.scenario.to_the_end { 2 } else { 1 }] {
        match settled(&front, quiet).await {
            Ok(open) => hazards = open,
            Err(open) => wrong.push(format!("these never end: {open:?}")),
        }
        {
            let inner = &mut *world.lock();
            if !inner.calm {
                if world.scenario.fleet.is_none() {
                    (points, messages) = (inner.points, inner.network.messages);
                }
                inner.calm = true;
            }
        }
        if wrong.is_empty() {
            sleep(FREE_AGAIN).await;
            // What happens at a point can happen late.
            world.trouble_is_over().await;
            wrong.extend(look_again(&front, &hazards).await);
        }
        if world.scenario.to_the_end {
            // Messages that were late arrive among later requests.
            let arrived = world.lock().network.arrived + FREE_AGAIN;
            sleep(arrived.saturating_sub(world.elapsed())).await;
        }
    }
    if world.scenario.to_the_end && wrong.is_empty() {
        match settled(&front, &[BatchState::Hazard, BatchState::Watching]).await {
            Ok(open) => hazards = open,
            Err(open) => wrong.push(format!("these never end: {open:?}")),
        }
        wrong.extend(look_again(&front, &hazards).await);
    }
    let simulated = world.elapsed().as_secs();
    let inner = &mut *world.lock();
    inner.history.counts.add("simulated seconds", simulated);
    wrong.extend(check::history(inner, &world.scenario, &hazards));
    hazards.retain(|batch| batch.state == BatchState::Hazard);
    count(inner, &hazards);
    Ended {
        wrong,
        counts: std::mem::take(&mut inner.history.counts),
        trace: inner.trace.lines().to_vec(),
        hash: inner.trace.hash(),
        points,
        messages,
        to_the_log,
        passed_on,
        lost: std::mem::take(&mut inner.lost),
    }
}

/// Waits until every open batch is in one of these states. Returns the open batches, as an error if time runs out.
async fn settled(front: &Front, quiet: &[BatchState]) -> Result<Vec<OpenBatch>, Vec<OpenBatch>> {
    let mut open = Vec::new();
    for _ in 0..SETTLES.as_secs() / 2 {
        sleep(Duration::from_secs(2)).await;
        if let Some(now) = front.open() {
            let is_hazard = |batch: &&OpenBatch| batch.state == BatchState::Hazard;
            let locked: BTreeSet<_> = now.iter().filter(is_hazard).flat_map(tables).collect();
            // A late version waits for the lock of its table. If a hazard holds the lock, only an operator can release
            // it.
            let waits = |batch: &OpenBatch| {
                batch.state == BatchState::Watching && tables(batch).any(|it| locked.contains(&it))
            };
            if now
                .iter()
                .all(|batch| quiet.contains(&batch.state) || waits(batch))
            {
                return Ok(now);
            }
            open = now;
        }
    }
    Err(open)
}

fn tables(batch: &OpenBatch) -> impl Iterator<Item = (Arc<str>, String)> + '_ {
    let entries = batch.entries.iter();
    entries.map(|entry| (Arc::clone(&entry.backend), entry.table.clone()))
}

/// Checks that every table can be read and written again at the end, and shows what its catalog has.
async fn look_again(front: &Arc<Front>, open: &[OpenBatch]) -> Vec<String> {
    let world = &front.world;
    let mut wrong: Vec<_> = front.all_take_part().await.err().into_iter().collect();
    let mut client = Client::new(front, 5);
    let stuck = {
        let inner = world.lock();
        check::Stuck::of(&inner, &world.scenario, open)
    };
    for table in 0..world.scenario.tables.len() {
        for branch in [false, true] {
            let spot = world.lock().spot(&world.scenario, table, branch);
            let is_stuck = spot.is_some_and(|spot| stuck.spots.contains(&spot));
            if is_stuck || stuck.tables.contains(&table) {
                client.list(table, branch).await;
            } else {
                let found = look_at(&mut client, world, table, spot, branch).await;
                let inner = world.lock();
                // A client's own removal or rename, which has no answer, may arrive during the look.
                let is_adrift = inner.history.adrift.contains(&table)
                    && inner.spot(&world.scenario, table, branch) != spot;
                wrong.extend(found.filter(|_| !is_adrift));
            }
        }
    }
    let ids: Vec<_> = {
        let inner = world.lock();
        inner
            .ledger
            .records()
            .iter()
            .map(|record| record.id)
            .collect()
    };
    for id in ids {
        client.transaction(id).await;
    }
    wrong
}

async fn look_at(
    client: &mut Client,
    world: &World,
    table: usize,
    spot: Option<Spot>,
    branch: bool,
) -> Option<String> {
    let stored = spot.map(|spot| decided(world, spot));
    let stored = stored.filter(|stored| !branch || !stored.is_empty());
    let (Some(spot), Some(mut stored)) = (spot, stored) else {
        let saw = client.list(table, branch).await;
        let is_right = matches!(saw, Saw::NoTable) || branch;
        let wrong = format!("in the end table {table} does not exist and is shown as {saw:?}");
        return (!is_right).then_some(wrong);
    };
    let mut written = write_on(client, table, branch).await;
    // The gateway does not know that a freed number was created again if that happened behind its back, by a request
    // that an earlier life had let through, or by one without an answer so far. During the cool-down it takes the
    // version above for built on what is gone, and refuses.
    let unseen = {
        let history = &world.lock().history;
        let top = stored.last_key_value().and_then(|it| history.op(it.1));
        let unanswered = top.is_some_and(|op| op.done_at().is_none());
        unanswered
            || history.disturbed.contains(&spot)
            || history.counts.get("crashes of the gateway") > 0
    };
    if unseen && matches!(&written, Some((_, _, Some(Outcome::Definite(409, 14))))) {
        sleep(world.scenario.settings.slot_cooldown).await;
        // The network may have carried the refused create out.
        stored = decided(world, spot);
        written = write_on(client, table, branch).await;
    }
    let Some((latest, op, outcome)) = written else {
        return Some(format!("in the end table {table} cannot be read"));
    };
    let landed = world.lock().stored(spot).len() > stored.len();
    if outcome != Some(Outcome::Done(None)) {
        // A version has landed late, and undo will delete it.
        let wrong = format!("in the end table {table} cannot be written to: {outcome:?}");
        return (!landed).then_some(wrong);
    }
    let mut expected = stored;
    expected.insert(latest + 1, format!("w{op}.0"));
    let mut saw = client.list(table, branch).await;
    if let Saw::All(all) = &mut saw {
        let history = &world.lock().history;
        // A change that had no answer may land even now.
        let may_land = |author: &str| history.op(author).is_some_and(|op| op.done_at().is_none());
        all.retain(|version, author| {
            let is_new = !history.may_have_moved(author, table) && !may_land(author);
            expected.contains_key(version) || is_new
        });
    }
    let wrong = format!("in the end table {table} is {expected:?} and shown as {saw:?}");
    (saw != Saw::All(expected)).then_some(wrong)
}

/// Creates the next version. Returns the latest version before it, the operation and its outcome; `None` if the table
/// cannot be read.
async fn write_on(
    client: &mut Client,
    table: usize,
    branch: bool,
) -> Option<(u64, usize, Option<Outcome>)> {
    let (latest, base, place) = client.latest(table, branch).await?;
    let wanted = Wanted {
        table,
        branch,
        version: latest + 1,
        base,
        place,
    };
    let op = client.plan(&[wanted], false);
    client.send(op, false).await;
    Some((latest, op, client.outcome(op)))
}

/// Returns what a catalog holds of a line, without the versions that landed after their batch was undone.
fn decided(world: &World, spot: Spot) -> BTreeMap<u64, String> {
    let inner = world.lock();
    let mut stored = inner.stored(spot);
    let history = &inner.history;
    stored.retain(|_, author| {
        !history.is_coordinated(author) || history.committed.contains_key(author)
    });
    stored
}

fn count(inner: &mut crate::environment::Inner, hazards: &[OpenBatch]) {
    let history = &mut inner.history;
    let read = |read: &&crate::history::Read| !matches!(read.saw, Saw::Failed(_));
    let reads = history.reads.iter().filter(read).count() as u64;
    let failed = history.reads.len() as u64 - reads;
    let batches = inner.ledger.records().len() as u64;
    let counts = &mut history.counts;
    counts.add("simulations", 1);
    counts.add("reads checked", reads);
    counts.add("reads without an answer", failed);
    counts.add("batches begun", batches);
    counts.add(
        "batches aborted",
        batches - counts.get("batches committed").min(batches),
    );
    counts.add("batches that wait for a person", hazards.len() as u64);
}

impl World {
    fn stop(&self, catalog: usize) {
        let inner = &mut *self.lock();
        inner.catalogs[catalog].up = false;
        inner.catalogs[catalog].life += 1;
        inner.history.counts.add("crashes of a catalog", 1);
        self.trace(inner, || format!("c{catalog} stops"));
    }

    fn resume(&self, catalog: usize) {
        let inner = &mut *self.lock();
        inner.catalogs[catalog].up = true;
        self.trace(inner, || format!("c{catalog} is back"));
    }
}
