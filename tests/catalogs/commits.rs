//! A mixed batch over two real catalogs: names and versions change together, or not at all.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::client::{Client, Reply};
use crate::harness::{Behind, Catalog, Gateway, Python, block_on, eventually};

const COMMIT: &str = "/v1/table/batch-commit";
const EVENTS: &str = "research$lake$events";
const THERE: (u16, Option<u64>) = (200, None);
const NOT_THERE: (u16, Option<u64>) = (404, Some(4));

/// The set-up: `prod$old` in one catalog, `research$lake$events` in another.
struct Scene {
    python: &'static Python,
    warehouse: Catalog,
    _lake: Catalog,
    gateway: Gateway,
}

impl Scene {
    fn set() -> Option<Self> {
        let python = Python::ready()?;
        let (warehouse, lake) = (Catalog::start(python), Catalog::start(python));
        let gateway = Gateway::before(&[
            Behind::kept("warehouse", warehouse.uri(), &["prod"]),
            Behind::rerooted("lake", lake.uri(), &["research", "lake"]),
        ]);
        let scene = Self {
            python,
            warehouse,
            _lake: lake,
            gateway,
        };
        let uri = scene.gateway.uri();
        scene.client("make", &[&scene.warehouse.uri(), "prod$old"]);
        scene.client("make", &[&uri, EVENTS]);
        Some(scene)
    }

    fn client(&self, action: &str, tables: &[&str]) -> Value {
        let arguments = [&[action, self.gateway.token()], tables].concat();
        self.python.run("batches.py", &arguments)
    }

    /// Returns a version of the events table, staged by a real client.
    fn staged(&self) -> Value {
        self.client("stage", &[&self.gateway.uri(), EVENTS])[0].clone()
    }

    fn events(&self) -> Value {
        let seen = self.client("look", &[&self.gateway.uri(), EVENTS]);
        seen[0]["versions"].clone()
    }

    fn commit(&self, operations: &Value) -> Reply {
        let body = json!({ "operations": operations });
        self.gateway.post(COMMIT, &body)
    }

    /// Describes a table through the gateway.
    fn shown(&self, table: &str) -> (u16, Option<u64>) {
        let target = format!("/v1/table/prod%24{table}/describe");
        self.gateway.post(&target, &json!({})).outcome()
    }

    /// Describes a table at its catalog.
    fn stored(&self, table: &str) -> (u16, Option<u64>) {
        let target = format!("/v1/table/prod%24{table}/describe");
        let address = SocketAddr::from(([127, 0, 0, 1], self.warehouse.port()));
        let body = json!({"id": ["prod", table]});
        block_on(Client::new(address).post(&target, &body)).outcome()
    }
}

#[test]
fn names_and_versions_change_together_over_two_catalogs() {
    let Some(mut scene) = Scene::set() else {
        return;
    };
    let reply = scene.commit(&json!([
        {"declare_table": {"id": ["prod", "new"], "properties": {"owner": "me"}}},
        {"create_table_version": scene.staged()},
        {"deregister_table": {"id": ["prod", "old"]}},
    ]));
    assert_eq!(reply.status, 200, "{reply:?}");
    let answer = reply.json();
    let results = &answer["results"];
    assert!(answer["transaction_id"].is_string(), "{answer}");
    assert_eq!(
        results[0]["declare_table"]["properties"]["owner"], "me",
        "{answer}"
    );
    assert_eq!(
        results[1]["create_table_version"]["version"]["version"], 2,
        "{answer}"
    );
    assert_eq!(
        results[2]["deregister_table"]["id"],
        json!(["prod", "old"]),
        "{answer}"
    );
    for _ in 0..2 {
        assert_eq!((scene.shown("new"), scene.shown("old")), (THERE, NOT_THERE));
        assert_eq!(scene.events(), json!([1, 2]));
        eventually("the catalog to forget the old name", || {
            (scene.stored("old") == NOT_THERE).then_some(())
        });
        assert_eq!(scene.stored("new"), THERE);
        assert!(scene.gateway.terminate().success());
        scene.gateway.again();
    }
}

#[test]
fn a_declared_name_goes_with_its_batch() {
    let Some(scene) = Scene::set() else {
        return;
    };
    let mut staged = scene.staged();
    let path = staged["manifest_path"].as_str().unwrap();
    staged["manifest_path"] = json!(format!("{path}-that-is-not-there"));
    let reply = scene.commit(&json!([
        {"declare_table": {"id": ["prod", "new"]}},
        {"deregister_table": {"id": ["prod", "old"]}},
        {"create_table_version": staged},
    ]));
    assert_eq!(reply.outcome(), (400, Some(13)), "{reply:?}");
    assert_eq!((scene.shown("new"), scene.shown("old")), (NOT_THERE, THERE));
    assert_eq!(scene.events(), json!([1]));
    eventually("the catalog to forget the new name", || {
        (scene.stored("new") == NOT_THERE).then_some(())
    });
    assert_eq!(scene.stored("old"), THERE);
}
