//! Connections that break, and servers that crash: what was acknowledged is there, and each answer was true.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use nsgate::batch::log::postgres::PostgresLog;
use nsgate::batch::log::{BatchId, Log, Record, Verdict, all};
use nsgate::batch::step::{Decision, Settled};
use tokio::task::JoinSet;

use crate::cable::Cable;
use crate::house::{abort, commit, config, held, installed, intent, is_away, open, until};
use crate::postgres::Postgres;

/// The answers that one batch got.
struct Told {
    id: BatchId,
    /// The decision; `None` if INTENT was refused.
    decision: Option<Decision>,
}

/// Runs batches until told to stop; two deciders of each batch.
async fn work(log: Arc<PostgresLog>, stop: Arc<AtomicBool>, done: Arc<AtomicU64>) -> Vec<Told> {
    let mut told = Vec::new();
    while !stop.load(Ordering::SeqCst) {
        let id = BatchId::now_v7();
        let begun = log.intend(id, intent(None)).await;
        if is_away(&begun) {
            told.push(Told { id, decision: None });
            continue;
        }
        begun.unwrap();
        let (one, other) = tokio::join!(log.decide(id, commit()), log.decide(id, abort()));
        let decision = one.unwrap();
        assert_eq!(decision, other.unwrap());
        assert_eq!(log.decide(id, abort()).await.unwrap(), decision);
        log.sending(id, 0).await.unwrap();
        log.note(id, 0, Settled::Leaving).await.unwrap();
        log.note(id, 0, Settled::Gone).await.unwrap();
        log.end(id, 5).await.unwrap();
        told.push(Told {
            id,
            decision: Some(decision),
        });
        done.fetch_add(1, Ordering::SeqCst);
    }
    told
}

/// Runs many batches while `trouble` is made, and checks all of them.
async fn under<F: Future<Output = ()>>(
    log: Arc<PostgresLog>,
    trouble: impl FnOnce(Arc<AtomicU64>) -> F,
) {
    let (stop, done) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
    );
    let mut workers = JoinSet::new();
    for _ in 0..12 {
        workers.spawn(work(Arc::clone(&log), Arc::clone(&stop), Arc::clone(&done)));
    }
    trouble(Arc::clone(&done)).await;
    stop.store(true, Ordering::SeqCst);
    let told: Vec<Told> = workers.join_all().await.into_iter().flatten().collect();
    let records = all(&*log).await.unwrap();
    let records: HashMap<BatchId, Record> = records
        .into_iter()
        .map(|record| (record.id, record))
        .collect();
    let mut begun = 0;
    for Told { id, decision } in told {
        let record = records.get(&id);
        let Some(decision) = decision else {
            assert!(record.is_none(), "{id} was refused, and is in the log");
            continue;
        };
        begun += 1;
        let record = record.unwrap_or_else(|| panic!("{id} is lost"));
        assert_eq!(
            record.verdict.as_ref().map(Verdict::decision),
            Some(decision)
        );
        assert_eq!(record.settled, [Some(Settled::Gone), None]);
        assert_eq!(record.ended, Some(5));
    }
    assert_eq!(begun, records.len(), "batches that nobody began");
    assert_eq!(begun as u64, done.load(Ordering::SeqCst));
}

/// Waits for further batches: the log works again.
async fn goes_on(done: &AtomicU64) {
    let (before, began) = (done.load(Ordering::SeqCst), Instant::now());
    while done.load(Ordering::SeqCst) < before + 20 {
        assert!(
            began.elapsed() < Duration::from_secs(30),
            "it does not go on"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_is_cut_in_the_middle_of_a_commit() {
    let Some(server) = Postgres::start() else {
        return;
    };
    installed(&server, "cut").await;
    let cable = Cable::to(server.port).await;
    let log = Arc::new(open(&config(&server.loopback(cable.port), "cut")).await);
    under(Arc::clone(&log), async |done| {
        for round in 1..=40 {
            cable.cut_after(1 + round % 7);
            goes_on(&done).await;
        }
    })
    .await;
    assert!(cable.cuts() >= 30, "{} cuts", cable.cuts());
    log.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_crashes() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let log = Arc::new(open(&installed(&server, "crash").await).await);
    let server = Arc::new(server);
    under(Arc::clone(&log), async |done| {
        for _ in 0..5 {
            let server = Arc::clone(&server);
            let restart = tokio::task::spawn_blocking(move || {
                server.crash();
                server.up();
            });
            restart.await.unwrap();
            goes_on(&done).await;
        }
    })
    .await;
    log.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_that_is_refused_while_the_server_is_silent_is_not_in_the_log() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let socket = installed(&server, "silent").await;
    let cable = Cable::to(server.port).await;
    let log = open(&config(&server.loopback(cable.port), "silent")).await;
    let before = BatchId::now_v7();
    log.intend(before, intent(None)).await.unwrap();
    cable.shut();
    let (began, id) = (Instant::now(), BatchId::now_v7());
    let refused = log.intend(id, intent(Some("again"))).await;
    assert!(is_away(&refused), "{refused:?}");
    assert!(began.elapsed() < Duration::from_secs(6));
    // The tables stay locked meanwhile: another gateway that takes the log over would find this batch.
    let mut withdrawn = log.withdrawn(id);
    assert!((&mut withdrawn).now_or_never().is_none());
    // What was sent into the silence arrives now, and is taken back.
    cable.open();
    withdrawn.await.unwrap();
    assert_eq!(server.sql("SELECT count(*) FROM silent.batch").trim(), "1");
    let after = BatchId::now_v7();
    while is_away(&log.intend(after, intent(None)).await) {}
    log.decide(before, commit()).await.unwrap();
    log.decide(after, commit()).await.unwrap();
    log.close().await.unwrap();
    let log = open(&socket).await;
    let ids = all(&log).await.unwrap().into_iter().map(|record| record.id);
    assert_eq!(ids.collect::<Vec<_>>(), [before, after]);
    assert_eq!(held(&log).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_arrives_after_it_was_repeated_changes_nothing() {
    let Some(server) = Postgres::start() else {
        return;
    };
    installed(&server, "late").await;
    let cable = Cable::to(server.port).await;
    let log = open(&config(&server.loopback(cable.port), "late")).await;
    let id = BatchId::now_v7();
    log.intend(id, intent(None)).await.unwrap();
    log.decide(id, abort()).await.unwrap();
    log.note(id, 1, Settled::Leaving).await.unwrap();
    cable.freeze();
    // This stands in a connection that is given up, and is written again through another one.
    log.note(id, 0, Settled::Leaving).await.unwrap();
    log.note(id, 0, Settled::Gone).await.unwrap();
    let tries = "SELECT sum(try) FROM late.writer";
    let before = server.sql(tries);
    let held: Vec<String> = cable.held().iter().map(u16::to_string).collect();
    assert!(!held.is_empty());
    // A connection that was given up is gone once the server has read it; another one waits for its next request again.
    let thawed = server.sql("SELECT clock_timestamp()");
    let unread = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE client_port IN ({}) AND (state <> 'idle' OR state_change < '{thawed}')",
        held.join(", ")
    );
    cable.thaw();
    until("the server has read all that was held up", async || {
        server.sql(&unread).trim() == "0"
    })
    .await;
    assert_eq!(before, server.sql(tries));
    let record = log.find(id).await.unwrap().unwrap();
    assert_eq!(
        record.settled,
        [Some(Settled::Gone), Some(Settled::Leaving)]
    );
    log.close().await.unwrap();
}

/// Each of them is bounded, although one is asked after the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_lookup_waits_for_those_before_it_while_the_server_is_silent() {
    let Some(server) = Postgres::start() else {
        return;
    };
    installed(&server, "lookups").await;
    let cable = Cable::to(server.port).await;
    let log = open(&config(&server.loopback(cable.port), "lookups")).await;
    cable.shut();
    let lookups = ["a", "b", "c", "d", "e"].map(|key| log.find_by_key(key));
    let found = tokio::time::timeout(
        Duration::from_secs(15),
        futures_util::future::join_all(lookups),
    );
    for found in found.await.expect("they wait for each other") {
        assert!(is_away(&found), "{found:?}");
    }
    cable.open();
    log.close().await.unwrap();
}
