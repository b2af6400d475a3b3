//! Changes of names.

use serde_json::{Value, json};

use super::asking::{field, path};
use super::{Client, Wanted};
use crate::front::{Call, Reply};
use crate::history::{Entry, Kind, Op, Outcome};

impl Client {
    pub(super) async fn change_names(&mut self) {
        let table = self.any_table();
        match self.random.below(10) {
            0..5 => {
                let other = self.another_name(table);
                if self.random.chance(50) {
                    self.rename_in_a_batch(table, other).await;
                } else {
                    self.rename(table, other).await;
                }
            }
            5 => self.move_by_hand(table).await,
            6 => self.about(table, "deregister", "{}").await,
            7 => self.about(table, "declare", "{}").await,
            _ => {
                self.about(table, "drop", "").await;
                self.create(table).await;
            }
        }
    }

    /// Has the checks excuse nothing by a removal or a rename of a client that got no answer.
    pub fn checks_strictly(&self) {
        self.world.lock().history.is_strict = true;
    }

    /// Picks another name, mostly of the same catalog.
    fn another_name(&mut self, table: usize) -> usize {
        let scenario = &self.world.scenario;
        let catalog = scenario.tables[table].catalog;
        let anywhere = self.random.chance(10);
        let others = (0..scenario.tables.len()).filter(|other| {
            *other != table && (anywhere || scenario.tables[*other].catalog == catalog)
        });
        let others: Vec<usize> = others.collect();
        match others[..] {
            [] => table,
            _ => *self.random.pick(&others),
        }
    }

    /// Renames a table.
    pub async fn rename(&mut self, table: usize, other: usize) -> usize {
        let new = &self.world.scenario.tables[other].names;
        let (name, namespace) = new.split_last().expect("a name");
        let body = json!({"new_table_name": name, "new_namespace_id": namespace});
        let op = self.about_names();
        self.ask_about(op, table, "rename", &body.to_string()).await;
        if self.outcome(op) == Some(Outcome::Unknown) {
            self.world.lock().history.drift([other]);
        }
        op
    }

    /// Renames a table, perhaps another one, and creates versions of others, in one batch.
    async fn rename_in_a_batch(&mut self, table: usize, other: usize) {
        let mut renames = vec![(table, other)];
        let mut others: Vec<usize> = (0..self.world.scenario.tables.len()).collect();
        others.retain(|it| ![table, other].contains(it));
        if let [one, next] = self.random.some(&others, 2)[..]
            && self.random.chance(30)
        {
            renames.push((one, next));
            others.retain(|it| ![one, next].contains(it));
        }
        let count = usize::try_from(self.random.below(3)).expect("a small number");
        let mut wanted = Vec::new();
        for table in self.random.some(&others, count) {
            wanted.extend(self.next(table, false).await);
        }
        let keyed = self.random.chance(50);
        let aborts = self.random.chance(self.world.scenario.aborts);
        self.commit_renames(&renames, &wanted, keyed, aborts).await;
    }

    /// Renames tables and creates versions of others, in one batch. `aborts`: the manifest of the last version is
    /// missing.
    pub async fn commit_renames(
        &mut self,
        renames: &[(usize, usize)],
        wanted: &[Wanted],
        keyed: bool,
        aborts: bool,
    ) -> usize {
        let op = self.plan(wanted, keyed);
        self.world.lock().history.ops[op].kind = Kind::Coordinated;
        if aborts && !wanted.is_empty() {
            self.lose_last_manifest(op);
        }
        let tables = &self.world.scenario.tables;
        let mut operations: Vec<Value> = renames
            .iter()
            .map(|(table, other)| {
                let (name, namespace) = tables[*other].names.split_last().expect("a name");
                let id = &tables[*table].names;
                json!({"rename_table": {"id": id, "new_table_name": name, "new_namespace_id": namespace}})
            })
            .collect();
        let creates = self.bodies(op).into_iter();
        operations.extend(creates.map(|body| json!({ "create_table_version": body })));
        if self.random.chance(50) {
            operations.reverse();
        }
        let call = Call {
            path: "/nsgate/v1/batch-commit".into(),
            body: json!({ "operations": operations }).to_string(),
            key: keyed.then(|| format!("key-{op}")),
            ..Call::default()
        };
        self.repeat(op, call, keyed, false).await;
        if self.outcome(op) == Some(Outcome::Unknown) {
            let history = &mut self.world.lock().history;
            history.drift(renames.iter().flat_map(|(table, other)| [*table, *other]));
        }
        op
    }

    /// Removes the name and registers the place again, under the same name or another one.
    async fn move_by_hand(&mut self, table: usize) {
        let Some(location) = self.location(table).await else {
            return;
        };
        let op = self.about_names();
        self.ask_about(op, table, "deregister", "{}").await;
        let other = self.another_name(table);
        let other = *self.random.pick(&[table, other]);
        // A table has one name. Another one is given only if the first is known to be gone.
        let is_gone = matches!(self.outcome(op), Some(Outcome::Done(_)));
        // A relative location is another place in another catalog.
        let catalog = |table: usize| self.world.scenario.tables[table].catalog;
        let is_given = other == table || (is_gone && catalog(other) == catalog(table));
        if is_given && !self.has_another_name(catalog(table), other, &location) {
            self.give(other, location).await;
        }
    }

    /// Returns true if another client has given the place of a table another name meanwhile.
    fn has_another_name(&self, catalog: usize, but: usize, location: &str) -> bool {
        let inner = self.world.lock();
        let catalog = &inner.catalogs[catalog].catalog;
        let there = &self.world.scenario.tables[but].there;
        let mut names = catalog.names().iter();
        names.any(|(name, place)| name != there && catalog.location(*place) == location)
    }

    /// Gives a table a second name. The client reads where the table is, first.
    pub async fn register(&mut self, table: usize, other: usize) -> Option<usize> {
        let location = self.location(table).await?;
        Some(self.give(other, location).await)
    }

    async fn location(&mut self, table: usize) -> Option<String> {
        let scenario = &self.world.scenario;
        let names = path(&scenario.tables[table].names, "describe");
        let described = self.post(names, "{}".into()).await;
        match described {
            Reply::Answer { status: 200, body } => field(&body, "location"),
            _ => None,
        }
    }

    async fn give(&mut self, other: usize, mut location: String) -> usize {
        let catalog = self.world.scenario.tables[other].catalog;
        if self.world.scenario.catalogs[catalog].relative {
            location = location.rsplit('/').next().unwrap_or_default().to_owned();
        }
        let body = json!({ "location": location }).to_string();
        let op = self.about_names();
        self.ask_about(op, other, "register", &body).await;
        op
    }

    pub async fn about(&mut self, table: usize, tail: &str, body: &str) {
        let op = self.about_names();
        self.ask_about(op, table, tail, body).await;
    }

    /// Creates a table with one version that the catalog makes.
    pub async fn create(&mut self, table: usize) {
        let op = {
            let inner = &mut *self.world.lock();
            let op = inner.history.ops.len();
            let author = format!("i{op}");
            inner.history.authors.insert(author.clone(), (op, 0));
            let entry = Entry {
                table,
                branch: false,
                version: 0,
                author,
                size: 100,
                base: None,
            };
            let kind = Kind::Server { overwrites: true };
            inner.history.ops.push(Op::one(kind, vec![entry]));
            op
        };
        self.ask_about(op, table, "create", &format!("i{op}")).await;
    }

    fn about_names(&self) -> usize {
        let inner = &mut *self.world.lock();
        inner.history.ops.push(Op::one(Kind::Names, Vec::new()));
        inner.history.ops.len() - 1
    }

    async fn ask_about(&mut self, op: usize, table: usize, tail: &str, body: &str) {
        let call = Call {
            path: path(&self.world.scenario.tables[table].names, tail),
            body: body.to_owned(),
            patience: self.patience(),
            ..Call::default()
        };
        if self.once(op, call, true).await == Outcome::Unknown {
            self.world.lock().history.drift([table]);
        }
    }
}
