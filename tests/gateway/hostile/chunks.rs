//! Chunked bodies with a wrong size, end or trailer.

use super::requests::{Case, INSERT, bytes, json, rows};

const CHUNKED: &str = "transfer-encoding: chunked";

pub fn cases() -> Vec<Case> {
    let mut cases = sizes();
    cases.extend(ends());
    cases.extend(floods());
    cases
}

fn chunked(
    name: &'static str,
    body: &str,
    answers: &'static [u16],
    reached: &'static [&'static str],
) -> Case {
    json(name, CHUNKED, body, answers, reached)
}

fn sizes() -> Vec<Case> {
    const BOTH: &[&str] = &["exists {}", "drop "];
    vec![
        chunked(
            "a size of 2^64 and two",
            "10000000000000002\r\n{}\r\n0\r\n\r\n",
            &[400],
            &[],
        ),
        chunked(
            "a size of 2^64 less one",
            "ffffffffffffffff\r\n{}\r\n0\r\n\r\n",
            &[],
            &[],
        ),
        chunked("a negative size", "-2\r\n{}\r\n0\r\n\r\n", &[400], &[]),
        chunked("a size with a plus", "+2\r\n{}\r\n0\r\n\r\n", &[400], &[]),
        chunked(
            "a size with a prefix",
            "0x2\r\n{}\r\n0\r\n\r\n",
            &[400],
            &[],
        ),
        chunked(
            "a space before a size",
            " 2\r\n{}\r\n0\r\n\r\n",
            &[400],
            &[],
        ),
        chunked(
            "a space after a size",
            "2 \r\n{}\r\n0\r\n\r\n",
            &[200, 200],
            BOTH,
        ),
        chunked(
            "a size with an underscore",
            "0_2\r\n{}\r\n0\r\n\r\n",
            &[400],
            &[],
        ),
        chunked(
            "a size that is no number",
            "g\r\n{}\r\n0\r\n\r\n",
            &[400],
            &[],
        ),
        chunked("no size", "\r\n{}\r\n0\r\n\r\n", &[400], &[]),
        chunked(
            "a size with leading zeros",
            "0000000002\r\n{}\r\n0\r\n\r\n",
            &[200, 200],
            BOTH,
        ),
        chunked(
            "a size with a hundred leading zeros",
            &format!("{}2\r\n{{}}\r\n0\r\n\r\n", "0".repeat(100)),
            &[200, 200],
            BOTH,
        ),
        chunked("a size with a comma", "2,2\r\n{}\r\n0\r\n\r\n", &[400], &[]),
        chunked(
            "an extension",
            "2;a=b\r\n{}\r\n0\r\n\r\n",
            &[200, 200],
            BOTH,
        ),
        chunked(
            "an extension in quotes",
            "2;a=\"0\r\n{}\r\n0\r\n\r\n",
            &[200, 200],
            BOTH,
        ),
        chunked(
            "an extension with a bare LF",
            "2;a\nb\r\n{}\r\n0\r\n\r\n",
            &[400],
            &[],
        ),
        chunked(
            "an extension with a bare CR",
            "2;a\rb\r\n{}\r\n0\r\n\r\n",
            &[400],
            &[],
        ),
        chunked(
            "an extension of the last chunk",
            "2\r\n{}\r\n0;a=b\r\n\r\n",
            &[200, 200],
            BOTH,
        ),
    ]
}

fn ends() -> Vec<Case> {
    const BOTH: &[&str] = &["exists {}", "drop "];
    vec![
        chunked("a bare LF after a size", "2\n{}\r\n0\r\n\r\n", &[400], &[]),
        chunked("a bare CR after a size", "2\r{}\r\n0\r\n\r\n", &[400], &[]),
        chunked("a bare LF after a chunk", "2\r\n{}\n0\r\n\r\n", &[400], &[]),
        chunked("nothing after a chunk", "2\r\n{}0\r\n\r\n", &[400], &[]),
        chunked(
            "two bytes instead of an end",
            "2\r\n{}xx0\r\n\r\n",
            &[400],
            &[],
        ),
        chunked(
            "more in a chunk than it says",
            "2\r\n{} \r\n0\r\n\r\n",
            &[400],
            &[],
        ),
        chunked(
            "a last chunk of two zeros",
            "2\r\n{}\r\n00\r\n\r\n",
            &[200, 200],
            BOTH,
        ),
        chunked(
            "a bare LF after the last chunk",
            "2\r\n{}\r\n0\n\r\n",
            &[400],
            &[],
        ),
        chunked(
            "two bare LFs after the last chunk",
            "2\r\n{}\r\n0\n\n",
            &[400],
            &[],
        ),
        json(
            "a bare LF at the very end",
            "transfer-encoding: chunked\r\nconnection: close",
            "2\r\n{}\r\n0\r\n\n",
            &[200],
            &["exists {}"],
        ),
        chunked(
            "a request instead of the very end",
            "2\r\n{}\r\n0\r\n",
            &[400],
            &[],
        ),
        chunked(
            "a trailer",
            "2\r\n{}\r\n0\r\nx-a: b\r\n\r\n",
            &[200, 200],
            BOTH,
        ),
        chunked(
            "a length as a trailer",
            "2\r\n{}\r\n0\r\ncontent-length: 9\r\n\r\n",
            &[200, 200],
            BOTH,
        ),
        chunked(
            "a coding as a trailer",
            "2\r\n{}\r\n0\r\ntransfer-encoding: chunked\r\n\r\n",
            &[200, 200],
            BOTH,
        ),
        chunked(
            "a host as a trailer",
            "2\r\n{}\r\n0\r\nhost: evil\r\n\r\n",
            &[200, 200],
            BOTH,
        ),
        chunked(
            "a trailer without a colon",
            "2\r\n{}\r\n0\r\nx-a\r\n\r\n",
            &[400],
            &[],
        ),
        chunked(
            "a folded trailer",
            "2\r\n{}\r\n0\r\nx-a: b\r\n c\r\n\r\n",
            &[400],
            &[],
        ),
        chunked(
            "a trailer with a bare LF",
            "2\r\n{}\r\n0\r\nx-a: b\nx-c: d\r\n\r\n",
            &[400],
            &[],
        ),
        rows(
            "rows with a trailer",
            CHUNKED,
            "2\r\n{}\r\n0\r\nx-a: b\r\n\r\n",
            &[200, 200],
            &["insert {}", "drop "],
        ),
        rows(
            "rows with a length as a trailer",
            CHUNKED,
            "2\r\n{}\r\n0\r\ncontent-length: 9\r\n\r\n",
            &[200, 200],
            &["insert {}", "drop "],
        ),
        rows(
            "rows whose second chunk has no size",
            CHUNKED,
            "2\r\n{}\r\nx\r\n\r\n",
            &[400],
            &[],
        ),
        bytes(
            "rows that never end",
            format!("{INSERT}{CHUNKED}\r\n\r\n2\r\n{{}}\r\n"),
            &[503],
            &[],
        ),
        bytes(
            "rows with a chunk that never ends",
            format!("{INSERT}{CHUNKED}\r\n\r\nff\r\n{{}}"),
            &[503],
            &[],
        ),
    ]
}

fn floods() -> Vec<Case> {
    let extension = format!("2;{}\r\n{{}}\r\n0\r\n\r\n", "a".repeat(64 << 10));
    let extensions = "1;aaaaaaaaaaaaaaa\r\n \r\n".repeat(4 << 10);
    let trailer = format!("2\r\n{{}}\r\n0\r\nx-a: {}\r\n\r\n", "b".repeat(64 << 10));
    let trailers = format!("2\r\n{{}}\r\n0\r\n{}\r\n", "x-a: b\r\n".repeat(64 << 10));
    let crumbs = format!("{}0\r\n\r\n", "1\r\nx\r\n".repeat(5000));
    vec![
        chunked("an extension of 64 KiB", &extension, &[400], &[]),
        chunked("many extensions", &extensions, &[400], &[]),
        chunked("a trailer of 64 KiB", &trailer, &[400], &[]),
        chunked("64 Ki trailers", &trailers, &[400], &[]),
        rows(
            "rows with many extensions",
            CHUNKED,
            &extensions,
            &[400],
            &[],
        ),
        rows("rows with 64 Ki trailers", CHUNKED, &trailers, &[400], &[]),
        chunked(
            "5000 chunks of a byte that are no JSON",
            &crumbs,
            &[400, 200],
            &["drop "],
        ),
    ]
}
