//! Headers that are malformed, too many or too long, or that try to change what the next hop sees.

use super::requests::{Case, EXISTS, SECOND, bytes};

const ONE: &[&str] = &["exists {}"];

pub fn cases() -> Vec<Case> {
    let mut cases = lines();
    cases.extend(hosts());
    cases.extend(hops());
    cases.extend(expectations());
    cases
}

/// Makes a case of a well-formed request with these additional header lines.
fn with(
    name: &'static str,
    headers: impl AsRef<[u8]>,
    answers: &'static [u16],
    reached: &'static [&'static str],
) -> Case {
    let end = b"\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
    let sent = [EXISTS.as_bytes(), headers.as_ref(), end].concat();
    bytes(name, sent, answers, reached)
}

fn lines() -> Vec<Case> {
    let many = |lines: usize| vec!["x-a: b"; lines].join("\r\n");
    // This line does not fit into what the other lines leave of 64 KiB.
    let long = format!("x-a: {}", "b".repeat((64 << 10) - 5));
    let endless = format!("x-a: {}", "b".repeat(4 << 20));
    vec![
        with("a line without a colon", "x-a", &[400], &[]),
        with("a line without a name", ": b", &[400], &[]),
        with("a space in a name", "x a: b", &[400], &[]),
        with("a space before a colon", "x-a : b", &[400], &[]),
        with("a bracket in a name", "x(a): b", &[400], &[]),
        with("a name beyond ASCII", "x-\u{e4}: b", &[400], &[]),
        with("a name with a zero", "x\0a: b", &[400], &[]),
        with("a value with a zero", "x-a: b\0c", &[400], &[]),
        with("a value with a bare CR", "x-a: b\rc", &[400], &[]),
        with("a value with a delete", "x-a: b\u{7f}c", &[400], &[]),
        with("a value with an escape", "x-a: b\u{1b}[2Jc", &[400], &[]),
        with("a value on two lines", "x-a: b\r\n c", &[400], &[]),
        with(
            "a value on two lines with a tab",
            "x-a: b\r\n\tc",
            &[400],
            &[],
        ),
        with("a folded line at first", " x-a: b", &[400], &[]),
        with("80 lines", many(80), &[200], ONE),
        with("101 lines", many(101), &[431], &[]),
        with("100,000 lines", many(100_000), &[431], &[]),
        with("64 KiB and a byte", long, &[431], &[]),
        with("4 MiB in one line", endless, &[431], &[]),
        bytes(
            "headers that never end",
            format!("{EXISTS}x-a: b\r\n"),
            &[],
            &[],
        ),
        bytes(
            "a name that never ends",
            format!("{EXISTS}{}", "x".repeat(1000)),
            &[],
            &[],
        ),
    ]
}

fn hosts() -> Vec<Case> {
    let line =
        "POST /v1/table/west%24ID/exists HTTP/1.1\r\nconnection: close\r\ncontent-length: 2\r\n";
    let host = |name, host: &str, answers, reached| {
        bytes(name, format!("{line}{host}\r\n{{}}"), answers, reached)
    };
    vec![
        host("no host", "", &[400], &[]),
        host("two hosts", "host: a\r\nhost: b\r\n", &[400], &[]),
        host("the same host twice", "host: a\r\nhost: a\r\n", &[400], &[]),
        host("an empty host", "host:\r\n", &[200], ONE),
        host("a host with a path", "host: evil/../x\r\n", &[200], ONE),
        host("a host with a space", "host: a b\r\n", &[200], ONE),
        host("a host with a user", "host: user@evil\r\n", &[200], ONE),
        host(
            "another host as forwarded",
            "host: a\r\nx-forwarded-host: evil\r\nforwarded: host=evil\r\n",
            &[200],
            ONE,
        ),
    ]
}

fn hops() -> Vec<Case> {
    vec![
        with(
            "connection names the length",
            "connection: content-length",
            &[200],
            ONE,
        ),
        with(
            "connection names the coding and the host",
            "connection: transfer-encoding, host",
            &[200],
            ONE,
        ),
        with(
            "connection names who asks",
            "connection: authorization, x-request-id",
            &[200],
            ONE,
        ),
        with(
            "connection is no list",
            "connection: ,;=\u{e4},,",
            &[200],
            ONE,
        ),
        with(
            "an upgrade to h2c",
            "connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAoAAAAAIAAAAA",
            &[200],
            ONE,
        ),
        with(
            "an upgrade to WebSocket",
            "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-key: x\r\nsec-websocket-version: 13",
            &[200],
            ONE,
        ),
        bytes(
            "frames of HTTP/2 after an upgrade",
            format!(
                "{EXISTS}connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk\r\ncontent-length: 2\r\n\r\n{{}}PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n{SECOND}"
            ),
            &[200],
            ONE,
        ),
        with(
            "a connection to a proxy",
            "proxy-connection: keep-alive\r\nkeep-alive: timeout=9999",
            &[200],
            ONE,
        ),
        with(
            "trailers asked for",
            "te: trailers, chunked;q=0.5\r\ntrailer: content-length",
            &[200],
            ONE,
        ),
        with(
            "another method",
            "x-http-method-override: DELETE\r\nx-method-override: DELETE",
            &[200],
            ONE,
        ),
        with(
            "another path",
            "x-original-url: /v1/table/x/drop\r\nx-rewrite-url: /v1/table/x/drop",
            &[200],
            ONE,
        ),
    ]
}

fn expectations() -> Vec<Case> {
    vec![
        with("a body announced", "expect: 100-continue", &[100, 200], ONE),
        with(
            "a body announced in capitals",
            "Expect: 100-CONTINUE",
            &[100, 200],
            ONE,
        ),
        with(
            "a body announced twice",
            "expect: 100-continue\r\nexpect: 100-continue",
            &[100, 200],
            ONE,
        ),
        with("something else expected", "expect: 200-ok", &[200], ONE),
        bytes(
            "a body announced that never comes",
            format!("{EXISTS}expect: 100-continue\r\ncontent-length: 2\r\n\r\n"),
            &[100],
            &[],
        ),
        bytes(
            "a body announced for a route that is none",
            format!(
                "POST /v1/nothing/ID HTTP/1.1\r\nhost: g\r\nconnection: close\r\nexpect: 100-continue\r\ncontent-length: {}\r\n\r\n{SECOND}",
                SECOND.len()
            ),
            &[404],
            &[],
        ),
    ]
}
