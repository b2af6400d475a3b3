//! The paths and headers that a catalog sees, and the headers of its answers.

use super::*;
use crate::request::peer::Peer;

#[tokio::test]
async fn a_base_path_stays_before_every_path() {
    let cases = [
        ("", "/v1/table/t/describe?delimiter=%24", "/up?x=1"),
        ("/", "/v1/table/t/describe?delimiter=%24", "/up?x=1"),
        (
            "/lance",
            "/lance/v1/table/t/describe?delimiter=%24",
            "/lance/up?x=1",
        ),
        (
            "/a%20b/c/",
            "/a%20b/c/v1/table/t/describe?delimiter=%24",
            "/a%20b/c/up?x=1",
        ),
    ];
    for (base, expected, health) in cases {
        let catalog = Catalog::start(vec![ok("warm"), ok("")]).await;
        let mut config = config(&format!("{}{base}", catalog.uri()));
        config.health.path = "/up?x=1".to_owned();
        let rest = rest(&config);
        warm(&rest).await;
        check(&rest).await.unwrap();
        let requests = catalog.requests();
        assert!(
            requests[0].starts_with(&format!("POST {expected} HTTP/1.1\r\n")),
            "{}",
            requests[0]
        );
        assert!(
            requests[1].starts_with(&format!("GET {health} HTTP/1.1\r\n")),
            "{}",
            requests[1]
        );
    }
}

#[tokio::test]
async fn the_catalog_sees_its_own_host_the_peer_and_what_is_end_to_end() {
    let catalog = Catalog::start(vec![ok("warm")]).await;
    let mut config = config(&catalog.uri());
    config.headers = vec![("x-api-key".parse().unwrap(), HeaderValue::from_static("k"))];
    let mut request = read();
    for (name, value) in [
        ("host", "gateway.example"),
        ("connection", "keep-alive, x-hop"),
        ("x-hop", "1"),
        ("x-forwarded-for", "203.0.113.9"),
        ("authorization", "Bearer t"),
        ("x-request-id", "r1"),
        ("expect", "100-continue"),
    ] {
        let name: http::HeaderName = name.parse().unwrap();
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    let peer = Peer::new("192.0.2.7:1".parse().unwrap(), false);
    RequestContext::more(request.extensions_mut()).peer = Some(peer);
    rest(&config).send(SOON, request).await.unwrap();
    let (head, body) = catalog.requests()[0]
        .split_once("\r\n\r\n")
        .map(|(h, b)| (h.to_owned(), b.to_owned()))
        .unwrap();
    let mut lines = head.split("\r\n").skip(1).collect::<Vec<_>>();
    lines.sort_unstable();
    let host = format!("host: {}", catalog.address);
    let expected = [
        "authorization: Bearer t",
        "content-length: 2",
        "forwarded: for=192.0.2.7;proto=http",
        &host,
        "x-api-key: k",
        "x-forwarded-for: 192.0.2.7",
        "x-request-id: r1",
    ];
    assert_eq!(lines, expected);
    assert_eq!(body, "{}");
}

#[tokio::test]
async fn an_answer_brings_no_header_of_its_own_hop() {
    let answer = "HTTP/1.1 200 OK\r\nserver: catalog\r\netag: \"1\"\r\nkeep-alive: timeout=5\r\nconnection: keep-alive, x-hop\r\nx-hop: 1\r\nx-nsgate-a: 1\r\ncontent-length: 0\r\n\r\n";
    let catalog = Catalog::start(vec![Act::Answer(answer.to_owned())]).await;
    let response = to(&catalog).send(SOON, read()).await.unwrap();
    let mut names = response
        .headers()
        .keys()
        .map(http::HeaderName::as_str)
        .collect::<Vec<_>>();
    names.sort_unstable();
    assert_eq!(names, ["content-length", "etag"]);
}
