//! The log's words for refused tokens and unreadable requests, and names that try to forge log lines.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{EXISTS, SECRETS, is_access, lines, records, setup};
use crate::batches::until;
use crate::harness::Setup;
use crate::token;

/// The words are the labels of the metric, so that an operator who sees one grow can find the requests.
#[tokio::test]
async fn a_refused_token_has_a_line_that_says_why() {
    let world = setup().start().await.seeded();
    let token = |claims: Value| format!("Bearer {}", token::token(&claims));
    let good = token(json!({}));
    let unsigned = format!("{}.{}", good.rsplit_once('.').unwrap().0, "A".repeat(86));
    let cases = [
        ("missing", String::new()),
        ("credentials", "Basic secret-body".to_owned()),
        ("malformed", "Bearer secret-body.x.y".to_owned()),
        // Of its claims, the issuer, audience and subject are logged, and no others.
        (
            "issuer",
            token(json!({"iss": "https://other.test", "team": "secret-body"})),
        ),
        ("signature", unsigned),
        ("expired", token(json!({"exp": 1}))),
        (
            "not_yet_valid",
            token(json!({"nbf": 4_000_000_000_u64, "exp": 4_100_000_000_u64})),
        ),
        (
            "audience",
            token(json!({"aud": "other", "team": "secret-body"})),
        ),
        ("claim", token(json!({"sub": 7}))),
    ];
    for (reason, bearer) in &cases {
        let client = world.anonymous().header("x-request-id", reason);
        let client = if bearer.is_empty() {
            client
        } else {
            client.header("authorization", bearer)
        };
        let reply = client.post(EXISTS, &json!({})).await;
        assert_eq!(reply.status, 401, "{reason}: {reply:?}");
        let counted = format!("nsgate_authentication_failures_total{{reason=\"{reason}\"}}");
        assert!(
            (world.metric(&counted).await - 1.0).abs() < f64::EPSILON,
            "{reason}"
        );
    }
    let lines = lines(&world, &cases.each_ref().map(|case| case.0)).await;
    for (reason, bearer) in cases {
        assert_eq!(lines[reason]["reason"], reason);
        let parts = bearer.split('.').filter(|part| part.len() > 40);
        for secret in SECRETS.into_iter().chain(parts) {
            assert!(!world.log().contains(secret), "{reason}: {secret}");
        }
    }
}

/// Callers choose names freely. At `debug` every name is in a message; at any level the name of a waiting
/// table is.
#[tokio::test]
async fn a_name_with_the_end_of_a_line_in_it_writes_no_line_of_its_own() {
    let telemetry = "telemetry: { log: text, level: debug }";
    let world = Setup::two().section(telemetry).start().await;
    let name = "/v1/table/north%24t%0A2026-11-22T00:00:00.000Z%20%20INFO%20forged%0D/exists";
    assert_eq!(world.client().post(name, &json!({})).await.status, 404);
    until("it is logged", || {
        world.log().contains("is not served here")
    })
    .await;
    let log = world.log();
    assert!(log.contains("forged"), "{log}");
    assert!(!log.contains('\r'), "{log}");
    for line in log.lines().filter(|line| line.contains("forged")) {
        let quoted = r#" table="north$t\n2026-11-22T00:00:00.000Z  INFO forged\r" "#;
        let debug = " DEBUG request: table north$t ";
        assert!(line.contains(debug) || line.contains(quoted), "{line}");
    }
}

/// No layer ever sees such a request, and its answer has only a status. So the log must give the reason.
#[tokio::test]
async fn what_cannot_be_read_as_a_request_is_told_with_its_reason() {
    let world = setup().start().await;
    let long = format!(
        "GET / HTTP/1.1\r\nx: {}\r\n\r\n",
        "secret-body".repeat(10_000)
    );
    let cases = [
        (
            "secret-body\r\n\r\n",
            "HTTP/1.1 400 ",
            "invalid HTTP method parsed",
        ),
        (&*long, "HTTP/1.1 431 ", "message head is too large"),
    ];
    for (sent, answer, cause) in cases {
        let mut client = TcpStream::connect(world.address()).await.unwrap();
        let mut answered = vec![0; answer.len()];
        // The gateway may answer and close before all of it is written.
        let _ = client.write_all(sent.as_bytes()).await;
        client.read_exact(&mut answered).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&answered), answer);
        until("it is told", || world.log().contains(cause)).await;
        let told = records(&world.log());
        let told = told.iter().find(|record| record["cause"] == cause).unwrap();
        assert_eq!(told["message"], "cannot read the client's request");
        let client = client.local_addr().unwrap().to_string();
        assert_eq!(told["client"], client);
    }
    assert!(!world.log().contains("secret-body"));
    assert!(!records(&world.log()).iter().any(is_access));
}
