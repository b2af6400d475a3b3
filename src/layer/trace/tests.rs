#![allow(clippy::unwrap_used, reason = "a test says what it expects")]
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use serde_json::Value;
use tower::{ServiceExt as _, service_fn};

use super::*;
use crate::config::LogFormat;
use crate::error::code::Code;
use crate::metrics::Metrics;
use crate::protocol::identifier::Identifier;
use crate::protocol::operation::Operation;
use crate::protocol::principal::{Identity, Principal};
use crate::request::change::TableChange;
use crate::telemetry::Log;
use crate::telemetry::memory_sink::MemorySink;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// Returns the headers that the catalog gets, and those that the caller gets.
async fn sent(headers: &[(&str, &str)]) -> (HeaderMap, HeaderMap) {
    let inner = service_fn(async |request: Box<Request<Body>>| {
        let mut response = Response::new(Body::empty());
        response.extensions_mut().insert(request.headers().clone());
        // The id that a catalog sends is not the caller's.
        let other = HeaderValue::from_static("the-catalogs-own");
        response.headers_mut().insert(REQUEST_ID, other);
        Ok(response)
    });
    let mut request = Request::builder();
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Body::empty()).unwrap();
    let Ok(response) = TraceLayer::new(None, None, None, [])
        .layer(inner)
        .oneshot(request)
        .await;
    let upstream = response.extensions().get::<HeaderMap>().unwrap().clone();
    (upstream, response.headers().clone())
}

#[tokio::test]
async fn a_sane_id_is_kept_and_any_other_replaced_by_the_traces() {
    let long = "x".repeat(65);
    type Case<'a> = (&'a [(&'a str, &'a str)], Option<&'a str>);
    let cases: [Case; 6] = [
        (&[("x-request-id", "abc-123")], Some("abc-123")),
        (&[("x-request-id", "")], None),
        (&[("x-request-id", "a b")], None),
        (&[("x-request-id", &long)], None),
        (&[("x-request-id", "a"), ("x-request-id", "b")], None),
        (&[], None),
    ];
    for (headers, kept) in cases {
        let (upstream, back) = sent(headers).await;
        let id = upstream[REQUEST_ID].to_str().unwrap();
        assert_eq!(back[REQUEST_ID], id);
        assert_eq!(upstream.get_all(REQUEST_ID).iter().count(), 1);
        match kept {
            Some(kept) => assert_eq!(id, kept),
            None => assert_eq!(id, &upstream["traceparent"].to_str().unwrap()[3..35]),
        }
    }
}

#[tokio::test]
async fn a_trace_is_continued_with_its_state_or_started_without() {
    let valid = format!("00-{TRACE}-00f067aa0ba902b7-01");
    let (upstream, _) = sent(&[("traceparent", &valid), ("tracestate", "a=1")]).await;
    let parent = upstream["traceparent"].to_str().unwrap();
    assert!(parent.starts_with(&format!("00-{TRACE}-")) && parent.ends_with("-01"));
    assert_ne!(parent, valid, "the gateway is the catalog's parent");
    assert_eq!(upstream["tracestate"], "a=1");

    let twice = [
        ("traceparent", &*valid),
        ("traceparent", &*valid),
        ("tracestate", "a=1"),
    ];
    let invalid = [("traceparent", "00-0-0-00"), ("tracestate", "a=1")];
    for headers in [&twice[..], &invalid[..]] {
        let (upstream, _) = sent(headers).await;
        assert!(!upstream["traceparent"].to_str().unwrap().contains(TRACE));
        assert_eq!(upstream.get_all("traceparent").iter().count(), 1);
        assert!(!upstream.contains_key("tracestate"));
    }
}

/// Returns the line of a request that carried a token, a path and a body.
async fn logged(format: LogFormat, has_names: bool) -> String {
    let sink = MemorySink::default();
    let log = Log::to(sink.clone(), format);
    let inner = service_fn(async |mut request: Box<Request<Body>>| {
        let exchange = Arc::clone(RequestRecord::of(&mut request));
        exchange.recognized(Operation::QueryTable);
        exchange.served_by(&Metrics::new().backend(&"lake".into()));
        let waiting = exchange.waiting();
        tokio::time::sleep(Duration::from_millis(2)).await;
        drop(waiting);
        exchange.authenticated(&Principal::new(Identity {
            issuer: "https://idp".into(),
            subject: "al\"ice\n".into(),
            ..Identity::default()
        }));
        exchange.routed(&Identifier::from_names(["prod", "eu"]).unwrap());
        exchange.named(&Identifier::parse_segment("prod%24eu%24t%0A", "$").unwrap());
        let tables = ["a%24t", "b%24t"].map(|table| Identifier::parse_segment(table, "$").unwrap());
        exchange.changes(tables.map(|table| TableChange {
            change: Some("create_table_version"),
            ..TableChange::of(table)
        }));
        exchange.began("0199");
        exchange.failed(Code::Throttling, Some("expired"));
        exchange.described(vec![("team".to_owned(), "ml\" x".to_owned())]);
        exchange.answered(StatusCode::OK);
        let mut body = request.into_body();
        exchange.observe_request(&mut body);
        body.collect_up_to(99).await.unwrap();
        let mut body = Body::full("12345");
        exchange.observe_response(&mut body);
        Ok(Response::new(body))
    });
    let request = Request::builder()
        .uri("/v1/table/secret-path/query")
        .header("authorization", "Bearer secret-token")
        .header("x-request-id", "r1")
        .body(Body::full("secret-body"))
        .unwrap();
    let Ok(response) =
        TraceLayer::new(Some(AccessLog::new(log.clone(), has_names)), None, None, [])
            .layer(inner)
            .oneshot(request)
            .await;
    response.into_body().collect_up_to(9).await.unwrap();
    log.flush();
    let text = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
    assert!(!text.contains("secret"), "{text}");
    assert_eq!(text.matches('\n').count(), 1, "{text}");
    text
}

#[tokio::test]
async fn the_access_log_tells_who_asked_what_and_how_long_it_took() {
    let line: Value = serde_json::from_str(&logged(LogFormat::Json, true).await).unwrap();
    let expected = serde_json::json!({
        "level": "INFO", "message": "request", "id": "r1", "operation": "query_table", "table": "prod$eu$t\n", "tables": ["a$t", "b$t"], "entries": 2, "transaction": "0199", "backend": "lake",
        "mount": "prod$eu", "status": 200, "code": 21, "reason": "expired", "complete": true, "request_bytes": 11, "response_bytes": 5,
        "subject": "al\"ice\n", "issuer": "https://idp", "protocol": "HTTP/1.1", "context": {"team": "ml\" x"},
    });
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(&line[key], value, "{key}");
    }
    assert!(line["catalog_ms"].as_f64().unwrap() >= 2.0, "{line}");
    let parts = ["gateway_ms", "catalog_ms", "transfer_ms"];
    let sum: f64 = parts.map(|part| line[part].as_f64().unwrap()).iter().sum();
    assert!(
        (sum - line["duration_ms"].as_f64().unwrap()).abs() < 0.01,
        "{line}"
    );

    let text = logged(LogFormat::Text, true).await;
    let expected = [
        " id=r1 trace=",
        r#" request status=200 operation=query_table table="prod$eu$t\n" tables=["a$t", "b$t"] entries=2 duration="#,
        r#" transaction="0199" code=21 reason=expired mount="prod$eu" backend=lake gateway="#,
        " request_bytes=11 response_bytes=5",
        r#" subject="al\"ice\n" issuer="https://idp" protocol=HTTP/1.1 context.team="ml\" x""#,
    ];
    for part in expected {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[tokio::test]
async fn names_are_left_out_of_the_access_log_on_request() {
    let line: Value = serde_json::from_str(&logged(LogFormat::Json, false).await).unwrap();
    for key in ["table", "namespace", "tables", "transaction"] {
        assert!(line.get(key).is_none(), "{key} in {line}");
    }
    assert_eq!(line["entries"], 2, "{line}");
    let text = logged(LogFormat::Text, false).await;
    assert!(!text.contains("$t"), "{text}");
}
