#![allow(clippy::unwrap_used, reason = "a test says what it expects")]
use std::convert::Infallible;

use bytes::Bytes;
use futures_util::stream::empty;
use http_body::Frame;
use http_body_util::StreamBody;

use super::*;

fn map(pairs: &[(&str, &str)]) -> HeaderMap {
    let pair = |&(name, value): &(&str, &str)| -> (HeaderName, HeaderValue) {
        (name.parse().unwrap(), value.parse().unwrap())
    };
    let mut map = HeaderMap::new();
    for (name, value) in pairs.iter().map(pair) {
        map.append(name, value);
    }
    map
}

fn stripped(pairs: &[(&str, &str)]) -> Vec<String> {
    forwarded(pairs, None)
}

fn forwarded(pairs: &[(&str, &str)], forwarded: Option<&[HeaderName]>) -> Vec<String> {
    let mut headers = map(pairs);
    let value = HeaderValue::from_static("k");
    let fixed = ["x-api-key", "account-id"].map(|name| (name.parse().unwrap(), value.clone()));
    let own = OwnHeaders {
        context_prefix: "x-ns-ctx-",
        fixed: &fixed,
        forwarded,
        selecting: &[HeaderName::from_static("x-lancedb-database")],
    };
    strip(&mut headers, own.selecting, |name| own.replaces(name));
    let mut names = headers.keys().map(ToString::to_string).collect::<Vec<_>>();
    names.sort();
    names
}

#[test]
fn what_ends_at_this_hop_does_not_cross_it() {
    for name in [
        "Connection",
        "Expect",
        "Forwarded",
        "HTTP2-Settings",
        "Keep-Alive",
        "Proxy-Authenticate",
        "Proxy-Authorization",
        "Proxy-Connection",
        "TE",
        "Trailer",
        "Transfer-Encoding",
        "Upgrade",
        "X-Forwarded-For",
        "X-Forwarded-Host",
        "X-Forwarded-Proto",
        "X-Real-IP",
        "X-Http-Method",
        "X-HTTP-Method-Override",
        "X-Method-Override",
        "X-Original-URL",
        "X-Rewrite-URL",
        "X-Nsgate-Anything",
        "X-NS-Ctx-Team",
    ] {
        let left = stripped(&[(name, "x"), ("accept", "*/*")]);
        assert_eq!(left, ["accept"], "{name}");
    }
}

#[test]
fn what_wsgi_takes_for_the_gateways_own_does_not_cross_it() {
    for name in [
        "X_NS_Ctx_Team",
        "X-NS_Ctx-Team",
        "X_Forwarded_For",
        "X_Original_Url",
        "X_Request_Id",
        "X_Api_Key",
        "Account_Id",
        "Transfer_Encoding",
        "Proxy_Authorization",
        "X_Nsgate_Anything",
    ] {
        let left = stripped(&[(name, "x"), ("an_other", "x")]);
        assert_eq!(left, ["an_other"], "{name}");
    }
}

/// A catalog that trusts the proxy in front of it would believe these headers from any client.
#[test]
fn what_front_proxies_assert_does_not_cross() {
    for name in [
        "Remote-User",
        "Remote.User",
        "X-Auth-Request-User",
        "X-Amzn-Oidc-Data",
        "X-Goog-IAP-JWT-Assertion",
        "X-Client-Cert",
        "SSL-Client-Cert",
        "Client-Cert",
        "True-Client-IP",
        "CF-Connecting-IP",
        "Proxy",
        "X-Original-URI",
        "X.NS.Ctx.Tenant",
        "X~NS~Ctx~Tenant",
        "X-Lance-Ctx-Tenant",
        "X_Lance_Ctx_Tenant",
        "X_LanceDB_Database",
        "X.LanceDB.Database",
        "X-Forwarded",
        "X-Envoy-External-Address",
        "SM_User",
        "Content_Type",
        "Authorization_",
    ] {
        let left = stripped(&[(name, "x"), ("an-other", "x")]);
        let expected: &[&str] = match name {
            "Authorization_" => &["an-other", "authorization_"],
            _ => &["an-other"],
        };
        assert_eq!(left, expected, "{name}");
    }
}

#[test]
fn only_what_is_listed_crosses_where_there_is_a_list() {
    let sent = [
        ("accept", "*/*"),
        ("authorization", "Bearer t"),
        ("content-type", "application/json"),
        ("cookie", "a=b"),
        ("x-acme-job", "7"),
        ("x-acme.job", "8"),
        ("x-other", "1"),
        ("x-ns-ctx-team", "x"),
        ("remote-user", "root"),
    ];
    let listed: [HeaderName; 1] = ["x-acme-job".parse().unwrap()];
    assert_eq!(
        forwarded(&sent, Some(&listed)),
        ["accept", "authorization", "content-type", "x-acme-job"]
    );
    assert_eq!(
        forwarded(&sent, Some(&[])),
        ["accept", "authorization", "content-type"]
    );
}

#[test]
fn what_is_end_to_end_crosses() {
    let kept = [
        ("accept", "*/*"),
        ("accept-encoding", "gzip"),
        ("authorization", "Bearer t"),
        ("content-type", "application/json"),
        ("idempotency-key", "k"),
        ("server", "catalog"),
        ("traceparent", "00-…".trim_end_matches('…')),
        ("user-agent", "ua"),
        ("x-api-key", "k"),
        ("x-request-id", "r"),
    ];
    let names = kept.map(|(name, _)| name.to_owned());
    assert_eq!(stripped(&kept), names);
}

#[test]
fn a_header_named_by_connection_ends_here_unless_the_gateway_relies_on_it() {
    let left = stripped(&[
        ("connection", "close, X-Secret , authorization"),
        ("connection", "x-other,host,x-lancedb-database"),
        ("authorization", "Bearer t"),
        ("host", "h"),
        ("x-lancedb-database", "db"),
        ("x-other", "1"),
        ("x-secret", "1"),
        ("x-third", "1"),
    ]);
    let expected = ["authorization", "host", "x-lancedb-database", "x-third"];
    assert_eq!(left, expected);
}

#[test]
fn the_length_said_is_the_length_sent() {
    let cases = [
        (Method::POST, Some("5"), Some(5), Some("5")),
        (Method::POST, Some("5"), Some(7), Some("7")),
        (Method::POST, None, Some(0), Some("0")),
        (Method::POST, Some("5"), None, None),
        (Method::GET, None, Some(0), None),
        (Method::GET, Some("2"), Some(2), Some("2")),
    ];
    for (method, said, length, expected) in cases {
        let body = match length {
            Some(length) => Body::full(vec![b'x'; length]),
            None => Body::stream(StreamBody::new(empty::<Result<Frame<Bytes>, Infallible>>())),
        };
        let mut request = Request::new(body);
        *request.method_mut() = method.clone();
        if let Some(said) = said {
            let said = said.parse().unwrap();
            request.headers_mut().insert(CONTENT_LENGTH, said);
        }
        set_length(&mut request);
        let now = request
            .headers()
            .get(CONTENT_LENGTH)
            .map(|v| v.to_str().unwrap());
        assert_eq!(now, expected, "{method} {said:?} {length:?}");
    }
}
