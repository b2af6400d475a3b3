#![allow(clippy::unwrap_used, reason = "a test says what it expects")]
use bytes::Bytes;
use http::{HeaderName, HeaderValue};

use http::header::CONTENT_LENGTH;
use http::{Request, Response};
use http_body_util::Full;

use super::request::{ExtraHeaders, is_plain, write_head};
use super::response::{BodyEncoder, MOST_FIELDS, ParsedResponse, WrongLength, read};
use super::*;
use crate::body::Body;

/// The headers that the tests drop.
const DROPPED: [&str; 4] = [
    "connection",
    "keep-alive",
    "x-forwarded-for",
    "proxy-connection",
];

/// A host in place of the request's.
struct Host;

impl ExtraHeaders for Host {
    fn has(&self, name: &str) -> bool {
        name == "host"
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"host: h:1\r\n");
    }
}

fn written(request: &Request<Body>) -> String {
    let mut out = Vec::new();
    assert!(write_head(&mut out, request, &Host));
    String::from_utf8(out).unwrap()
}

/// Returns the response, and true if its connection stays open.
fn read_str(text: &str) -> Option<(Response<Bytes>, bool)> {
    let ParsedResponse { response, stays } = read(
        &Bytes::copy_from_slice(text.as_bytes()),
        &mut HeaderCache::default(),
        |name| !DROPPED.contains(&name.as_str()),
    )?;
    Some((response, stays))
}

#[test]
fn a_request_is_written_as_the_rfc_spells_it() {
    let mut request = Request::post("/v1/table/a/describe?delimiter=.")
        .header("x-a", "1")
        .header("host", "of the client")
        .header("x-a", "2")
        .body(Body::full("{}"))
        .unwrap();
    let head =
        "POST /v1/table/a/describe?delimiter=. HTTP/1.1\r\nx-a: 1\r\nx-a: 2\r\nhost: h:1\r\n";
    let expected = format!("{head}content-length: 2\r\n\r\n");
    assert_eq!(written(&request), expected);
    // The length is that of the body, and is written once, whatever the headers say.
    for said in ["2", "7"] {
        let said = HeaderValue::from_static(said);
        request.headers_mut().append(CONTENT_LENGTH, said);
        assert_eq!(written(&request), expected);
    }
    *request.body_mut() = Body::empty();
    let expected = format!("{head}content-length: 0\r\n\r\n");
    assert_eq!(written(&request), expected);
    let mut bare = Request::new(Body::empty());
    assert_eq!(written(&bare), "GET / HTTP/1.1\r\nhost: h:1\r\n\r\n");
    bare.headers_mut().insert(CONTENT_LENGTH, 0.into());
    assert_eq!(written(&bare), "GET / HTTP/1.1\r\nhost: h:1\r\n\r\n");
    *bare.body_mut() = Body::full("x".repeat(10_203));
    let expected = "GET / HTTP/1.1\r\nhost: h:1\r\ncontent-length: 10203\r\n\r\n";
    assert_eq!(written(&bare), expected);
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
        assert!(!write_head(&mut Vec::new(), &request, &Host));
    }
}

#[test]
fn an_answer_that_is_there_as_a_whole_is_read() {
    let answer = "HTTP/1.1 404 Not Found\r\nServer: s\r\nset-cookie: a\r\nSet-Cookie: b\r\n\
                  Content-Length: 4\r\nConnection: Keep-Alive\r\n\r\nbody";
    let (whole, stays) = read_str(answer).unwrap();
    let headers = whole.headers();
    assert!(stays);
    assert_eq!(whole.status(), 404);
    assert_eq!(whole.body(), "body");
    assert_eq!(headers["server"], "s");
    assert_eq!(headers["content-length"], "4");
    let cookies: Vec<_> = headers.get_all("set-cookie").iter().collect();
    assert_eq!(cookies, ["a", "b"]);
    assert_eq!(headers.len(), 4);
    let (empty, stays) = read_str("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
    assert!(stays && empty.body().is_empty());
}

#[test]
fn headers_are_read_without_the_spaces_around_them_and_without_those_that_end_here() {
    let answer = "HTTP/1.1 200 OK\r\nKeep-Alive: timeout=5\r\nX-Forwarded-For: a\r\n\
                  a:b: c\r\nnone:\r\nspaces: \t \r\nX_1.-~: \t x \u{e9}\ty \t\r\n\
                  content-type: application/json\r\ncontent-length:0\r\nproxy-connection: x\r\n\r\n";
    let (whole, _) = read_str(answer).unwrap();
    let all = whole.headers().iter();
    let all: Vec<_> = all
        .map(|(name, value)| (name.as_str(), value.as_bytes()))
        .collect();
    let expected: [(&str, &[u8]); 6] = [
        ("a", b"b: c"),
        ("none", b""),
        ("spaces", b""),
        ("x_1.-~", "x \u{e9}\ty".as_bytes()),
        ("content-type", b"application/json"),
        ("content-length", b"0"),
    ];
    assert_eq!(all, expected);
}

#[test]
fn a_connection_that_ends_or_says_more_than_was_asked_does_not_stay() {
    for answer in [
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 1\r\n\r\nx",
        "HTTP/1.1 200 OK\r\nconnection: close\r\nconnection: keep-alive\r\ncontent-length: 1\r\n\r\nx",
        "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nxHTTP/1.1 200 OK\r\n",
    ] {
        let (whole, stays) = read_str(answer).unwrap();
        assert!(!stays && whole.body() == "x", "{answer}");
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
        ("HTTP/1.1", "HTTP/1.1 "),
        ("200 OK", "200"),
        ("200 OK", "200 "),
        ("200 OK", "200 OK "),
        ("200 OK", "+20 OK"),
        ("200 OK\r\n", "200 OK\r\n folded: x\r\n"),
        ("200 OK\r\n", "200 OK\r\n: x\r\n"),
        ("200 OK\r\n", "200 OK\r\nx\r\n"),
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
        ("length: 4", "length: 4\r\nx: \u{7f}"),
        ("length: 4", "length: 4\r\nx: y\rtransfer-encoding: chunked"),
        (
            "length: 4",
            "length: 4\r\nkeep-alive: y\rtransfer-encoding: chunked",
        ),
        ("length: 4", "length: 4\r\nx: y\r"),
        ("length: 4", "length: 4\r\nx y: z"),
        ("length: 4", "length: 4\r\nx\u{e9}: z"),
        ("content-length: 4", "transfer-encoding: chunked"),
        ("content-length: 4", "x: y"),
    ] {
        let other = whole.replacen(from, to, 1);
        assert_ne!(other, whole);
        assert!(read_str(&other).is_none(), "{other}");
    }
    let many = "x: y\r\n".repeat(MOST_FIELDS);
    assert!(read_str(&whole.replacen("content", &format!("{many}content"), 1)).is_none());
}

#[test]
fn a_body_is_written_as_its_head_says_or_fails() {
    let mut out = Pieces::default();
    let mut length = BodyEncoder::Length(3);
    length.encode("ab".into(), &mut out).unwrap();
    assert_eq!(length.end(&mut out), Err(WrongLength));
    assert_eq!(length.encode("cd".into(), &mut out), Err(WrongLength));
    let mut length = BodyEncoder::Length(3);
    length.encode("abc".into(), &mut out).unwrap();
    length.end(&mut out).unwrap();
    let mut chunked = BodyEncoder::Chunked;
    for data in ["x".repeat(17), String::new(), "y".to_owned()] {
        chunked.encode(data.into(), &mut out).unwrap();
    }
    chunked.end(&mut out).unwrap();
    let mut slices = [std::io::IoSlice::new(&[]); 2];
    assert_eq!(out.slices(&mut slices), 1);
    let written = String::from_utf8(slices[0].to_vec()).unwrap();
    let chunk = "x".repeat(17);
    assert_eq!(
        written,
        format!("ababc11\r\n{chunk}\r\n1\r\ny\r\n0\r\n\r\n")
    );
}

#[test]
fn a_response_says_how_its_body_is_written() {
    let streamed = || Body::stream(Full::new(Bytes::from("piece")));
    for (status, body, encoder, says) in [
        (
            200,
            Body::full("abc"),
            BodyEncoder::Length(3),
            "content-length: 3\r\n",
        ),
        (
            200,
            streamed(),
            BodyEncoder::Length(5),
            "content-length: 5\r\n",
        ),
        (
            204,
            Body::empty(),
            BodyEncoder::None,
            "204 No Content\r\ndate: ",
        ),
    ] {
        let mut response = Response::new(body);
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        // None of these is the length or the framing that is sent.
        for (name, value) in [("content-length", "7"), ("transfer-encoding", "gzip")] {
            let name = HeaderName::from_static(name);
            response.headers_mut().insert(name, value.parse().unwrap());
        }
        for (ordered, said) in [(false, false), (true, false), (false, true)] {
            if said {
                let close = HeaderValue::from_static("close");
                response.headers_mut().insert("connection", close);
            }
            let (mut out, mut closes) = (Vec::new(), ordered);
            let written = response::write_head(&mut out, &response, &mut closes);
            assert_eq!((&written, closes), (&encoder, ordered || said));
            let head = String::from_utf8(out).unwrap();
            let announces = head.contains("connection: close\r\n");
            assert_eq!(announces, closes, "{head}");
            let head = head.replace("connection: close\r\n", "");
            assert!(
                head.contains(says) && head.ends_with(" GMT\r\n\r\n"),
                "{head}"
            );
            assert!(!head.contains("gzip") && !head.contains(": 7"), "{head}");
        }
    }
}
