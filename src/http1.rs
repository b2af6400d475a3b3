//! The rules for HTTP/1.1 messages that need no hyper: in one piece, in memory, and with a stated length.
//!
//! Nearly every message is of this kind. It needs no state machine beside it: the task that reads or writes it does so
//! by itself (`connection::plain` with clients, `backend::transport::http1` with catalogs). All other messages are
//! hyper's, and so is every message whose meaning is open to doubt.

use bytes::Bytes;
use http::header::HeaderName;
use http::{HeaderValue, StatusCode};

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
pub(crate) fn write_header(out: &mut Vec<u8>, name: &HeaderName, value: &HeaderValue) {
    out.extend_from_slice(name.as_str().as_bytes());
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

/// Caches the parsed headers of the last message, because the next one on a connection usually repeats them. It keeps
/// that message's bytes in memory, and no other's.
#[derive(Default)]
pub(crate) struct HeaderCache {
    known: Vec<CachedHeader>,
    /// True if all headers of the cached message are in `known`.
    complete: bool,
    /// The number of headers of a later message that were not in the cache.
    others: usize,
}

struct CachedHeader {
    /// The name as it was written.
    spelled: Bytes,
    name: HeaderName,
    value: HeaderValue,
}

impl HeaderCache {
    /// Returns the parsed header at `index`, whose `name` and `value` are slices of `message`; `None` if it is not
    /// valid.
    pub(crate) fn read(
        &mut self,
        index: usize,
        (name, value): (&[u8], &[u8]),
        message: &Bytes,
    ) -> Option<(HeaderName, HeaderValue)> {
        if index == 0 {
            self.begin();
        }
        let known = self.known.get(index).filter(|known| known.spelled == name);
        if let Some(known) = known.filter(|known| known.value.as_bytes() == value) {
            return Some((known.name.clone(), known.value.clone()));
        }
        let spelled = name;
        let name = match known {
            Some(known) => known.name.clone(),
            None => HeaderName::from_bytes(name).ok()?,
        };
        let value = HeaderValue::from_maybe_shared(message.slice_ref(value)).ok()?;
        if self.complete {
            self.others += 1;
        } else {
            self.known.push(CachedHeader {
                spelled: message.slice_ref(spelled),
                name: name.clone(),
                value: value.clone(),
            });
        }
        Some((name, value))
    }

    /// Discards the entries of a message whose parsing was abandoned.
    fn begin(&mut self) {
        self.others = 0;
        if !self.complete {
            self.known.clear();
        }
    }

    /// Ends a message. If most of its headers were not in the cache, the next message replaces it.
    pub(crate) fn end(&mut self) {
        self.complete = std::mem::take(&mut self.others) <= self.known.len() / 2;
        if !self.complete {
            self.known.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use super::*;

    #[test]
    fn of_messages_that_were_given_up_nothing_is_kept() {
        let mut fields = HeaderCache::default();
        let message = Bytes::from_static(b"a: 1 b: 2");
        let (first, second) = (
            (&message[..1], &message[3..4]),
            (&message[5..6], &message[8..]),
        );
        for _ in 0..3 {
            fields.read(0, first, &message).unwrap();
            fields.read(1, second, &message).unwrap();
        }
        fields.end();
        assert_eq!(fields.known.len(), 2);
        for _ in 0..3 {
            fields.read(0, second, &message).unwrap();
        }
        fields.read(0, first, &message).unwrap();
        fields.end();
        assert!(fields.complete, "only the last one counts");
    }
}
