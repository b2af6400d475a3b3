//! The clients: they read, stage manifests in storage, ask for versions and batches, and write down what they were told.

mod asking;

use std::sync::Arc;

use nsgate::protocol::operation::Operation;
use tokio::time::sleep;

use crate::catalog::Question;
use crate::front::Front;
use crate::history::Kind;
use crate::random::Random;
use crate::scenario::{Role, Table};
use crate::world::World;

/// One client with its own chances.
pub struct Client {
    front: Arc<Front>,
    world: Arc<World>,
    pub random: Random,
}

impl Client {
    pub fn new(front: &Arc<Front>, stream: u64) -> Self {
        Self {
            front: Arc::clone(front),
            world: Arc::clone(&front.world),
            random: Random::new(front.world.scenario.seed, stream),
        }
    }

    /// Does what its role is, with pauses.
    pub async fn play(mut self, role: Role) {
        if let Role::Reference { aborts } = role {
            return self.reference(aborts).await;
        }
        let (Role::Batches { count }
        | Role::Singles { count }
        | Role::Raw { count }
        | Role::Behind { count }
        | Role::Reads { count }
        | Role::Asks { count }) = role
        else {
            return;
        };
        for _ in 0..count {
            // Mostly close together, so that they meet.
            let longest = *self.random.pick(&[20, 100, 400, 5_000]);
            sleep(self.random.millis(0, longest)).await;
            match role {
                Role::Batches { .. } => self.batch().await,
                Role::Singles { .. } => self.single().await,
                Role::Raw { .. } => self.raw().await,
                Role::Behind { .. } => self.behind(),
                Role::Reads { .. } => self.look_around().await,
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
            let (latest, base) = self.latest(table).await;
            wanted.push((table, latest + 1, base));
            if self.random.chance(25) {
                wanted.push((table, latest + 2, None));
            }
        }
        if self.random.chance(30) {
            wanted = self.random.some(&wanted, wanted.len());
        }
        let keyed = self.random.chance(50);
        let op = self.plan(&wanted, keyed);
        self.send(op, true).await;
    }

    async fn reference(&mut self, aborts: bool) {
        let seed = |latest: u64| Some(format!("seed{latest}"));
        let scenario = &self.world.scenario;
        let tables = scenario.tables.iter().enumerate();
        let mut wanted: Vec<_> = tables
            .map(|(table, it)| (table, it.latest + 1, seed(it.latest)))
            .collect();
        wanted.insert(1, (0, scenario.tables[0].latest + 2, None));
        let catalog = scenario.tables.last().map_or(0, |table| table.catalog);
        let op = self.plan(&wanted, true);
        if aborts {
            let inner = &mut *self.world.lock();
            let last = inner.history.ops[op].entries.last().expect("an entry");
            inner.catalogs[catalog]
                .catalog
                .unstage(&last.author.clone());
        }
        self.send(op, true).await;
    }

    async fn single(&mut self) {
        let table = self.any_table();
        let (latest, base) = self.latest(table).await;
        let op = self.plan(&[(table, latest + 1, base)], false);
        // Some clients send a batch of one.
        let as_batch = self.random.chance(20);
        self.send(op, as_batch).await;
        if self.random.chance(50) {
            self.describe(table, Some(latest + 1)).await;
        }
    }

    /// Lists raw storage, as real writers do, and builds on what it finds.
    async fn raw(&mut self) {
        sleep(self.random.millis(0, 200)).await;
        let table = self.any_table();
        let stored = self.world.lock().stored(&self.world.scenario, table);
        let top = stored
            .last_key_value()
            .map(|(n, author)| (*n, author.clone()));
        let (latest, base) = top.map_or((0, None), |(n, author)| (n, Some(author)));
        let op = self.plan(&[(table, latest + 1, base)], false);
        self.send(op, false).await;
    }

    /// Writes to a catalog without asking the gateway.
    fn behind(&mut self) {
        let table = self.any_table();
        let stored = self.world.lock().stored(&self.world.scenario, table);
        let latest = stored.last_key_value().map_or(0, |(n, _)| *n);
        let op = self.plan(&[(table, latest + 1, None)], false);
        let scenario = &self.world.scenario;
        let Table { catalog, there, .. } = &scenario.tables[table];
        let inner = &mut *self.world.lock();
        let op = &mut inner.history.ops[op];
        op.kind = Kind::Behind;
        let body = asking::body(
            scenario.tables[table].there.split('$'),
            &op.entries[0],
            None,
        );
        let question = Question {
            operation: Operation::CreateTableVersion,
            table: there.clone(),
            query: String::new(),
            body: body.to_string().into_bytes(),
        };
        let before = inner.stored(scenario, table);
        let reply = inner.catalogs[*catalog].catalog.answer(&question);
        self.world
            .trace(inner, || format!("BEHIND {question}: {}", reply.status));
        inner
            .history
            .counts
            .add("writes behind the gateway's back", 1);
        inner.changed(scenario, table, &before, false);
    }

    /// Several tables, one after the other, some of them again.
    async fn look_around(&mut self) {
        let tables: Vec<usize> = (0..self.world.scenario.tables.len()).collect();
        let count = usize::try_from(self.random.between(2, 4)).expect("a small number");
        for table in self.random.some(&tables, count) {
            match self.random.below(4) {
                0 => drop(self.latest(table).await),
                1 => drop(self.describe(table, None).await),
                2 => {
                    let (latest, _) = self.latest(table).await;
                    let near = latest.max(1) + self.random.below(2);
                    self.describe(table, Some(near)).await;
                }
                _ => drop(self.list(table).await),
            }
            sleep(self.random.millis(0, 10)).await;
        }
    }

    async fn ask_for_transactions(&mut self) {
        let known: Vec<_> = {
            let inner = self.world.lock();
            inner
                .ledger
                .records()
                .iter()
                .map(|record| record.id)
                .collect()
        };
        if !known.is_empty() {
            let id = *self.random.pick(&known);
            self.transaction(id).await;
        }
    }

    fn any_table(&mut self) -> usize {
        let tables = self.world.scenario.tables.len() as u64;
        usize::try_from(self.random.below(tables)).expect("an index")
    }
}
