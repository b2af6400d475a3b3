//! A catalog that keeps the data of tenants apart by context or by a header: whose table a batch is about.

use serde_json::{Value, json};

use super::{BATCH, at_rest, numbers, until};
use crate::catalog::faults::{BROKEN, Fault};
use crate::client::Client;
use crate::harness::{Setup, World};

const COMMIT: &str = "/v1/table/batch-commit";
const CREATE: &str = "create_table_version";
const CONTEXT: &str = "x-ns-ctx-tenant";
const DATABASE: &str = "x-lancedb-database";
const SELECTS: &str = "selects: { context: [tenant], headers: [x-lancedb-database] }";

/// The data of one tenant of each catalog: `None` is what no tenant selects.
type Tenant = Option<&'static str>;

/// Starts two catalogs that select by tenant, with `t1` of three versions and `old` of one, for acme, globex and nobody.
async fn world(settings: &str) -> World {
    let section = format!("batch: {{ log: batches.redb, {settings} }}");
    let setup = Setup::two().section(&section);
    let setup = setup.backend("west", SELECTS).backend("east", SELECTS);
    let world = setup.start().await;
    for name in ["west", "east"] {
        let catalog = world.catalog(name);
        catalog.select_by(CONTEXT);
        catalog.select_by(DATABASE);
        for tenant in [None, Some("acme"), Some("globex")] {
            with(&world, name, tenant, |store| {
                store.seed(&[name, "t1"], 3);
                store.seed(&[name, "old"], 1);
            });
        }
    }
    world
}

fn with<T>(
    world: &World,
    name: &str,
    tenant: Tenant,
    look: impl FnOnce(&mut crate::catalog::store::Store) -> T,
) -> T {
    match tenant {
        None => look(&mut world.catalog(name).store()),
        Some(tenant) => look(&mut world.catalog(name).part(tenant).lock().unwrap()),
    }
}

/// The versions that a tenant's table has at its catalog; `None` without the table.
fn stored(world: &World, name: &str, tenant: Tenant, table: &str) -> Option<Vec<u64>> {
    let contents = with(world, name, tenant, |store| store.contents(&[name, table]));
    contents.map(|versions| versions.into_iter().map(|(number, _)| number).collect())
}

/// A caller of a tenant, by a claim of its token.
fn of(world: &World, tenant: &str) -> Client {
    world.client_with(&json!({ "tenant": tenant }))
}

/// Stages a version of a tenant's `t1`, and returns the entry.
fn stage(world: &World, name: &str, tenant: &'static str, version: u64) -> Value {
    // Equal sizes, so that the batches of two tenants are equal.
    let (path, content) = (
        format!("{name}-{version}"),
        format!("{name} {version} of {}", &tenant[..1]),
    );
    with(world, name, Some(tenant), |store| {
        store.stage(&path, &content)
    });
    json!({"id": [name, "t1"], "version": version, "manifest_path": path, "manifest_size": content.len()})
}

fn pair(world: &World, tenant: &'static str, version: u64) -> Value {
    let entries = ["west", "east"].map(|name| stage(world, name, tenant, version));
    json!({ "entries": entries })
}

async fn visible(client: &Client, name: &str) -> Vec<u64> {
    let target = format!("/v1/table/{name}%24t1/version/list");
    numbers(&client.post_nothing(&target).await.ok().json())
}

/// Every request of a batch, also after its decision, carries what selects the data, and the caller's other context.
fn assert_whose(world: &World, name: &str, tenant: &str) {
    let seen = world.catalog(name).seen();
    let about_tables = seen.iter().filter(|seen| !seen.id.is_empty());
    for seen in about_tables {
        let whose = (seen.header(CONTEXT), seen.header("x-ns-ctx-run"));
        assert_eq!(whose, (Some(tenant), Some("7")), "{seen:?}");
    }
}

#[tokio::test]
async fn what_is_removed_after_the_decision_is_the_tenants_own() {
    let world = world("").await;
    let client = of(&world, "acme").header("x-ns-ctx-run", "7");
    let operations = json!({ "operations": [
        {"deregister_table": {"id": ["west", "old"]}},
        {"delete_table_versions": {"id": ["west", "t1"], "ranges": [{"start_version": 1, "end_version": 2}]}},
        {"create_table_version": stage(&world, "east", "acme", 4)},
        {"rename_table": {"id": ["east", "old"], "new_table_name": "new", "new_namespace_id": ["east"]}},
    ]});
    client
        .post("/nsgate/v1/batch-commit", &operations)
        .await
        .ok();
    at_rest(&world).await;
    let of_acme = |name, table| stored(&world, name, Some("acme"), table);
    assert_eq!(of_acme("west", "old"), None);
    assert_eq!(of_acme("west", "t1"), Some(vec![2, 3]));
    assert_eq!(of_acme("east", "t1"), Some(vec![1, 2, 3, 4]));
    assert_eq!(
        (of_acme("east", "old"), of_acme("east", "new")),
        (None, Some(vec![1]))
    );
    for tenant in [None, Some("globex")] {
        for name in ["west", "east"] {
            let left = (
                stored(&world, name, tenant, "t1"),
                stored(&world, name, tenant, "old"),
            );
            assert_eq!(
                left,
                (Some(vec![1, 2, 3]), Some(vec![1])),
                "{name} {tenant:?}"
            );
        }
    }
    assert_whose(&world, "west", "acme");
    assert_whose(&world, "east", "acme");
}

#[tokio::test]
async fn what_is_undone_is_the_tenants_own_also_after_a_restart() {
    for (dies, by) in [(false, CONTEXT), (true, CONTEXT), (true, DATABASE)] {
        let mut world = world("").await;
        let of = |world: &World, tenant: &str| match by {
            CONTEXT => of(world, tenant),
            header => world.client().header(header, tenant),
        };
        let east = world.catalog("east");
        let gate = east.hold(CREATE);
        east.fail(CREATE, Fault::Instead(400, r#"{"error":"no","code":13}"#));
        let client = of(&world, "acme").header("x-ns-ctx-run", "7");
        let batch = pair(&world, "acme", 4);
        let sent = tokio::spawn(async move { client.post(BATCH, &batch).await });
        gate.reached(1).await;
        until("west is prepared", || {
            stored(&world, "west", Some("acme"), "t1") == Some(vec![1, 2, 3, 4])
        })
        .await;
        // The version of that number which others have is neither hidden nor locked.
        with(&world, "west", Some("globex"), |store| {
            store.seed(&["west", "t1"], 4)
        });
        assert_eq!(visible(&of(&world, "globex"), "west").await, [1, 2, 3, 4]);
        assert_eq!(visible(&of(&world, "acme"), "west").await, [1, 2, 3]);
        let insert =
            json!({"id": ["west", "t1"], "ranges": [{"start_version": 1, "end_version": 2}]});
        let globex = of(&world, "globex");
        globex
            .post("/v1/table/west%24t1/version/delete", &insert)
            .await
            .ok();
        if dies {
            world.kill();
            gate.open();
            world.catalog("east").behave();
            world.restart().await;
        } else {
            gate.open();
            assert_eq!(sent.await.unwrap().status, 400);
        }
        at_rest(&world).await;
        assert_eq!(
            stored(&world, "west", Some("acme"), "t1"),
            Some(vec![1, 2, 3]),
            "{dies}"
        );
        assert_eq!(
            stored(&world, "west", Some("globex"), "t1"),
            Some(vec![2, 3, 4])
        );
        assert_eq!(stored(&world, "west", None, "t1"), Some(vec![1, 2, 3]));
        let deletes = world.catalog("west").seen_of("batch_delete_table_versions");
        let of_acme = deletes
            .iter()
            .filter(|seen| seen.header(by) == Some("acme"));
        for seen in of_acme {
            assert_eq!(seen.header("x-ns-ctx-run"), Some("7"), "{dies}: {seen:?}");
        }
    }
}

#[tokio::test]
async fn a_header_that_selects_goes_with_batches_snapshots_and_renames() {
    let world = world("").await;
    let client = world.client().header(DATABASE, "acme");
    client.post(BATCH, &pair(&world, "acme", 4)).await.ok();
    let tables = json!({"tables": [{"id": ["west", "t1"]}, {"id": ["east", "t1"]}]});
    let snapshot = client
        .post("/nsgate/v1/snapshot", &tables)
        .await
        .ok()
        .json();
    for table in snapshot["tables"].as_array().unwrap() {
        assert_eq!(table["version"]["version"], 4, "{snapshot}");
    }
    let rename =
        json!({"id": ["west", "old"], "new_table_name": "new", "new_namespace_id": ["east"]});
    let renamed = client.post("/v1/table/west%24old/rename", &rename).await;
    // Rules decide about names: nothing says that this caller may write that database.
    assert_eq!(renamed.outcome(), (403, Some(15)), "{renamed:?}");
    let removal = json!({ "operations": [{"deregister_table": {"id": ["west", "old"]}}] });
    let refused = client.post(COMMIT, &removal).await;
    assert_eq!(refused.outcome(), (403, Some(15)), "{refused:?}");
    at_rest(&world).await;
    for name in ["west", "east"] {
        assert_eq!(
            stored(&world, name, Some("acme"), "t1"),
            Some(vec![1, 2, 3, 4])
        );
        assert_eq!(stored(&world, name, None, "t1"), Some(vec![1, 2, 3]));
        assert_eq!(stored(&world, name, None, "old"), Some(vec![1]));
        let about_tables = world.catalog(name).seen();
        for seen in about_tables.iter().filter(|seen| !seen.id.is_empty()) {
            assert_eq!(seen.header(DATABASE), Some("acme"), "{seen:?}");
        }
    }
    let both = client.header(DATABASE, "globex");
    let refused = both.post(BATCH, &pair(&world, "acme", 5)).await;
    assert_eq!(refused.outcome(), (400, Some(13)), "{refused:?}");
}

/// Two tenants may share a subject and a key, or have no subject at all.
#[tokio::test]
async fn a_batch_of_another_tenant_is_another_batch() {
    let world = world("").await;
    for (version, claims) in [(4, json!({})), (5, json!({"sub": "etl"}))] {
        let mut answers = Vec::new();
        for tenant in ["acme", "globex"] {
            let mut claims = claims.clone();
            claims["tenant"] = json!(tenant);
            let client = world.client_with(&claims);
            let client = client.header("idempotency-key", &format!("nightly-{version}"));
            answers.push(
                client
                    .post(BATCH, &pair(&world, tenant, version))
                    .await
                    .ok(),
            );
            let latest = stored(&world, "west", Some(tenant), "t1").unwrap();
            assert_eq!(latest.last(), Some(&version), "{tenant}");
        }
    }
    // A client that chooses its tenant itself, with one token: the key says that it is one request.
    let key = world.client().header("idempotency-key", "once");
    let by_header = |tenant: &str| key.clone().header(DATABASE, tenant);
    by_header("acme")
        .post(BATCH, &pair(&world, "acme", 6))
        .await
        .ok();
    let other = by_header("globex")
        .post(BATCH, &pair(&world, "globex", 6))
        .await;
    assert_eq!(other.status, 422, "{other:?}");
    let again = by_header("acme")
        .post(BATCH, &pair(&world, "acme", 6))
        .await;
    assert_eq!(again.status, 200, "{again:?}");
}

#[tokio::test]
async fn equal_batches_of_two_tenants_at_once_are_two() {
    let world = world("").await;
    let gate = world.catalog("east").hold(CREATE);
    let mut sent = Vec::new();
    for tenant in ["acme", "globex"] {
        let (client, batch) = (of(&world, tenant), pair(&world, tenant, 4));
        sent.push(tokio::spawn(
            async move { client.post(BATCH, &batch).await },
        ));
        if tenant == "acme" {
            gate.reached(1).await;
        }
    }
    gate.open();
    for (tenant, answer) in ["acme", "globex"].into_iter().zip(sent) {
        answer.await.unwrap().ok();
        assert_eq!(
            stored(&world, "west", Some(tenant), "t1"),
            Some(vec![1, 2, 3, 4])
        );
    }
}

/// The catalog may select by it, and nothing says so.
#[tokio::test]
async fn a_batch_with_context_needs_to_know_what_selects() {
    let setup = Setup::two().backend("west", "selects: {}");
    let world = setup
        .backend("east", "# selects: not said")
        .start()
        .await
        .seeded();
    let plain = super::pair(&world, 2);
    world.client().post(BATCH, &plain).await.ok();
    let batch = super::pair(&world, 3);
    let refused = of(&world, "acme").post(BATCH, &batch).await;
    assert_eq!(refused.status, 406, "{refused:?}");
    let words = refused.words();
    assert!(
        words.contains("`east`") && words.contains("selects: { context: [tenant] }"),
        "{words}"
    );
    assert_eq!(super::stored(&world, "west"), [1, 2]);
    let west = json!({"entries": [super::stage(&world, "west", 3)]});
    of(&world, "acme").post(BATCH, &west).await.ok();
}

/// A removal is sent with the gateway's own credentials, after the decision: who may, must be known before.
#[tokio::test]
async fn a_caller_whom_nobody_judges_removes_nothing() {
    let removals = [
        json!({"deregister_table": {"id": ["west", "t1"]}}),
        json!({"delete_table_versions": {"id": ["west", "t1"], "ranges": [{"start_version": 1, "end_version": 2}]}}),
    ];
    let rename =
        json!({"id": ["west", "t1"], "new_table_name": "new", "new_namespace_id": ["east"]});
    for (rules, judged) in [
        ("#authorization:", false),
        (
            "authorization: [{ namespace: [], read: { any_caller: true }, write: { any_caller: true } }]",
            true,
        ),
    ] {
        let world = Setup::two().section(rules).start().await.seeded();
        super::pair(&world, 2);
        let versions = super::pair(&world, 2);
        world.client().post(BATCH, &versions).await.ok();
        for removal in &removals[..] {
            let batch = json!({ "operations": [removal] });
            let answer = world.client().post(COMMIT, &batch).await;
            if !judged {
                assert_eq!(answer.outcome(), (403, Some(15)), "{answer:?}");
                assert!(answer.words().contains("`authorization`"), "{answer:?}");
            } else if removal.get("delete_table_versions").is_some() {
                // The table is gone by then.
                assert_eq!(answer.status, 404, "{answer:?}");
            } else {
                answer.ok();
            }
        }
        let renamed = world
            .client()
            .post("/v1/table/west%24t1/rename", &rename)
            .await;
        if judged {
            assert_eq!(renamed.status, 404, "{renamed:?}");
        } else {
            assert_eq!(renamed.outcome(), (403, Some(15)), "{renamed:?}");
            assert_eq!(super::stored(&world, "west"), [1, 2]);
        }
    }
}

/// A catalog that is away knows no tenant: the batch waits, and goes on for the same one.
#[tokio::test]
async fn a_removal_that_waits_is_still_the_tenants() {
    let mut world = world("").await;
    world
        .catalog("west")
        .fail_always("deregister_table", Fault::Instead(500, BROKEN));
    let operations = json!({ "operations": [{"deregister_table": {"id": ["west", "old"]}}] });
    of(&world, "acme").post(COMMIT, &operations).await.ok();
    world.restart().await;
    world.catalog("west").behave();
    at_rest(&world).await;
    assert_eq!(stored(&world, "west", Some("acme"), "old"), None);
    assert_eq!(stored(&world, "west", None, "old"), Some(vec![1]));
}
