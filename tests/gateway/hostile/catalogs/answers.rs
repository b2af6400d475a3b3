//! Malformed answers of a catalog, and what the caller gets for each.

use super::Then::{Close, Repeat, Stay, Volunteer};
use super::{Case, OK, SPLIT};

pub(super) fn cases() -> Vec<Case> {
    let case = |name, writes: &str, then, status| Case {
        name,
        writes: writes.as_bytes().to_vec(),
        then,
        status,
    };
    let with = |name, rest: &str, then, status| case(name, &format!("{OK}{rest}"), then, status);
    let length = "content-length: 2\r\n";
    vec![
        with(
            "a fine answer",
            "content-length: 2\r\n\r\n{}",
            Stay,
            Some(200),
        ),
        with(
            "two lengths that differ",
            "content-length: 2\r\ncontent-length: 30\r\n\r\n{}",
            Stay,
            Some(503),
        ),
        with(
            "a list of lengths",
            "content-length: 2, 3\r\n\r\n{}",
            Stay,
            Some(503),
        ),
        with(
            "a negative length",
            "content-length: -2\r\n\r\n{}",
            Stay,
            Some(503),
        ),
        with(
            "a length with a plus",
            "content-length: +2\r\n\r\n{}",
            Stay,
            Some(503),
        ),
        with(
            "a length of 2^64 and two",
            "content-length: 18446744073709551618\r\n\r\n{}",
            Stay,
            Some(503),
        ),
        with(
            "a length and chunks",
            "content-length: 40\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
            Stay,
            Some(200),
        ),
        with(
            "a coding that nobody knows",
            "transfer-encoding: gzip\r\n\r\n{}",
            Close,
            Some(200),
        ),
        with(
            "a chunk size that is no number",
            "transfer-encoding: chunked\r\n\r\nxx\r\n{}\r\n0\r\n\r\n",
            Stay,
            None,
        ),
        with(
            "a chunk size of 2^64 and two",
            "transfer-encoding: chunked\r\n\r\n10000000000000002\r\n{}\r\n0\r\n\r\n",
            Stay,
            None,
        ),
        with(
            "a negative chunk size",
            "transfer-encoding: chunked\r\n\r\n-2\r\n{}\r\n0\r\n\r\n",
            Stay,
            None,
        ),
        with(
            "more in a chunk than it says",
            "transfer-encoding: chunked\r\n\r\n1\r\n{}\r\n0\r\n\r\n",
            Stay,
            None,
        ),
        with(
            "chunks that do not end",
            "transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n",
            Stay,
            None,
        ),
        with(
            "an end within a chunk",
            "transfer-encoding: chunked\r\n\r\nff\r\n{}",
            Close,
            None,
        ),
        with(
            "an end between chunks",
            "transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n",
            Close,
            None,
        ),
        with(
            "extensions of 64 KiB",
            &format!(
                "transfer-encoding: chunked\r\n\r\n2;{}\r\n{{}}\r\n0\r\n\r\n",
                "a".repeat(64 << 10)
            ),
            Stay,
            None,
        ),
        with(
            "a trailer of 64 KiB",
            &format!(
                "transfer-encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\nx-a: {}\r\n\r\n",
                "b".repeat(64 << 10)
            ),
            Stay,
            None,
        ),
        with(
            "a length as a trailer",
            "transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\ncontent-length: 9\r\n\r\n",
            Stay,
            Some(200),
        ),
        with(
            "an end within the body",
            "content-length: 100\r\n\r\n{}",
            Close,
            None,
        ),
        with(
            "a body that stops",
            "content-length: 100\r\n\r\n{}",
            Stay,
            None,
        ),
        with("an end within the headers", "content-le", Close, Some(503)),
        with("headers that stop", "content-le", Stay, Some(503)),
        case("no answer and an end", "", Close, Some(503)),
        case("no answer", "", Stay, Some(503)),
        case("half a status line", "HTTP/1.1 2", Close, Some(503)),
        case(
            "another protocol",
            "SSH-2.0-OpenSSH_9.9\r\n",
            Stay,
            Some(503),
        ),
        case("frames of HTTP/2", "\0\0\0\x04\0\0\0\0\0", Stay, Some(503)),
        case(
            "HTTP/1.0 without a length",
            "HTTP/1.0 200 OK\r\n\r\n{}",
            Close,
            Some(200),
        ),
        case(
            "HTTP/3.0",
            "HTTP/3.0 200 OK\r\ncontent-length: 2\r\n\r\n{}",
            Stay,
            Some(503),
        ),
        case(
            "a status of two digits",
            "HTTP/1.1 99 X\r\ncontent-length: 2\r\n\r\n{}",
            Stay,
            Some(503),
        ),
        case(
            "a status of four digits",
            "HTTP/1.1 2000 X\r\ncontent-length: 2\r\n\r\n{}",
            Stay,
            Some(503),
        ),
        case(
            "an upgrade that nobody asked for",
            "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n",
            Stay,
            Some(503),
        ),
        case(
            "a hundred informal answers",
            &format!(
                "{}{SPLIT}",
                "HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n".repeat(100)
            ),
            Close,
            Some(200),
        ),
        case(
            "informal answers without end",
            &"HTTP/1.1 100 Continue\r\n\r\n".repeat(100),
            Repeat,
            Some(503),
        ),
        with(
            "a header of 1 MiB",
            &format!("x-a: {}\r\n{length}\r\n{{}}", "b".repeat(1 << 20)),
            Stay,
            Some(503),
        ),
        with("headers without end", "x-a: b\r\n", Repeat, Some(503)),
        with(
            "200 headers",
            &format!("{}{length}\r\n{{}}", "x-a: b\r\n".repeat(200)),
            Stay,
            Some(503),
        ),
        with(
            "a header without a colon",
            &format!("x-a\r\n{length}\r\n{{}}"),
            Stay,
            Some(503),
        ),
        with(
            "a header with a zero",
            &format!("x-a: \0\r\n{length}\r\n{{}}"),
            Stay,
            Some(503),
        ),
        with(
            "a header on two lines",
            &format!("x-a: b\r\n c\r\n{length}\r\n{{}}"),
            Stay,
            Some(503),
        ),
        with(
            "a space before a colon",
            &format!("x-a : b\r\n{length}\r\n{{}}"),
            Stay,
            Some(503),
        ),
        with(
            "a bare CR in a header",
            &format!("x-a: b\rc\r\n{length}\r\n{{}}"),
            Stay,
            Some(503),
        ),
        with(
            "a second answer behind the first",
            &format!("{length}\r\n{{}}{SPLIT}"),
            Stay,
            Some(200),
        ),
        with(
            "a body longer than its length",
            &format!("{length}\r\n{{}}{}", "x".repeat(100_000)),
            Stay,
            Some(200),
        ),
        with(
            "an answer that nobody asked for",
            &format!("{length}\r\n{{}}"),
            Volunteer,
            Some(200),
        ),
        case(
            "204 with a body",
            "HTTP/1.1 204 No Content\r\ncontent-length: 6\r\n\r\npoison",
            Stay,
            Some(204),
        ),
        case(
            "304 with a body",
            "HTTP/1.1 304 Not Modified\r\ncontent-length: 6\r\n\r\npoison",
            Stay,
            Some(304),
        ),
    ]
}
