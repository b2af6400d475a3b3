//! Versions that clients make themselves.

use nsgate::protocol::operation::Operation;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::asking::{outcome, path};
use super::{Client, Wanted};
use crate::catalog::{Question, Tags, Version};
use crate::front::{Call, Reply};
use crate::history::{Attempt, Cause, Entry, Kind, Op, Outcome};
use crate::scenario::{Staging, Table};

impl Client {
    /// Stages manifests and records what is to be created. Returns the operation's number.
    pub fn plan(&mut self, wanted: &[Wanted], keyed: bool) -> usize {
        let scenario = &self.world.scenario;
        let inner = &mut *self.world.lock();
        let op = inner.history.ops.len();
        let catalog = |table: usize| scenario.tables[table].catalog;
        let kind = match wanted.len() {
            1 if !keyed => Kind::Single,
            _ => Kind::Coordinated,
        };
        let author = |place: usize| format!("w{op}.{place}");
        let mut entries: Vec<Entry> = Vec::new();
        for (place, one) in wanted.iter().enumerate() {
            let size = if scenario.staging.sizes_vary {
                100 + self.random.below(4)
            } else {
                100
            };
            let depot = &mut inner.catalogs[catalog(one.table)];
            let manifest = Version::staged(&author(place), size);
            depot.catalog.stage(&author(place), one.place, manifest);
            inner.history.authors.insert(author(place), (op, place));
            // In a chain the version below is the batch's own.
            let own = wanted.iter().position(|other| {
                (other.table, other.branch, other.version + 1)
                    == (one.table, one.branch, one.version)
            });
            entries.push(Entry {
                table: one.table,
                branch: one.branch,
                version: one.version,
                author: author(place),
                size,
                base: own.map(author).or_else(|| one.base.clone()),
            });
        }
        // A manifest has the rows of its base, and its author's.
        let mut staged: Vec<&Entry> = entries.iter().collect();
        staged.sort_by_key(|entry| entry.version);
        for entry in staged {
            let base = entry.base.as_deref();
            let is_known = base.is_some_and(|base| inner.history.rows.contains_key(base));
            if is_known || entry.version == 1 {
                inner.history.has(&entry.author, base);
            }
        }
        let keyed_op = Op::one(kind, entries);
        inner.history.ops.push(Op { keyed, ..keyed_op });
        op
    }

    /// Sends an operation to the gateway, and repeats it if it has a key and got no answer.
    pub async fn send(&mut self, op: usize, as_batch: bool) {
        {
            let kind = &mut self.world.lock().history.ops[op].kind;
            if as_batch && *kind == Kind::Single {
                *kind = Kind::Coordinated;
            }
        }
        let (call, keyed, single) = self.request(op, as_batch);
        self.repeat(op, call, keyed, single).await;
    }

    /// Sends a request, and repeats it if it has a key and got no answer.
    pub(super) async fn repeat(&mut self, op: usize, call: Call, keyed: bool, single: bool) {
        let patience = self.patience();
        let tries = if keyed { 4 } else { self.random.between(1, 2) };
        for attempt in 0..tries {
            let mut call = call.clone();
            call.patience = patience.filter(|_| attempt == 0);
            let outcome = self.once(op, call, single).await;
            // A real client does not repeat a single create: it looks whether the version exists.
            if outcome != Outcome::Unknown || single {
                return;
            }
            sleep(self.random.millis(10, 2_000)).await;
        }
    }

    /// Sends a batch to the gateway once.
    pub async fn send_once(&mut self, op: usize) {
        let (mut call, _, single) = self.request(op, true);
        call.patience = self.patience();
        self.once(op, call, single).await;
    }

    /// Removes the manifest of an operation's last entry, so that its catalog refuses the create.
    pub fn lose_last_manifest(&mut self, op: usize) {
        let inner = &mut *self.world.lock();
        let last = inner.history.ops[op].entries.last().expect("an entry");
        let (author, table) = (last.author.clone(), last.table);
        let catalog = self.world.scenario.tables[table].catalog;
        inner.catalogs[catalog].catalog.unstage(&author);
    }

    /// Sends a batch that declares one table and cannot create the next version of another one, so it aborts.
    pub async fn declare_in_a_batch_that_aborts(&mut self, declared: usize, other: usize) {
        let Some(next) = self.next(other, false).await else {
            return;
        };
        let op = self.plan(&[next], true);
        self.lose_last_manifest(op);
        let scenario = &self.world.scenario;
        let names = scenario.tables[other].names.iter().map(String::as_str);
        let create = {
            let inner = self.world.lock();
            let entry = &inner.history.ops[op].entries[0];
            body(names, entry, Some((scenario.staging, Tags::Kept)))
        };
        let declare = json!({"id": scenario.tables[declared].names});
        let operations = json!([
            {"declare_table": declare},
            {"create_table_version": create},
        ]);
        let call = Call {
            path: "/v1/table/batch-commit".into(),
            body: json!({ "operations": operations }).to_string(),
            key: Some(format!("key-{op}")),
            ..Call::default()
        };
        self.once(op, call, false).await;
    }

    /// Sends a request once, and records the outcome.
    pub(super) async fn once(&mut self, op: usize, mut call: Call, single: bool) -> Outcome {
        call.at = self.at;
        let reply = self.front.ask_somebody(call, &mut self.random).await;
        let outcome = outcome(&reply, single);
        self.attempted(op, outcome.clone(), &reply);
        outcome
    }

    fn attempted(&self, op: usize, outcome: Outcome, reply: &Reply) {
        let inner = &mut *self.world.lock();
        let to = inner.tick();
        let kind = inner.history.ops[op].kind;
        self.world.trace(inner, || {
            let reply = match reply {
                Reply::Answer { status, body } => {
                    format!("{status} {}", String::from_utf8_lossy(body))
                }
                Reply::Error {
                    status, message, ..
                } => format!("{status} {message}"),
                Reply::Broken => "broken".into(),
                Reply::NotSent => "not sent".into(),
            };
            // Transaction ids differ from run to run, so they are removed from the trace.
            let reply = reply
                .split("\"transaction_id\"")
                .next()
                .unwrap_or_default()
                .to_owned();
            format!("client: {kind:?} {op}: {reply}")
        });
        inner.history.counts.add(
            match outcome {
                Outcome::Done(_) => "writes answered 200",
                Outcome::Definite(..) => "writes answered with a definite error",
                Outcome::Unknown => "writes without a definite answer",
            },
            1,
        );
        inner.history.ops[op].attempts.push(Attempt { to, outcome });
    }

    /// Returns the body of the create of each entry.
    pub(super) fn bodies(&self, op: usize) -> Vec<Value> {
        let scenario = &self.world.scenario;
        let entries = &self.world.lock().history.ops[op].entries;
        let body = |entry: &Entry| {
            let Table { catalog, names, .. } = &scenario.tables[entry.table];
            let staging = (scenario.staging, scenario.catalogs[*catalog].tags);
            body(names.iter().map(String::as_str), entry, Some(staging))
        };
        entries.iter().map(body).collect()
    }

    fn request(&self, op: usize, as_batch: bool) -> (Call, bool, bool) {
        let bodies = self.bodies(op);
        let scenario = &self.world.scenario;
        let inner = self.world.lock();
        let Op {
            kind,
            entries,
            keyed,
            ..
        } = &inner.history.ops[op];
        let names = |entry: &Entry| scenario.tables[entry.table].names.clone();
        let single = *kind == Kind::Single;
        let call = if as_batch {
            Call {
                path: "/v1/table/version/batch-create".into(),
                body: json!({ "entries": bodies }).to_string(),
                key: keyed.then(|| format!("key-{op}")),
                ..Call::default()
            }
        } else {
            Call {
                path: path(&names(&entries[0]), "version/create"),
                body: bodies[0].to_string(),
                ..Call::default()
            }
        };
        (call, *keyed && !single, single)
    }

    /// Deletes the older versions of a table behind the gateway's back, as a job does that takes the highest one in
    /// storage for the latest.
    pub fn clean_up(&mut self, table: usize) {
        let scenario = &self.world.scenario;
        let Table { catalog, there, .. } = &scenario.tables[table];
        let inner = &mut *self.world.lock();
        let Some(spot) = inner.spot(scenario, table, false) else {
            return;
        };
        let latest = inner.stored(spot).into_keys().next_back();
        let ranges = json!([{"start_version": 0, "end_version": latest.unwrap_or_default()}]);
        let question = Question {
            operation: Operation::BatchDeleteTableVersions,
            table: there.clone(),
            query: String::new(),
            body: json!({ "ranges": ranges }).to_string().into_bytes(),
            own: false,
        };
        let reply = inner.catalogs[*catalog].catalog.answer(&question);
        self.world
            .trace(inner, || format!("BEHIND {question}: {}", reply.status));
        inner.history.disturbed.insert(spot);
        let cause = Cause {
            own: false,
            behind: true,
            waited_for: true,
            doubled: false,
        };
        inner.happened(scenario, *catalog, cause);
    }

    /// Writes to a catalog behind the gateway's back.
    pub(super) fn behind(&mut self) {
        let table = self.any_table();
        let Some(next) = self.next_in_storage(table) else {
            return;
        };
        let op = self.plan(&[next], false);
        let scenario = &self.world.scenario;
        let Table { catalog, there, .. } = &scenario.tables[table];
        let inner = &mut *self.world.lock();
        let op = &mut inner.history.ops[op];
        op.kind = Kind::Behind;
        let body = body(there.split('$'), &op.entries[0], None);
        let question = Question {
            operation: Operation::CreateTableVersion,
            table: there.clone(),
            query: String::new(),
            body: body.to_string().into_bytes(),
            own: false,
        };
        let reply = inner.catalogs[*catalog].catalog.answer(&question);
        self.world
            .trace(inner, || format!("BEHIND {question}: {}", reply.status));
        inner
            .history
            .counts
            .add("writes behind the gateway's back", 1);
        let cause = Cause {
            own: false,
            behind: true,
            waited_for: false,
            doubled: false,
        };
        inner.happened(scenario, *catalog, cause);
    }
}

fn body<'a>(
    names: impl Iterator<Item = &'a str>,
    entry: &Entry,
    staging: Option<(Staging, Tags)>,
) -> Value {
    let names: Vec<&str> = names.collect();
    let mut body = json!({"id": names, "version": entry.version, "manifest_path": entry.author});
    if entry.branch {
        body["branch"] = "b".into();
    }
    if let Some((_, tags)) = staging.filter(|(staging, _)| staging.tells_tag) {
        body["e_tag"] = json!(tags.staged(&entry.author));
    }
    if staging.is_some_and(|(staging, _)| staging.tells_size) {
        body["manifest_size"] = json!(entry.size);
    }
    body
}
