#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use tokio::sync::Semaphore;

use super::*;
use crate::protocol::data_scope::DataScope;
use crate::protocol::identifier::Identifier;

/// A log in which claims and releases wait until the test lets them through.
struct SlowStore {
    claims: AtomicUsize,
    releases: AtomicUsize,
    claim: Arc<Semaphore>,
    release: Arc<Semaphore>,
}

impl SlowStore {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            claims: AtomicUsize::new(0),
            releases: AtomicUsize::new(0),
            claim: Arc::new(Semaphore::new(0)),
            release: Arc::new(Semaphore::new(0)),
        })
    }

    fn asked(&self) -> (usize, usize) {
        let count = |counter: &AtomicUsize| counter.load(Ordering::SeqCst);
        (count(&self.claims), count(&self.releases))
    }
}

impl GuardStore for SlowStore {
    fn claim(&self, _: Vec<Guard>) -> BoxFuture<'static, Result<Vec<String>, LogError>> {
        self.claims.fetch_add(1, Ordering::SeqCst);
        let claim = Arc::clone(&self.claim);
        Box::pin(async move {
            claim.acquire().await.unwrap().forget();
            Ok(Vec::new())
        })
    }

    fn replace(
        &self,
        guards: Vec<Guard>,
        _: Vec<String>,
    ) -> BoxFuture<'static, Result<Vec<String>, LogError>> {
        self.claim(guards)
    }

    fn release(&self, _: Vec<String>) -> BoxFuture<'static, Result<(), LogError>> {
        self.releases.fetch_add(1, Ordering::SeqCst);
        let release = Arc::clone(&self.release);
        Box::pin(async move {
            release.acquire().await.unwrap().forget();
            Ok(())
        })
    }
}

/// A log that answers nothing.
struct AwayStore;

impl AwayStore {
    fn away<T>() -> BoxFuture<'static, Result<T, LogError>> {
        let (path, cause) = ("here".to_owned(), "permission denied".to_owned());
        Box::pin(async { Err(LogError::Away { path, cause }) })
    }
}

impl GuardStore for AwayStore {
    fn claim(&self, _: Vec<Guard>) -> BoxFuture<'static, Result<Vec<String>, LogError>> {
        Self::away()
    }

    fn replace(
        &self,
        _: Vec<Guard>,
        _: Vec<String>,
    ) -> BoxFuture<'static, Result<Vec<String>, LogError>> {
        Self::away()
    }

    fn release(&self, _: Vec<String>) -> BoxFuture<'static, Result<(), LogError>> {
        Self::away()
    }
}

const WAIT: Duration = Duration::from_secs(60);

fn table() -> Vec<(TableKey, Guard)> {
    table_at("t")
}

fn table_at(key: &str) -> Vec<(TableKey, Guard)> {
    let table = TableKey {
        scope: DataScope::default(),
        backend: "lake".into(),
        table: Identifier::from_names(["t"]).unwrap(),
    };
    let guard = Guard {
        key: key.to_owned(),
        names: false,
    };
    vec![(table, guard)]
}

async fn others_run() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_guard_is_not_released_while_a_batch_waits_for_it() {
    let store = SlowStore::new();
    let guards = Arc::new(OwnedGuards::new(Arc::clone(&store) as Arc<dyn GuardStore>));
    let claimed = tokio::spawn({
        let guards = Arc::clone(&guards);
        async move { guards.claim(table(), WAIT).await.is_ok() }
    });
    others_run().await;
    tokio::time::advance(STAYS * 3).await;
    // Nobody holds the table, and no batch on it is known.
    let locks = Locks::default();
    let released = timeout(STAYS, guards.release(&locks, |_| false)).await;
    assert!(
        released.is_ok_and(|done| done.is_ok()),
        "it releases something"
    );
    assert_eq!(store.asked(), (1, 0));
    store.claim.add_permits(1);
    assert!(claimed.await.unwrap());
    // It is granted: the next claim asks nobody.
    assert!(guards.claim(table(), WAIT).await.is_ok());
    assert_eq!(store.asked(), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_guard_that_is_being_released_is_claimed_after_that() {
    let store = SlowStore::new();
    let guards = Arc::new(OwnedGuards::new(Arc::clone(&store) as Arc<dyn GuardStore>));
    store.claim.add_permits(2);
    assert!(guards.claim(table(), WAIT).await.is_ok());
    tokio::time::advance(STAYS * 3).await;
    let released = tokio::spawn({
        let guards = Arc::clone(&guards);
        async move { guards.release(&Locks::default(), |_| false).await.is_ok() }
    });
    others_run().await;
    assert_eq!(store.asked(), (1, 1));
    let claimed = tokio::spawn({
        let guards = Arc::clone(&guards);
        async move { guards.claim(table(), WAIT).await.is_ok() }
    });
    others_run().await;
    assert_eq!(store.asked(), (1, 1), "the claim waits for the release");
    store.release.add_permits(1);
    assert!(released.await.unwrap() && claimed.await.unwrap());
    assert_eq!(store.asked(), (2, 1));
    assert_eq!(guards.len(), 1);
}

/// A table whose catalog gets another address is guarded at both: other gateways may use either.
#[tokio::test(start_paused = true)]
async fn a_table_is_guarded_at_each_address_of_its_catalog() {
    let store = SlowStore::new();
    let guards = OwnedGuards::new(Arc::clone(&store) as Arc<dyn GuardStore>);
    store.claim.add_permits(2);
    for key in ["before", "after", "before"] {
        assert!(guards.claim(table_at(key), WAIT).await.is_ok());
    }
    assert_eq!((store.asked(), guards.len()), ((2, 0), 2));
    tokio::time::advance(STAYS * 3).await;
    let is_needed = |_: &TableKey| true;
    assert!(guards.release(&Locks::default(), is_needed).await.is_ok());
    assert_eq!(guards.len(), 2);
    store.release.add_permits(2);
    for left in [1, 0] {
        tokio::time::advance(STAYS * 3).await;
        let done = guards.release(&Locks::default(), |_| false).await;
        assert!(done.is_ok() && guards.len() <= left, "{}", guards.len());
    }
}

/// Otherwise the client is told of a long operation at another gateway.
#[tokio::test(start_paused = true)]
async fn a_claim_that_the_log_refuses_does_not_blame_the_other_gateways() {
    let guards = OwnedGuards::new(Arc::new(AwayStore));
    let refused = guards.claim(table(), WAIT).await;
    assert!(matches!(refused, Err(Unguarded::Log(_))), "{refused:?}");
    let slow = OwnedGuards::new(SlowStore::new());
    let waited = slow.claim(table(), WAIT).await;
    assert!(matches!(waited, Err(Unguarded::TimedOut)), "{waited:?}");
}

/// Requests are passed on before their tenant is known, so one guard stands for the tables of all.
#[tokio::test(start_paused = true)]
async fn a_guard_of_several_tenants_stays_until_none_of_them_needs_it() {
    let store = SlowStore::new();
    let guards = OwnedGuards::new(Arc::clone(&store) as Arc<dyn GuardStore>);
    store.claim.add_permits(1);
    store.release.add_permits(1);
    let mut of_acme = table();
    of_acme[0].0.scope = serde_json::from_str(r#"[["context","tenant","acme"]]"#).unwrap();
    let acme = of_acme[0].0.clone();
    for tables in [of_acme, table()] {
        assert!(guards.claim(tables, WAIT).await.is_ok());
    }
    assert_eq!((store.asked(), guards.len()), ((1, 0), 1));
    let locks = Locks::default();
    let held = locks.exclusive([acme.clone()], WAIT).await.unwrap();
    let nobody = |_: &TableKey| false;
    tokio::time::advance(STAYS * 3).await;
    assert!(guards.release(&locks, nobody).await.is_ok());
    assert_eq!(guards.len(), 1, "a batch is on one of them");
    drop(held);
    tokio::time::advance(STAYS * 3).await;
    assert!(guards.release(&locks, |table| *table == acme).await.is_ok());
    assert_eq!(guards.len(), 1, "one of them has a hidden version");
    tokio::time::advance(STAYS * 3).await;
    assert!(guards.release(&locks, nobody).await.is_ok());
    assert_eq!(guards.len(), 0);
}
