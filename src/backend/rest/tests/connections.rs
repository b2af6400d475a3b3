//! The connections to a catalog: when one is used again, and whether its request is sent again when it breaks.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

/// Lets the runtime process all events of the sockets: an exchange over a new socket comes after all of
/// them.
async fn settle() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap())
        .await
        .unwrap();
    let (mut server, _) = listener.accept().await.unwrap();
    for _ in 0..3 {
        client.write_all(b"x").await.unwrap();
        server.read_u8().await.unwrap();
    }
}

#[tokio::test]
async fn a_connection_is_used_again_once_its_answer_was_read() {
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nwarm\r\n0\r\n\r\n";
    let catalog = Catalog::start(vec![
        ok("warm"),
        Act::Answer(chunked.to_owned()),
        ok(""),
        ok("warm"),
        ok("frame"),
        ok("left"),
        Act::Answer("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf".to_owned()),
        ok("warm"),
    ])
    .await;
    let rest = to(&catalog);
    warm(&rest).await;
    warm(&rest).await;
    drop(rest.send(SOON, write()).await.unwrap());
    warm(&rest).await;
    // The reader knows the length, and does not poll for more.
    let mut response = rest.send(SOON, read()).await.unwrap();
    response.body_mut().frame().await.unwrap().unwrap();
    drop(response);
    // An answer that came whole with its headers need not be read.
    drop(rest.send(SOON, read()).await.unwrap());
    drop(rest.send(SOON, read()).await.unwrap());
    assert_eq!(catalog.connections(), 1);
    // That answer was not read to its end, so its connection was closed.
    warm(&rest).await;
    assert_eq!(catalog.connections(), 2);
}

#[tokio::test]
async fn a_connection_that_the_catalog_closed_while_idle_is_not_used() {
    for request in [read(), write(), streamed(Operation::InsertIntoTable)] {
        let closing = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nwarm".to_owned();
        let catalog = Catalog::start(vec![Act::AnswerAndClose(closing), ok("fresh")]).await;
        let rest = to(&catalog);
        warm(&rest).await;
        settle().await;
        let response = rest.send(SOON, request).await.unwrap();
        assert_eq!(whole(response).await.unwrap(), "fresh");
        assert_eq!(catalog.connections(), 2);
    }
}

#[tokio::test]
async fn only_a_read_whose_body_is_at_hand_is_sent_again_when_a_used_connection_breaks() {
    let cases = [
        (read(), "ok", 3),
        (write(), "lost", 2),
        (streamed(Operation::QueryTable), "lost", 2),
        (streamed(Operation::InsertIntoTable), "lost", 2),
    ];
    for (request, expected, sent) in cases {
        let catalog = Catalog::start(vec![ok("warm"), Act::Close, ok("fresh")]).await;
        let rest = to(&catalog);
        warm(&rest).await;
        let outcome = rest.send(SOON, request).await;
        assert_eq!(kind(&outcome), expected);
        assert_eq!(catalog.requests().len(), sent);
    }
}

#[tokio::test]
async fn a_request_is_sent_again_once_at_most() {
    let catalog = Catalog::start(vec![ok("warm"), Act::Close, Act::Close, ok("never")]).await;
    let rest = to(&catalog);
    warm(&rest).await;
    assert_eq!(kind(&rest.send(SOON, read()).await), "lost");
    assert_eq!(catalog.requests().len(), 3);
}

#[tokio::test]
async fn idle_connections_are_bounded_in_number_and_age() {
    let catalog = Catalog::start(vec![ok("a"), ok("b"), ok("c"), ok("d")]).await;
    let mut config = config(&catalog.uri());
    config.pool.max_idle = 1;
    let bounded = rest(&config);
    let (a, b) = tokio::join!(bounded.send(SOON, read()), bounded.send(SOON, read()));
    let (a, b) = (whole(a.unwrap()).await, whole(b.unwrap()).await);
    assert!(a.is_ok() && b.is_ok());
    assert_eq!(catalog.connections(), 2);
    let (c, d) = tokio::join!(bounded.send(SOON, read()), bounded.send(SOON, read()));
    drop((c.unwrap(), d.unwrap()));
    assert_eq!(catalog.connections(), 3, "one of two was kept");

    let catalog = Catalog::start(vec![ok("warm"), ok("warm")]).await;
    let mut config = self::config(&catalog.uri());
    config.pool.idle_timeout = Duration::ZERO;
    let rest = rest(&config);
    warm(&rest).await;
    warm(&rest).await;
    assert_eq!(catalog.connections(), 2);
}

#[tokio::test]
async fn a_health_check_leaves_its_connection_to_requests_and_takes_none_from_them() {
    let catalog = Catalog::start(vec![
        status("404 N"),
        ok("warm"),
        status("503 U"),
        ok("warm"),
    ])
    .await;
    let rest = to(&catalog);
    for is_healthy in [true, false] {
        assert_eq!(check(&rest).await.is_ok(), is_healthy);
        warm(&rest).await;
    }
    assert_eq!(catalog.connections(), 1);
}

/// The catalog may close an idle connection at the very moment of a health check. That says nothing of its health.
#[tokio::test]
async fn a_health_check_over_a_connection_that_breaks_is_repeated_over_a_new_one() {
    let catalog = Catalog::start(vec![ok("warm"), Act::Close, status("200 OK")]).await;
    let rest = to(&catalog);
    warm(&rest).await;
    assert_eq!(check(&rest).await, Ok(()));
    assert_eq!(catalog.requests().len(), 3);
    assert_eq!(catalog.connections(), 2);
}
