//! An audit log that cannot be written: stated, counted, and changes go on or are refused as configured.

use std::io::{BufRead, ErrorKind};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{INSERT, lines, path, setup, world};
use crate::batches::until;
use crate::client::{Client, full};
use crate::harness::{Setup, World};
use crate::running_gateway::{self, RunningGateway};
use crate::token;

/// The size that files may have, in KiB: more than the batch log has.
const DISK: u64 = 8 << 10;

/// Restarts the gateway on a disk with room for a part of one line.
pub async fn fill_the_disk(world: &mut World) {
    world.kill();
    let line = json!({"event": "filler", "with": "x".repeat(1000)}).to_string() + "\n";
    let room = usize::try_from(DISK << 10).unwrap();
    let mut filled = line.repeat(room / line.len() - 1);
    let short = room - filled.len() - 100;
    filled.push_str(&(json!({"with": "y".repeat(short - 12)}).to_string() + "\n"));
    std::fs::write(path(world), filled).unwrap();
    world.restart_with_small_files(DISK).await;
}

/// The lines of the log about the audit log.
fn stated(world: &World, words: &str) -> usize {
    world
        .log()
        .lines()
        .filter(|line| line.contains(words))
        .count()
}

/// Renames the full file, as logrotate does, and tells the gateway.
fn rotate(world: &World) -> Vec<Value> {
    let old = lines(world);
    std::fs::rename(path(world), world.folder().join("audit.log.1")).unwrap();
    world.hang_up();
    old
}

async fn writable(world: &World) -> bool {
    world.metric("nsgate_audit_writable").await == 1.0
}

async fn insert(client: &Client, id: &str) -> (u16, Option<u64>, String) {
    let reply = client
        .header("x-request-id", id)
        .post_rows(INSERT, full("rows"))
        .await;
    let (status, code) = reply.outcome();
    let words = if status == 200 {
        String::new()
    } else {
        reply.words()
    };
    (status, code, words)
}

#[tokio::test]
async fn a_full_disk_refuses_changes_if_the_audit_log_is_required_and_nothing_reaches_a_catalog() {
    let mut world = world("audit_required: true").await;
    fill_the_disk(&mut world).await;
    let client = world.client();
    // The first one finds out: its change was made, and its line waits.
    let (status, code, words) = insert(&client, "first").await;
    assert_eq!((status, code), (503, Some(17)), "{words}");
    assert!(words.contains("the change was made"), "{words}");
    world.catalog("west").forget();
    for id in ["second", "third"] {
        let (status, code, words) = insert(&client, id).await;
        assert_eq!((status, code), (503, Some(17)), "{words}");
        assert!(words.contains("no change is made until it can"), "{words}");
    }
    assert!(
        world.catalog("west").seen().is_empty(),
        "sent to the catalog"
    );
    client
        .post("/v1/table/west%24t1/exists", &json!({}))
        .await
        .ok();
    assert!(!writable(&world).await);
    until("it is stated once", || {
        stated(&world, "the audit log cannot be written; lines wait") == 1
    })
    .await;

    // Rotation makes room: lines that waited are written, and changes are made again.
    let old = rotate(&world);
    assert!(
        old.iter()
            .all(|line| line["event"] == Value::Null || line["event"] == "filler")
    );
    let again = async {
        while !writable(&world).await {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(crate::PATIENCE, again).await.unwrap();
    assert_eq!(insert(&client, "fourth").await.0, 200);
    until("it is stated", || {
        stated(&world, "the audit log is written again") == 1
    })
    .await;
    let ids = |outcome: &str| {
        let all = lines(&world).into_iter();
        let of = all.filter(|line| line["outcome"] == outcome && line["event"] == "change");
        of.map(|line| line["request"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(ids("done"), ["first", "fourth"]);
    assert_eq!(ids("failed"), ["second", "third"]);
    assert_eq!(world.metric("nsgate_audit_lines_lost_total").await, 0.0);
}

#[tokio::test]
async fn a_full_disk_holds_up_no_change_otherwise_and_lost_lines_are_counted() {
    const REQUESTS: usize = 9000;
    let mut world = world("access_log: false").await;
    fill_the_disk(&mut world).await;
    assert_eq!(insert(&world.client(), "first").await.0, 200);
    // Changes that no catalog needs to hear of, of so many callers that most have lines of their own.
    let mut clients = JoinSet::new();
    for caller in 0..90 {
        let client = world.client_with(&json!({"sub": format!("caller-{caller}")}));
        clients.spawn(async move {
            for _ in 0..REQUESTS / 90 {
                let reply = client.post("/v1/table/north%24t/restore", &json!({})).await;
                assert_eq!(reply.status, 404);
            }
        });
    }
    clients.join_all().await;
    assert_eq!(insert(&world.client(), "last").await.0, 200);
    let lost = world.metric("nsgate_audit_lines_lost_total").await;
    assert!(lost > 0.0);
    rotate(&world);
    let written = |world: &World| {
        lines(world)
            .iter()
            .filter(|line| line["event"] == "change")
            .count()
    };
    let said = |world: &World, event: &str| {
        let all = lines(world).into_iter();
        let said = all.filter(|line| line["event"] == event);
        said.map(|line| line["lines"].as_u64().unwrap())
            .sum::<u64>()
    };
    until("it is stated", || {
        stated(&world, "the audit log is written again") == 1
    })
    .await;
    // The line of the reload that the signal asked for may be lost as well.
    let all_lost = world.metric("nsgate_audit_lines_lost_total").await;
    until("it is stated once", || {
        stated(&world, "the audit log cannot be written; lines wait") == 1
    })
    .await;
    // A caller's lines that were left out are counted at the end of the minute, or of the process.
    world.terminate();
    assert_eq!(world.ended().await, Some(0));
    assert_eq!(said(&world, "lost") as f64, all_lost);
    let counted = written(&world) + said(&world, "omitted") as usize;
    assert_eq!(counted, REQUESTS + 2 - lost as usize);
}

/// True if nobody can read what a gateway writes to standard error: a process that another test starts has the reader
/// too, until it runs its program.
fn has_no_reader(gateway: u32) -> bool {
    let written = std::fs::write(format!("/proc/{gateway}/fd/2"), "\n");
    written.is_err_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

#[tokio::test]
async fn a_reader_that_is_gone_is_like_a_full_disk() {
    for required in [true, false] {
        let telemetry = format!("telemetry: {{ audit: stderr, audit_required: {required} }}");
        let mut world = Setup::two().section(&telemetry).start().await.seeded();
        world.kill();
        let mut command = running_gateway::command(world.folder());
        let (gateway, mut log) = RunningGateway::start_unread(command.env_clear());
        let (client, admin) = (Client::new(gateway.address), Client::new(gateway.admin));
        let bearer = format!("Bearer {}", token::token(&json!({})));
        let client = client.header("authorization", &bearer);
        assert_eq!(insert(&client, "seen").await.0, 200);
        let line = loop {
            let mut line = String::new();
            assert_ne!(log.read_line(&mut line).unwrap(), 0);
            let line: Value = serde_json::from_str(&line).unwrap();
            if line["event"] == "change" {
                break line;
            }
        };
        assert_eq!(line["request"], "seen");
        drop(log);
        until("nobody has the reader", || has_no_reader(gateway.id())).await;
        let first = insert(&client, "unseen").await;
        let second = insert(&client, "refused").await;
        if required {
            assert_eq!((first.0, second.0), (503, 503), "{first:?} {second:?}");
            assert!(second.2.contains("no change is made"), "{second:?}");
        } else {
            assert_eq!((first.0, second.0), (200, 200));
        }
        let told = async {
            loop {
                let page = admin.get("/metrics").await.ok();
                let page = String::from_utf8(page.body.to_vec()).unwrap();
                if page.contains("nsgate_audit_writable 0\n") {
                    break;
                }
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(crate::PATIENCE, told).await.unwrap();
    }
}

#[tokio::test]
async fn a_required_audit_log_can_be_given_up_by_a_reload() {
    let mut world = setup("audit_required: true").start().await.seeded();
    fill_the_disk(&mut world).await;
    let client = world.client();
    assert_eq!(insert(&client, "first").await.0, 503);
    assert_eq!(insert(&client, "second").await.0, 503);
    let yaml = world.configuration();
    world
        .reload(&yaml.replace("audit_required: true", "audit_required: false"))
        .await
        .ok();
    assert_eq!(insert(&client, "third").await.0, 200);
}
