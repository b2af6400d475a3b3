#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::super::refusal::Fault;
use super::*;

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A token server whose answers take a while.
#[derive(Clone, Default)]
struct Scripted(Arc<Script>);

#[derive(Default)]
struct Script {
    asked: AtomicUsize,
    failing: std::sync::atomic::AtomicBool,
    takes: Mutex<Duration>,
}

impl Scripted {
    fn taking(duration: Duration) -> Self {
        let scripted = Self::default();
        *scripted.0.takes.lock().unwrap() = duration;
        scripted
    }

    fn fail(&self, failing: bool) {
        self.0.failing.store(failing, Ordering::Relaxed);
    }

    fn asked(&self) -> usize {
        self.0.asked.load(Ordering::Relaxed)
    }

    /// Looks up a token of 100 s, which is used for 90 s and renewed after 72 s.
    fn look(&self, slot: &Arc<Slot>) -> SlotLookup {
        slot.look(|| {
            let script = Arc::clone(&self.0);
            async move {
                let number = script.asked.fetch_add(1, Ordering::Relaxed) + 1;
                let (takes, from) = (*script.takes.lock().unwrap(), Instant::now());
                sleep(takes).await;
                if script.failing.load(Ordering::Relaxed) {
                    return Err(Refusal::server("broken"));
                }
                Ok(Token {
                    value: HeaderValue::try_from(format!("Bearer {number}")).unwrap(),
                    life: TokenLifetime::new(from, Some(s(100)), None),
                })
            }
        })
    }

    async fn get(&self, slot: &Arc<Slot>) -> Result<String, Refusal> {
        let value = match self.look(slot) {
            SlotLookup::Token(value) => value,
            SlotLookup::Refused(refusal) => return Err(refusal),
            SlotLookup::Wait(wait) => wait.over().await?,
        };
        Ok(value.to_str().unwrap().to_owned())
    }
}

#[tokio::test(start_paused = true)]
async fn many_who_need_a_token_at_once_cause_one_fetch() {
    let (slot, server) = (Arc::new(Slot::default()), Scripted::taking(s(1)));
    let all = (0..64).map(|_| server.get(&slot));
    for got in futures_util::future::join_all(all).await {
        assert_eq!(got.unwrap(), "Bearer 1");
    }
    assert_eq!(server.asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_token_is_renewed_before_it_ends_and_nobody_waits_for_that() {
    let (slot, server) = (Arc::new(Slot::default()), Scripted::taking(s(2)));
    server.get(&slot).await.unwrap();
    for second in 0..1000 {
        let look = server.look(&slot);
        assert!(
            matches!(look, SlotLookup::Token(_)),
            "waited in second {second}"
        );
        sleep(s(1)).await;
    }
    // One fetch comes every 72 s, and takes 2 s.
    assert!((13..=15).contains(&server.asked()), "{}", server.asked());
}

#[tokio::test(start_paused = true)]
async fn a_token_goes_on_while_its_server_is_down_and_not_beyond_its_end() {
    let (slot, server) = (Arc::new(Slot::default()), Scripted::default());
    let began = Instant::now();
    server.get(&slot).await.unwrap();
    server.fail(true);
    while began.elapsed() < s(89) {
        assert_eq!(server.get(&slot).await.unwrap(), "Bearer 1");
        sleep(Duration::from_millis(100)).await;
    }
    // After the fetch at 72 s, retries follow after 1, 2 and 4 s, and at 87 s.
    assert_eq!(server.asked(), 1 + 5, "backed off");
    sleep(s(2)).await;
    let refusal = server.get(&slot).await.unwrap_err();
    assert_eq!(refusal.fault, Fault::Server);
    server.fail(false);
    sleep(s(10)).await;
    server.get(&slot).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_failed_fetch_is_not_repeated_at_once_by_each_who_needs_it() {
    let (slot, server) = (Arc::new(Slot::default()), Scripted::default());
    server.fail(true);
    for _ in 0..10 {
        assert!(server.get(&slot).await.is_err());
    }
    assert_eq!(server.asked(), 1);
    sleep(s(1)).await;
    assert!(server.get(&slot).await.is_err());
    assert_eq!(server.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn who_goes_away_does_not_stop_the_fetch() {
    let (slot, server) = (Arc::new(Slot::default()), Scripted::taking(s(2)));
    assert!(timeout(s(1), server.get(&slot)).await.is_err());
    assert_eq!(server.get(&slot).await.unwrap(), "Bearer 1");
    assert_eq!(server.asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_fetch_that_panics_is_over() {
    let slot = Arc::new(Slot::default());
    let look = slot.look(|| async { panic!("a bug") });
    let SlotLookup::Wait(wait) = look else {
        panic!("nobody has a token yet");
    };
    assert!(wait.over().await.is_err());
    assert_eq!(Scripted::default().get(&slot).await.unwrap(), "Bearer 1");
}

#[tokio::test(start_paused = true)]
async fn a_refused_token_is_forgotten_but_not_one_after_the_other() {
    let (slot, server) = (Arc::new(Slot::default()), Scripted::default());
    server.get(&slot).await.unwrap();
    let [first, second] = ["Bearer 1", "Bearer 2"].map(HeaderValue::from_static);
    assert!(slot.refused(&first));
    assert!(slot.refused(&first), "by another request at the same time");
    assert_eq!(server.get(&slot).await.unwrap(), "Bearer 2");
    assert!(slot.refused(&first), "there is a newer one already");
    assert_eq!(server.get(&slot).await.unwrap(), "Bearer 2");
    sleep(s(9)).await;
    assert!(!slot.refused(&second), "a third would be no better");
    assert_eq!(server.get(&slot).await.unwrap(), "Bearer 2");
    sleep(s(1)).await;
    assert!(slot.refused(&second));
    assert_eq!(server.get(&slot).await.unwrap(), "Bearer 3");
}
