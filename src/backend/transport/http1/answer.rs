//! Parses an answer that has arrived completely.

use std::mem::MaybeUninit;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use httparse::{ParserConfig, Status};

use crate::backend::rest::headers::ends_here;
use crate::http1::{HeaderCache, affects_framing, has_body, is_keep_alive, note_length};

/// The largest number of headers of an answer.
pub(super) const FIELDS: usize = 48;

/// An answer without its headers.
pub(in crate::backend) struct ParsedAnswer {
    pub(in crate::backend) status: StatusCode,
    pub(in crate::backend) body: Bytes,
    /// True if the connection stays open, and the catalog has sent nothing else.
    pub(in crate::backend) stays: bool,
}

/// Parses the answer in `bytes`. Its headers go into `headers`, which must be empty, except for those that end at this
/// hop. `None` if hyper must parse the answer, or if it is not complete.
pub(in crate::backend) fn read(
    bytes: &Bytes,
    known: &mut HeaderCache,
    headers: &mut HeaderMap,
) -> Option<ParsedAnswer> {
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS];
    let mut head = httparse::Response::new(&mut []);
    let parsed =
        ParserConfig::default().parse_response_with_uninit_headers(&mut head, bytes, &mut fields);
    let Ok(Status::Complete(begin)) = parsed else {
        return None;
    };
    let status = StatusCode::from_u16(head.code?).ok()?;
    if head.version != Some(1) || head.reason != status.canonical_reason() || !has_body(status) {
        return None;
    }
    let (mut length, mut stays) = (None, true);
    for (index, field) in head.headers.iter().enumerate() {
        let (name, value) = known.read(index, (field.name.as_bytes(), field.value), bytes)?;
        match name.as_str() {
            "connection" => stays &= is_keep_alive(field.value)?,
            "content-length" => note_length(&mut length, field.value)?,
            text if affects_framing(text) => return None,
            _ => {}
        }
        if !ends_here(name.as_str()) {
            headers.append(name, value);
        }
    }
    known.end();
    let end = begin.checked_add(length?)?;
    let body = (end <= bytes.len()).then(|| bytes.slice(begin..end))?;
    stays &= end == bytes.len();
    Some(ParsedAnswer {
        status,
        body,
        stays,
    })
}
