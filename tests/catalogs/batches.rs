//! A batch over two real catalogs: both tables show the new version, or neither does.

use std::thread;

use http::Method;
use serde_json::{Value, json};

use crate::client::{Reply, full};
use crate::harness::{Behind, Catalog, Gateway, Held, Python, Relay, block_on, eventually};

const ORDERS: &str = "prod$orders";
const EVENTS: &str = "research$lake$events";
const BATCH: &str = "/v1/table/version/batch-create";

/// Two catalogs with a table of three rows each, behind one gateway.
struct Scene {
    python: &'static Python,
    warehouse: Catalog,
    lake: Catalog,
    /// Between the gateway and the lake.
    relay: Relay,
    gateway: Gateway,
}

/// What a reader sees of a table.
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
        scene.client("make", &scene.warehouse.uri(), &[ORDERS]);
        scene.client("make", &scene.lake.uri(), &["events"]);
        assert_eq!(scene.seen(), both(&table(1, 3), &table(1, 3)));
        Some(scene)
    }

    fn client(&self, action: &str, uri: &str, tables: &[&str]) -> Value {
        let arguments = [&[action, uri, self.gateway.token()], tables].concat();
        self.python.run("batches.py", &arguments)
    }

    /// The entries of a batch that adds two rows to each table.
    fn staged(&self) -> Value {
        self.client("stage", &self.gateway.uri(), &[ORDERS, EVENTS])
    }

    fn commit(&self, entries: &Value) -> Reply {
        self.gateway.post(BATCH, &json!({ "entries": entries }))
    }

    /// Both tables through the gateway.
    fn seen(&self) -> Value {
        self.client("look", &self.gateway.uri(), &[ORDERS, EVENTS])
    }

    /// Both tables at their catalogs.
    fn stored(&self) -> Value {
        let orders = self.client("look", &self.warehouse.uri(), &[ORDERS]);
        let events = self.client("look", &self.lake.uri(), &["events"]);
        both(&orders[0], &events[0])
    }

    /// Nothing but `expected` is to be seen: at once through the gateway, in the end at the catalogs, and both after
    /// a restart.
    fn shows(&mut self, expected: &Value) {
        assert_eq!(&self.seen(), expected, "through the gateway");
        self.settles(expected);
        assert!(self.gateway.terminate().success());
        self.gateway.again();
        assert_eq!(&self.seen(), expected, "after a restart");
        assert_eq!(&self.stored(), expected, "at the catalogs after a restart");
    }

    fn settles(&self, expected: &Value) {
        eventually(&format!("the catalogs to hold {expected}"), || {
            (&self.stored() == expected).then_some(())
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

    // And the next one builds on it.
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
    scene.client("append", &scene.lake.uri(), &["events"]);
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
    killed_in_the_middle(Held::Request, &both(&table(1, 3), &table(1, 3)));
}

#[test]
fn a_gateway_killed_when_both_catalogs_have_done_their_part_finishes_the_batch() {
    killed_in_the_middle(Held::Answer, &both(&table(2, 5), &table(2, 5)));
}

/// Kill -9 while the lake is asked to create its version and the warehouse has created its own.
fn killed_in_the_middle(held: Held, expected: &Value) {
    let Some(mut scene) = Scene::set() else {
        return;
    };
    let entries = scene.staged();
    scene.relay.hold(held);
    let batch = json!({ "entries": entries }).to_string();
    let client = scene.gateway.client();
    thread::scope(|threads| {
        let commit = threads.spawn(move || block_on(client.send(Method::POST, BATCH, full(batch))));
        scene.relay.wait_until_holding();
        eventually("the warehouse to have its version", || {
            let orders = &scene.client("look", &scene.warehouse.uri(), &[ORDERS])[0];
            (orders["version"] == 2).then_some(())
        });
        // Prepared, not decided: nobody sees it through the gateway.
        let seen = scene.client("versions", &scene.gateway.uri(), &[ORDERS, EVENTS]);
        assert_eq!(seen, json!([[1], [1]]), "an undecided version is hidden");
        assert!(!commit.is_finished(), "nobody is told how it ends");
        scene.gateway.kill();
        assert!(commit.join().unwrap().is_err());
    });
    scene.relay.cut();
    scene.gateway.again();
    assert_eq!(
        &scene.seen(),
        expected,
        "through the gateway after the restart"
    );
    scene.settles(expected);
    scene.shows(expected);
}
