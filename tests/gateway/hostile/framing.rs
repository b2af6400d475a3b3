//! The end of a request: lengths that differ, repeat or are invalid, and codings that are hidden or stacked.

mod lengths;

use super::requests::{Case, EXISTS, SECOND, bytes, json, rows};

const ONE: &[&str] = &["exists {}"];
const BOTH: &[&str] = &["exists {}", "drop "];

pub fn cases() -> Vec<Case> {
    let mut cases = lengths::cases();
    cases.extend(codings());
    cases.extend(both());
    cases
}

fn codings() -> Vec<Case> {
    let coding = |name, coding: &str, answers, reached| {
        let line = format!("transfer-encoding:{coding}");
        json(name, &line, "2\r\n{}\r\n0\r\n\r\n", answers, reached)
    };
    vec![
        coding("chunked", " chunked", &[200, 200], BOTH),
        coding("chunked in capitals", " CHUNKED", &[200, 200], BOTH),
        coding("chunked without a space", "chunked", &[200, 200], BOTH),
        coding("chunked after a tab", "\tchunked", &[200, 200], BOTH),
        coding("chunked before spaces", " chunked \t ", &[200, 200], BOTH),
        coding("chunked twice in a list", " chunked, chunked", &[400], &[]),
        coding(
            "chunked on two lines",
            " chunked\r\ntransfer-encoding: chunked",
            &[400],
            &[],
        ),
        coding(
            "chunked and then identity",
            " chunked, identity",
            &[400],
            &[],
        ),
        coding(
            "identity and then chunked",
            " identity, chunked",
            &[200, 200],
            BOTH,
        ),
        coding(
            "chunked and identity on two lines",
            " chunked\r\ntransfer-encoding: identity",
            &[400],
            &[],
        ),
        coding(
            "identity and chunked on two lines",
            " identity\r\ntransfer-encoding: chunked",
            &[200, 200],
            BOTH,
        ),
        coding("identity alone", " identity", &[400], &[]),
        coding(
            "compressed and chunked",
            " gzip, chunked",
            &[200, 200],
            BOTH,
        ),
        coding("compressed alone", " gzip", &[400], &[]),
        coding("chunked and then compressed", " chunked, gzip", &[400], &[]),
        coding("a letter before chunked", " xchunked", &[400], &[]),
        coding("a letter after chunked", " chunkedx", &[400], &[]),
        coding("a parameter of chunked", " chunked;q=1", &[400], &[]),
        coding("chunked in quotes", " \"chunked\"", &[400], &[]),
        coding("a comma before chunked", " ,chunked", &[200, 200], BOTH),
        coding("a comma after chunked", " chunked,", &[400], &[]),
        coding(
            "a vertical tab before chunked",
            " \u{b}chunked",
            &[400],
            &[],
        ),
        coding("a form feed after chunked", " chunked\u{c}", &[400], &[]),
        coding("a zero after chunked", " chunked\0", &[400], &[]),
        coding("a long s in chunked", " chun\u{212a}ed", &[400], &[]),
        coding("no coding", " ", &[400], &[]),
        coding("chunked on a folded line", "\r\n chunked", &[400], &[]),
        rows(
            "rows that are compressed and chunked",
            "transfer-encoding: gzip, chunked",
            "2\r\n{}\r\n0\r\n\r\n",
            &[501, 200],
            &["drop "],
        ),
        rows(
            "rows whose coding is on two lines",
            "transfer-encoding: identity\r\ntransfer-encoding: chunked",
            "2\r\n{}\r\n0\r\n\r\n",
            &[501, 200],
            &["drop "],
        ),
        rows(
            "rows whose coding is identity",
            "transfer-encoding: identity",
            "{}",
            &[400],
            &[],
        ),
    ]
}

/// Requests with a length and a transfer coding: a reader that trusts the other one sees another
/// request.
fn both() -> Vec<Case> {
    let both = |name, headers: &str, answers, reached| {
        json(name, headers, "2\r\n{}\r\n0\r\n\r\n", answers, reached)
    };
    vec![
        both(
            "a length before chunked",
            "content-length: 12\r\ntransfer-encoding: chunked",
            &[200],
            ONE,
        ),
        both(
            "a length after chunked",
            "transfer-encoding: chunked\r\ncontent-length: 12",
            &[200],
            ONE,
        ),
        both(
            "a short length before chunked",
            "content-length: 3\r\ntransfer-encoding: chunked",
            &[200],
            ONE,
        ),
        both(
            "a length of nothing beside chunked",
            "content-length: 0\r\ntransfer-encoding: chunked",
            &[200],
            ONE,
        ),
        both(
            "a length beside an unknown coding",
            "content-length: 12\r\ntransfer-encoding: xchunked",
            &[400],
            &[],
        ),
        both(
            "a space before the coding's colon",
            "content-length: 12\r\ntransfer-encoding : chunked",
            &[400],
            &[],
        ),
        both(
            "a tab before the coding's colon",
            "content-length: 12\r\ntransfer-encoding\t: chunked",
            &[400],
            &[],
        ),
        both(
            "a space before the coding's name",
            "content-length: 12\r\n transfer-encoding: chunked",
            &[400],
            &[],
        ),
        both(
            "a zero in the coding's name",
            "content-length: 12\r\ntransfer\0-encoding: chunked",
            &[400],
            &[],
        ),
        both(
            "a coding behind a bare LF",
            "content-length: 12\r\nx-a: b\ntransfer-encoding: chunked",
            &[400],
            &[],
        ),
        both(
            "a coding behind a bare CR",
            "content-length: 12\r\nx-a: b\rtransfer-encoding: chunked",
            &[400],
            &[],
        ),
        both(
            "a coding on a folded line",
            "content-length: 12\r\nx-a: b\r\n transfer-encoding: chunked",
            &[400],
            &[],
        ),
        bytes(
            "a coding in HTTP/1.0",
            format!(
                "POST /v1/table/west%24ID/exists HTTP/1.0\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n{SECOND}"
            ),
            &[400],
            &[],
        ),
        bytes(
            "a coding and a length in HTTP/1.0 that is kept alive",
            format!(
                "POST /v1/table/west%24ID/exists HTTP/1.0\r\nconnection: keep-alive\r\ncontent-length: 12\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n{SECOND}"
            ),
            &[400],
            &[],
        ),
        bytes(
            "a second request after HTTP/1.0",
            format!(
                "POST /v1/table/west%24ID/exists HTTP/1.0\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}{SECOND}"
            ),
            &[200],
            &["exists {}"],
        ),
        bytes(
            "a second request after a goodbye",
            format!("{EXISTS}connection: close\r\ncontent-length: 2\r\n\r\n{{}}{SECOND}"),
            &[200],
            &["exists {}"],
        ),
    ]
}
