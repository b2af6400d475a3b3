//! Reads the headers of a message, and decides the length of its body.

use bytes::Bytes;
use http::HeaderValue;
use http::header::HeaderName;
use httparse::Header;

use super::header_cache::HeaderRole;
use super::{HeaderCache, is_keep_alive, note_length};

/// The length of a message's body, and the use of its connection afterwards.
pub(super) struct Framing {
    /// The length of the body, in bytes; `None` if no header states it.
    pub(super) length: Option<usize>,
    /// True if the sender keeps the connection open.
    pub(super) keeps_alive: bool,
}

/// Parses the headers of `message`, and passes each to `take` with its value as it was written. Returns `None` if
/// `take` does, or if hyper must parse the message.
#[inline]
pub(super) fn read(
    headers: &[Header<'_>],
    message: &Bytes,
    known: &mut HeaderCache,
    mut take: impl FnMut(HeaderName, HeaderValue, &[u8]) -> Option<()>,
) -> Option<Framing> {
    let mut framing = Framing {
        length: None,
        keeps_alive: true,
    };
    for (index, header) in headers.iter().enumerate() {
        let (name, value, role) =
            known.read(index, (header.name.as_bytes(), header.value), message)?;
        match role {
            HeaderRole::Plain => {}
            HeaderRole::Connection => framing.keeps_alive &= is_keep_alive(header.value)?,
            HeaderRole::Length => note_length(&mut framing.length, header.value)?,
            HeaderRole::Framing => return None,
        }
        take(name, value, header.value)?;
    }
    known.end();
    Some(framing)
}

/// Returns the body, which begins at `begin`, and the place where it ends; `None` if it has not arrived completely.
#[inline]
pub(super) fn body(message: &Bytes, begin: usize, length: usize) -> Option<(Bytes, usize)> {
    let end = begin.checked_add(length)?;
    (end <= message.len()).then(|| (message.slice(begin..end), end))
}
