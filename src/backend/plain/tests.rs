#![allow(clippy::unwrap_used, reason = "a test says what it expects")]
use super::*;

fn written(request: &Request<Body>, body: &str) -> String {
    let mut out = Vec::new();
    write(&mut out, request, body.as_bytes());
    String::from_utf8(out).unwrap()
}

fn read_str(text: &str) -> Option<Whole> {
    read(&Bytes::copy_from_slice(text.as_bytes()))
}

#[test]
fn a_request_is_written_as_the_rfc_spells_it() {
    let mut request = Request::post("/v1/table/a/describe?delimiter=.")
        .header("host", "h:1")
        .header("x-a", "1")
        .header("x-a", "2")
        .body(Body::full("{}"))
        .unwrap();
    let head =
        "POST /v1/table/a/describe?delimiter=. HTTP/1.1\r\nhost: h:1\r\nx-a: 1\r\nx-a: 2\r\n";
    let expected = format!("{head}content-length: 2\r\n\r\n{{}}");
    assert_eq!(written(&request, "{}"), expected);
    // Whatever the headers say: once, and what is sent.
    for said in ["2", "7"] {
        let said = HeaderValue::from_static(said);
        request.headers_mut().append(CONTENT_LENGTH, said);
        assert_eq!(written(&request, "{}"), expected);
    }
    let expected = format!("{head}content-length: 0\r\n\r\n");
    assert_eq!(written(&request, ""), expected);
    let bare = Request::new(Body::empty());
    assert_eq!(written(&bare, ""), "GET / HTTP/1.1\r\n\r\n");
    let mut bare = bare;
    bare.headers_mut().insert(CONTENT_LENGTH, 0.into());
    assert_eq!(written(&bare, ""), "GET / HTTP/1.1\r\n\r\n");
    let long = written(&bare, &"x".repeat(10_203));
    assert!(long.starts_with("GET / HTTP/1.1\r\ncontent-length: 10203\r\n\r\nxxx"));
}

#[test]
fn what_is_not_plain_is_left_to_others() {
    let request = |method: &str, body| {
        let request = Request::builder().method(method);
        request.body(body).unwrap()
    };
    assert!(is_plain(&request("POST", Body::full("x"))));
    assert!(is_plain(&request("GET", Body::empty())));
    for method in ["HEAD", "CONNECT", "OPTIONS", "OTHER"] {
        assert!(!is_plain(&request(method, Body::empty())), "{method}");
    }
    let long = |length| Body::full(vec![b'x'; length]);
    assert!(is_plain(&request("POST", long(16 << 10))));
    assert!(!is_plain(&request("POST", long((16 << 10) + 1))));
    let streamed = Body::stream(http_body_util::Full::new(Bytes::from("x")));
    assert!(!is_plain(&request("POST", streamed)));
    for name in ["connection", "transfer-encoding", "upgrade", "expect", "te"] {
        let mut request = request("POST", Body::full("x"));
        let name = HeaderName::from_static(name);
        request.headers_mut().insert(name, "x".parse().unwrap());
        assert!(!is_plain(&request));
    }
}

#[test]
fn an_answer_that_is_there_as_a_whole_is_read() {
    let answer = "HTTP/1.1 404 Not Found\r\nServer: s\r\nset-cookie: a\r\nSet-Cookie: b\r\n\
                  Content-Length: 4\r\nConnection: Keep-Alive\r\n\r\nbody";
    let Whole { response, stays } = read_str(answer).unwrap();
    assert!(stays);
    assert_eq!(response.status(), 404);
    assert_eq!(response.body(), "body");
    let headers = response.headers();
    assert_eq!(headers["server"], "s");
    assert_eq!(headers["content-length"], "4");
    let cookies: Vec<_> = headers.get_all("set-cookie").iter().collect();
    assert_eq!(cookies, ["a", "b"]);
    assert_eq!(headers.len(), 4);
    let empty = read_str("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
    assert!(empty.stays && empty.response.body().is_empty());
}

#[test]
fn a_connection_that_ends_or_says_more_than_was_asked_does_not_stay() {
    for answer in [
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 1\r\n\r\nx",
        "HTTP/1.1 200 OK\r\nconnection: close\r\nconnection: keep-alive\r\ncontent-length: 1\r\n\r\nx",
        "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nxHTTP/1.1 200 OK\r\n",
    ] {
        let Whole { response, stays } = read_str(answer).unwrap();
        assert!(!stays && response.body() == "x", "{answer}");
    }
}

#[test]
fn an_answer_of_which_anything_is_missing_or_unclear_is_not_read() {
    let whole = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nbody";
    assert!(read_str(whole).is_some());
    for end in 0..whole.len() {
        assert!(read_str(&whole[..end]).is_none(), "{end}");
    }
    for (from, to) in [
        ("HTTP/1.1", "HTTP/1.0"),
        ("200 OK", "100 Continue"),
        ("200 OK", "101 Switching Protocols"),
        ("200 OK", "103 Early Hints"),
        ("200 OK", "204 No Content"),
        ("200 OK", "304 Not Modified"),
        ("200 OK", "200 Fine"),
        ("200 OK", "999 "),
        ("length: 4", "length: 5"),
        ("length: 4", "length: +4"),
        ("length: 4", "length: -4"),
        ("length: 4", "length: 4, 4"),
        ("length: 4", "length: 4\r\ncontent-length: 4"),
        ("length: 4", "length: 0x4"),
        ("length: 4", "length: "),
        ("length: 4", "length: 99999999999999999999999"),
        ("length: 4", "length: 18446744073709551615"),
        ("length: 4", "length : 4"),
        ("length: 4", "length: 4\r\n folded"),
        ("length: 4", "length: 4\r\ntransfer-encoding: chunked"),
        ("length: 4", "length: 4\r\nupgrade: h2c"),
        ("length: 4", "length: 4\r\nconnection: x-secret"),
        ("length: 4", "length: 4\r\nx: \u{1}"),
        ("content-length: 4", "transfer-encoding: chunked"),
        ("content-length: 4", "x: y"),
    ] {
        let other = whole.replacen(from, to, 1);
        assert_ne!(other, whole);
        assert!(read_str(&other).is_none(), "{other}");
    }
    let many = "x: y\r\n".repeat(FIELDS);
    assert!(read_str(&whole.replacen("content", &format!("{many}content"), 1)).is_none());
}
