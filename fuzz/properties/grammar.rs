//! HTTP/1.1 messages from a small grammar. Each byte of the input is a choice, so that a change of one byte changes one
//! part of a message that stays likely. Most parts are common, and some are those on which readers disagree.

/// The choices that are left. Without any, the first alternative is taken.
struct Choices<'a>(&'a [u8]);

const METHODS: &[&str] = &[
    "POST", "GET", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "post", "BREW", "CONNECT",
];
const TARGETS: &[&str] = &[
    "/",
    "/streams",
    "/breaks",
    "/long",
    "/none",
    "/same",
    "/closes",
    "/a?b=c",
    "/%zz",
    "*",
    "a",
    "http://h/a",
    "//a",
    "/a#b",
    "/\u{e9}",
    "",
];
const VERSIONS: &[&str] = &[
    "HTTP/1.1",
    "HTTP/1.1",
    "HTTP/1.1",
    "HTTP/1.0",
    "HTTP/1.2",
    "HTTP/2.0",
    "http/1.1",
    "HTTP/1.1 ",
];
const ENDS: &[&str] = &[
    "\r\n", "\r\n", "\r\n", "\r\n", "\r\n", "\n", "\r", " \r\n", "\r\r\n",
];
const HEADERS: &[&str] = &[
    "host: x",
    "Host:x",
    "x-a: 1",
    "x-a:",
    "x-a:  y \t",
    "accept: */*",
    "connection: keep-alive",
    "Connection: close",
    "connection: close, keep-alive",
    "connection: x-a",
    "content-length: 0",
    "content-length: 5",
    "Content-Length: 05",
    "content-length: +5",
    "content-length: 5, 5",
    "content-length: 99999999999999999999",
    "content-length : 5",
    "transfer-encoding: chunked",
    "Transfer-Encoding: Chunked",
    "transfer-encoding: gzip, chunked",
    "transfer-encoding: chunked, chunked",
    "transfer-encoding: identity",
    "te: trailers",
    "trailer: x-b",
    "upgrade: h2c",
    "expect: 100-continue",
    "keep-alive: timeout=5",
    " folded",
    "x a: b",
    "x: \u{0}",
    "no colon",
    ": none",
    "set-cookie: a",
    "date: yesterday",
];
const CHUNKS: &[&str] = &[
    "5\r\npiece\r\n",
    "1\r\nx\r\n",
    "05\r\npiece\r\n",
    "5;name=value\r\npiece\r\n",
    "A\r\n0123456789\r\n",
    "5\npiece\r\n",
    "5\r\npiece",
    "x\r\n",
    "-5\r\npiece\r\n",
];
const LAST_CHUNKS: &[&str] = &[
    "0\r\n\r\n",
    "0\r\n\r\n",
    "00\r\n\r\n",
    "0\r\nx-b: y\r\n\r\n",
    "0\r\ncontent-length: 3\r\n\r\n",
    "0\n\n",
    "",
];
const STATUSES: &[&str] = &[
    "200 OK",
    "200 OK",
    "404 Not Found",
    "503 Service Unavailable",
    "204 No Content",
    "304 Not Modified",
    "100 Continue",
    "103 Early Hints",
    "101 Switching Protocols",
    "200 Fine",
    "200",
    "799 Odd",
    "20 OK",
];

impl Choices<'_> {
    fn below(&mut self, count: usize) -> usize {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        usize::from(*first) % count
    }

    fn one(&mut self, of: &[&'static str]) -> &'static str {
        of[self.below(of.len())]
    }

    /// Appends headers, the empty line, and a body that mostly fits them.
    fn rest(&mut self, out: &mut String) {
        for _ in 0..self.below(6) {
            out.push_str(self.one(HEADERS));
            out.push_str(self.one(ENDS));
        }
        let body = self.below(6);
        match body {
            0 | 1 => out.push_str("content-length: 5\r\n"),
            2 => out.push_str("transfer-encoding: chunked\r\n"),
            _ => {}
        }
        out.push_str(self.one(ENDS));
        match body {
            0 => out.push_str("piece"),
            1 => out.push_str(&"piece"[..self.below(6)]),
            2 | 3 => {
                for _ in 0..self.below(4) {
                    out.push_str(self.one(CHUNKS));
                }
                out.push_str(self.one(LAST_CHUNKS));
            }
            _ => {}
        }
    }
}

/// Returns one to three requests.
pub fn requests(choices: &[u8]) -> Vec<u8> {
    let (mut choices, mut out) = (Choices(choices), String::new());
    for _ in 0..=choices.below(3) {
        let (method, target) = (choices.one(METHODS), choices.one(TARGETS));
        let (version, end) = (choices.one(VERSIONS), choices.one(ENDS));
        out.push_str(&format!("{method} {target} {version}{end}"));
        if choices.below(8) > 0 {
            out.push_str("host: x\r\n");
        }
        choices.rest(&mut out);
    }
    out.into_bytes()
}

/// Returns one answer, or an informational one and another, behind a byte that says where to cut them in two.
pub fn answers(choices: &[u8]) -> Vec<u8> {
    let mut choices = Choices(choices);
    let cut = choices.below(256);
    let mut out = String::new();
    for _ in 0..=usize::from(choices.below(8) == 1) {
        let (version, status) = (choices.one(VERSIONS), choices.one(STATUSES));
        out.push_str(&format!("{version} {status}{}", choices.one(ENDS)));
        choices.rest(&mut out);
    }
    let mut bytes = vec![u8::try_from(cut).unwrap_or_default()];
    bytes.extend(out.into_bytes());
    bytes
}
