//! The clients: they read, stage manifests in storage, create versions and batches, have catalogs write, and rename
//! tables. They record what they were told.

mod around;
mod asking;
mod names;
mod reading;
mod server;
mod writing;

use std::sync::Arc;
use std::time::Duration;

use nsgate::batch::step::Settled;
use tokio::time::sleep;

pub use server::Change;

use crate::catalog::seed;
use crate::environment::World;
use crate::front::Front;
use crate::history::Outcome;
use crate::random::Random;
use crate::scenario::Role;

/// One client with a random stream of its own.
pub struct Client {
    front: Arc<Front>,
    world: Arc<World>,
    pub random: Random,
    /// The time after which the client abandons its request; `None`: as the scenario has it.
    pub leaves: Option<Duration>,
    /// The gateway that it asks first; `None` for any.
    pub at: Option<usize>,
}

/// A version that a client wants to create.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub table: usize,
    pub branch: bool,
    pub version: u64,
    /// The author of the version below, if the client knows it.
    pub base: Option<String>,
    /// The place in which the client has staged its manifest.
    pub place: usize,
}

impl Client {
    pub fn new(front: &Arc<Front>, stream: u64) -> Self {
        Self {
            front: Arc::clone(front),
            world: Arc::clone(&front.world),
            random: Random::new(front.world.scenario.seed, stream),
            leaves: None,
            at: None,
        }
    }

    /// Returns another client, for work at the same time.
    pub fn another(&self, stream: u64) -> Self {
        Self::new(&self.front, 100 + stream)
    }

    /// Carries out a role, with pauses.
    pub async fn play(mut self, role: Role) {
        if let Role::Reference { aborts, goes_on } = role {
            return self.reference(aborts, goes_on).await;
        }
        let (Role::Batches { count }
        | Role::Singles { count }
        | Role::Raw { count }
        | Role::Behind { count }
        | Role::Reads { count }
        | Role::Servers { count }
        | Role::Names { count }
        | Role::Rivals { count }
        | Role::Asks { count }) = role
        else {
            return;
        };
        for _ in 0..count {
            // The pauses are mostly short, so that clients meet.
            let longest = *self.random.pick(&[20, 100, 400, 5_000, 60_000]);
            if !matches!(role, Role::Rivals { .. }) || self.random.chance(20) {
                let longest = self.world.scenario.longest_pause.min(longest);
                sleep(self.random.millis(0, longest)).await;
            }
            match role {
                Role::Batches { .. } | Role::Rivals { .. } => self.batch().await,
                Role::Singles { .. } => self.single().await,
                Role::Raw { .. } => self.raw().await,
                Role::Behind { .. } => self.behind(),
                Role::Reads { .. } => self.look_around().await,
                Role::Servers { .. } => self.let_write().await,
                Role::Names { .. } => self.change_names().await,
                Role::Asks { .. } => self.ask_for_transactions().await,
                Role::Reference { .. } => {}
            }
        }
    }

    async fn batch(&mut self) {
        let tables: Vec<usize> = (0..self.world.scenario.tables.len()).collect();
        let count = usize::try_from(self.random.between(1, 4)).expect("a small number");
        let tables = self.random.some(&tables, count);
        let mut wanted = Vec::new();
        for table in tables {
            let branch = self.random.chance(10);
            let Some(next) = self.next(table, branch).await else {
                continue;
            };
            if self.random.chance(25) {
                let (version, base) = (next.version + 1, None);
                wanted.push(Wanted {
                    version,
                    base,
                    ..next.clone()
                });
            }
            wanted.push(next);
        }
        if self.random.chance(70) {
            wanted.reverse();
        }
        if wanted.is_empty() {
            return;
        }
        let keyed = self.random.chance(50);
        let op = self.plan(&wanted, keyed);
        if wanted.len() > 1 && self.random.chance(self.world.scenario.aborts) {
            self.lose_last_manifest(op);
        }
        self.send(op, true).await;
    }

    /// Sends one batch over every table. Perhaps others act right after it: a batch that competes, an insert, a batch
    /// with a rename, and one more version.
    async fn reference(&mut self, aborts: bool, goes_on: bool) {
        let op = self.reference_batch();
        if aborts {
            self.lose_last_manifest(op);
        }
        self.send(op, true).await;
        if !goes_on {
            return;
        }
        let tables = self.world.scenario.tables.len();
        let mut again = Vec::new();
        for table in 0..tables {
            if self.world.scenario.tables[table].exists {
                again.extend(self.next(table, false).await);
            }
        }
        if !again.is_empty() {
            let op = self.plan(&again, true);
            self.send(op, true).await;
        }
        self.write(0, Change::Insert, false).await;
        let next: Vec<Wanted> = self.next(2, false).await.into_iter().collect();
        let renames = [(1, tables - 1)];
        self.commit_renames(&renames, &next, true, false).await;
        self.write(tables - 1, Change::Insert, false).await;
        self.count(1).await;
        self.list(0, false).await;
        if let Some(next) = self.next(0, false).await {
            let op = self.plan(&[next], false);
            self.send(op, false).await;
        }
    }

    fn reference_batch(&mut self) -> usize {
        let mut wanted = Vec::new();
        {
            let scenario = &self.world.scenario;
            let inner = self.world.lock();
            for (table, it) in scenario.tables.iter().enumerate() {
                let Some(spot) = inner.spot(scenario, table, false) else {
                    continue;
                };
                wanted.push(Wanted {
                    table,
                    branch: false,
                    version: it.latest + 1,
                    base: Some(seed(spot, it.latest)),
                    place: spot.place,
                });
            }
        }
        let (version, base) = (wanted[0].version + 1, None);
        let chain = Wanted {
            version,
            base,
            ..wanted[0].clone()
        };
        wanted.insert(1, chain);
        self.plan(&wanted, true)
    }

    async fn single(&mut self) {
        let table = self.any_table();
        let branch = self.random.chance(15);
        let Some(next) = self.next(table, branch).await else {
            return;
        };
        let version = next.version;
        let op = self.plan(&[next], false);
        // Some clients send a batch of one entry.
        let as_batch = self.random.chance(20);
        self.send(op, as_batch).await;
        if self.random.chance(50) {
            self.describe(table, branch, Some(version)).await;
        }
    }

    /// Lists storage, as real writers do, and builds on the latest version there.
    async fn raw(&mut self) {
        sleep(self.random.millis(0, 200)).await;
        let table = self.any_table();
        let Some(next) = self.next_in_storage(table) else {
            return;
        };
        // The gateway cannot tell a slower client from others.
        let rest = self.world.scenario.settings.undone_rest;
        sleep(self.random.millis(0, 400).min(rest * 4 / 5)).await;
        let op = self.plan(&[next], false);
        self.world.lock().history.ops[op].raw = true;
        self.send(op, false).await;
    }

    fn next_in_storage(&self, table: usize) -> Option<Wanted> {
        let inner = self.world.lock();
        let spot = inner.spot(&self.world.scenario, table, false)?;
        let stored = inner.stored(spot);
        let top = stored.last_key_value();
        Some(Wanted {
            table,
            branch: false,
            version: top.map_or(0, |(version, _)| *version) + 1,
            base: top.map(|(_, author)| author.clone()),
            place: spot.place,
        })
    }

    /// Returns the next version, as far as the gateway shows: a guess if no answer comes, or `None`.
    pub async fn next(&mut self, table: usize, branch: bool) -> Option<Wanted> {
        let found = self.latest(table, branch).await;
        let guesses = self.random.chance(30);
        let (version, base, place) = match found {
            Some((version, base, place)) => (version + 1, base, place),
            None if guesses => {
                let inner = self.world.lock();
                let spot = inner.spot(&self.world.scenario, table, branch)?;
                let latest = if branch {
                    1
                } else {
                    self.world.scenario.tables[table].latest
                };
                (latest + 1, None, spot.place)
            }
            None => return None,
        };
        Some(Wanted {
            table,
            branch,
            version,
            base,
            place,
        })
    }

    /// Returns how long a client waits before it abandons its request.
    fn patience(&mut self) -> Option<Duration> {
        if let Some(leaves) = self.leaves {
            return Some(leaves);
        }
        let leaves = self.world.is_rough() && self.random.chance(self.world.scenario.leaves);
        let longest = *self.random.pick(&[20, 3_000, 30_000]);
        let patience = self.random.millis(1, longest);
        leaves.then_some(patience)
    }

    fn any_table(&mut self) -> usize {
        let tables = self.world.scenario.tables.len() as u64;
        usize::try_from(self.random.below(tables)).expect("an index")
    }

    /// Returns the outcome of an operation's last attempt.
    pub fn outcome(&self, op: usize) -> Option<Outcome> {
        let inner = self.world.lock();
        let last = inner.history.ops[op].attempts.last();
        last.map(|attempt| attempt.outcome.clone())
    }

    /// Returns what the log knows of an entry of the `nth` batch.
    pub fn settled(&self, nth: usize, entry: usize) -> Option<Settled> {
        self.world.lock().ledger.records()[nth].settled[entry]
    }
}
