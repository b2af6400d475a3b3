#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

use std::cell::Cell;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use http::Response;
use tower::{ServiceExt as _, service_fn};

use super::*;
use crate::protocol::principal::{Identity, Principal};
use crate::request::peer::Peer;

const SLOW: RateLimit = RateLimit {
    requests: 1,
    period: Duration::from_secs(3600),
    burst: 2,
};

#[derive(Clone, Default)]
struct Hands(Rc<Cell<Duration>>);

impl Clock for Hands {
    type Instant = Duration;

    fn now(&self) -> Duration {
        self.0.get()
    }
}

fn request(issuer: &str, subject: &str, address: &str) -> Request<Body> {
    let mut request = Request::new(Body::empty());
    let principal = match issuer {
        "" => Principal::anonymous(),
        _ => Principal::new(Identity {
            issuer: issuer.into(),
            subject: subject.into(),
            ..Identity::default()
        }),
    };
    let learned = RequestContext::more(request.extensions_mut());
    learned.principal = Some(principal);
    learned.peer = Some(Peer::new(address.parse().unwrap(), false));
    request
}

async fn ask(layer: &RateLayer, request: Request<Body>) -> Result<Response<Body>, Error> {
    let inner = service_fn(async |_: Request<Body>| Ok::<_, Error>(Response::new(Body::empty())));
    layer.layer(inner).oneshot(request).await
}

#[tokio::test]
async fn each_caller_has_a_bucket_of_its_own_and_is_told_when_to_come_again() {
    let layer = RateLayer::new(Rates::renew(Some(SLOW), None));
    // The callers on one line are one caller.
    let callers = [
        [("a", "x", "192.0.2.1:1"), ("a", "x", "192.0.2.2:1")],
        [("a", "y", "192.0.2.1:1"), ("a", "y", "[2001:db8::1]:1")],
        [("b", "x", "192.0.2.1:1"), ("b", "x", "192.0.2.1:2")],
        [("a", "", "192.0.2.3:1"), ("", "", "192.0.2.3:2")],
        [("", "", "192.0.2.4:1"), ("", "", "[::ffff:192.0.2.4]:1")],
        [("", "", "[2001:db8::1]:1"), ("", "", "[2001:db8::f:1]:1")],
        [
            ("", "", "[2001:db8:0:1::1]:1"),
            ("", "", "[2001:db8:0:1::2]:1"),
        ],
    ];
    for caller in callers {
        for (issuer, subject, address) in caller {
            let answer = ask(&layer, request(issuer, subject, address)).await;
            answer.unwrap_or_else(|error| panic!("{issuer} {subject} {address}: {error}"));
        }
        let (issuer, subject, address) = caller[0];
        let refused = ask(&layer, request(issuer, subject, address))
            .await
            .unwrap_err();
        assert_eq!(refused.status(), 429);
        assert_eq!(refused.code().number(), 21);
        let wait = refused.retry_after().unwrap().to_string();
        assert!((3000..=3600).contains(&wait.parse().unwrap()), "{wait}");
        assert!(refused.message().contains(&format!(
            "1 per hour are allowed, 2 at once; retry in {wait} s"
        )));
    }
}

#[tokio::test]
async fn without_a_setting_nobody_is_refused() {
    let layer = RateLayer::new(Rates::renew(None, None));
    for _ in 0..100 {
        ask(&layer, request("a", "x", "192.0.2.1:1")).await.unwrap();
    }
}

#[test]
fn buckets_outlive_a_reload_that_does_not_change_them() {
    let first = Rates::renew(Some(SLOW), None).unwrap();
    let same = Rates::renew(Some(SLOW), Some(&first)).unwrap();
    assert!(Arc::ptr_eq(&first, &same));
    let other = RateLimit { burst: 3, ..SLOW };
    let other = Rates::renew(Some(other), Some(&first)).unwrap();
    assert!(!Arc::ptr_eq(&first, &other));
    assert!(Rates::renew(None, Some(&first)).is_none());
}

#[test]
fn a_bucket_fills_at_its_rate() {
    let clock = Hands::default();
    let setting = RateLimit {
        requests: 4,
        period: Duration::from_secs(1),
        burst: 2,
    };
    let limiter = Limiter::new(quota(setting), Buckets::new(64), clock.clone());
    let take = || limiter.check_key(&7).is_ok();
    assert!(take() && take() && !take());
    clock.0.set(Duration::from_millis(249));
    assert!(!take());
    clock.0.set(Duration::from_millis(250));
    assert!(take() && !take());
    clock.0.set(Duration::from_secs(100));
    assert!(take() && take() && !take());
}

#[test]
fn full_buckets_are_forgotten_first_and_then_the_fullest() {
    let clock = Hands::default();
    let setting = RateLimit {
        requests: 1,
        period: Duration::from_secs(1),
        burst: 10,
    };
    // The keys differ in their lowest bits only, so all are in one shard, which has room for three.
    let limiter = Limiter::new(quota(setting), Buckets::new(3 * 64), clock.clone());
    let spend = |key: u64, times: usize| {
        (0..times)
            .filter(|_| limiter.check_key(&key).is_ok())
            .count()
    };
    assert_eq!([spend(1, 11), spend(2, 5), spend(3, 8)], [10, 5, 8]);
    // No bucket is full: that of 2 is the fullest.
    assert_eq!(spend(4, 1), 1);
    assert_eq!([spend(1, 1), spend(3, 3)], [0, 2], "these are remembered");
    clock.0.set(Duration::from_secs(3));
    // The bucket of 4 is full by now.
    assert_eq!(spend(2, 11), 10, "this one was not");
    assert_eq!([spend(1, 4), spend(3, 4)], [3, 3], "these still are");
}

#[test]
fn memory_is_bounded_however_many_callers_there_are() {
    let rates = Rates::remembering(1024, SLOW);
    for caller in 0..100_000_u32 {
        let caller = Caller::Address(IpAddr::V4(caller.into()));
        rates.take(&caller).unwrap();
    }
    let buckets = rates.limiter.into_state_store();
    assert!(buckets.len() <= 1024, "{}", buckets.len());
}

#[test]
fn the_slowest_rate_with_the_largest_burst_and_the_fastest_rate_are_quotas() {
    let slowest = RateLimit {
        burst: 10_000_000,
        ..SLOW
    };
    let fastest = RateLimit {
        requests: u32::MAX,
        period: Duration::from_secs(1),
        burst: 1,
    };
    for setting in [slowest, fastest] {
        let rates = Rates::remembering(64, setting);
        rates.take(&Caller::Unknown).unwrap();
    }
}
