//! Operations with tables in their bodies: each table is checked before anything is written or locked.

use serde_json::{Value, json};

use super::{CALLERS, asked, fresh, setup};
use crate::batches::at_rest;
use crate::client::{Client, Reply};
use crate::harness::World;

const CREATE: &str = "/v1/table/version/batch-create";
const COMMIT: &str = "/v1/table/batch-commit";
const EXTENDED: &str = "/nsgate/v1/batch-commit";

/// Makes a client with the scopes for `own`, plus `claims`, e.g. the claim for `foreign`.
fn writer(world: &World, claims: &Value) -> Client {
    let mut all = json!({"scope": "catalog.read catalog.write"});
    for (claim, value) in claims.as_object().unwrap() {
        all[claim] = value.clone();
    }
    world.client_with(&all)
}

/// Stages a version that a catalog would accept, and returns its entry in a batch.
fn version(world: &World, namespace: &str, table: &str) -> Value {
    let path = format!("{namespace}-{table}");
    if let Some((_, catalog)) = world.catalogs.iter().find(|(name, _)| *name == namespace) {
        catalog.store().seed(&[namespace, table], 1);
        catalog.store().stage(&path, &path);
    }
    json!({"id": [namespace, table], "version": 2, "manifest_path": path})
}

/// Makes one operation of a commit, of the kind with this number.
fn operation(world: &World, kind: usize, namespace: &str, table: &str) -> Value {
    match kind {
        0 => json!({"declare_table": {"id": [namespace, table]}}),
        1 => json!({"create_table_version": version(world, namespace, table)}),
        2 => {
            version(world, namespace, table);
            let ranges = json!([{"start_version": 1, "end_version": 2}]);
            json!({"delete_table_versions": {"id": [namespace, table], "ranges": ranges}})
        }
        _ => {
            version(world, namespace, table);
            json!({"deregister_table": {"id": [namespace, table]}})
        }
    }
}

fn assert_denied(world: &World, reply: &Reply, words: &str, case: &str) {
    assert_eq!(reply.outcome(), (403, Some(15)), "{case}: {reply:?}");
    assert!(reply.words().contains(words), "{case}: {}", reply.words());
    for (name, catalog) in &world.catalogs {
        let asked = asked(catalog);
        assert!(asked.is_empty(), "{case}: {name} was asked {asked:?}");
    }
}

#[tokio::test]
async fn one_denied_entry_denies_a_batch_wherever_it_stands() {
    let world = setup().start().await;
    let client = writer(&world, &json!({}));
    let mut cases = 0;
    for length in 1..=5_usize {
        for denied in 0..length {
            for foreign in ["foreign", "nowhere"] {
                fresh(&world);
                let namespace = |index| if index == denied { foreign } else { "own" };
                let entry = |index| version(&world, namespace(index), &format!("t{index}"));
                let entries: Vec<Value> = (0..length).map(entry).collect();
                let reply = client.post(CREATE, &json!({ "entries": entries })).await;
                let case = format!("{denied} of {length}, {foreign}");
                assert_denied(
                    &world,
                    &reply,
                    &format!("entries[{denied}]: not allowed to write"),
                    &case,
                );
                cases += 1;
                for kind in 0..4_usize {
                    fresh(&world);
                    let operation = |index| {
                        let kind = if index == denied { kind } else { index % 4 };
                        operation(&world, kind, namespace(index), &format!("t{index}"))
                    };
                    let operations: Vec<Value> = (0..length).map(operation).collect();
                    let body = json!({ "operations": operations });
                    let reply = client.post(COMMIT, &body).await;
                    let words = format!("operations[{denied}]: not allowed to write");
                    assert_denied(&world, &reply, &words, &format!("{case}, {operations:?}"));
                    cases += 1;
                }
            }
        }
    }
    println!("{cases} batches with one denied entry");
    // No lock is held, and no batch was begun.
    assert!(world.metric("nsgate_batches_undecided").await.abs() < 0.5);
    fresh(&world);
    let entries = [
        version(&world, "own", "t1"),
        version(&world, "foreign", "t1"),
    ];
    let body = json!({ "entries": entries });
    assert_eq!(client.post(CREATE, &body).await.outcome(), (403, Some(15)));
    let both = writer(&world, &json!({"team": "theirs"}));
    both.post(CREATE, &body).await.ok();
}

/// A read-only caller is denied too, and so is a batch that would be forwarded to one catalog
/// unchanged.
#[tokio::test]
async fn a_batch_needs_leave_to_write() {
    let world = setup().start().await;
    for caller in &CALLERS {
        fresh(&world);
        let entries = json!({"entries": [version(&world, "own", "t1")]});
        let reply = caller.client(&world).post(CREATE, &entries).await;
        if caller.may(true, "own") {
            drop(reply.ok());
        } else {
            assert_denied(&world, &reply, "entries[0]: ", caller.name);
        }
    }
}

#[tokio::test]
async fn a_repeated_batch_is_checked_again() {
    let world = setup().start().await;
    fresh(&world);
    let body = json!({"entries": [version(&world, "own", "t1"), version(&world, "foreign", "t1")]});
    let keyed = |client: Client| client.header("idempotency-key", "once");
    let both = keyed(writer(&world, &json!({"team": "theirs"})));
    let first = both.post(CREATE, &body).await.ok().json();
    assert_eq!(both.post(CREATE, &body).await.ok().json(), first);
    // This is the same subject, but without the claim.
    let less = keyed(writer(&world, &json!({})));
    assert_eq!(less.post(CREATE, &body).await.outcome(), (403, Some(15)));
}

#[tokio::test]
async fn both_names_of_a_rename_are_checked() {
    let world = setup().start().await;
    let own = json!({});
    let both = json!({"team": "theirs"});
    let to = |namespace: &str| json!({"new_table_name": "u", "new_namespace_id": [namespace]});
    for (claims, old, body, denied) in [
        (&own, "own", json!({"new_table_name": "u"}), false),
        (&own, "own", to("own"), false),
        (&own, "own", to("foreign"), true),
        (&own, "own", to("nowhere"), true),
        (&own, "foreign", json!({"new_table_name": "u"}), true),
        (&own, "foreign", to("own"), true),
        (&own, "nowhere", to("own"), true),
        (&both, "foreign", to("own"), false),
        (&both, "own", to("foreign"), false),
        (&both, "foreign", json!({"new_table_name": "u"}), false),
    ] {
        for in_batch in [false, true] {
            fresh(&world);
            // The catalogs share one storage, so that a table can move from one to the other.
            let (one, other) = (world.catalog("own"), world.catalog("foreign"));
            other.store().share(&one.store());
            one.store().seed(&["own", "t1"], 1);
            other.store().seed(&["foreign", "t1"], 1);
            let client = writer(&world, claims);
            let reply = if in_batch {
                let body = renames(&[old, "t1"], &body);
                client.post(EXTENDED, &body).await
            } else {
                let target = format!("/v1/table/{old}%24t1/rename");
                client.post(&target, &body).await
            };
            let case = format!("{claims} {old} {body} {in_batch}");
            if denied {
                let at = if in_batch { "operations[1]: " } else { "" };
                let words = format!("{at}not allowed to write");
                assert_denied(&world, &reply, &words, &case);
            } else {
                assert_eq!(reply.status, 200, "{case}: {reply:?}");
                at_rest(&world).await;
                let name = format!("{old}$t1");
                let tables = world.catalog(old).store().tables();
                assert!(tables.iter().all(|(id, _)| *id != name), "{case}");
            }
        }
    }
}

/// Makes a batch that declares a table and renames another one.
fn renames(id: &[&str], new: &Value) -> Value {
    let mut rename = new.clone();
    rename["id"] = json!(id);
    let declare = json!({"declare_table": {"id": ["own", "declared"]}});
    json!({"operations": [declare, {"rename_table": rename}]})
}

/// The caller may write `prod`, but not `prod$hr` below it. Operations on `prod` that reach below
/// it are denied.
#[tokio::test]
async fn what_reaches_below_needs_leave_there() {
    let rules = "authorization:
  - { namespace: [prod], read: { scope: catalog.read }, write: { scope: catalog.write } }
  - { namespace: [prod, hr], read: { claim: team, any_of: [hr] }, write: { deny: true } }
  - { namespace: [prod, eu, t1, x], read: { deny: true }, write: { deny: true } }";
    let world = super::Setup::new()
        .mount("[prod]", "prod")
        .section(rules)
        .start()
        .await;
    let (client, catalog) = (writer(&world, &json!({})), world.catalog("prod"));
    catalog.store().seed(&["prod", "hr", "t"], 1);
    catalog.store().seed(&["prod", "eu", "t1"], 1);
    catalog.store().seed(&["prod", "eu", "t2"], 1);
    let nothing = || json!({});
    let into = |names: &[&str]| json!({"new_table_name": "t1", "new_namespace_id": names});
    let entry = |id: &[&str]| json!({"operations": [{"deregister_table": {"id": id}}]});
    let rename = |id: &[&str], namespace: &[&str]| {
        let rename = json!({"id": id, "new_table_name": "t1", "new_namespace_id": namespace});
        json!({"operations": [{ "rename_table": rename }]})
    };
    for (target, body, words) in [
        ("/v1/namespace/prod/drop", nothing(), "below"),
        (
            "/v1/namespace/prod/create",
            json!({"mode": "overwrite"}),
            "below",
        ),
        ("/v1/namespace/prod/a_newer/operation", nothing(), "below"),
        ("/v1/namespace/%24/drop", nothing(), "no rule covers"),
        (
            "/v1/namespace/prod%24hr/drop",
            nothing(),
            "[prod, hr] allows nobody",
        ),
        ("/v1/namespace/prod%24eu/drop", nothing(), "below"),
        ("/v1/table/prod%24eu%24t1/deregister", nothing(), "below"),
        ("/v1/table/prod%24eu%24t1/drop", nothing(), "below"),
        (
            "/v1/table/prod%24eu%24t2/rename",
            into(&["prod", "eu"]),
            "below",
        ),
        (
            "/v1/table/prod%24eu%24t2/rename",
            into(&["prod", "hr"]),
            "[prod, hr] allows nobody",
        ),
        (COMMIT, entry(&["prod", "eu", "t1"]), "below"),
        (COMMIT, entry(&["prod"]), "below"),
        (EXTENDED, entry(&["prod"]), "below"),
        (
            EXTENDED,
            rename(&["prod", "eu", "t2"], &["prod", "eu"]),
            "below",
        ),
        (
            EXTENDED,
            rename(&["prod", "eu", "t2"], &["prod", "hr"]),
            "[prod, hr] allows nobody",
        ),
    ] {
        let reply = client.post(target, &body).await;
        assert_denied(&world, &reply, words, target);
        // A caller that may not see the namespace must not be told its name.
        let hidden = words == "below";
        assert!(
            !hidden || !reply.words().contains("hr"),
            "{}",
            reply.words()
        );
    }
    let told = writer(&world, &json!({"team": "hr"}));
    let reply = told.post("/v1/namespace/prod/drop", &nothing()).await;
    assert_denied(
        &world,
        &reply,
        "the rule for [prod, hr] allows nobody",
        "told",
    );
    client
        .post("/v1/table/prod%24eu%24t2/deregister", &nothing())
        .await
        .ok();
}

/// Catalogs join names with `$`: for them `hr$t` in `prod` is the table `t` of `prod$hr`.
#[tokio::test]
async fn a_name_that_holds_the_delimiter_passes_no_rule_by() {
    let rules = "authorization:
  - { namespace: [prod], read: { scope: catalog.read }, write: { scope: catalog.write } }
  - { namespace: [prod, hr], read: { claim: team, any_of: [hr] }, write: { claim: team, any_of: [hr] } }";
    let world = super::Setup::new()
        .mount("[prod]", "prod")
        .backend("prod", "delimiters: any")
        .section(rules)
        .start()
        .await;
    let (client, catalog) = (writer(&world, &json!({})), world.catalog("prod"));
    catalog.store().seed(&["prod", "hr", "t"], 1);
    catalog.store().seed(&["prod", "a", "t"], 1);
    let describe = |table: &str| format!("/v1/table/{table}/describe?delimiter=.");
    let entry = json!({"id": ["prod", "hr$t"], "version": 2, "manifest_path": "m"});
    for (target, body) in [
        (&*describe("prod.hr%24t"), json!({})),
        ("/v1/table/prod.hr%24t/version/list?delimiter=.", json!({})),
        ("/v1/table/prod.hr%24t/drop?delimiter=.", json!({})),
        (
            "/v1/table/prod.hr%24t/a_newer/operation?delimiter=.",
            json!({}),
        ),
        ("/v1/namespace/prod.hr%24x/exists?delimiter=.", json!({})),
        (
            "/v1/table/prod%24a%24t/rename",
            json!({"new_table_name": "hr$t", "new_namespace_id": ["prod"]}),
        ),
        (CREATE, json!({"entries": [entry]})),
        (
            COMMIT,
            json!({"operations": [{"deregister_table": {"id": ["prod", "hr$t"]}}]}),
        ),
    ] {
        let reply = client.post(target, &body).await;
        assert_denied(&world, &reply, "the rule for [prod, hr] needs", target);
    }
    // A caller with both permissions reaches the catalog. This catalog does not join names, so it
    // has no such table.
    let hr = writer(&world, &json!({"team": "hr"}));
    for (client, table) in [(&client, "prod.a%24t"), (&hr, "prod.hr%24t")] {
        let reply = client.post(&describe(table), &json!({})).await;
        assert_eq!(reply.outcome(), (404, Some(4)), "{table}: {reply:?}");
    }
}

/// A newer contract may have more operations that name their tables only in the body. Such a path
/// could be one.
#[tokio::test]
async fn what_may_be_a_newer_batch_needs_leave_everywhere() {
    let rules = |hr: &str| {
        format!(
            "authorization:
  - {{ namespace: [], read: {{ scope: catalog.read }}, write: {{ scope: catalog.write }} }}
  - {{ namespace: [hr], read: {{ scope: catalog.read }}, write: {{ {hr} }} }}"
        )
    };
    let setup = |hr| super::Setup::new().mount("[]", "all").section(&rules(hr));
    let target = "/v1/table/version/batch-drop";
    let uuid = "0193c7a0-0000-7000-8000-000000000000";
    let alter = format!("/v1/transaction/{uuid}/alter?delimiter=-");
    let body = json!({"entries": [{"id": ["hr", "t"]}]});
    let world = setup("deny: true").start().await;
    for target in [target, &alter] {
        let reply = writer(&world, &json!({})).post(target, &json!({})).await;
        assert_denied(&world, &reply, "[hr] allows nobody", target);
    }
    let world = setup("scope: catalog.write").start().await;
    writer(&world, &json!({})).post(target, &body).await.ok();
    writer(&world, &json!({}))
        .post(&alter, &json!({}))
        .await
        .ok();
}

#[tokio::test]
async fn other_rules_hold_from_the_reload_on() {
    let world = setup().start().await;
    fresh(&world);
    let client = writer(&world, &json!({}));
    let target = "/v1/table/own%24t1/drop";
    client.post_nothing(target).await.ok();
    let less = world
        .configuration()
        .replace("write: { scope: catalog.write }", "write: { deny: true }");
    world.reload(&less).await.ok();
    assert_eq!(client.post_nothing(target).await.outcome(), (403, Some(15)));
    let none = less.split("\nauthorization:").next().unwrap();
    world.reload(none).await.ok();
    let anyone = world.client_with(&json!({}));
    fresh(&world);
    anyone.post_nothing(target).await.ok();
}
