//! HTTP/1.1 as nearly every message speaks it: in one piece, in memory, and its length is said. The rules that tell it.
//!
//! Such an exchange needs no machine that runs beside it: the task that reads such a message, or writes it, does so by
//! itself (`connection::plain` with clients, `backend::plain` with catalogs). All others are hyper's, and so is every
//! message whose meaning leaves room for doubt.

use bytes::Bytes;
use http::header::HeaderName;
use http::{HeaderValue, StatusCode};

/// Changes how the rest is to be read.
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

/// Its length is what `content-length` says (RFC 9112, section 6.3).
pub(crate) fn has_body(status: StatusCode) -> bool {
    let none = status.is_informational()
        || status == StatusCode::NO_CONTENT
        || status == StatusCode::NOT_MODIFIED;
    !none
}

/// Whether the connection stays open; `None`: it says something else.
pub(crate) fn is_keep_alive(value: &[u8]) -> Option<bool> {
    if value.eq_ignore_ascii_case(b"keep-alive") {
        return Some(true);
    }
    value.eq_ignore_ascii_case(b"close").then_some(false)
}

/// Digits and nothing else.
pub(crate) fn number(digits: &[u8]) -> Option<usize> {
    let all = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    all.then(|| std::str::from_utf8(digits).ok()?.parse().ok())?
}

/// Notes the length that `digits` say; `None`: they say none, or one is noted already.
pub(crate) fn note_length(length: &mut Option<usize>, digits: &[u8]) -> Option<()> {
    length.replace(number(digits)?).is_none().then_some(())
}

/// Appends a header.
pub(crate) fn write_header(out: &mut Vec<u8>, name: &HeaderName, value: &HeaderValue) {
    out.extend_from_slice(name.as_str().as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Appends its digits.
pub(crate) fn write_number(out: &mut Vec<u8>, number: usize) {
    if number >= 10 {
        write_number(out, number / 10);
    }
    #[expect(clippy::cast_possible_truncation, reason = "a digit")]
    out.push(b'0' + (number % 10) as u8);
}

/// The fields of one message of a connection, which those that follow nearly repeat: what was understood once need not
/// be again. It keeps that message's bytes in memory, and no other's.
#[derive(Default)]
pub(crate) struct HeaderCache {
    known: Vec<CachedHeader>,
    /// All of them are there.
    complete: bool,
    /// Those of a later message that were not known.
    others: usize,
}

struct CachedHeader {
    /// As it was written.
    spelled: Bytes,
    name: HeaderName,
    value: HeaderValue,
}

impl HeaderCache {
    /// Reads the field at `index`, of which `name` and `value` are all, both in `message`.
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

    /// Of a message that was given up before its end nothing is kept.
    fn begin(&mut self) {
        self.others = 0;
        if !self.complete {
            self.known.clear();
        }
    }

    /// A message is over. After one that was mostly different, the next is the one to know.
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
