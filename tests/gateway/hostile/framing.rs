//! The end of a request: lengths that differ, repeat or are invalid, and codings that are hidden or stacked.

use super::requests::{Case, EXISTS, SECOND, bytes, json, rows};

const ONE: &[&str] = &["exists {}"];
const BOTH: &[&str] = &["exists {}", "drop "];

pub fn cases() -> Vec<Case> {
    let mut cases = lengths();
    cases.extend(codings());
    cases.extend(both());
    cases
}

fn lengths() -> Vec<Case> {
    vec![
        json(
            "a length that is right",
            "content-length: 2",
            "{}",
            &[200, 200],
            BOTH,
        ),
        json(
            "two lengths that differ",
            "content-length: 2\r\ncontent-length: 3",
            "{}",
            &[400],
            &[],
        ),
        json(
            "two lengths that differ, the larger first",
            "content-length: 30\r\ncontent-length: 2",
            "{}",
            &[400],
            &[],
        ),
        json(
            "the same length twice",
            "content-length: 2\r\ncontent-length: 2",
            "{}",
            &[200, 200],
            BOTH,
        ),
        json(
            "a list of one length",
            "content-length: 2, 2",
            "{}",
            &[400],
            &[],
        ),
        json(
            "a list of two lengths",
            "content-length: 2, 3",
            "{}",
            &[400],
            &[],
        ),
        json(
            "a length with a plus",
            "content-length: +2",
            "{}",
            &[400],
            &[],
        ),
        json(
            "JSON that is coded",
            "content-encoding: gzip\r\ncontent-length: 3",
            "{,}",
            &[415, 200],
            &["drop "],
        ),
        json(
            "JSON that says it is coded, and is not",
            "content-encoding: identity\r\ncontent-length: 2",
            "{}",
            &[200, 200],
            BOTH,
        ),
        json("a negative length", "content-length: -2", "{}", &[400], &[]),
        json("a negative zero", "content-length: -0", "", &[400], &[]),
        json(
            "a length in hexadecimal",
            "content-length: 0x2",
            "{}",
            &[400],
            &[],
        ),
        json(
            "a length with leading zeros",
            "content-length: 0000002",
            "{}",
            &[200, 200],
            BOTH,
        ),
        json(
            "a length between spaces",
            "content-length:  \t 2 \t ",
            "{}",
            &[200, 200],
            BOTH,
        ),
        json(
            "a length with a space inside",
            "content-length: 2 2",
            "{}",
            &[400],
            &[],
        ),
        json(
            "no length after the colon",
            "content-length: ",
            "{}",
            &[400],
            &[],
        ),
        json(
            "a length in words",
            "content-length: two",
            "{}",
            &[400],
            &[],
        ),
        json(
            "a length with a fraction",
            "content-length: 2.0",
            "{}",
            &[400],
            &[],
        ),
        json(
            "a length with an exponent",
            "content-length: 2e0",
            "{}",
            &[400],
            &[],
        ),
        json(
            "a length with a semicolon",
            "content-length: 2;",
            "{}",
            &[400],
            &[],
        ),
        json(
            "a length in quotes",
            "content-length: \"2\"",
            "{}",
            &[400],
            &[],
        ),
        json(
            "a length in other digits",
            "content-length: \u{0662}",
            "{}",
            &[400],
            &[],
        ),
        json(
            "a length of 2^64",
            "content-length: 18446744073709551616",
            "{}",
            &[400],
            &[],
        ),
        json(
            "a length of 2^64 and two",
            "content-length: 18446744073709551618",
            "{}",
            &[400],
            &[],
        ),
        json(
            "a length of 2^64 less one",
            "content-length: 18446744073709551615",
            "{}",
            &[431],
            &[],
        ),
        json(
            "a length of 2^64 less two",
            "content-length: 18446744073709551614",
            "{}",
            &[431],
            &[],
        ),
        json(
            "a length of 2^63",
            "content-length: 9223372036854775808",
            "{}",
            &[413],
            &[],
        ),
        json(
            "a length of a hundred digits",
            &format!("content-length: {}", "9".repeat(100)),
            "{}",
            &[400],
            &[],
        ),
        json(
            "a length that is too small",
            "content-length: 1",
            "{}",
            &[400, 400],
            &[],
        ),
        rows(
            "rows with a length that is too small",
            "content-length: 1",
            "{}",
            &[200, 400],
            &["insert {"],
        ),
        bytes(
            "a length that is too large",
            format!("{EXISTS}content-length: 50\r\n\r\n{{}}"),
            &[],
            &[],
        ),
        json(
            "an underscore for the hyphen",
            "content_length: 0\r\ncontent-length: 2",
            "{}",
            &[200, 200],
            BOTH,
        ),
        json(
            "a body without a length",
            "x-a: b",
            "",
            &[200, 200],
            &["exists ", "drop "],
        ),
        bytes(
            "a GET with a body",
            format!(
                "GET /v1/namespace/west%24ID/list HTTP/1.1\r\nhost: g\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{SECOND}",
                SECOND.len()
            ),
            &[400],
            &[],
        ),
    ]
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
