#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

use super::*;
use crate::batch::log::{Action, IntentEntry};
use crate::config::{BackendConfig, Limits};
use crate::metrics::Metrics;
use crate::protocol::identifier::Identifier;

/// Backends with these names and ports.
type Backends<'a> = &'a [(&'a str, &'a [u16])];

fn config(name: &str, ports: &[u16]) -> BackendConfig {
    let uri = |port: &u16| format!("http://127.0.0.1:{port}").parse().unwrap();
    let mut config = BackendConfig::rest(name, uri(&ports[0]));
    if let crate::config::Implementation::Rest(rest) = &mut config.implementation {
        rest.endpoints = ports[1..].iter().map(uri).collect();
    }
    config
}

/// Puts the backends into use, as a start or a reload does.
async fn configure(identities: &Identities, wanted: Backends<'_>) -> Vec<Arc<Backend>> {
    let configs: Vec<_> = wanted
        .iter()
        .map(|(name, ports)| config(name, ports))
        .collect();
    let named: Vec<_> = configs.iter().map(|c| (&*c.name, c.addresses())).collect();
    let found = identities.identify(&named);
    let mut backends = Vec::new();
    for (config, identity) in configs.iter().zip(found) {
        let (limits, metrics) = (Limits::default(), Metrics::new());
        let backend = Backend::open(config, &limits, &metrics).await.unwrap();
        backends.push(Arc::new(backend.known_as(identity)));
    }
    identities.are(&backends);
    backends
}

fn known_as(backends: &[Arc<Backend>]) -> Vec<&str> {
    backends.iter().map(|b| &**b.catalog()).collect()
}

async fn after<'a>(steps: &[Backends<'_>], last: Backends<'a>) -> Vec<String> {
    let identities = Identities::default();
    for step in steps {
        configure(&identities, step).await;
    }
    let backends = configure(&identities, last).await;
    known_as(&backends).into_iter().map(str::to_owned).collect()
}

#[tokio::test]
async fn an_identity_outlives_the_name() {
    let two: Backends<'_> = &[("east", &[1]), ("west", &[2])];
    assert_eq!(after(&[], two).await, ["east", "west"]);
    let renamed: Backends<'_> = &[("north", &[1]), ("west", &[2])];
    assert_eq!(after(&[two], renamed).await, ["east", "west"]);
    let swapped: Backends<'_> = &[("east", &[2]), ("west", &[1])];
    assert_eq!(after(&[two], swapped).await, ["west", "east"]);
    assert_eq!(after(&[two, swapped], two).await, ["east", "west"]);
    // The backend is removed, and comes back under another name.
    let away: Backends<'_> = &[("west", &[2])];
    assert_eq!(after(&[two, away], renamed).await, ["east", "west"]);
}

#[tokio::test]
async fn a_backend_that_moves_keeps_its_identity_unless_another_has_it() {
    let one: Backends<'_> = &[("lake", &[1])];
    assert_eq!(after(&[one], &[("lake", &[3])]).await, ["lake"]);
    // The catalog got another name, and another catalog got the name `lake`.
    let taken: Backends<'_> = &[("lake", &[3]), ("pond", &[1])];
    assert_eq!(after(&[one], taken).await, ["lake~2", "lake"]);
    assert_eq!(after(&[one, taken], one).await, ["lake"]);
    let third: Backends<'_> = &[("lake", &[4]), ("pond", &[1]), ("sea", &[3])];
    assert_eq!(
        after(&[one, taken], third).await,
        ["lake~3", "lake", "lake~2"]
    );
}

#[tokio::test]
async fn any_of_the_addresses_tells_which_catalog_it_is() {
    let one: Backends<'_> = &[("lake", &[1, 2])];
    assert_eq!(after(&[one], &[("pond", &[2])]).await, ["lake"]);
    assert_eq!(after(&[one], &[("pond", &[3, 1])]).await, ["lake"]);
    // The backend that keeps its name keeps its identity.
    let split: Backends<'_> = &[("a", &[2]), ("lake", &[1])];
    assert_eq!(after(&[one], split).await, ["a", "lake"]);
}

#[tokio::test]
async fn what_is_remembered_is_bounded() {
    let identities = Identities::default();
    let (limits, metrics) = (Limits::default(), Metrics::new());
    let config = config("lake", &[1]);
    for round in 0..6 {
        let backend = Backend::open(&config, &limits, &metrics).await.unwrap();
        let at = (0..1000).map(|port| Arc::from(format!("{round} {port}")));
        identities.are(&[Arc::new(backend.at(at))]);
    }
    let known = identities.known();
    assert!(known.by_address.len() <= REMEMBERED);
    assert!(known.by_address.contains_key("5 0"));
}

fn entry(backend: &str, port: Option<u16>) -> IntentEntry {
    let mut catalog = CatalogRef::default();
    catalog.address = port.map(|port| format!("http://localhost:{port}").into());
    IntentEntry {
        contested: false,
        backend: backend.into(),
        table: Identifier::from_names(["t"]).unwrap(),
        branch: None,
        action: Action::Deregister,
        catalog,
    }
}

fn intent(entries: &[(&str, Option<u16>)]) -> Intent {
    let entries = entries.iter().map(|(name, port)| entry(name, *port));
    Intent {
        entries: entries.collect(),
        idempotency: None,
        fingerprint: "f".into(),
        context: Vec::new(),
    }
}

/// Returns the names and identities that entries of the log have after a start with these backends.
async fn found(
    entries: &[(&str, Option<u16>)],
    backends: Backends<'_>,
) -> Vec<(String, String, bool)> {
    let identities = Identities::default();
    let backends = configure(&identities, backends).await;
    let finder = identities.finder(&backends);
    let mut intent = intent(entries);
    finder.name(&mut intent);
    let entries = intent.entries.iter().map(|entry| {
        let identity = entry.identity();
        let is_there = finder.backend(identity).is_some();
        (entry.backend.to_string(), identity.to_string(), is_there)
    });
    entries.collect()
}

#[tokio::test]
async fn after_a_start_a_catalog_is_found_by_its_address_and_else_by_its_name() {
    let is = |name: &str, identity: &str, is_there| (name.into(), identity.into(), is_there);
    let renamed = found(&[("lake", Some(1))], &[("pond", &[1])]).await;
    assert_eq!(renamed, [is("pond", "pond", true)]);
    let moved = found(&[("lake", Some(1))], &[("lake", &[3])]).await;
    assert_eq!(moved, [is("lake", "lake", true)]);
    // This is an entry from before addresses were recorded.
    let old = found(&[("lake", None)], &[("lake", &[3])]).await;
    assert_eq!(old, [is("lake", "lake", true)]);
    let gone = found(&[("lake", Some(1))], &[("sea", &[2])]).await;
    assert_eq!(gone, [is("lake", "lake", false)]);
    let swapped: Backends<'_> = &[("lake", &[2]), ("pond", &[1])];
    let swapped = found(&[("lake", Some(1)), ("pond", Some(2))], swapped).await;
    assert_eq!(
        swapped,
        [is("pond", "pond", true), is("lake", "lake", true)]
    );
    // The name now belongs to another catalog of the batch, so the first one has no backend.
    let taken = found(&[("lake", Some(1)), ("pond", Some(2))], &[("lake", &[2])]).await;
    let expected = [is("lake", "lake~2", false), is("lake", "lake", true)];
    assert_eq!(taken, expected);
}

#[test]
fn the_log_keeps_the_address_and_reads_what_was_written_without() {
    let old = r#"{"backend":"lake","table":["t"],"branch":null,"action":"Deregister"}"#;
    let read: IntentEntry = serde_json::from_str(old).unwrap();
    assert_eq!(read, entry("lake", None));
    assert_eq!(serde_json::to_string(&read).unwrap(), old);
    let mut new = entry("lake", Some(1));
    new.catalog.known_as("lake", &"pond".into());
    let written = serde_json::to_string(&new).unwrap();
    let address = r#"{"address":"http://localhost:1"}"#;
    let expected = old.replacen('}', &format!(r#","catalog":{address}}}"#), 1);
    assert_eq!(written, expected);
    let read: IntentEntry = serde_json::from_str(&written).unwrap();
    assert_eq!(&**read.identity(), "lake");
}

#[tokio::test]
async fn a_catalog_that_was_away_at_the_start_is_known_when_it_is_back() {
    let identities = Identities::default();
    let backends = configure(&identities, &[("lake", &[2])]).await;
    let mut intent = intent(&[("lake", Some(1)), ("pond", Some(2))]);
    identities.finder(&backends).name(&mut intent);
    let back: Backends<'_> = &[("lake", &[2]), ("sea", &[1])];
    let backends = configure(&identities, back).await;
    assert_eq!(known_as(&backends), ["lake", "lake~2"]);
    assert_eq!(&**intent.entries[0].identity(), "lake~2");
}
