//! Gateways that are reached by half: a connection that hangs while others work.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use tokio::net::TcpListener;

use super::*;

/// The connections with which gateways learn the guards, the oldest first.
const KEEPERS: &str = "SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND query LIKE ANY ('{SELECT owner\\, ticket%,SELECT ticket FROM owed%,LISTEN nsgate%}') ORDER BY backend_start";

/// Stops the server's processes for connections of keepers, except for these, again and again.
struct Freezer {
    frozen: Arc<Mutex<Vec<String>>>,
    ends: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Freezer {
    fn start(server: Arc<Postgres>, except: Vec<String>) -> Self {
        let frozen: Arc<Mutex<Vec<String>>> = Arc::default();
        let ends: Arc<AtomicBool> = Arc::default();
        let (found, over) = (Arc::clone(&frozen), Arc::clone(&ends));
        let thread = thread::spawn(move || {
            while !over.load(Ordering::SeqCst) {
                for pid in keepers(&server) {
                    let mut frozen = found.lock().unwrap();
                    if !except.contains(&pid) && !frozen.contains(&pid) {
                        signal(&pid, "STOP");
                        frozen.push(pid);
                    }
                }
                thread::sleep(Duration::from_millis(20));
            }
        });
        Self {
            frozen,
            ends,
            thread: Some(thread),
        }
    }

    fn count(&self) -> usize {
        self.frozen.lock().unwrap().len()
    }
}

impl Drop for Freezer {
    /// Has all go on.
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        for pid in self.frozen.lock().unwrap().drain(..) {
            signal(&pid, "CONT");
        }
    }
}

fn keepers(server: &Postgres) -> Vec<String> {
    let pids = server.sql(KEEPERS);
    pids.split_whitespace().map(str::to_owned).collect()
}

fn signal(pid: &str, name: &str) {
    let _ = Command::new("kill")
        .args([&format!("-{name}"), pid])
        .status();
}

#[tokio::test]
async fn a_gateway_that_cannot_learn_of_batches_is_left_behind_until_it_can() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let server = Arc::new(server);
    // So long that a busy machine does not have the owner connect again, which the freezer would take for the other one.
    let mut world = world_with(&server, &server.socket(), LEASE * 5, 0).await;
    let owners = keepers(&server);
    assert_eq!(owners.len(), 1, "{owners:?}");
    world.join().await;
    let other = world.client_at(0);
    until_it_serves(&other).await;
    let freezer = Freezer::start(Arc::clone(&server), owners);
    until("its connection hangs", || freezer.count() > 0).await;
    let begun = Instant::now();
    let answer = world.client().post(BATCH, &pair(&world, 2)).await;
    println!("{} after {:?}", answer.status, begun.elapsed());
    assert_eq!(answer.status, 200, "{:?}", answer.body);
    // It shows nothing that is not so.
    let listed = other.post_nothing("/v1/table/west%24t1/version/list").await;
    assert!(listed.status == 503 || listed.json()["versions"].as_array().unwrap().len() == 2);
    until("it says so", || {
        let log = world.log_at(0);
        log.contains("does not learn which tables batches are on")
    })
    .await;
    world.client().post(BATCH, &pair(&world, 3)).await.ok();
    drop(freezer);
    until_it_serves(&other).await;
    assert_everywhere(&world, 1, &[1, 2, 3], "after it is back").await;
}

#[tokio::test]
async fn an_owner_that_takes_connections_and_answers_nothing_is_not_waited_for_without_end() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let deaf = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gateways = format!(
        "address: 127.0.0.1:0, advertise: \"{}\"",
        deaf.local_addr().unwrap()
    );
    tokio::spawn(async move {
        let mut taken = Vec::new();
        while let Ok((stream, _)) = deaf.accept().await {
            taken.push(stream);
        }
    });
    let setup = setup_with(&server, &server.socket(), LEASE, "", &gateways);
    let world = joined(setup, 1).await;
    let begun = Instant::now();
    let answer = world.client_at(0).post(BATCH, &pair(&world, 2)).await;
    println!("{} after {:?}", answer.status, begun.elapsed());
    assert_eq!(answer.status, 503, "{:?}", answer.body);
    let words = answer.json()["error"].to_string();
    assert!(words.contains("may have been carried out"), "{words}");
    assert!(words.contains("does not answer"), "{words}");
}

#[tokio::test]
async fn a_batch_that_the_database_has_lost_is_written_again_and_ends() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let world = world(&server, 1).await;
    let gate = world.catalog("east").hold("create_table_version");
    let batch = start(world.client(), pair(&world, 2));
    gate.reached(1).await;
    server.sql("DELETE FROM nsgate.batch");
    gate.open();
    batch.await.unwrap().ok();
    assert_everywhere(&world, 1, &[1, 2], "at the end").await;
    let log = world.log();
    for words in ["t1 in west", "t1 in east", "which it had acknowledged"] {
        assert!(log.contains(words), "{words} is not in {log}");
    }
    let kept = server.sql("SELECT count(*) FROM nsgate.batch WHERE verdict = 'c'");
    assert_eq!(kept, "1");
}

#[tokio::test]
async fn two_gateways_that_tell_the_same_address_are_reported() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let gateways = "address: 127.0.0.1:0, advertise: 127.0.0.1:9";
    let setup = setup_with(&server, &server.socket(), LEASE, "", gateways);
    let world = joined(setup, 1).await;
    until("it is reported", || {
        world.log().contains("two gateways tell the same address")
    })
    .await;
}
