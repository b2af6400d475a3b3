//! The circuit breaker of each address of a catalog: what opens it, what passes it when it is open, and its probe.

use super::*;
use crate::error::retry_after::RetryAfter;
use crate::protocol::principal::Principal;

/// A write to table `table` of caller `caller`.
fn write_of(caller: &str, table: usize) -> Request<Body> {
    let mut request = write();
    let context = RequestContext::more(request.extensions_mut());
    context.principal = Some(Principal::certified(caller));
    context.identifier = Some(Identifier::from_names([format!("t{table}")]).unwrap());
    request
}

/// Sends `count` writes, each of another caller to another table, which all must fail.
async fn fail(rest: &Kind, count: usize) {
    for each in 0..count {
        let outcome = rest.send(SOON, write_of(&each.to_string(), each)).await;
        assert!(outcome.is_err());
    }
}

fn breakers(kind: &Kind) -> Vec<&'static str> {
    match kind {
        Kind::Rest(rest) => rest.standing().iter().map(|one| one.breaker).collect(),
        _ => unreachable!("made by `rest`"),
    }
}

#[tokio::test]
async fn failures_in_a_row_open_the_breaker_and_a_probe_closes_it() {
    let script = vec![
        Act::Close,
        Act::Close,
        Act::Close,
        Act::Close,
        ok("well"),
        ok("well"),
    ];
    let catalog = Catalog::start(script).await;
    let mut config = at(&[&catalog.uri()]);
    config.breaker.failures = 3;
    config.breaker.open_for = SOON;
    let rest = rest(&config);
    fail(&rest, 3).await;
    let failure = rest.send(SOON, write()).await.unwrap_err();
    assert!(matches!(failure, Failure::NotSent(_)), "{failure}");
    let error = failure.into_error("warehouse");
    assert_eq!(error.status(), 503);
    assert!(error.message().contains("warehouse"), "{error}");
    assert_eq!(error.retry_after(), Some(RetryAfter::SOON));
    assert_eq!(catalog.requests().len(), 3, "not asked");

    tokio::time::sleep(SOON).await;
    assert_eq!(statuses(&rest, 2, write).await, [0; 2], "the probe failed");
    assert_eq!(catalog.requests().len(), 4);
    tokio::time::sleep(SOON).await;
    assert_eq!(statuses(&rest, 2, write).await, [200; 2]);
}

#[tokio::test]
async fn a_probe_that_hangs_delays_the_next_and_no_more() {
    let script = vec![Act::Close, Act::Close, Act::Silence, ok("well")];
    let catalog = Catalog::start(script).await;
    let mut config = at(&[&catalog.uri()]);
    config.breaker.failures = 2;
    config.breaker.open_for = SOON;
    let rest = rest(&config);
    fail(&rest, 2).await;
    tokio::time::sleep(SOON).await;
    let patient = Duration::from_secs(30);
    let hung = rest.send(patient, write());
    let others = async {
        while catalog.requests().len() < 3 {
            tokio::task::yield_now().await;
        }
        assert_eq!(statuses(&rest, 1, write).await, [0], "one probe at a time");
        tokio::time::sleep(SOON).await;
        assert_eq!(statuses(&rest, 1, write).await, [200]);
    };
    tokio::select! {
        _ = hung => panic!("it hangs"),
        () = others => {}
    }
}

#[tokio::test]
async fn what_a_caller_can_bring_about_alone_does_not_open_it() {
    let catalog = always(status("500 I")).await;
    let mut config = at(&[&catalog.uri()]);
    config.breaker.failures = 2;
    let alone = rest(&config);
    assert_eq!(statuses(&alone, 9, read).await, [500; 9]);
    let second = always(status("500 I")).await;
    config.endpoints = vec![second.uri().parse().unwrap()];
    let two = rest(&config);
    assert_eq!(statuses(&two, 9, read).await, [500; 9]);

    // A body that never comes is the client's fault.
    let catalog = always(ok("well")).await;
    config = at(&[&catalog.uri()]);
    config.breaker.failures = 1;
    let rest = rest(&config);
    let body = StreamBody::new(stream::pending::<Result<http_body::Frame<Bytes>, BoxError>>());
    let stalled = request(Operation::InsertIntoTable, Body::stream(body));
    assert_eq!(kind(&rest.send(SOON, stalled).await), "timed out");
    assert_eq!(statuses(&rest, 1, write).await, [200]);
}

#[tokio::test]
async fn an_address_whose_500_another_betters_is_left_out() {
    let (bad, good) = (always(status("500 I")).await, always(ok("good")).await);
    let mut config = at(&[&bad.uri(), &good.uri()]);
    config.breaker.failures = 1;
    let rest = rest(&config);
    assert_eq!(statuses(&rest, 100, read).await, [200; 100]);
    assert_eq!(bad.requests().len(), 1);
    assert_eq!(breakers(&rest), ["open", "closed"]);
    assert_eq!(statuses(&rest, 20, write).await, [200; 20]);
}

#[tokio::test]
async fn the_gateways_own_questions_pass_an_open_breaker() {
    let catalog = Catalog::start(vec![Act::Close, Act::Close, ok("own"), ok("well")]).await;
    let mut config = at(&[&catalog.uri()]);
    config.breaker.failures = 2;
    let rest = rest(&config);
    fail(&rest, 2).await;
    assert_eq!(statuses(&rest, 1, write).await, [0]);
    assert_eq!(catalog.requests().len(), 2, "not asked");
    assert!(asked(&rest).await.is_ok());
    assert_eq!(statuses(&rest, 1, write).await, [200]);
}

#[tokio::test]
async fn silence_opens_the_breaker_before_requests_time_out() {
    let catalog = always(Act::Silence).await;
    let mut config = at(&[&catalog.uri()]);
    config.breaker.failures = 3;
    config.health.timeout = SOON;
    let rest = rest(&config);
    let patient = Duration::from_secs(30);
    let hung = join_all((0..3).map(|_| rest.send(patient, write())));
    let others = async {
        while catalog.requests().len() < 3 {
            tokio::task::yield_now().await;
        }
        assert!(check(&rest).await.is_err());
        assert_eq!(kind(&rest.send(patient, write()).await), "not sent");
    };
    tokio::select! {
        _ = hung => panic!("they hang"),
        () = others => {}
    }
    assert_eq!(catalog.requests().len(), 4, "three and the health question");
}

#[tokio::test]
async fn one_callers_or_one_tables_failures_do_not_open_the_breaker_of_the_last_address() {
    type Source = fn(usize) -> (&'static str, usize);
    let sources: [(Source, &str); 3] = [
        (|each| ("ann", each), "closed"),
        (|each| (["ann", "bob"][each % 2], 7), "closed"),
        (|each| (["ann", "bob"][each % 2], each), "open"),
    ];
    for (source, expected) in sources {
        for act in [Act::Silence, Act::Close, status("504 T"), status("502 B")] {
            let catalog = always(act.clone()).await;
            let mut config = at(&[&catalog.uri()]);
            config.breaker.failures = 4;
            let rest = rest(&config);
            let request = |each| {
                let (caller, table) = source(each);
                rest.send(SOON, write_of(caller, table))
            };
            let _ = join_all((0..6).map(request)).await;
            assert_eq!(breakers(&rest), [expected], "{act:?}");
        }
    }
}

#[tokio::test]
async fn one_caller_opens_the_breaker_of_an_address_that_cannot_be_reached_or_fails_its_health_check()
 {
    let mut config = at(&[&nobody().await]);
    config.breaker.failures = 3;
    let unreachable = rest(&config);
    for _ in 0..3 {
        let _ = unreachable.send(SOON, write_of("ann", 7)).await;
    }
    assert_eq!(breakers(&unreachable), ["open"]);

    let broken = always(status("502 B")).await;
    config.uri = broken.uri().parse().unwrap();
    for check_first in [false, true] {
        let rest = rest(&config);
        if check_first {
            assert!(check(&rest).await.is_err());
        }
        for _ in 0..3 {
            let _ = rest.send(SOON, write_of("ann", 7)).await;
        }
        if !check_first {
            assert_eq!(breakers(&rest), ["closed"]);
            assert!(check(&rest).await.is_err());
        }
        assert_eq!(breakers(&rest), ["open"]);
    }
}

#[tokio::test]
async fn one_caller_opens_the_breakers_of_all_addresses_but_the_last() {
    let catalogs = [always(Act::Close).await, always(Act::Close).await];
    let mut config = at(&[&catalogs[0].uri(), &catalogs[1].uri()]);
    config.breaker.failures = 3;
    let rest = rest(&config);
    for _ in 0..20 {
        let _ = rest.send(SOON, write_of("ann", 7)).await;
    }
    let open = breakers(&rest).iter().filter(|one| **one == "open").count();
    assert_eq!(open, 1);
}

#[tokio::test]
async fn with_every_address_open_one_request_in_ten_goes_through_and_a_success_closes_the_breaker()
{
    for addresses in [1, 2] {
        let mut catalogs = Vec::new();
        for _ in 0..addresses {
            let script = [vec![Act::Close; 2], vec![ok("well"); 100]].concat();
            catalogs.push(Catalog::start(script).await);
        }
        let uris: Vec<_> = catalogs.iter().map(Catalog::uri).collect();
        let mut config = at(&uris.iter().map(String::as_str).collect::<Vec<_>>());
        config.breaker.failures = 2;
        config.breaker.open_for = Duration::from_secs(3600);
        let rest = rest(&config);
        let mut each = 0;
        while breakers(&rest).contains(&"closed") {
            let _ = rest.send(SOON, write_of(&each.to_string(), each)).await;
            each += 1;
        }
        assert_eq!(statuses(&rest, 9, write).await, [0; 9]);
        let sent = || {
            catalogs
                .iter()
                .map(|one| one.requests().len())
                .sum::<usize>()
        };
        assert_eq!(sent(), 2 * addresses, "not asked");
        assert_eq!(statuses(&rest, 11, write).await, [200; 11]);
    }
}

#[tokio::test]
async fn a_catalog_that_is_down_gets_few_requests_and_clients_a_quick_answer() {
    let catalog = always(Act::Silence).await;
    let mut config = at(&[&catalog.uri()]);
    config.breaker.failures = 3;
    config.breaker.open_for = Duration::from_secs(3600);
    let rest = rest(&config);
    let opening = (0..3).map(|each| rest.send(SOON, write_of(&each.to_string(), each)));
    join_all(opening).await;
    assert_eq!(breakers(&rest), ["open"]);
    let began = std::time::Instant::now();
    // Dropped before it is answered, as by a client that leaves: the share must not be used up by that.
    for _ in 0..1_000 {
        let mut request = write();
        let sent = rest.pass(Instant::now() + SOON, &mut request);
        let _ = futures_util::FutureExt::now_or_never(sent);
    }
    let patient = Duration::from_secs(30);
    let waiting = async {
        let requests = (0..3_000).map(|_| async {
            let outcome = rest.send(patient, write()).await;
            assert_eq!(kind(&outcome), "not sent");
        });
        join_all(requests).await;
    };
    // Those of the share hang: as many as failures open the breaker, and one in 100 ms.
    let _ = tokio::time::timeout(SOON, waiting).await;
    let most = 3 + 1 + began.elapsed().as_millis() as usize / 100;
    let sent = catalog.requests().len();
    assert!(sent <= 3 + most, "{sent}");
}
