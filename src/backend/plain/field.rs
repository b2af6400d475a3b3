//! What one line of an answer's head says.

use http::HeaderValue;
use http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HeaderName};
use memchr::memchr;

use crate::backend::headers::ends_here;
use crate::plain::{goes_on, number, steers};

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A header of an answer.
#[derive(Clone)]
pub(super) enum Field {
    /// Of this hop: whether the connection stays open.
    Connection { stays: bool },
    /// Of this hop, or what other proxies said.
    EndsHere,
    /// How long the body is.
    Length(usize, HeaderValue),
    /// What goes on to the client.
    Other(HeaderName, HeaderValue),
}

impl Field {
    /// The header in `line`, whose value `hold` makes. `None`: it is none, or changes how the rest is to be read.
    pub(super) fn of(line: &[u8], hold: impl FnOnce(&[u8]) -> Option<HeaderValue>) -> Option<Self> {
        let colon = memchr(b':', line)?;
        // A token and nothing else: neither a line that goes on with the one before it, nor a space before the colon.
        let name = HeaderName::from_bytes(&line[..colon]).ok()?;
        let text = trimmed(&line[colon + 1..]);
        if name == CONNECTION {
            return goes_on(text).map(|stays| Self::Connection { stays });
        }
        if steers(&name) {
            return None;
        }
        let value = match text {
            // What nearly every answer says need not be held.
            b"application/json" if name == CONTENT_TYPE => JSON,
            text => hold(text)?,
        };
        if name == CONTENT_LENGTH {
            return Some(Self::Length(number(text)?, value));
        }
        Some(match ends_here(name.as_str()) {
            true => Self::EndsHere,
            false => Self::Other(name, value),
        })
    }
}

/// Without the spaces around it.
fn trimmed(text: &[u8]) -> &[u8] {
    let is_other = |byte: &u8| !matches!(byte, b' ' | b'\t');
    let begin = text.iter().position(is_other);
    let end = text.iter().rposition(is_other);
    &text[begin.unwrap_or(0)..end.map_or(0, |last| last + 1)]
}
