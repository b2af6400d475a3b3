//! Parsed headers that a connection keeps from one message to the next.

use bytes::Bytes;
use http::HeaderValue;
use http::header::HeaderName;

use super::affects_framing;

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
    role: HeaderRole,
}

/// The part of a header in how its message is read.
#[derive(Clone, Copy)]
pub(super) enum HeaderRole {
    /// None.
    Plain,
    /// It says whether the connection stays open.
    Connection,
    /// It states the length of the body.
    Length,
    /// It changes how the rest of the message is to be read.
    Framing,
}

impl HeaderRole {
    fn of(name: &HeaderName) -> Self {
        match name.as_str() {
            "connection" => Self::Connection,
            "content-length" => Self::Length,
            name if affects_framing(name) => Self::Framing,
            _ => Self::Plain,
        }
    }
}

impl HeaderCache {
    /// Returns the parsed header at `index`, whose `name` and `value` are slices of `message`; `None` if it is not
    /// valid.
    pub(super) fn read(
        &mut self,
        index: usize,
        (name, value): (&[u8], &[u8]),
        message: &Bytes,
    ) -> Option<(HeaderName, HeaderValue, HeaderRole)> {
        if index == 0 {
            self.begin();
        }
        let known = self.known.get(index).filter(|known| known.spelled == name);
        if let Some(known) = known.filter(|known| known.value.as_bytes() == value) {
            return Some((known.name.clone(), known.value.clone(), known.role));
        }
        let spelled = name;
        let (name, role) = match known {
            Some(known) => (known.name.clone(), known.role),
            None => {
                let name = HeaderName::from_bytes(name).ok()?;
                let role = HeaderRole::of(&name);
                (name, role)
            }
        };
        let value = HeaderValue::from_maybe_shared(message.slice_ref(value)).ok()?;
        if self.complete {
            self.others += 1;
        } else {
            self.known.push(CachedHeader {
                spelled: message.slice_ref(spelled),
                name: name.clone(),
                value: value.clone(),
                role,
            });
        }
        Some((name, value, role))
    }

    /// Discards the entries of a message whose parsing was abandoned.
    fn begin(&mut self) {
        self.others = 0;
        if !self.complete {
            self.known.clear();
        }
    }

    /// Ends a message. If most of its headers were not in the cache, the next message replaces it.
    pub(super) fn end(&mut self) {
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
