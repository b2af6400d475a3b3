//! The set-up that the tests of faults of one request of a batch share (late, lost, repeated); they are in the files of
//! its folder.
//!
//! Real catalogs run behind relays, real clients in front of the gateway. `lab$t` is the table whose catalog gets the
//! fault. `prod$o` is in another catalog, so that a batch spans two.

mod after_abort;
mod late_creates;
mod late_names;
mod late_removals;
mod leaving;
mod odd_answers;
mod renamed;

use std::sync::OnceLock;
use std::thread::{self, ScopedJoinHandle, sleep};
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::Reply;
use crate::harness::{Behind, Catalog, Clients, Gateway, Python, Relay, block_on, eventually};

const T: &str = "lab$t";
const O: &str = "prod$o";
const BATCH: &str = "/v1/table/version/batch-create";
const COMMIT: &str = "/v1/table/batch-commit";
const CREATE: &str = "/version/create";
const DELETE: &str = "/version/delete";
/// The time limit of a batch's request to a catalog.
const PREPARE: Duration = Duration::from_secs(2);
/// The cool-down of a number, unless a test sets another one.
const COOLDOWN: Duration = Duration::from_secs(1);

struct Scene {
    /// The catalog of `lab`. It outlives everything that uses it.
    lake: Catalog,
    warehouse: Catalog,
    /// The relay in front of the lake, which has `lab`.
    relay: Relay,
    /// The relay in front of the warehouse, which has `prod`.
    other: Relay,
    gateway: Gateway,
}

/// Starts the clients of all scenes once: a process needs seconds until it is ready.
static CLIENTS: OnceLock<Clients> = OnceLock::new();

impl Scene {
    fn set() -> Option<Self> {
        Self::with(&json!({}))
    }

    /// Starts a scene with more keys of `batch` and `limits`.
    fn with(more: &Value) -> Option<Self> {
        let python = Python::ready()?;
        let (lake, warehouse) = (Catalog::start(python), Catalog::start(python));
        let (relay, other) = (Relay::to(lake.port()), Relay::to(warehouse.port()));
        let mut config = json!({
            "batch": {
                "slot_cooldown": "1s",
                "prepare_timeout": "2s",
                "lock_timeout": "1s",
            },
        });
        for (section, keys) in more.as_object().unwrap() {
            for (key, value) in keys.as_object().unwrap() {
                config[section][key] = value.clone();
            }
        }
        let gateway = Gateway::configured(
            &[
                Behind::kept("lake", relay.uri(), &["lab"]),
                Behind::kept("warehouse", other.uri(), &["prod"]),
            ],
            &config,
        );
        let scene = Self {
            lake,
            warehouse,
            relay,
            other,
            gateway,
        };
        for (table, catalog) in [(T, &scene.lake), (O, &scene.warehouse)] {
            done(&scene.order("make", &catalog.uri(), table, &[]));
        }
        Some(scene)
    }

    /// Has a client do something through the gateway.
    fn through(&self, action: &str, table: &str, arguments: &[Value]) -> Value {
        self.order(action, &self.gateway.uri(), table, arguments)
    }

    /// Has a client do something at the lake itself.
    fn at_lake(&self, action: &str, table: &str, arguments: &[Value]) -> Value {
        self.order(action, &self.lake.uri(), table, arguments)
    }

    fn order(&self, action: &str, uri: &str, table: &str, arguments: &[Value]) -> Value {
        let token = self.gateway.token();
        let order = [
            &[json!(token), json!(action), json!(uri), json!(table)],
            arguments,
        ]
        .concat();
        CLIENTS.get_or_init(clients).order(&Value::Array(order))
    }

    /// Stages a version of a table through the gateway, with `count` rows of write `number`.
    fn staged(&self, table: &str, number: u64, count: u64) -> Value {
        let staged = self.through("stage", table, &[json!(number), json!(count)]);
        done(&staged)["entry"].clone()
    }

    /// Stages a version as `staged` does, with a manifest of this size. A few bytes of a manifest are the time, and one in
    /// some hundred is a byte shorter than the others.
    fn staged_alike(&self, table: &str, number: u64, count: u64, size: &Value) -> Value {
        let staged = (0..5000).map(|_| self.staged(table, number, count));
        let mut alike = staged.skip_while(|entry| entry["manifest_size"] != *size);
        alike.next().expect("another manifest of the same size")
    }

    /// Returns a batch of two: write `number` with two rows for `lab$t` and one for `prod$o`.
    fn entries(&self, number: u64) -> Value {
        json!([self.staged(T, number, 2), self.staged(O, number, 1)])
    }

    /// Returns a batch that aborts, because the other catalog cannot create its version.
    fn doomed(&self, number: u64) -> Value {
        let mut entries = self.entries(number);
        let path = entries[1]["manifest_path"].as_str().unwrap();
        entries[1]["manifest_path"] = json!(format!("{path}-that-is-not-there"));
        entries
    }

    fn batch(&self, entries: &Value) -> Reply {
        self.gateway.post(BATCH, &json!({ "entries": entries }))
    }

    /// Sends a batch, and does something else meanwhile.
    fn meanwhile<T>(&self, entries: &Value, act: impl FnOnce() -> T) -> (Reply, T) {
        thread::scope(|threads| {
            let batch = threads.spawn(|| self.batch(entries));
            let acted = act();
            (joined(batch), acted)
        })
    }

    fn commit(&self, operations: &Value) -> Reply {
        let body = json!({ "operations": operations });
        self.gateway.post(COMMIT, &body)
    }

    /// Returns the rows of a write that a pylance reader sees through the gateway, and those that the catalog has.
    fn rows(&self, table: &str, number: u64) -> (Value, Value) {
        let (shown, stored) = (
            self.through("look", table, &[]),
            self.at_lake("look", table, &[]),
        );
        let of = |seen: &Value| seen["rows"][number.to_string()].clone();
        (of(&shown), of(&stored))
    }

    /// Checks that an acknowledged write is there, through the gateway and at the catalog.
    fn kept(&self, told: &Value, table: &str, number: u64, count: u64) {
        if !is_done(told) {
            return;
        }
        let there = (json!(count), json!(count));
        let seen = self.rows(table, number);
        assert_eq!(seen, there, "write {number} was done: {told}; {self}");
    }

    /// Checks that no read of a table shows a write. A reader may be refused.
    fn hides(&self, table: &str, number: u64, others: u64) {
        for reader in ["look", "query"] {
            let seen = self.through(reader, table, &[]);
            let rows = &seen["rows"][number.to_string()];
            assert!(rows.is_null(), "{reader} shows write {number}: {seen}");
        }
        let counted = self.through("count", table, &[]);
        let right = counted["count"] == others || !is_done(&counted);
        assert!(right, "{others} rows are there, and not {counted}");
    }

    /// Waits until the lake holds these versions of a table.
    fn settles(&self, table: &str, versions: &Value) {
        let mut last = Value::Null;
        eventually(
            &format!("the catalog to hold {versions} of {table}"),
            || {
                last = self.at_lake("look", table, &[])["versions"].clone();
                (last == *versions).then_some(())
            },
        );
    }

    /// Waits until no batch has anything left to do, except to watch for late arrivals.
    fn undone(&self) {
        eventually("every batch to be over, or watched", || {
            let client = crate::client::Client::new(self.gateway.admin().parse().unwrap());
            let page = block_on(client.get("/batches")).json();
            let mut batches = page["batches"].as_array().unwrap().iter();
            batches
                .all(|batch| batch["state"] == "watching")
                .then_some(())
        });
    }
}

impl std::fmt::Display for Scene {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seen = self.relay.seen();
        let last = &seen[seen.len().saturating_sub(200)..];
        write!(to, "the lake was asked {last:#?}")
    }
}

fn clients() -> Clients {
    let python = Python::ready().expect("a scene has been set");
    Clients::start(&mut python.script("faults.py"))
}

fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    let ended = thread.join();
    ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn is_done(told: &Value) -> bool {
    told.get("error").is_none()
}

/// Returns what a client said that must not fail.
fn done(told: &Value) -> &Value {
    assert!(is_done(told), "{told}");
    told
}

/// Waits out the cool-down of a freed number.
fn rested() {
    sleep(COOLDOWN + Duration::from_millis(500));
}

fn is_refused(reply: &Reply) -> bool {
    matches!(reply.status, 409 | 503)
}
