//! The part of HTTP/1.1 that is used here: messages with a `content-length`, one after the other.

use httparse::{EMPTY_HEADER, Header, Request, Response, Status};

/// The largest number of header fields: those of a gateway, and those that it adds.
const FIELDS: usize = 64;

/// A complete request.
pub struct Asked<'a> {
    /// The length of the request in bytes.
    pub whole: usize,
    /// The offset of its body.
    pub body: usize,
    /// The parameters of a load; `None` if the request starts none.
    pub plan: Option<&'a str>,
    /// True if the connection must be closed after it.
    pub last: bool,
}

/// Returns the first request of the input; `None` until its last byte has arrived.
pub fn request(input: &[u8]) -> Result<Option<Asked<'_>>, String> {
    let mut fields = [EMPTY_HEADER; FIELDS];
    let mut read = Request::new(&mut fields);
    let body = match read.parse(input) {
        Ok(Status::Complete(body)) => body,
        Ok(Status::Partial) => return Ok(None),
        Err(error) => return Err(format!("this is no request of HTTP/1.1: {error}")),
    };
    // A request without a length has no body.
    let whole = body + length(read.headers)?.unwrap_or(0);
    let plan = match (read.method, read.path) {
        (Some("POST"), Some(path)) => path.strip_prefix("/load?"),
        _ => None,
    };
    let last = read.headers.iter().any(|field| {
        field.name.eq_ignore_ascii_case("connection") && field.value.eq_ignore_ascii_case(b"close")
    });
    let asked = Asked {
        whole,
        body,
        plan,
        last,
    };
    Ok((input.len() >= whole).then_some(asked))
}

/// Returns the status and the length in bytes of the first answer of the input; `None` until its last byte has
/// arrived.
pub fn response(input: &[u8]) -> Result<Option<(u16, usize)>, String> {
    let mut fields = [EMPTY_HEADER; FIELDS];
    let mut read = Response::new(&mut fields);
    let head = match read.parse(input) {
        Ok(Status::Complete(head)) => head,
        Ok(Status::Partial) => return Ok(None),
        Err(error) => return Err(format!("this is no answer of HTTP/1.1: {error}")),
    };
    let status = read.code.unwrap_or(0);
    let Some(length) = length(read.headers)? else {
        return Err(format!("an answer with {status} does not say its length"));
    };
    let whole = head + length;
    Ok((input.len() >= whole).then_some((status, whole)))
}

/// Returns the value of `content-length`.
fn length(fields: &[Header]) -> Result<Option<usize>, String> {
    let mut found = None;
    for field in fields {
        if field.name.eq_ignore_ascii_case("transfer-encoding") {
            return Err("a body came in chunks: here it must say its length".to_owned());
        }
        if field.name.eq_ignore_ascii_case("content-length") {
            let number = std::str::from_utf8(field.value)
                .ok()
                .and_then(|text| text.parse().ok());
            let fits = number.filter(|number| *number <= super::wire::MOST);
            if fits.is_none() || found.is_some() {
                return Err("one `content-length` is needed, a small number".to_owned());
            }
            found = fits;
        }
    }
    Ok(found)
}

/// Returns the description of a table, with the same length and the same fields as that of the other catalog
/// (`parties/nginx.py`).
pub fn description() -> Vec<u8> {
    let text = format!(
        r#"{{"table": "t1", "namespace": ["prod"], "location": "s3://bucket/prod/t1.lance", "managed_versioning": true, "x": "{}"}}"#,
        "x".repeat(60)
    );
    answer("200 OK", &text)
}

/// Returns an answer with a JSON body. Its date is constant, because no client reads it.
pub fn answer(status: &str, text: &str) -> Vec<u8> {
    let length = text.len();
    format!(
        "HTTP/1.1 {status}\r\nServer: steady/1.0.0\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\nConnection: keep-alive\r\n\r\n{text}"
    )
    .into_bytes()
}

/// Returns an error message as JSON.
pub fn error(said: &str) -> String {
    format!(r#"{{"error": {}}}"#, quoted(said))
}

/// Returns a text of this program as a JSON string, without the characters that would need an escape.
pub fn quoted(said: &str) -> String {
    let plain = |c: &char| !matches!(c, '"' | '\\') && !c.is_control();
    format!("\"{}\"", said.chars().filter(plain).collect::<String>())
}
