//! Request lines: malformed parts and line ends, and paths that a catalog could read differently.

use super::requests::{Case, SECOND, bytes};

const REST: &str =
    "host: g\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";

pub fn cases() -> Vec<Case> {
    let mut cases = lines();
    cases.extend(targets());
    cases.extend(paths());
    cases
}

fn line(
    name: &'static str,
    line: &str,
    answers: &'static [u16],
    reached: &'static [&'static str],
) -> Case {
    bytes(name, format!("{line}\r\n{REST}"), answers, reached)
}

fn lines() -> Vec<Case> {
    const ONE: &[&str] = &["exists {}"];
    let method = format!(
        "{} /v1/table/west%24ID/exists HTTP/1.1",
        "M".repeat(100_000)
    );
    vec![
        line(
            "a fine line",
            "POST /v1/table/west%24ID/exists HTTP/1.1",
            &[200],
            ONE,
        ),
        bytes(
            "HTTP/0.9",
            "GET /v1/table/west%24ID/exists\r\n\r\n",
            &[400],
            &[],
        ),
        line(
            "HTTP/0.9 with headers",
            "POST /v1/table/west%24ID/exists",
            &[400],
            &[],
        ),
        line(
            "HTTP/1.2",
            "POST /v1/table/west%24ID/exists HTTP/1.2",
            &[400],
            &[],
        ),
        line(
            "HTTP/2.0",
            "POST /v1/table/west%24ID/exists HTTP/2.0",
            &[400],
            &[],
        ),
        line(
            "HTTP/1.10",
            "POST /v1/table/west%24ID/exists HTTP/1.10",
            &[400],
            &[],
        ),
        line(
            "a version in small letters",
            "POST /v1/table/west%24ID/exists http/1.1",
            &[400],
            &[],
        ),
        line(
            "a space after the version",
            "POST /v1/table/west%24ID/exists HTTP/1.1 ",
            &[400],
            &[],
        ),
        line(
            "a second line in the first",
            "POST /v1/table/west%24ID/exists HTTP/1.1 GET / HTTP/1.1",
            &[400],
            &[],
        ),
        line(
            "two spaces before the target",
            "POST  /v1/table/west%24ID/exists HTTP/1.1",
            &[400],
            &[],
        ),
        line(
            "two spaces before the version",
            "POST /v1/table/west%24ID/exists  HTTP/1.1",
            &[400],
            &[],
        ),
        line(
            "tabs between the parts",
            "POST\t/v1/table/west%24ID/exists\tHTTP/1.1",
            &[400],
            &[],
        ),
        line(
            "a space before the method",
            " POST /v1/table/west%24ID/exists HTTP/1.1",
            &[400],
            &[],
        ),
        line(
            "empty lines before the first",
            "\r\n\r\nPOST /v1/table/west%24ID/exists HTTP/1.1",
            &[200],
            ONE,
        ),
        line(
            "a bare LF after the first line",
            "POST /v1/table/west%24ID/exists HTTP/1.1\nx-a: b",
            &[400],
            &[],
        ),
        line(
            "a bare CR after the first line",
            "POST /v1/table/west%24ID/exists HTTP/1.1\rx-a: b",
            &[400],
            &[],
        ),
        bytes(
            "bare LFs everywhere",
            "POST /v1/table/west%24ID/exists HTTP/1.1\nhost: g\nconnection: close\ncontent-length: 2\n\n{}",
            &[400],
            &[],
        ),
        line(
            "a method in small letters",
            "post /v1/table/west%24ID/exists HTTP/1.1",
            &[405],
            &[],
        ),
        line(
            "a method with a bracket",
            "PO(ST /v1/table/west%24ID/exists HTTP/1.1",
            &[400],
            &[],
        ),
        line(
            "a method with a zero",
            "PO\0ST /v1/table/west%24ID/exists HTTP/1.1",
            &[400],
            &[],
        ),
        line("a method of 100,000 letters", &method, &[431], &[]),
        line(
            "no method",
            "/v1/table/west%24ID/exists HTTP/1.1",
            &[400],
            &[],
        ),
        line(
            "TRACE",
            "TRACE /v1/table/west%24ID/exists HTTP/1.1",
            &[405],
            &[],
        ),
        line(
            "the preface of HTTP/2 that breaks off",
            "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n",
            &[400],
            &[],
        ),
        bytes("only line ends", "\r\n".repeat(10_000), &[], &[]),
        bytes(
            "a TLS greeting",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03ID\r\n\r\n",
            &[400],
            &[],
        ),
    ]
}

fn targets() -> Vec<Case> {
    const ONE: &[&str] = &["exists {}"];
    let long = format!(
        "POST /v1/table/west%24ID/exists?{} HTTP/1.1",
        "q".repeat(70_000)
    );
    vec![
        line("an absolute target of another host", "POST http://evil.example/v1/table/west%24ID/exists HTTP/1.1", &[200], ONE),
        line("an absolute target with a user", "POST http://user:secret@evil/v1/table/west%24ID/exists HTTP/1.1", &[200], ONE),
        line("an absolute target of another scheme", "POST gopher://evil/v1/table/west%24ID/exists HTTP/1.1", &[200], ONE),
        line("an absolute target without a path", "POST http://evil?ID HTTP/1.1", &[404], &[]),
        line("an authority as the target", "POST evil:80 HTTP/1.1", &[404], &[]),
        line("CONNECT to a host", "CONNECT evil:80 HTTP/1.1", &[404], &[]),
        line("CONNECT to a path", "CONNECT /v1/table/west%24ID/exists HTTP/1.1", &[405], &[]),
        line("OPTIONS of everything", "OPTIONS * HTTP/1.1", &[404], &[]),
        line("POST to everything", "POST * HTTP/1.1", &[404], &[]),
        line("a target without a slash", "POST v1/table/west%24ID/exists HTTP/1.1", &[400], &[]),
        line("a target with a fragment", "POST /v1/table/west%24ID/exists#x HTTP/1.1", &[200], ONE),
        line("a target with two slashes", "POST //v1/table/west%24ID/exists HTTP/1.1", &[404], &[]),
        line("a target of 70,000 letters", &long, &[431], &[]),
        bytes("a target with bytes beyond ASCII", b"POST /v1/table/west%24ID\xff\xfe/exists HTTP/1.1\r\nhost: g\r\nconnection: close\r\n\r\n", &[400], &[]),
        line("a target with a zero", "POST /v1/table/west%24ID\0/exists HTTP/1.1", &[400], &[]),
        line("a target with a delete", "POST /v1/table/west%24ID\u{7f}/exists HTTP/1.1", &[400], &[]),
    ]
}

/// The catalog must not read a path as another one than the gateway does.
fn paths() -> Vec<Case> {
    vec![
        line(
            "dots in the path",
            "POST /v1/table/west%24ID/../other/drop HTTP/1.1",
            &[400],
            &[],
        ),
        line(
            "dots as a name",
            "POST /v1/table/../ID/drop HTTP/1.1",
            &[400],
            &[],
        ),
        line(
            "encoded dots as an identifier",
            "POST /v1/table/%2e%2e/drop?ID HTTP/1.1",
            &[400],
            &[],
        ),
        line(
            "encoded slashes and dots",
            "POST /v1/table/west%24ID%2f..%2fother/exists HTTP/1.1",
            &[400],
            &[],
        ),
        line(
            "an encoded question mark",
            "POST /v1/table/west%24ID%3fx/exists HTTP/1.1",
            &[400],
            &[],
        ),
        line(
            "an encoded CR and LF",
            "POST /v1/table/west%24ID%0d%0ax-evil:%20y/exists HTTP/1.1",
            &[400],
            &[],
        ),
        line(
            "an encoded request",
            "POST /v1/table/west%24ID%20HTTP%2f1.1%0d%0a%0d%0aDELETE%20%2f/exists HTTP/1.1",
            &[400],
            &[],
        ),
        line(
            "an encoded zero",
            "POST /v1/table/west%24ID%00/exists HTTP/1.1",
            &[400],
            &[],
        ),
        line(
            "encoded twice",
            "POST /v1/table/west%2524ID/exists HTTP/1.1",
            &[404],
            &[],
        ),
        line(
            "an overlong slash",
            "POST /v1/table/west%24ID%c0%af/exists HTTP/1.1",
            &[400],
            &[],
        ),
        line(
            "half an escape",
            "POST /v1/table/west%24ID%2/exists HTTP/1.1",
            &[400],
            &[],
        ),
        line(
            "an escape that is none",
            "POST /v1/table/west%24ID%zz/exists HTTP/1.1",
            &[400],
            &[],
        ),
        line(
            "a backslash",
            "POST /v1/table/west%24ID\\..\\other/exists HTTP/1.1",
            &[400],
            &[],
        ),
        line(
            "a parameter of the path",
            "POST /v1/table/west%24ID;a=b/exists;c HTTP/1.1",
            &[400],
            &[],
        ),
        line(
            "an encoded CR and LF in the query",
            "POST /v1/table/west%24ID/exists?x=%0d%0ay:z HTTP/1.1",
            &[200],
            &["exists {}"],
        ),
        bytes(
            "a fine request before a broken one",
            format!(
                "POST /v1/table/west%24ID/exists HTTP/1.1\r\nhost: g\r\ncontent-length: 2\r\n\r\n{{}}BROKEN\r\n\r\n{SECOND}"
            ),
            &[200, 400],
            &["exists {}"],
        ),
        bytes(
            "a broken request before a fine one",
            format!("BROKEN\r\n\r\n{SECOND}"),
            &[400],
            &[],
        ),
        bytes(
            "three requests at once",
            format!(
                "{}{}{SECOND}",
                SECOND.replace("connection: close\r\n", ""),
                SECOND.replace("connection: close\r\n", "")
            ),
            &[200, 200, 200],
            &["drop ", "drop ", "drop "],
        ),
        bytes(
            "a hundred requests at once",
            format!(
                "{}{SECOND}",
                SECOND
                    .replace("connection: close\r\n", "")
                    .replace("west%24ID/drop", "nowhere%24ID/drop")
                    .repeat(99)
            ),
            &HUNDRED,
            &["drop "],
        ),
    ]
}

const HUNDRED: [u16; 100] = {
    let mut statuses = [404; 100];
    statuses[99] = 200;
    statuses
};
