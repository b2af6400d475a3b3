//! The command `nsgate batches`: what it shows an operator, and the effect of the operator's decisions.

mod resolve;
mod stranded;
mod watch;

use std::process::{Command, Output};
use std::time::Duration;

use serde_json::{Value, json};

use crate::batches::{BATCH, leave_hazard, pair, start, world};
use crate::catalog::faults::{Gate, PATIENCE};
use crate::harness::{Setup, World};

const DELETE: &str = "batch_delete_table_versions";

/// Runs `nsgate batches` with these arguments; returns the exit code, stdout and stderr.
async fn nsgate(admin: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    nsgate_with(admin, arguments, None).await
}

async fn nsgate_with(
    admin: &str,
    arguments: &[&str],
    token: Option<&str>,
) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nsgate"));
    command
        .args(["batches", "--admin", admin])
        .args(arguments)
        .env_clear()
        .env("USER", "ada");
    if let Some(token) = token {
        command.env("NSGATE_ADMIN_TOKEN", token);
    }
    let output = tokio::task::spawn_blocking(move || command.output());
    let Output {
        status,
        stdout,
        stderr,
    } = output.await.unwrap().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

fn admin(world: &World) -> String {
    format!("http://{}", world.admin_address())
}

/// Runs the command, which must succeed, and returns its output.
async fn printed(world: &World, arguments: &[&str]) -> String {
    let (code, stdout, stderr) = nsgate(&admin(world), arguments).await;
    assert_eq!((code, &*stderr), (Some(0), ""), "{arguments:?}");
    stdout
}

/// Runs the command, which must fail, and returns its error output.
async fn complained(admin: &str, arguments: &[&str]) -> String {
    let (code, stdout, stderr) = nsgate(admin, arguments).await;
    assert_eq!((code, &*stdout), (Some(1), ""), "{arguments:?}: {stderr}");
    stderr
}

/// Aborts a batch after another writer has built on its version 2 in `west`; returns the batch's id.
pub async fn built_on(world: &World) -> String {
    leave_hazard(world).await;
    let id = hazard(world).await;
    shows(world, &id, "not ours").await;
    id
}

/// Waits until the command shows `settled` for the batch. Then only the hazard is in doubt at a restart.
async fn shows(world: &World, id: &str, settled: &str) {
    while !printed(world, &["show", id]).await.contains(settled) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits for the only batch that waits for an operator, and returns its id.
async fn hazard(world: &World) -> String {
    let batch = first(world, |batch| batch["state"] == "hazard").await;
    batch["id"].as_str().unwrap().to_owned()
}

/// Waits until no batch is open, because the end of a batch is written after its answer.
async fn over(world: &World) {
    first(world, Value::is_null).await;
}

/// Waits until the first batch of the page meets the condition; `null` stands for no batch.
async fn first(world: &World, is_so: impl Fn(&Value) -> bool) -> Value {
    let told = async {
        loop {
            let page = world.admin().get("/batches").await.ok().json();
            if is_so(&page["batches"][0]) {
                return page["batches"][0].clone();
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, told).await.unwrap()
}

#[tokio::test]
async fn where_nothing_is_open_it_says_so() {
    let world = world("").await;
    let said = printed(&world, &["list"]).await;
    assert!(said.starts_with("no open batches"), "{said}");
    world.client().post(BATCH, &pair(&world, 2)).await.ok();
    over(&world).await;
    let said = printed(&world, &["list"]).await;
    assert!(said.starts_with("no open batches"), "{said}");
    let json: Value = serde_json::from_str(&printed(&world, &["list", "--json"]).await).unwrap();
    assert_eq!(json["batches"], json!([]));
}

#[tokio::test]
async fn an_undecided_batch_is_listed_with_its_backends() {
    let world = world("").await;
    let gate: Gate = world.catalog("east").hold("create_table_version");
    let batch = start(world.client(), pair(&world, 2));
    gate.reached(1).await;
    let said = printed(&world, &["list"]).await;
    let [head, line] = said.trim_end().lines().collect::<Vec<_>>()[..] else {
        panic!("{said}");
    };
    for word in ["ID", "STATE", "AGE", "ENTRIES", "BACKENDS", "WAITS FOR"] {
        assert!(head.contains(word), "{head}");
    }
    for word in ["undecided", " 2 ", "east, west"] {
        assert!(line.contains(word), "{line}");
    }
    // Each column begins below its heading.
    assert_eq!(head.find("BACKENDS"), line.find("east, west"), "{said}");
    gate.open();
    batch.await.unwrap().ok();
}

#[tokio::test]
async fn a_hazard_is_shown_with_what_is_the_matter() {
    let mut world = world("lock_timeout: 200ms").await;
    let id = built_on(&world).await;
    for run in ["at once", "after a restart"] {
        let listed = printed(&world, &["list"]).await;
        assert!(listed.contains(&id), "{run}: {listed}");
        assert!(listed.contains("hazard"), "{run}: {listed}");
        let shown = printed(&world, &["show", &id]).await;
        let address = admin(&world);
        let commands = ["commit", "abort"].map(|way| {
            format!("nsgate batches --admin {address} resolve {id} --{way} --why 'YOUR REASON'")
        });
        for words in [
            &*id,
            "entries[0]  create version 2 of west$t1 in backend west",
            "entries[1]  create version 2 of east$t1 in backend east",
            "1 of 2 changes cannot be rolled back safely",
            "a later version was built on it",
            "6 bytes",
            "keep what is there",
            "delete it on your decision",
            &commands[0],
            &commands[1],
        ] {
            assert!(shown.contains(words), "{run}: `{words}` is not in\n{shown}");
        }
        let json = printed(&world, &["show", &id, "--json"]).await;
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["entries"][0]["version"], 2, "{run}");
        for sample in [
            "nsgate_batch_hazards",
            "nsgate_batches_open{state=\"hazard\"}",
        ] {
            assert_eq!(
                world.metric(sample).await.to_string(),
                "1",
                "{run}: {sample}"
            );
        }
        let undoing = world.metric("nsgate_batches_open{state=\"undoing\"}");
        assert_eq!(undoing.await.to_string(), "0", "{run}");
        world.restart().await;
        hazard(&world).await;
    }
}

#[tokio::test]
async fn an_id_that_is_none_is_said_to_be_none() {
    let world = world("").await;
    let address = admin(&world);
    for id in [
        "nonsense",
        "0190b0a0-0000-7000-8000-000000000000",
        "a/b?c#d",
        "ü",
    ] {
        let said = complained(&address, &["show", id]).await;
        assert!(said.contains("is no longer remembered"), "{id}: {said}");
    }
    let answer = world.client().post(BATCH, &pair(&world, 2)).await.ok();
    let id = answer.json()["transaction_id"].as_str().unwrap().to_owned();
    over(&world).await;
    let said = complained(&address, &["show", &id]).await;
    assert!(said.contains("it was committed"), "{said}");
    let usage = nsgate(&address, &["show"]).await;
    assert_eq!(usage.0, Some(2), "{usage:?}");
}

#[tokio::test]
async fn who_is_not_the_admin_address_of_a_gateway_is_told_apart() {
    let world = world("").await;
    let said = complained("http://127.0.0.1:1", &["list"]).await;
    for words in [
        "http://127.0.0.1:1 does not answer",
        "refused",
        "admin.address",
    ] {
        assert!(said.contains(words), "`{words}` is not in {said}");
    }
    let front = format!("http://{}", world.address());
    for elsewhere in [front, world.catalog("west").uri()] {
        let said = complained(&elsewhere, &["list"]).await;
        assert!(
            said.contains("not as the admin address of nsgate"),
            "{said}"
        );
    }
    for nonsense in ["127.0.0.1:9090", "ftp://127.0.0.1", "/x"] {
        let (code, _, said) = nsgate(nonsense, &["list"]).await;
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("write http://HOST:PORT"), "{said}");
    }
}

#[tokio::test]
async fn the_admin_token_is_asked_for_and_taken() {
    let setup = Setup::two().section("admin: { address: 127.0.0.1:0, token: open-sesame }");
    let world = setup.start().await;
    let address = admin(&world);
    let said = complained(&address, &["list"]).await;
    assert!(
        said.contains("none was given") && said.contains("NSGATE_ADMIN_TOKEN"),
        "{said}"
    );
    let (code, _, said) = nsgate_with(&address, &["list"], Some("guess")).await;
    assert_eq!(code, Some(1));
    assert!(said.contains("the given token is wrong"), "{said}");
    assert!(!said.contains("guess"), "{said}");
    let (code, _, said) = nsgate_with(&address, &["list"], Some("")).await;
    assert_eq!(code, Some(1));
    assert!(said.contains("the given token is empty"), "{said}");
    let (code, _, said) = nsgate_with(&address, &["list"], Some("open-sesame")).await;
    assert_eq!((code, &*said), (Some(0), ""));
    let (code, _, said) = nsgate(&address, &["--token", "open-sesame", "list"]).await;
    assert_eq!((code, &*said), (Some(0), ""));
    let (code, _, said) = nsgate_with(&address, &["list"], Some("two\nlines")).await;
    assert_eq!(code, Some(1));
    assert!(said.contains("no header may carry"), "{said}");
}
