//! A batch over two real catalogs: both tables show the new version, or neither does.

use std::thread;

use http::Method;
use serde_json::{Value, json};

use crate::client::{Reply, full};
use crate::harness::{Behind, Catalog, Gateway, Python, Relay, block_on, eventually};

const ORDERS: &str = "prod$orders";
const EVENTS: &str = "research$lake$events";
const BATCH: &str = "/v1/table/version/batch-create";

/// The set-up: two catalogs with a table of three rows each, behind one gateway.
struct Scene {
    python: &'static Python,
    warehouse: Catalog,
    lake: Catalog,
    /// The relay between the gateway and the lake.
    relay: Relay,
    gateway: Gateway,
}

/// Returns a reader's view of a table.
fn table(version: u64, rows: u64) -> Value {
    let versions: Vec<_> = (1..=version).collect();
    json!({ "version": version, "rows": rows, "versions": versions })
}

fn both(orders: &Value, events: &Value) -> Value {
    json!([orders, events])
}

impl Scene {
    fn set() -> Option<Self> {
        let python = Python::ready()?;
        let (warehouse, lake) = (Catalog::start(python), Catalog::start(python));
        let relay = Relay::to(lake.port());
        let gateway = Gateway::before(&[
            Behind::kept("warehouse", warehouse.uri(), &["prod"]),
            Behind::rerooted("lake", relay.uri(), &["research", "lake"]),
        ]);
        let scene = Self {
            python,
            warehouse,
            lake,
            relay,
            gateway,
        };
        scene.client("make", &scene.stored());
        scene.everywhere(&both(&table(1, 3), &table(1, 3)), "at the start");
        Some(scene)
    }

    /// Returns the addresses of both tables through the gateway.
    fn shown(&self) -> [(String, &'static str); 2] {
        [ORDERS, EVENTS].map(|table| (self.gateway.uri(), table))
    }

    /// Returns the addresses of both tables at their catalogs.
    fn stored(&self) -> [(String, &'static str); 2] {
        [(self.warehouse.uri(), ORDERS), (self.lake.uri(), "events")]
    }

    fn client(&self, action: &str, tables: &[(String, &str)]) -> Value {
        let tables = tables.iter().flat_map(|(uri, table)| [uri.as_str(), table]);
        let arguments: Vec<_> = [action, self.gateway.token()]
            .into_iter()
            .chain(tables)
            .collect();
        self.python.run("batches.py", &arguments)
    }

    /// Returns the entries of a batch that adds two rows to each table.
    fn staged(&self) -> Value {
        self.client("stage", &self.shown())
    }

    fn commit(&self, entries: &Value) -> Reply {
        self.gateway.post(BATCH, &json!({ "entries": entries }))
    }

    /// Checks that readers see nothing but `expected`: through the gateway at once, at the catalogs in the end, and
    /// both after a restart.
    fn shows(&mut self, expected: &Value) {
        let seen = self.client("look", &self.shown());
        assert_eq!(&seen, expected, "through the gateway");
        self.settles(expected);
        assert!(self.gateway.terminate().success());
        self.gateway.again();
        self.everywhere(expected, "after a restart");
    }

    fn everywhere(&self, expected: &Value, when: &str) {
        let seen = self.client("look", &[self.shown(), self.stored()].concat());
        let seen = seen.as_array().unwrap();
        let (shown, stored) = seen.split_at(2);
        let expected = expected.as_array().unwrap();
        assert_eq!(shown, expected, "through the gateway {when}");
        assert_eq!(stored, expected, "at the catalogs {when}");
    }

    /// Waits until both catalogs hold what is expected: undo may go on after the batch was answered.
    fn settles(&self, expected: &Value) {
        eventually(&format!("the catalogs to hold {expected}"), || {
            (&self.client("look", &self.stored()) == expected).then_some(())
        });
    }
}

#[test]
fn a_batch_shows_in_both_catalogs() {
    let Some(mut scene) = Scene::set() else {
        return;
    };
    let answer = scene.commit(&scene.staged());
    assert_eq!(answer.status, 200, "{answer:?}");
    let answer = answer.json();
    assert!(answer["transaction_id"].is_string(), "{answer}");
    let versions = answer["versions"].as_array().unwrap();
    let versions: Vec<_> = versions.iter().map(|version| &version["version"]).collect();
    assert_eq!(versions, [2, 2], "{answer}");
    scene.shows(&both(&table(2, 5), &table(2, 5)));

    // The next batch builds on it.
    let answer = scene.commit(&scene.staged());
    assert_eq!(answer.status, 200, "{answer:?}");
    scene.shows(&both(&table(3, 7), &table(3, 7)));
}

#[test]
fn a_batch_with_a_version_that_is_taken_changes_nothing() {
    let Some(mut scene) = Scene::set() else {
        return;
    };
    let entries = scene.staged();
    scene.client("append", &scene.stored()[1..]);
    let answer = scene.commit(&entries);
    assert_eq!(answer.outcome(), (409, Some(14)), "{answer:?}");
    scene.shows(&both(&table(1, 3), &table(2, 4)));
}

#[test]
fn a_batch_with_a_missing_table_changes_nothing() {
    let Some(mut scene) = Scene::set() else {
        return;
    };
    let mut entries = scene.staged();
    entries[1]["id"] = json!(["research", "lake", "nothing"]);
    let answer = scene.commit(&entries);
    assert_eq!(answer.outcome(), (404, Some(4)), "{answer:?}");
    scene.shows(&both(&table(1, 3), &table(1, 3)));
}

#[test]
fn a_batch_with_a_missing_staged_manifest_changes_nothing() {
    let Some(mut scene) = Scene::set() else {
        return;
    };
    let mut entries = scene.staged();
    let path = entries[1]["manifest_path"].as_str().unwrap();
    entries[1]["manifest_path"] = json!(format!("{path}-that-is-not-there"));
    let answer = scene.commit(&entries);
    assert_eq!(answer.outcome(), (400, Some(13)), "{answer:?}");
    scene.shows(&both(&table(1, 3), &table(1, 3)));
}

#[test]
fn a_batch_with_a_stopped_catalog_changes_nothing() {
    let Some(mut scene) = Scene::set() else {
        return;
    };
    let entries = scene.staged();
    scene.lake.stop();
    let answer = scene.commit(&entries);
    assert_eq!(answer.outcome(), (503, Some(17)), "{answer:?}");
    scene.lake.again();
    scene.shows(&both(&table(1, 3), &table(1, 3)));
}

#[test]
fn a_gateway_killed_before_the_second_catalog_hears_of_a_batch_leaves_nothing_of_it() {
    killed_in_the_middle(false, &both(&table(1, 3), &table(1, 3)));
}

#[test]
fn a_gateway_killed_when_both_catalogs_have_done_their_part_finishes_the_batch() {
    killed_in_the_middle(true, &both(&table(2, 5), &table(2, 5)));
}

/// Kills the gateway (kill -9) after the warehouse has created its version, while the lake is to create its own. With
/// `done` the lake has created it, otherwise not.
fn killed_in_the_middle(done: bool, expected: &Value) {
    let Some(mut scene) = Scene::set() else {
        return;
    };
    let entries = scene.staged();
    let caught = scene.relay.catch("/version/create");
    let batch = json!({ "entries": entries }).to_string();
    let client = scene.gateway.client().header("idempotency-key", "once");
    let again = batch.clone();
    thread::scope(|threads| {
        let commit = threads.spawn(move || block_on(client.send(Method::POST, BATCH, full(batch))));
        caught.wait();
        if done {
            assert_eq!(caught.deliver().status(), 200);
        }
        eventually("the warehouse to have its version", || {
            let orders = scene.client("look", &scene.stored()[..1]);
            (orders[0]["version"] == 2).then_some(())
        });
        // The batch is prepared and not decided, so no client sees it through the gateway.
        let seen = scene.client("versions", &scene.shown());
        assert_eq!(seen, json!([[1], [1]]), "an undecided version is hidden");
        assert!(!commit.is_finished(), "nobody is told how it ends");
        scene.gateway.kill();
        assert!(commit.join().unwrap().is_err());
    });
    caught.cut();
    scene.gateway.again();
    scene.shows(expected);
    // The version number is taken by now, so only a gateway that still knows the batch can say how it ended.
    let client = scene.gateway.client().header("idempotency-key", "once");
    let told = block_on(client.send(Method::POST, BATCH, full(again))).unwrap();
    let committed = *expected == both(&table(2, 5), &table(2, 5));
    assert_eq!(told.status == 200, committed, "{told:?}");
}
