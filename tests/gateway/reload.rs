//! A reloaded configuration becomes active as a whole or not at all; requests in flight are not affected.

mod batches;
mod renamed;
mod steady;

use std::time::Duration;

use serde_json::json;

use crate::catalog::faults::PATIENCE;
use crate::harness::{Setup, World};
use crate::online::shown;

const COUNT: &str = "/v1/table/west%24t1/count_rows";
const ELSEWHERE: &str = "/v1/table/there%24t1/count_rows";

/// Returns the configuration with `old`, which must be there, replaced by `new`.
fn with(yaml: &str, old: &str, new: &str) -> String {
    assert!(yaml.contains(old), "{old} is not in\n{yaml}");
    yaml.replace(old, new)
}

/// Returns the configuration with the mount `[there]` instead of `[west]`, in the same namespace of the same
/// catalog.
fn moved(yaml: &str) -> String {
    with(
        yaml,
        "namespace: [west], backend: west",
        "namespace: [there], backend: west",
    )
}

async fn status(world: &World, target: &str) -> u16 {
    world.client().post(target, &json!({})).await.status
}

/// Waits until `times` reloads have ended with this result.
async fn reloaded(world: &World, result: &str, times: f64) {
    let sample = format!("nsgate_config_reloads_total{{result=\"{result}\"}}");
    let over = async {
        while world.metric(&sample).await < times {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, over).await;
    assert!(waited.is_ok(), "no such reload:\n{}", world.log());
}

/// Waits until the gateway has logged these words.
pub async fn logged(world: &World, words: &str) {
    let written = async {
        while !world.log().contains(words) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, written).await;
    assert!(waited.is_ok(), "{words} is not in\n{}", world.log());
}

#[tokio::test]
async fn routes_change_at_once_and_the_answer_says_what_changed() {
    let world = World::two().await;
    let yaml = world.configuration();
    assert_eq!(
        [status(&world, COUNT).await, status(&world, ELSEWHERE).await],
        [200, 404]
    );
    let reply = world.reload(&moved(&yaml)).await.ok().json();
    assert_eq!(reply["reloaded"], true);
    assert_eq!(reply["changed"], json!(["mounts"]));
    assert_eq!(
        [status(&world, COUNT).await, status(&world, ELSEWHERE).await],
        [404, 200]
    );
    let config = world.admin().get("/config").await.ok().json();
    assert_eq!(config["mounts"][0]["namespace"], json!(["there"]));
    let ready = world.admin().get("/ready").await.ok().json();
    assert_eq!(ready["last_reload"]["result"], "success");
    assert_eq!(ready["last_reload"]["trigger"], "request");
}

#[tokio::test]
async fn an_unsound_configuration_changes_nothing_and_every_problem_has_its_place() {
    let world = World::two().await;
    let yaml = world.configuration();
    let broken = with(&moved(&yaml), "workers: 2", "workers: many\n  wrokers: 2");
    let reply = world.reload(&broken).await;
    assert_eq!(reply.outcome(), (422, Some(13)));
    let problems = reply.json()["problems"].as_array().unwrap().clone();
    let starts: Vec<_> = problems
        .iter()
        .map(|line| {
            line.as_str()
                .unwrap()
                .split(": ")
                .take(2)
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect();
    assert_eq!(
        starts,
        [
            "gateway.yaml:3:12 listen.workers",
            "gateway.yaml:4:3 listen.wrokers"
        ]
    );
    assert_eq!(
        [status(&world, COUNT).await, status(&world, ELSEWHERE).await],
        [200, 404]
    );
    let ready = world.admin().get("/ready").await.ok().json();
    assert_eq!(ready["ready"], true);
    assert_eq!(ready["last_reload"]["result"], "failure");
    assert_eq!(ready["last_reload"]["problems"], json!(problems));
    let failures = world.metric("nsgate_config_reloads_total{result=\"failure\"}");
    assert!((failures.await - 1.0).abs() < 0.1);
    logged(&world, "gateway.yaml:3:12").await;
    world.reload(&yaml).await.ok();
    let ready = world.admin().get("/ready").await.ok().json();
    assert_eq!(ready["last_reload"]["result"], "success");
}

#[tokio::test]
async fn what_needs_a_restart_is_named_and_the_rest_is_in_use() {
    let world = World::two().await;
    let yaml = moved(&world.configuration());
    let asked = with(
        &yaml,
        "batch: { log: batches.redb }",
        "batch: { log: other.redb, max_entries: 7 }",
    );
    let asked = with(
        &asked,
        "  address: 127.0.0.1:0\n  workers: 2",
        "  address: 127.0.0.1:1\n  workers: 2",
    );
    let reply = world.reload(&asked).await.ok().json();
    let fixed = reply["restart_needed"].as_array().unwrap().iter();
    let keys: Vec<_> = fixed.map(|fixed| fixed["key"].as_str().unwrap()).collect();
    assert_eq!(keys, ["listen.address", "batch.log"]);
    assert_eq!(reply["changed"], json!(["batch.max_entries", "mounts"]));
    assert_eq!(status(&world, ELSEWHERE).await, 200);
    let config = world.admin().get("/config").await.ok().json();
    assert_eq!(config["listen"]["address"], "127.0.0.1:0");
    logged(&world, "needs a restart").await;
}

#[tokio::test]
async fn a_signal_and_a_changed_file_are_asked_for_reloads_too() {
    let setup = Setup::two().backend("west", "context_prefix: ${file:prefix}");
    let catalogs = [
        ("west", crate::catalog::Catalog::start().await),
        ("east", crate::catalog::Catalog::start().await),
    ];
    let world = setup
        .over_with(catalogs.into(), &[("prefix", "x-one-")])
        .await
        .seeded();
    world.configure(&moved(&world.configuration()));
    world.hang_up();
    reloaded(&world, "success", 1.0).await;
    assert_eq!(status(&world, ELSEWHERE).await, 200);
    // Kubernetes replaces a file in this way: by another file under the same name.
    std::fs::write(world.folder().join("prefix.new"), "x-two-").unwrap();
    std::fs::rename(
        world.folder().join("prefix.new"),
        world.folder().join("prefix"),
    )
    .unwrap();
    reloaded(&world, "success", 2.0).await;
    let config = world.admin().get("/config").await.ok().json();
    assert_eq!(config["backends"]["west"]["context_prefix"], "x-two-");
    let ready = world.admin().get("/ready").await.ok().json();
    assert_eq!(ready["last_reload"]["trigger"], "file");
    // A missing file makes the configuration invalid; its return is a change like any other.
    std::fs::remove_file(world.folder().join("prefix")).unwrap();
    reloaded(&world, "failure", 1.0).await;
    std::fs::write(world.folder().join("prefix"), "x-three-").unwrap();
    reloaded(&world, "success", 3.0).await;
    assert_eq!(status(&world, ELSEWHERE).await, 200);
}

#[tokio::test]
async fn reloads_are_asked_for_with_post_and_the_token() {
    let setup = Setup::two().section("admin: { address: 127.0.0.1:0, token: open-sesame }");
    let world = setup.start().await.seeded();
    let yaml = world.configuration();
    assert_eq!(world.reload(&yaml).await.status, 401);
    let with_token = world.admin().header("authorization", "Bearer open-sesame");
    let get = with_token.get("/reload").await;
    assert_eq!((get.status, get.header("allow")), (405, Some("POST")));
    world.configure(&with(&yaml, "open-sesame", "close-sesame"));
    let reply = with_token.post_nothing("/reload").await.ok();
    assert_eq!(reply.json()["changed"], json!(["admin.token"]));
    assert_eq!(with_token.get("/config").await.status, 401);
    let with_token = world.admin().header("authorization", "Bearer close-sesame");
    with_token.get("/config").await.ok();
}

#[tokio::test]
async fn bounds_and_the_log_follow_while_requests_are_held() {
    let world = World::two().await;
    let yaml = world.configuration();
    let bound = |in_flight: usize| format!("{yaml}limits: {{ in_flight: {in_flight} }}\n");
    let gate = world.catalog("west").hold("table_exists");
    let client = world.client();
    let held =
        tokio::spawn(async move { client.post("/v1/table/west%24t1/exists", &json!({})).await });
    gate.reached(1).await;
    world.reload(&bound(1)).await.ok();
    assert_eq!(
        status(&world, COUNT).await,
        503,
        "the place is taken by a request of before"
    );
    world.reload(&bound(2)).await.ok();
    assert_eq!(status(&world, COUNT).await, 200);
    let few = with(
        &yaml,
        "batch: { log: batches.redb }",
        "batch: { log: batches.redb, max_entries: 1 }",
    );
    world
        .reload(&format!(
            "{few}telemetry: {{ level: error, access_log: false }}\n"
        ))
        .await
        .ok();
    let entry = |name: &str| json!({"id": [name, "t1"], "version": 2, "manifest_path": "x"});
    let two = json!({"entries": [entry("west"), entry("east")]});
    let reply = world
        .client()
        .post("/v1/table/version/batch-create", &two)
        .await;
    assert!(
        reply.status == 400 && reply.words().contains("entries"),
        "{reply:?}"
    );
    gate.open();
    assert_eq!(held.await.unwrap().status, 200);
    // Lines of earlier requests may still be on their way; lines of later requests must not be written at
    // all.
    logged(&world, "\"operation\":\"table_exists\"").await;
    let lines = world.log().lines().count();
    assert_eq!(status(&world, COUNT).await, 200);
    world
        .reload(&format!(
            "{yaml}telemetry: {{ level: info, access_log: true }}\n"
        ))
        .await
        .ok();
    assert_eq!(status(&world, ELSEWHERE).await, 404);
    logged(&world, "\"status\":404").await;
    let after: Vec<_> = world.log().lines().skip(lines).map(str::to_owned).collect();
    assert!(
        !after.iter().any(|line| line.contains("\"status\":200")),
        "{after:#?}"
    );
    assert_eq!(
        after.len(),
        2,
        "that it was reloaded, and one request: {after:#?}"
    );
}

#[tokio::test]
async fn what_is_gone_is_gone_from_the_metrics_and_nobody_asks_for_its_health() {
    let world = Setup::two().start().await.seeded();
    let yaml = world.configuration();
    let third = with(
        &yaml,
        "backends:\n",
        &format!(
            "backends:\n  third:\n    implementation: rest\n    properties: {{ uri: \"{}\", headers.x-database: third }}\n    health: {{ interval: 10ms, path: /healthz }}\n",
            world.catalog("east").uri()
        ),
    );
    world.reload(&third).await.ok();
    let up = "nsgate_backend_up{backend=\"third\"}";
    let page = || async {
        String::from_utf8(world.admin().get("/metrics").await.ok().body.to_vec()).unwrap()
    };
    assert!(page().await.contains(up));
    // A rejected configuration must leave nothing behind.
    let broken = with(&third, "  third:", "  fourth:");
    let broken = with(
        &broken,
        "keys: { file: keys.json }",
        "keys: { file: gateway.yaml }",
    );
    let reply = world.reload(&broken).await;
    assert_eq!(reply.status, 422);
    assert!(
        reply.json()["problems"][0]
            .as_str()
            .unwrap()
            .contains("auth.issuers[0].keys.file: is no key set"),
        "{reply:?}"
    );
    assert!(!page().await.contains(&up.replace("third", "fourth")));
    assert_eq!(status(&world, COUNT).await, 200);
    world.reload(&yaml).await.ok();
    assert!(!page().await.contains(up));
    assert!(
        !world
            .admin()
            .get("/backends")
            .await
            .ok()
            .json()
            .to_string()
            .contains("third")
    );
}

#[tokio::test]
async fn a_backend_that_was_replaced_says_nothing_of_the_one_that_is_in_use() {
    let setup = Setup::two()
        .backend("west", "breaker: { failures: 2, open_for: 1h }")
        .backend("west", "health: { interval: 10ms, path: /healthz }");
    let world = setup.start().await.seeded();
    let west = world.catalog("west");
    world.catalog("east").store().seed(&["west", "t1"], 1);
    // The gateway's own question after managed versioning may pass an open breaker, and close it.
    shown(&world, "west", &json!("yes")).await;
    let gate = west.hold("count_table_rows");
    let client = world.client();
    let held = tokio::spawn(async move { client.post(COUNT, &json!({})).await.status });
    gate.reached(1).await;
    crate::failures::fail_twice(&world).await;
    let (up, open) = (
        "nsgate_backend_up{backend=\"west\"}",
        "nsgate_backend_breaker_open{backend=\"west\"}",
    );
    let told = async || {
        (
            world.metric(up).await as i64,
            world.metric(open).await as i64,
        )
    };
    assert_eq!(told().await, (0, 1));

    let (old, new) = (west.uri(), world.catalog("east").uri());
    let yaml = with(&world.configuration(), &new, "http://127.0.0.1:1");
    world.reload(&with(&yaml, &old, &new)).await.ok();
    // The old address still gets health checks, because a request to it is in flight.
    let asked = || {
        west.seen()
            .iter()
            .filter(|s| s.target == "/healthz")
            .count()
    };
    let before = asked();
    while asked() < before + 5 {
        assert_eq!(told().await, (1, 0));
    }
    assert_eq!(status(&world, COUNT).await, 200);
    gate.open();
    assert_eq!(held.await.unwrap(), 200, "it ends where it began");
    assert_eq!(told().await, (1, 0));
}

#[tokio::test]
async fn an_issuers_keys_from_a_file_are_in_use_when_the_reload_is() {
    let world = World::two().await;
    let keys = world.folder().join("keys.json");
    let own = std::fs::read_to_string(&keys).unwrap();
    std::fs::write(&keys, "{").unwrap();
    let yaml = world.configuration();
    assert_eq!(world.reload(&yaml).await.status, 422);
    assert_eq!(status(&world, COUNT).await, 200, "the old keys stay");
    let other = own.replace("\"kid\":\"", "\"kid\":\"not-");
    assert_ne!(other, own);
    std::fs::write(&keys, other).unwrap();
    world.reload(&yaml).await.ok();
    assert_eq!(
        status(&world, COUNT).await,
        401,
        "its key is not published any more"
    );
    std::fs::write(&keys, own).unwrap();
    world.reload(&yaml).await.ok();
    assert_eq!(status(&world, COUNT).await, 200);
}
