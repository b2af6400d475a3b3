#![allow(clippy::unwrap_used, reason = "a test says what it expects")]
use aws_lc_rs::digest::{Context as Hasher, SHA256};
use serde_json::value::RawValue;
use tokio::sync::Semaphore;

use super::*;
use crate::batch::log::{AbortAnswer, Intent, Verdict};
use crate::batch::step::Refusal;
use crate::error::code::Code;
use crate::error::origin::ErrorOrigin;
use shelf::Shelf;

mod shelf;

const REMEMBER: Duration = Duration::from_secs(60);
const MEMORY: usize = 64 << 20;
/// The time of day in these tests, in milliseconds.
const NOW: u64 = 1_000_000;

fn outcomes(log: &Arc<Shelf>) -> Arc<Outcomes> {
    let log = Arc::clone(log) as Arc<dyn Log>;
    Arc::new(Outcomes::new(log, || NOW, (REMEMBER, MEMORY)))
}

fn fingerprint(entries: &str) -> Fingerprint {
    let mut hasher = Hasher::new(&SHA256);
    hasher.update(entries.as_bytes());
    Fingerprint::new(hasher, None)
}

fn keyed(key: &str) -> RequestKey {
    RequestKey::new("ada", Some(key), fingerprint("same"))
}

fn keyless() -> RequestKey {
    RequestKey::new("ada", None, fingerprint("same"))
}

async fn admit(outcomes: &Outcomes, request: &RequestKey) -> Admission {
    let admitted = outcomes.admit(request, Vec::new(), BatchId::now_v7).await;
    admitted.unwrap()
}

async fn begin(outcomes: &Outcomes, request: &RequestKey) -> Arc<Outcome> {
    match admit(outcomes, request).await {
        Admission::First(outcome) => outcome,
        _ => panic!("it is known"),
    }
}

async fn joined(outcomes: &Outcomes, request: &RequestKey) -> Option<Arc<Outcome>> {
    match admit(outcomes, request).await {
        Admission::Join(outcome) => Some(outcome),
        _ => None,
    }
}

async fn finish(outcomes: &Outcomes, request: &RequestKey, outcome: &Arc<Outcome>) {
    outcomes
        .finish(&request.key, request.has_key, outcome)
        .await;
}

fn refusal(status: u16) -> Refusal {
    Refusal {
        status,
        ..Refusal::conflict("no")
    }
}

fn refused(status: u16) -> BatchAnswer {
    BatchAnswer::Refused {
        refusal: refusal(status),
        written: true,
    }
}

fn record(key: &str, verdict: Option<Verdict>, ended: Option<u64>) -> Record {
    Record {
        id: BatchId::now_v7(),
        intent: Intent {
            entries: Vec::new(),
            idempotency: Some(keyed(key).key),
            fingerprint: fingerprint("same").canonical,
            context: Vec::new(),
        },
        verdict,
        settled: Vec::new(),
        resolutions: Vec::new(),
        ended,
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_a_batch_that_is_over_and_old() {
    let outcomes = outcomes(&Shelf::new());
    for (number, answered) in [BatchAnswer::Committed(Vec::new()), refused(409)]
        .into_iter()
        .enumerate()
    {
        for request in [keyed(&number.to_string()), keyless()] {
            let outcome = begin(&outcomes, &request).await;
            outcome.set(answered.clone());
            finish(&outcomes, &request, &outcome).await;
        }
    }
    let running = begin(&outcomes, &keyed("running")).await;
    let stuck = begin(&outcomes, &keyed("stuck")).await;
    stuck.set(BatchAnswer::Committed(Vec::new()));
    finish(&outcomes, &keyed("stuck"), &stuck).await;
    assert_eq!(outcomes.len(), 6);

    tokio::time::advance(REMEMBER / 2).await;
    outcomes.forget(|_| false);
    assert_eq!(outcomes.len(), 6, "not old enough");
    tokio::time::advance(REMEMBER / 2).await;
    outcomes.forget(|id| id == stuck.id);
    assert_eq!(outcomes.len(), 2);
    assert!(outcomes.batch(running.id).await.unwrap().is_some());
    assert!(outcomes.batch(stuck.id).await.unwrap().is_some());

    running.set(BatchAnswer::Unknown);
    let (request, of_it, waits) = (
        keyed("running"),
        Arc::clone(&running),
        Arc::clone(&outcomes),
    );
    let finished = tokio::spawn(async move { finish(&waits, &request, &of_it).await });
    tokio::task::yield_now().await;
    outcomes.forget(|_| false);
    assert_eq!(outcomes.len(), 1, "its answer is not known yet");
    assert!(joined(&outcomes, &keyed("running")).await.is_some());
    running.set(BatchAnswer::Committed(Vec::new()));
    finished.await.unwrap();
    outcomes.forget(|_| false);
    assert!(outcomes.is_empty());
}

/// Entries that are sent again right after the answer run as a new batch.
#[tokio::test]
async fn without_a_key_only_what_is_running_is_joined_and_the_log_is_not_asked() {
    let log = Shelf::new();
    let outcomes = outcomes(&log);
    let first = begin(&outcomes, &keyless()).await;
    assert!(joined(&outcomes, &keyless()).await.is_some());
    first.set(BatchAnswer::Committed(Vec::new()));
    let second = begin(&outcomes, &keyless()).await;
    finish(&outcomes, &keyless(), &first).await;
    let running = joined(&outcomes, &keyless()).await.unwrap();
    assert!(Arc::ptr_eq(&running, &second));
    assert_eq!(log.looks(), 0);
}

#[tokio::test]
async fn a_reason_that_passes_frees_the_key_at_once_and_a_definite_one_does_not() {
    for (status, frees) in [
        (503, true),
        (500, true),
        (429, true),
        (425, true),
        (408, true),
        (400, false),
        (404, false),
        (409, false),
    ] {
        for is_finished in [false, true] {
            let log = Shelf::new();
            let outcomes = outcomes(&log);
            let request = keyed("k");
            let first = begin(&outcomes, &request).await;
            first.set(refused(status));
            if is_finished {
                finish(&outcomes, &request, &first).await;
            }
            let mut over = record(
                "k",
                Some(Verdict::abort(Vec::new(), Some(&refusal(status)))),
                None,
            );
            over.id = first.id;
            log.put(over);
            let again = joined(&outcomes, &request).await;
            assert_eq!(again.is_none(), frees, "{status} {is_finished}");
            let old = outcomes.batch(first.id).await.unwrap().unwrap();
            assert!(matches!(
                old.get().as_deref(),
                Some(BatchAnswer::Refused { .. })
            ));
            // The same holds for the batch when the gateway has restarted.
            let outcomes = self::outcomes(&log);
            assert_eq!(
                joined(&outcomes, &request).await.is_none(),
                frees,
                "{status}"
            );
            outcomes.recall(&log.records.lock().unwrap()[0].clone());
            let known = outcomes.batch(first.id).await.unwrap().unwrap();
            let Some(BatchAnswer::Refused { refusal: found, .. }) = known.get().as_deref().cloned()
            else {
                panic!("it was refused");
            };
            // Nobody knows any more whose words they are.
            let expected = Refusal {
                origin: ErrorOrigin::Catalog,
                ..refusal(status)
            };
            assert_eq!(found, expected);
        }
    }
}

/// No task here will answer such a batch.
#[tokio::test]
async fn a_key_whose_batch_is_being_taken_out_of_the_log_is_free_once_it_is_out() {
    let log = Shelf::new();
    let outcomes = outcomes(&log);
    let id = log.put(record("same", None, None));
    for _ in 0..2 {
        let admitted = admit(&outcomes, &keyed("same")).await;
        assert!(matches!(admitted, Admission::Withdrawn));
        let known = outcomes.known(&keyed("same")).await.unwrap();
        assert!(matches!(known, Some(Admission::Withdrawn)));
    }
    // Without a task, no request waits for its end, either.
    let found = outcomes.batch(id).await.unwrap().unwrap();
    assert!(matches!(*found.wait().await, BatchAnswer::Unknown));
    log.records.lock().unwrap().clear();
    assert!(outcomes.known(&keyed("same")).await.unwrap().is_none());
    begin(&outcomes, &keyed("same")).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_not_in_memory_is_read_from_the_log() {
    let log = Shelf::new();
    let outcomes = outcomes(&log);
    let commit = || Some(Verdict::Commit(Vec::new()));
    let old = NOW - u64::try_from(REMEMBER.as_millis()).unwrap();
    let committed = log.put(record("committed", commit(), Some(old + 1)));
    let stuck = log.put(record("stuck", commit(), None));
    let forgotten = log.put(record("forgotten", commit(), Some(old)));
    for (key, id) in [("committed", committed), ("stuck", stuck)] {
        let found = joined(&outcomes, &keyed(key)).await.unwrap();
        assert_eq!(found.id, id, "{key}");
        assert!(format!("{:?}", found.wait().await).starts_with("Committed"));
        assert_eq!(outcomes.batch(id).await.unwrap().unwrap().id, id);
    }
    assert!(joined(&outcomes, &keyed("forgotten")).await.is_none());
    assert!(outcomes.batch(forgotten).await.unwrap().is_none());
    let other = RequestKey::new("ada", Some("committed"), fingerprint("other"));
    assert!(matches!(
        admit(&outcomes, &other).await,
        Admission::Different
    ));
    let looks = log.looks();
    assert!(joined(&outcomes, &keyed("committed")).await.is_some());
    assert_eq!(log.looks(), looks, "it is in memory now");
    // An id that no batch has is not looked up.
    assert!(outcomes.batch(BatchId::nil()).await.unwrap().is_none());
    assert_eq!(log.looks(), looks);
    // A lookup does not extend the time for which an outcome is remembered.
    tokio::time::advance(Duration::from_millis(1)).await;
    outcomes.forget(|_| false);
    assert!(outcomes.finished.get(&keyed("committed").key).is_none());
}

#[tokio::test]
async fn of_requests_with_one_key_only_one_begins_and_only_after_the_log_was_asked() {
    let log = Shelf::new();
    log.answers.forget_permits(Semaphore::MAX_PERMITS);
    let outcomes = outcomes(&log);
    let request = || {
        let outcomes = Arc::clone(&outcomes);
        tokio::spawn(async move { admit(&outcomes, &keyed("k")).await })
    };
    let (gone, others) = (request(), [request(), request(), request()]);
    while log.looks() == 0 {
        tokio::task::yield_now().await;
    }
    assert!(!gone.is_finished() && others.iter().all(|it| !it.is_finished()));
    // The request that looks the key up is cancelled: another one looks it up.
    gone.abort();
    assert!(gone.await.is_err());
    while log.looks() == 1 {
        tokio::task::yield_now().await;
    }
    assert!(others.iter().all(|it| !it.is_finished()));
    log.answers.add_permits(1);
    let (mut first, mut joined) = (None, Vec::new());
    for other in others {
        match other.await.unwrap() {
            Admission::First(outcome) => assert!(first.replace(outcome).is_none()),
            Admission::Join(outcome) => joined.push(outcome.id),
            _ => panic!("they are the same"),
        }
    }
    assert_eq!(joined, [first.unwrap().id; 2]);
    assert_eq!(log.looks(), 2);
}

#[tokio::test]
async fn an_undecided_batch_keeps_its_key_over_a_restart_until_it_is_decided() {
    let log = Shelf::new();
    let outcomes = outcomes(&log);
    let before = outcomes.recall(&record("k", None, None));
    let joined = joined(&outcomes, &keyed("k")).await.unwrap();
    assert!(Arc::ptr_eq(&joined, &before) && before.get().is_none());
    before.set(refused(503));
    begin(&outcomes, &keyed("k")).await;
    let old = outcomes.batch(before.id).await.unwrap().unwrap();
    assert!(Arc::ptr_eq(&old, &before));
}

#[test]
fn an_abort_of_an_older_version_is_a_conflict() {
    let recorded = |answer| {
        let (proofs, reason) = (Vec::new(), "taken".to_owned());
        let abort = Verdict::Abort {
            proofs,
            reason,
            answer,
        };
        abort.refusal().unwrap()
    };
    assert_eq!(recorded(None).status, 409);
    assert_eq!(recorded(None).code, Code::ConcurrentModification);
    let answer = AbortAnswer {
        status: 400,
        code: 13,
        found: None,
    };
    assert_eq!(recorded(Some(answer)).status, 400);
    assert_eq!(recorded(Some(answer)).code, Code::InvalidInput);
    let written: AbortAnswer = serde_json::from_str(r#"{"status":409,"code":14}"#).unwrap();
    assert_eq!(recorded(Some(written)).found, None);
    let found = Some(7);
    let answer = AbortAnswer { found, ..written };
    assert_eq!(recorded(Some(answer)).found, found);
}

/// Older versions of the gateway wrote a fingerprint of the entries as they were spelled.
#[tokio::test]
async fn the_same_spelling_joins_a_batch_of_an_older_version() {
    let log = Shelf::new();
    let mut old = record("k", Some(Verdict::Commit(Vec::new())), None);
    old.intent.fingerprint = fingerprint("spelled").canonical;
    let id = log.put(old);
    let hasher = |text: &str| {
        let mut hasher = Hasher::new(&SHA256);
        hasher.update(text.as_bytes());
        hasher
    };
    for (spelling, joins) in [("spelled", true), ("spelled otherwise", false)] {
        let fingerprint = Fingerprint::new(hasher("canonical"), Some(hasher(spelling)));
        let request = RequestKey::new("ada", Some("k"), fingerprint);
        let joined = joined(&outcomes(&log), &request).await;
        assert_eq!(joined.map(|outcome| outcome.id), joins.then_some(id));
    }
}

#[tokio::test]
async fn outcomes_take_no_more_memory_than_configured_and_the_others_are_read_from_the_log() {
    const BATCHES: usize = 1000;
    const VERSIONS: usize = 100;
    const BYTES: usize = 400;
    let room = |bytes: usize| bytes / 2 / (VERSIONS * BYTES);
    let shelf = Shelf::new();
    let log = Arc::clone(&shelf) as Arc<dyn Log>;
    let outcomes = Arc::new(Outcomes::new(log, || NOW, (REMEMBER, 8 << 20)));
    let version = format!("\"{}\"", "x".repeat(BYTES));
    let versions = vec![RawValue::from_string(version).unwrap(); VERSIONS];
    let batches: Vec<_> = (0..BATCHES)
        .map(|number| {
            let verdict = Verdict::Commit(versions.clone());
            let record = record(&number.to_string(), Some(verdict), Some(NOW));
            outcomes.recall(&record);
            shelf.put(record)
        })
        .collect();
    assert!(outcomes.len() <= room(8 << 20), "{}", outcomes.len());
    assert!(outcomes.len() > room(8 << 20) / 2, "{}", outcomes.len());
    for (number, id) in batches.iter().enumerate() {
        let found = outcomes.batch(*id).await.unwrap().unwrap();
        assert!(
            matches!(&*found.get().unwrap(), BatchAnswer::Committed(all) if all.len() == VERSIONS)
        );
        let repeated = joined(&outcomes, &keyed(&number.to_string()))
            .await
            .unwrap();
        assert_eq!(repeated.id, *id);
        assert!(outcomes.len() <= room(8 << 20), "{}", outcomes.len());
    }
    assert!(shelf.looks() > BATCHES, "most are not in memory");
    outcomes.remember_for(REMEMBER, 1 << 20);
    assert!(outcomes.len() <= room(1 << 20), "{}", outcomes.len());
    assert!(!outcomes.is_empty());
}
