//! Logs, batches, and what a log holds in one spelling.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nsgate::batch::log::postgres::{PostgresLog, prepare};
use nsgate::batch::log::{Action, Intent, IntentEntry, Log, LogError, Proof, Verdict, all};
use nsgate::config::{LogAddress, PostgresLogConfig};
use nsgate::protocol::identifier::Identifier;

use crate::postgres::{PASSWORD, Postgres};

/// The lease of a log that nobody takes over. If the machine gives the tests no processor for as long, its timer ends them.
pub const LEASE: Duration = Duration::from_secs(5);
/// The lease of a log behind a cable, so that a takeover does not take long.
pub const SHORT: Duration = Duration::from_secs(1);

/// Returns the configuration of a log behind a cable.
pub fn config(address: &str, schema: &str) -> PostgresLogConfig {
    leased(address, schema, SHORT)
}

fn leased(address: &str, schema: &str, lease: Duration) -> PostgresLogConfig {
    let LogAddress::Postgres(address) = LogAddress::parse(address).unwrap() else {
        panic!("{address} is a file")
    };
    PostgresLogConfig::new(&address, Some(PASSWORD), None, schema, lease)
}

/// Installs a schema, and returns the way to it through the socket.
pub async fn installed(server: &Postgres, schema: &str) -> PostgresLogConfig {
    let config = leased(&server.socket(), schema, LEASE);
    prepare(&config, None).await.unwrap();
    config
}

/// Opens a log that must not be taken over.
pub async fn open(config: &PostgresLogConfig) -> PostgresLog {
    let opened = PostgresLog::open(config, "test", |error| panic!("{error}")).await;
    opened.unwrap_or_else(|error| panic!("{error}"))
}

/// Returns an intent of two entries.
pub fn intent(key: Option<&str>) -> Arc<Intent> {
    let entry = |version| IntentEntry {
        backend: "lake".into(),
        table: Identifier::from_names(["prod", "tä"]).unwrap(),
        branch: None,
        contested: version == 3,
        action: Action::CreateVersion {
            version,
            manifest_size: Some(7),
            e_tag: None,
        },
        catalog: Default::default(),
    };
    Arc::new(Intent {
        entries: vec![entry(2), entry(3)],
        idempotency: key.map(str::to_owned),
        fingerprint: "f".into(),
        context: Vec::new(),
    })
}

pub fn abort() -> Verdict {
    let proof = Proof {
        e_tag: Some("e".into()),
        ..Proof::default()
    };
    Verdict::Abort {
        proofs: vec![Some(proof), None],
        reason: "taken".into(),
        answer: None,
    }
}

pub fn commit() -> Verdict {
    let answer = serde_json::value::RawValue::from_string(r#"{"version": 2.0}"#.into());
    Verdict::Commit(vec![answer.unwrap()])
}

/// Returns all that a log holds.
pub async fn held(log: &dyn Log) -> Vec<String> {
    let records = all(log).await.unwrap();
    records.iter().map(|record| format!("{record:?}")).collect()
}

/// Waits until something holds.
pub async fn until<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let began = Instant::now();
    while !holds().await {
        assert!(began.elapsed() < Duration::from_secs(30), "never: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

pub fn is_away<T>(answer: &Result<T, LogError>) -> bool {
    matches!(answer, Err(LogError::Away { .. }))
}
