//! Reading an answer that is there as a whole.

use std::cell::RefCell;

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, StatusCode};
use memchr::memchr;

use super::field::Field;
use super::sight::Sight;
use crate::plain::has_body;

/// Headers of an answer at most.
pub(super) const FIELDS: usize = 48;
/// What a line ends with.
const END: &[u8] = b"\r\n";

thread_local! {
    static SIGHT: RefCell<Sight> = RefCell::default();
}

/// An answer, all of it but its headers.
pub(in crate::backend) struct Whole {
    pub(in crate::backend) status: StatusCode,
    pub(in crate::backend) body: Bytes,
    /// The catalog goes on listening, and has said nothing else.
    pub(in crate::backend) stays: bool,
}

/// The answer that `bytes` are, from its first to its last, with its headers in `headers`, which are empty: those that end
/// here are not among them. `None`: it is another kind, or there is more of it to come.
pub(in crate::backend) fn read(bytes: &Bytes, headers: &mut HeaderMap) -> Option<Whole> {
    SIGHT.with_borrow_mut(|sight| read_by(sight, bytes, headers))
}

fn read_by(sight: &mut Sight, bytes: &Bytes, headers: &mut HeaderMap) -> Option<Whole> {
    let (status, mut begin) = status(bytes)?;
    let (mut length, mut stays) = (None, true);
    for _ in 0..=FIELDS {
        let line = line(&bytes[begin..])?;
        begin += line.len() + END.len();
        if line.is_empty() {
            let end = begin.checked_add(length?)?;
            let body = (end <= bytes.len()).then(|| bytes.slice(begin..end))?;
            stays &= end == bytes.len();
            return Some(Whole {
                status,
                body,
                stays,
            });
        }
        match sight.field(bytes, line)? {
            Field::Connection { stays: says } => stays &= says,
            Field::EndsHere => {}
            Field::Length(said, value) => {
                if length.replace(said).is_some() {
                    return None;
                }
                headers.append(CONTENT_LENGTH, value);
            }
            Field::Other(name, value) => {
                headers.append(name, value);
            }
        }
    }
    None
}

/// The status of an answer that is not known to have no body, and where its headers begin.
fn status(bytes: &[u8]) -> Option<(StatusCode, usize)> {
    let line = line(bytes)?;
    let (code, reason) = line.strip_prefix(b"HTTP/1.1 ")?.split_at_checked(3)?;
    let status = StatusCode::from_bytes(code).ok()?;
    let plain = reason.strip_prefix(b" ")? == status.canonical_reason()?.as_bytes();
    (plain && has_body(status)).then_some((status, line.len() + END.len()))
}

/// The first line of `bytes`, without its end. Whoever reads the line takes no other one within it.
fn line(bytes: &[u8]) -> Option<&[u8]> {
    bytes[..memchr(b'\n', bytes)?].strip_suffix(b"\r")
}
