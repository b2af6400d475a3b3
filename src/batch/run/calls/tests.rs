#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

use super::*;
use crate::backend::Backend;
use crate::batch::Batches;
use crate::batch::run::fakes::{Nothing, Willing, call};
use crate::config::{BatchConfig, BatchMode, Limits};
use crate::metrics::Metrics;
use crate::protocol::identifier::Identifier;

/// Sends more batches to a catalog that hangs than the limit of requests in flight.
#[tokio::test(start_paused = true)]
async fn a_catalog_that_hangs_keeps_no_batch_from_the_others() {
    let metrics = Metrics::new();
    let log = Arc::new(Nothing::default());
    let batches = Batches::new(log, BatchConfig::default(), metrics.batch().clone());
    let batches = Arc::new(batches);
    let lake = |name, hangs| {
        let (mode, limits) = (BatchMode::Versions, Limits::default());
        let catalog = Willing { hangs };
        Arc::new(Backend::own(name, mode, catalog, &limits, &metrics))
    };
    let (sick, well) = (lake("sick", true), lake("well", false));
    for batch in 0..=CALLS {
        let (batches, sick) = (Arc::clone(&batches), Arc::clone(&sick));
        tokio::spawn(async move {
            let [one, two] = ["a", "b"].map(|table| format!("{table}{batch}"));
            let route = |id: &Identifier| Ok((Arc::clone(&sick), id.clone()));
            batches.commit(call([&one, &two], None), route).await
        });
    }
    sleep(Duration::from_secs(1)).await;
    let route = |id: &Identifier| Ok((Arc::clone(&well), id.clone()));
    let asked = batches.commit(call(["one", "two"], None), route);
    let answer = tokio::time::timeout(Duration::from_secs(1), asked).await;
    assert!(answer.expect("no wait").is_ok());
}
