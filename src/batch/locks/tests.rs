#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use super::*;
use crate::protocol::data_scope::DataScope;

const SHORT: Duration = Duration::from_millis(10);
const LONG: Duration = Duration::from_secs(60);

fn key(names: &[&str]) -> TableKey {
    TableKey {
        scope: DataScope::default(),
        backend: "lake".into(),
        table: Identifier::from_names(names.iter().copied()).unwrap(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_excludes_everyone_from_its_tables_and_no_others() {
    let locks = Locks::default();
    let batch = locks.exclusive([key(&["a", "t"])], SHORT).await.unwrap();
    assert!(!batch.waited());
    assert!(locks.shared(key(&["a", "t"]), SHORT).await.is_err());
    assert!(locks.exclusive([key(&["a", "t"])], SHORT).await.is_err());
    assert!(locks.shared(key(&["a", "u"]), SHORT).await.is_ok());
    assert!(locks.namespace(key(&["a"]), SHORT).await.is_err());
    assert!(locks.namespace(key(&["b"]), SHORT).await.is_ok());
    drop(batch);
    assert!(locks.namespace(key(&["a"]), SHORT).await.is_ok());
    assert!(locks.is_empty(), "nothing is left behind");
}

#[tokio::test(start_paused = true)]
async fn names_that_are_one_when_joined_are_one_table() {
    let locks = Locks::default();
    let named = |names| locks.exclusive([key(names)], SHORT);
    for (names, other) in [
        (&["a", "b$t"][..], &["a", "b", "t"][..]),
        (&["a", "b", "t"][..], &["a$b", "t"][..]),
    ] {
        let batch = named(names).await.unwrap();
        assert!(locks.shared(key(other), SHORT).await.is_err());
        assert!(locks.shared(key(&["a", "b", "u"]), SHORT).await.is_ok());
        for namespace in [&["a"][..], &["a", "b"], &["a$b"]] {
            assert!(locks.namespace(key(namespace), SHORT).await.is_err());
        }
        drop(batch);
    }
    let one = [
        key(&["a", "b$t"]),
        key(&["a$b", "t"]),
        key(&["a", "b", "t"]),
    ];
    assert!(locks.exclusive(one, SHORT).await.is_ok(), "taken once");
    let mut sorted = [key(&["a$b", "t"]), key(&["a"]), key(&["a", "c"])];
    sorted.sort();
    assert_eq!(
        sorted,
        [key(&["a"]), key(&["a", "b", "t"]), key(&["a", "c"])]
    );
}

#[tokio::test(start_paused = true)]
async fn a_table_is_freed_when_its_own_undo_is_done() {
    let locks = Locks::default();
    let (t, u) = (key(&["a", "t"]), key(&["a", "u"]));
    let mut batch = locks
        .exclusive([t.clone(), u.clone()], SHORT)
        .await
        .unwrap();
    batch.free(&t);
    assert!(locks.shared(t, SHORT).await.is_ok());
    assert!(locks.shared(u.clone(), SHORT).await.is_err());
    assert!(locks.namespace(key(&["a"]), SHORT).await.is_err());
    batch.free(&u);
    assert!(locks.is_empty());
}

#[tokio::test(start_paused = true)]
async fn who_came_first_is_served_first() {
    let locks = Locks::default();
    let reader = locks.shared(key(&["t"]), SHORT).await.unwrap();
    let batch = tokio::spawn({
        let locks = locks.clone();
        async move { locks.exclusive([key(&["t"])], LONG).await }
    });
    tokio::task::yield_now().await;
    let late = locks.shared(key(&["t"]), SHORT).await;
    assert!(
        late.is_err(),
        "a reader that came after the batch does not overtake it"
    );
    drop(reader);
    assert!(batch.await.unwrap().unwrap().waited());
}

#[tokio::test]
async fn batches_that_want_the_same_tables_in_another_order_do_not_block_each_other() {
    let locks = Locks::default();
    let tables = [key(&["a"]), key(&["b"]), key(&["c"])];
    let mut tasks = Vec::new();
    for round in 0..60 {
        let (locks, mut tables) = (locks.clone(), tables.clone());
        tables.rotate_left(round % 3);
        tasks.push(tokio::spawn(async move {
            let hold = locks.exclusive(tables, LONG).await;
            tokio::task::yield_now().await;
            hold.map(drop)
        }));
    }
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    assert!(locks.is_empty());
}

#[tokio::test]
async fn a_wait_that_was_given_up_as_its_turn_came_leaves_nothing_for_long() {
    let locks = Locks::default();
    let batch = locks.exclusive([key(&["t"])], SHORT).await.unwrap();
    let mut wait = Box::pin(locks.shared(key(&["t"]), LONG));
    assert!(futures_util::FutureExt::now_or_never(&mut wait).is_none());
    drop(batch);
    drop(wait);
    assert_eq!(locks.len(), 1, "neither of the two could drop it");
    locks.sweep();
    assert!(locks.is_empty());

    let _held = locks.exclusive([key(&["t"])], SHORT).await.unwrap();
    locks.sweep();
    assert_eq!(locks.len(), 2, "the table and the root above it stay held");
    assert!(locks.shared(key(&["t"]), SHORT).await.is_err());
}

/// The longest time that reads wait for a table.
const READ: Duration = Duration::from_secs(2);
const BATCH: Duration = Duration::from_secs(10);

/// Starts a batch that waits for `tables`.
fn waits(
    locks: &Locks,
    tables: &[&str],
) -> tokio::task::JoinHandle<(Result<Hold, LockError>, Duration)> {
    let (locks, begun) = (locks.clone(), Instant::now());
    let tables: Vec<TableKey> = tables.iter().map(|table| key(&[table])).collect();
    tokio::spawn(async move {
        let held = locks.for_batch(tables, BATCH).await;
        (held, begun.elapsed())
    })
}

#[tokio::test(start_paused = true)]
async fn reads_pass_a_batch_that_waits_for_a_long_one_for_half_of_its_time() {
    let locks = Locks::default();
    let long = locks.shared(key(&["u"]), SHORT).await.unwrap();
    let batches = [waits(&locks, &["t", "u", "v"]), waits(&locks, &["t", "u"])];
    let begun = Instant::now();
    tokio::task::yield_now().await;
    while begun.elapsed() < BATCH / 2 - STAND {
        for table in ["t", "u", "v"] {
            let came = Instant::now();
            let read = locks.shared(key(&[table]), READ).await;
            assert!(read.is_ok(), "{table} after {:?}", begun.elapsed());
            assert!(came.elapsed() <= STAND, "{:?}", came.elapsed());
        }
        sleep(STAND / 5).await;
    }
    sleep(STAND + ASIDE).await;
    let late = locks.shared(key(&["u"]), READ).await;
    assert!(late.is_err(), "now the batches are first");
    drop(long);
    for batch in batches {
        let (held, _) = batch.await.unwrap();
        assert!(held.unwrap().waited());
    }
    assert!(locks.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_batch_gets_its_table_from_reads_that_never_end_all_at_once() {
    for (lasts, at_most) in [(STAND / 2, STAND), (READ, BATCH / 2 + READ)] {
        let locks = Locks::default();
        let first = locks.shared(key(&["t"]), SHORT).await.unwrap();
        let mut batch = waits(&locks, &["t"]);
        tokio::task::yield_now().await;
        let reads = async {
            tokio::spawn(async move {
                sleep(lasts).await;
                drop(first);
            });
            loop {
                let locks = locks.clone();
                tokio::spawn(async move {
                    if let Ok(read) = locks.shared(key(&["t"]), READ).await {
                        sleep(lasts).await;
                        drop(read);
                    }
                });
                sleep(lasts / 3).await;
            }
        };
        let (taken, after) = tokio::select! {
            taken = &mut batch => taken.unwrap(),
            () = reads => unreachable!("they go on"),
        };
        assert!(taken.is_ok() && after <= at_most, "{lasts:?}: {after:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_stands_aside_keeps_its_place_in_the_queue() {
    let locks = Locks::default();
    let long = locks.shared(key(&["t"]), SHORT).await.unwrap();
    let batches: Vec<_> = (0..64).map(|_| waits(&locks, &["t"])).collect();
    sleep(STAND + ASIDE / 2).await;
    let crowded = locks.for_batch([key(&["t"])], BATCH).await;
    assert_eq!(crowded.map(drop), Err(LockError::Crowded));
    drop(long);
    for batch in batches {
        let (held, after) = batch.await.unwrap();
        assert!(held.is_ok() && after <= 2 * (STAND + ASIDE), "{after:?}");
    }
    assert!(locks.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_batch_waits_no_longer_than_its_time() {
    let locks = Locks::default();
    let long = locks.shared(key(&["t"]), SHORT).await.unwrap();
    let (held, after) = waits(&locks, &["t"]).await.unwrap();
    assert_eq!(held.map(drop), Err(LockError::TimedOut));
    assert!(after >= BATCH && after < BATCH + SHORT, "{after:?}");
    drop(long);
    assert!(locks.is_empty());
}

/// A request that came before this gateway had the log may be under way for minutes.
#[tokio::test(start_paused = true)]
async fn tables_that_are_held_in_turn_are_taken_before_anyone_who_comes_later() {
    let locks = Locks::default();
    let before = locks.shared(key(&["n", "t"]), SHORT).await.unwrap();
    let mut hold = locks.exclusive_in_turn([key(&["n", "t"]), key(&["u"])]);
    hold.belongs_to(BatchId::from_u128(1));
    let is_free = async |name: &[&str]| locks.shared(key(name), SHORT).await.is_ok();
    assert!(!is_free(&["n", "t"]).await && !is_free(&["u"]).await);
    assert!(locks.namespace(key(&["n"]), SHORT).await.is_err());
    drop(before);
    assert!(!is_free(&["n", "t"]).await);
    hold.free(&key(&["n", "t"]));
    assert!(is_free(&["n", "t"]).await && !is_free(&["u"]).await);
    let before = locks.shared(key(&["n", "t"]), SHORT).await.unwrap();
    hold.join(locks.exclusive_in_turn([key(&["n", "t"])]));
    drop(hold);
    assert!(is_free(&["n", "t"]).await && is_free(&["u"]).await);
    drop(before);
    assert!(locks.is_empty(), "nothing is left behind");
}

#[tokio::test(start_paused = true)]
async fn tables_of_one_name_are_locked_apart_and_found_together() {
    let (locks, nobodys) = (Locks::default(), key(&["ns", "t"]));
    let of_tenant = |tenant: &str| TableKey {
        scope: serde_json::from_str(&format!(r#"[["context","tenant","{tenant}"]]"#)).unwrap(),
        ..nobodys.clone()
    };
    let (acme, globex) = (of_tenant("acme"), of_tenant("globex"));
    let _acmes = locks.exclusive([acme.clone()], SHORT).await.unwrap();
    let _globexs = locks.exclusive([globex.clone()], SHORT).await.unwrap();
    assert!(locks.shared(acme.clone(), SHORT).await.is_err());
    let mut found = locks.namesakes(&nobodys);
    found.sort();
    assert_eq!(found, [acme, globex]);
    assert!(locks.namesakes(&key(&["ns", "u"])).is_empty());
}

/// A long read loses once, and then has its turn; what a batch does not wait for is no matter of its.
#[tokio::test(start_paused = true)]
async fn readers_give_way_to_a_batch_before_its_time_is_over_and_once_in_a_while() {
    const WAIT: Duration = Duration::from_secs(10);
    let locks = Locks::default();
    let (t, u) = (key(&["t"]), key(&["u"]));
    let (began, ended) = (Instant::now(), Instant::now() + WAIT);
    let read = locks.shared(t.clone(), SHORT).await.unwrap();
    let reading = async {
        locks.pressed(&t, began).await;
        let late = ended.saturating_duration_since(Instant::now());
        assert!(!late.is_zero() && late <= PRESSING, "{late:?}");
        drop(read);
    };
    let both = [t.clone(), u.clone()];
    let (batch, ()) = tokio::join!(locks.for_batch(both, WAIT), reading);
    drop(batch.unwrap());
    let other = timeout_at(Instant::now() + LONG, locks.pressed(&u, began));
    assert!(other.await.is_err(), "no batch had to wait for it");
    for is_ended in [true, false] {
        let began = Instant::now();
        let read = locks.shared(t.clone(), SHORT).await.unwrap();
        let batch = locks.for_batch([t.clone()], WAIT);
        let (batch, pressed) =
            tokio::join!(batch, timeout_at(began + WAIT, locks.pressed(&t, began)));
        assert_eq!(batch.err(), Some(LockError::TimedOut));
        assert_eq!(pressed.is_ok(), is_ended);
        drop(read);
    }
    tokio::time::advance(pressed::PRESSED).await;
    locks.sweep();
    assert!(locks.shared.pressed.is_empty(), "nothing is left behind");
}
