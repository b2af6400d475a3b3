//! Reads a log that was written on 2026-11-23: its words must mean the same in every later version.

use serde_json::json;

use super::*;
use crate::batch::log::{AbortAnswer, CatalogRef, VersionRange, reread};
use crate::batch::step::Hazard;

const BATCHES: u128 = 0x019a_ae00_0000_7000_8000_0000_0000_0000;

fn id(number: u128) -> BatchId {
    Uuid::from_u128(BATCHES + number)
}

fn entry(action: Action) -> IntentEntry {
    IntentEntry {
        backend: "lake".into(),
        table: Identifier::from_names(["prod", "ta$ble"]).unwrap(),
        branch: None,
        action,
        contested: false,
        catalog: CatalogRef::default(),
    }
}

/// Returns one batch that creates, declares, registers, deregisters and deletes, and one of ten creates.
fn intents() -> [Intent; 2] {
    let create = Action::CreateVersion {
        version: 7,
        manifest_size: Some(4096),
        e_tag: Some("\"5f\"".into()),
    };
    let bare = Action::CreateVersion {
        version: 8,
        manifest_size: None,
        e_tag: None,
    };
    let at = CatalogRef {
        address: Some("http://catalog:2333".into()),
        ..CatalogRef::default()
    };
    let branch = IntentEntry {
        branch: Some("audit".into()),
        contested: true,
        catalog: at,
        ..entry(create)
    };
    let location: String = "s3://lake/prod/t".into();
    let declare = |location| Action::Declare { location };
    let register = Action::Register {
        location: location.clone(),
    };
    let ranges = vec![
        VersionRange { start: 2, end: 4 },
        VersionRange { start: 9, end: 10 },
    ];
    let one = vec![
        branch,
        entry(bare.clone()),
        entry(declare(Some(location))),
        entry(declare(None)),
        entry(register),
        entry(Action::Deregister),
        entry(Action::DeleteVersions { ranges }),
    ];
    [
        Intent {
            entries: one,
            idempotency: Some("1f2e".into()),
            fingerprint: "a0b1".into(),
            context: Vec::new(),
        },
        Intent {
            entries: vec![entry(bare); 10],
            idempotency: None,
            fingerprint: "c2d3".into(),
            context: Vec::new(),
        },
    ]
}

fn verdicts() -> [Verdict; 3] {
    let answer = json!({"version": {"version": 7}}).to_string();
    let proof = Proof {
        manifest_path: Some("_versions/8.manifest".into()),
        manifest_size: Some(4096),
        e_tag: Some("6a".into()),
        location: Some("s3://lake/prod/t".into()),
    };
    let abort = |answer| Verdict::Abort {
        proofs: vec![Some(proof.clone()), Some(Proof::default()), None],
        reason: "version 7 exists".into(),
        answer,
    };
    let answered = AbortAnswer {
        status: 409,
        code: 14,
        found: None,
    };
    [
        Verdict::Commit(vec![
            serde_json::value::RawValue::from_string(answer)
                .unwrap();
            2
        ]),
        abort(Some(answered)),
        abort(None),
    ]
}

const SETTLED: [Settled; 10] = [
    Settled::Gone,
    Settled::Unseen,
    Settled::Contested,
    Settled::Leaving,
    Settled::LeavingContested,
    Settled::Theirs,
    Settled::Kept,
    Settled::Removed,
    Settled::Hazard(Hazard::BuiltOn),
    Settled::Hazard(Hazard::Unproven),
];

fn resolution() -> Resolution {
    Resolution {
        commit: true,
        who: "on-call".into(),
        why: "the catalog was restored".into(),
        at: 1_763_900_000_000,
        hazards: Vec::new(),
    }
}

/// Writes the log that the test reads.
async fn write(log: &DiskLog) {
    let [one, two] = intents().map(Arc::new);
    let [commit, abort, bare] = verdicts();
    log.intend(id(1), Arc::clone(&one)).await.unwrap();
    log.decide(id(1), commit).await.unwrap();
    log.end(id(1), 1_763_900_000_001).await.unwrap();
    log.intend(id(2), Arc::clone(&two)).await.unwrap();
    log.resolve(id(2), resolution()).await.unwrap();
    log.decide(id(2), abort).await.unwrap();
    for (entry, settled) in SETTLED.into_iter().enumerate() {
        log.note(id(2), entry, settled).await.unwrap();
    }
    log.intend(id(3), one).await.unwrap();
    log.decide(id(3), bare).await.unwrap();
    log.intend(id(4), two).await.unwrap();
}

#[tokio::test]
async fn a_log_written_before_is_read() {
    let written = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/batch-log");
    let folder = tempfile::tempdir().unwrap();
    for name in ["batches.redb", "batches.redb.mark"] {
        std::fs::copy(written.join(name), folder.path().join(name)).unwrap();
    }
    let log = open(&folder.path().join("batches.redb"));
    let found = all(&log).await.unwrap();
    let again = DiskLog::over(memory(), |error| panic!("{error}")).unwrap();
    write(&again).await;
    let meant = all(&again).await.unwrap();
    assert_eq!(found.len(), 4);
    for (found, meant) in found.iter().zip(&meant) {
        assert_eq!(format!("{found:?}"), format!("{meant:?}"));
    }
    let keyed = log.find_by_key("1f2e").await.unwrap().unwrap();
    assert_eq!(keyed.id, id(3));
}

/// Compares the lines of that log without a database.
#[test]
fn its_lines_are_written_the_same() {
    let lines = include_str!("../../../../../tests/fixtures/batch-log/lines.jsonl");
    for batch in lines.split("\n\n") {
        let lines: Vec<&[u8]> = batch.lines().map(str::as_bytes).collect();
        let (_, written) = reread(&lines).unwrap();
        let same = written.iter().eq(lines.iter());
        assert!(same, "{batch}");
    }
}

fn memory() -> Database {
    let memory = redb::backends::InMemoryBackend::new();
    Database::builder().create_with_backend(memory).unwrap()
}
