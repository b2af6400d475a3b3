#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use http::{Request, Response};
use tokio::time::Instant;

use super::*;
use crate::backend::{Backend, Catalog, Failure};
use crate::batch::Batches;
use crate::batch::run::fakes::{Nothing, Willing, call};
use crate::body::Body;
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
    for batch in 0..=BatchConfig::default().in_flight {
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

#[tokio::test]
async fn a_catalog_has_as_many_places_as_configured_and_others_after_a_reload() {
    let (limits, backend) = (CallLimits::default(), Arc::from("lake"));
    let first = limits.to(&backend, 2);
    let running = first.acquire().await.unwrap();
    assert_eq!(limits.to(&backend, 2).available_permits(), 1);
    assert_eq!(limits.to(&Arc::from("other"), 2).available_permits(), 2);
    assert_eq!(limits.to(&backend, 3).available_permits(), 3);
    drop(running);
    assert_eq!(limits.to(&backend, 3).available_permits(), 3);
}

/// The time that a [`Slow`] catalog takes for a request.
const SLOW: Duration = Duration::from_millis(5);

/// A catalog that takes its time, and counts the requests that it has at once.
#[derive(Clone, Default)]
struct Slow {
    now: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    all: Arc<AtomicUsize>,
}

impl Catalog for Slow {
    fn call(&self, request: Request<Body>) -> BoxFuture<'_, Result<Response<Body>, Failure>> {
        Box::pin(async move {
            let now = self.now.fetch_add(1, Ordering::Relaxed) + 1;
            self.most.fetch_max(now, Ordering::Relaxed);
            self.all.fetch_add(1, Ordering::Relaxed);
            sleep(SLOW).await;
            self.now.fetch_sub(1, Ordering::Relaxed);
            Willing::default().call(request).await
        })
    }
}

/// The time is that of a clock that moves only when everything waits.
#[tokio::test(start_paused = true)]
async fn a_batch_has_as_many_requests_at_a_catalog_as_configured_and_no_pauses_between_them() {
    let most = BatchConfig::default().in_flight;
    let metrics = Metrics::new();
    let log = Arc::new(Nothing::default());
    let batches = Batches::new(log, BatchConfig::default(), metrics.batch().clone());
    let slow = [Slow::default(), Slow::default()];
    let [one, two] = ["one", "two"].map(|name| {
        let (mode, limits) = (BatchMode::Versions, Limits::default());
        let catalog = slow[usize::from(name == "two")].clone();
        Arc::new(Backend::own(name, mode, catalog, &limits, &metrics))
    });
    let names: [String; 1000] = std::array::from_fn(|number| format!("t{number}"));
    let tables = std::array::from_fn::<_, 1000, _>(|number| &*names[number]);
    let route = |id: &Identifier| {
        let number = id.last().unwrap()[1..].parse::<usize>().unwrap();
        let backend = if number < 500 { &one } else { &two };
        Ok((Arc::clone(backend), id.clone()))
    };
    let began = Instant::now();
    batches.commit(call(tables, None), route).await.unwrap();
    let took = began.elapsed();
    let calls = slow[0].all.load(Ordering::Relaxed);
    println!("{calls} requests to each catalog in {took:?}");
    for slow in &slow {
        assert_eq!(slow.most.load(Ordering::Relaxed), most);
    }
    let turns = u32::try_from(calls.div_ceil(most)).unwrap();
    assert!(took <= SLOW * turns * 13 / 10, "{took:?}");
}
