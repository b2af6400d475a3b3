//! The HTTP/1.1 messages that the gateway reads and writes itself, for both ends: requests from clients and to catalogs,
//! answers from catalogs and to clients.
//!
//! It reads messages in one piece, in memory, and with a stated length, which nearly all are: they need no state machine
//! beside the task that handles them. hyper reads all other messages, and every message whose meaning is open to doubt.

mod date;
mod fields;
mod header_cache;
mod pieces;
pub(crate) mod request;
pub(crate) mod response;

use http::{HeaderValue, StatusCode};

pub(crate) use header_cache::HeaderCache;
pub(crate) use pieces::Pieces;

/// True for headers that change how the rest of the message is to be read.
#[inline]
pub(crate) fn affects_framing(name: &str) -> bool {
    match name.len() {
        2 => name == "te",
        6 => name == "expect",
        7 => matches!(name, "trailer" | "upgrade"),
        10 => name == "connection",
        17 => name == "transfer-encoding",
        _ => false,
    }
}

/// True if a response with this status has a body, of the length in `content-length` (RFC 9112, section 6.3).
pub(crate) fn has_body(status: StatusCode) -> bool {
    let none = status.is_informational()
        || status == StatusCode::NO_CONTENT
        || status == StatusCode::NOT_MODIFIED;
    !none
}

/// Returns true if the connection stays open, and false if it closes; `None` for any other value.
pub(crate) fn is_keep_alive(value: &[u8]) -> Option<bool> {
    if value.eq_ignore_ascii_case(b"keep-alive") {
        return Some(true);
    }
    value.eq_ignore_ascii_case(b"close").then_some(false)
}

/// Parses a number that consists of digits only; `None` for anything else, or if it is too large.
pub(crate) fn number(digits: &[u8]) -> Option<usize> {
    let all = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    all.then(|| std::str::from_utf8(digits).ok()?.parse().ok())?
}

/// Sets the length to the number in `digits`; `None` if they are no number, or a length is already set.
pub(crate) fn note_length(length: &mut Option<usize>, digits: &[u8]) -> Option<()> {
    length.replace(number(digits)?).is_none().then_some(())
}

/// Appends a header line.
pub(crate) fn write_header(out: &mut Vec<u8>, name: &str, value: &HeaderValue) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Appends the decimal digits of `number`.
pub(crate) fn write_number(out: &mut Vec<u8>, number: usize) {
    if number >= 10 {
        write_number(out, number / 10);
    }
    #[expect(clippy::cast_possible_truncation, reason = "a digit")]
    out.push(b'0' + (number % 10) as u8);
}

#[cfg(test)]
mod tests;
