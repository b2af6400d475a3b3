//! Several addresses of a catalog: after which failures and statuses a request is sent again, `retry-after`, and the
//! budget of retries.

use super::*;

#[tokio::test]
async fn requests_go_to_every_address() {
    let (first, second) = (always(ok("1")).await, always(ok("2")).await);
    let rest = rest(&at(&[&first.uri(), &second.uri()]));
    statuses(&rest, 200, write).await;
    let (first, second) = (first.requests().len(), second.requests().len());
    assert_eq!(first + second, 200);
    assert!(first > 40 && second > 40, "{first} {second}");
}

#[tokio::test]
async fn what_was_not_sent_goes_to_the_next_address_whatever_it_is() {
    let (nobody, deaf) = (nobody().await, nobody().await);
    let up = always(ok("up")).await;
    for request in [read, write, || streamed(Operation::InsertIntoTable)] {
        let rest = rest(&at(&[&nobody, &deaf, &up.uri()]));
        assert_eq!(statuses(&rest, 5, request).await, [200; 5]);
    }
    assert_eq!(up.requests().len(), 15);
}

#[tokio::test]
async fn a_read_is_sent_again_elsewhere_and_a_write_is_not() {
    for (act, status) in [
        (Act::Close, 0),
        (Act::Reset, 0),
        (status("307 T"), 0),
        (status("500 I"), 500),
        (status("502 B"), 502),
        (status("503 U"), 503),
        (status("504 T"), 504),
    ] {
        let (bad, good) = (always(act.clone()).await, always(ok("good")).await);
        // Each round is a new gateway, so that the bad address is as attractive as ever.
        for _ in 0..12 {
            let rest = rest(&at(&[&bad.uri(), &good.uri()]));
            assert_eq!(statuses(&rest, 1, read).await, [200], "{act:?}");
        }
        let seen = bad.requests().len();
        assert!(seen > 0, "{act:?}: the bad one was never asked");
        assert_eq!(good.requests().len(), 12);
        for request in [write, || streamed(Operation::QueryTable)] {
            let before = bad.requests().len() + good.requests().len();
            let mut told_so = 0;
            for _ in 0..12 {
                let rest = rest(&at(&[&bad.uri(), &good.uri()]));
                told_so += usize::from(statuses(&rest, 1, request).await == [status]);
            }
            let after = bad.requests().len() + good.requests().len();
            assert!(told_so > 0, "{act:?}");
            assert_eq!(after - before, 12, "{act:?}: each was sent once");
        }
    }
}

#[tokio::test]
async fn an_answer_that_says_when_to_come_again_is_passed_on() {
    let busy = "HTTP/1.1 503 U\r\nretry-after: 7\r\ncontent-length: 0\r\n\r\n".to_owned();
    let catalogs = [
        always(Act::Answer(busy.clone())).await,
        always(Act::Answer(busy)).await,
    ];
    let rest = rest(&at(&[&catalogs[0].uri(), &catalogs[1].uri()]));
    assert_eq!(statuses(&rest, 3, read).await, [503; 3]);
    let sent: usize = catalogs.iter().map(|c| c.requests().len()).sum();
    assert_eq!(sent, 3);
}

#[tokio::test]
async fn one_address_is_asked_again_after_a_moment_but_not_about_a_500() {
    for (act, sent) in [
        (Act::Close, 2),
        (status("503 U"), 2),
        (status("500 I"), 1),
        (status("307 T"), 1),
        (status("404 N"), 1),
    ] {
        let catalog = Catalog::start(vec![act.clone(), ok("well")]).await;
        let mut config = at(&[&catalog.uri()]);
        let _ = statuses(&rest(&config), 1, read).await;
        assert_eq!(catalog.requests().len(), sent, "{act:?}");
        config.retry.budget_percent = 0;
        let catalog = Catalog::start(vec![act, ok("well")]).await;
        config.uri = catalog.uri().parse().unwrap();
        let _ = statuses(&rest(&config), 1, read).await;
        assert_eq!(catalog.requests().len(), 1, "no budget");
    }
}

#[tokio::test]
async fn an_answer_is_better_than_none() {
    let bad = always(status("503 U")).await;
    let mut config = at(&[&bad.uri(), &nobody().await]);
    config.retry.attempts = 3;
    for _ in 0..8 {
        assert_eq!(statuses(&rest(&config), 1, read).await, [503]);
    }
}

#[tokio::test]
async fn what_may_have_been_sent_stays_so_whatever_comes_later() {
    let closing = always(Act::Close).await;
    let mut config = at(&[&closing.uri(), &nobody().await]);
    config.retry.attempts = 3;
    for _ in 0..8 {
        let outcome = rest(&config).send(Duration::from_secs(5), read()).await;
        assert_eq!(kind(&outcome), "lost");
    }
}

#[tokio::test]
async fn a_failing_catalog_is_not_asked_more_often_than_the_budget_has() {
    let catalog = always(Act::Close).await;
    let mut config = at(&[&catalog.uri()]);
    config.retry.attempts = 4;
    let rest = rest(&config);
    let requests = (0..50).map(|_| rest.send(Duration::from_secs(5), read()));
    join_all(requests).await;
    let sent = catalog.requests().len();
    assert!(
        (60..=66).contains(&sent),
        "50, 10 from the start, 1 a second: {sent}"
    );
}

#[tokio::test]
async fn an_address_that_answers_no_health_question_comes_second() {
    let (down, up) = (always(status("500 I")).await, always(ok("up")).await);
    let config = at(&[&down.uri(), &up.uri()]);
    let rest = rest(&config);
    let _ = check(&rest).await;
    let before = down.requests().len();
    assert_eq!(statuses(&rest, 20, write).await, [200; 20]);
    assert_eq!(down.requests().len(), before);
}
