//! A mixed batch over two real catalogs: names and versions change together, or not at all.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::client::{Client, Reply};
use crate::harness::{Behind, Catalog, Gateway, Python, block_on, eventually};

const COMMIT: &str = "/v1/table/batch-commit";
const EXTENDED: &str = "/nsgate/v1/batch-commit";
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
        self.send(COMMIT, operations)
    }

    fn send(&self, path: &str, operations: &Value) -> Reply {
        let body = json!({ "operations": operations });
        self.gateway.post(path, &body)
    }

    /// The tables that a client lists beside this one.
    fn listed(&self, table: &str) -> Value {
        self.client("list", &[&self.gateway.uri(), table])[0].clone()
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

/// A client writes a table under a temporary name. The table gets its real one when a table of another catalog gets its
/// next version.
#[test]
fn a_new_table_gets_its_name_with_the_versions_of_others() {
    let Some(mut scene) = Scene::set() else {
        return;
    };
    let temporary = "prod$__nsgate_new_01a1fe32-b018-7749-b091-c787866bc41d";
    let (_, name) = temporary.split_once('$').unwrap();
    let uri = scene.gateway.uri();
    scene.client("make", &[&uri, temporary]);
    assert_eq!(scene.listed(temporary), json!(["old"]));
    let written = scene.client("look", &[&uri, temporary])[0].clone();
    let expected = json!({"version": 1, "rows": 3, "versions": [1]});
    assert_eq!(written, expected);
    let staged = scene.staged();
    let rename = |new: &str| json!({"rename_table": {"id": ["prod", name], "new_table_name": new}});
    let taken = [json!({ "create_table_version": staged }), rename("old")];
    let reply = scene.send(EXTENDED, &json!(taken));
    assert_eq!(reply.outcome(), (409, Some(5)), "{reply:?}");
    assert!(reply.words().contains("operations[1]"), "{reply:?}");
    assert_eq!((scene.events(), scene.shown(name)), (json!([1]), THERE));
    let both = [json!({ "create_table_version": staged }), rename("daily")];
    let reply = scene.send(EXTENDED, &json!(both));
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(reply.json()["results"][1], json!({"rename_table": {}}));
    for _ in 0..2 {
        let uri = scene.gateway.uri();
        assert_eq!(scene.events(), json!([1, 2]));
        assert_eq!(scene.client("look", &[&uri, "prod$daily"])[0], written);
        assert_eq!(scene.listed(temporary), json!(["daily", "old"]));
        assert_eq!(
            (scene.shown("daily"), scene.shown(name)),
            (THERE, NOT_THERE)
        );
        eventually("the catalog to forget the temporary name", || {
            (scene.stored(name) == NOT_THERE).then_some(())
        });
        assert!(scene.gateway.terminate().success());
        scene.gateway.again();
    }
    // The client goes on with the real name.
    let uri = scene.gateway.uri();
    scene.client("append", &[&uri, "prod$daily"]);
    let after = scene.client("look", &[&uri, "prod$daily"])[0].clone();
    assert_eq!(after, json!({"version": 2, "rows": 4, "versions": [1, 2]}));
}
