//! Checks the beginning of a body that streams unread, and refuses one that a catalog could read as a JSON object.
//!
//! An Arrow stream begins with a length, or the mark of one, and a file with letters, so the first bytes tell, whatever
//! content type is declared. As a rule the first frame decides, and the body then streams as any other does. Only a
//! brace and white space are held back. An object counts only if it has members.

use std::mem::take;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http_body::{Frame, SizeHint};

use super::source::Source;
use crate::error::BoxError;

/// The most bytes that are held back: a brace and the white space after it.
const LONGEST: usize = 4 << 10;

/// The error of a body that should be Arrow, and begins as a JSON object.
#[derive(Debug, thiserror::Error)]
#[error("this operation takes an Arrow body, and this one begins like a JSON object")]
pub struct IsJson;

/// The kind of a body's beginning.
pub(super) enum BodyStart {
    /// White space only, so far.
    Space,
    /// A brace at this place, and only white space after it so far.
    Brace(usize),
    /// A JSON object with a member.
    Object,
    Other,
}

/// Classifies `bytes`, the first of a body.
pub(super) fn look(bytes: &[u8]) -> BodyStart {
    // The last three bytes are the byte order mark of UTF-8.
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | 0xef | 0xbb | 0xbf);
    let Some(at) = bytes.iter().position(|byte| !is_space(byte)) else {
        return BodyStart::Space;
    };
    if bytes[at] != b'{' {
        return BodyStart::Other;
    }
    match bytes[at + 1..].iter().find(|byte| !is_space(byte)) {
        None => BodyStart::Brace(at),
        Some(b'"') => BodyStart::Object,
        Some(_) => BodyStart::Other,
    }
}

/// A body whose beginning comes in pieces that do not tell yet what it is.
pub(super) struct StartInspector {
    source: Source,
    is_decided: bool,
    held: BytesMut,
}

impl StartInspector {
    /// Creates the body that begins with `first` and goes on as `source` does.
    pub(super) fn new(source: Source, first: &[u8]) -> Self {
        Self {
            source,
            is_decided: false,
            held: first.into(),
        }
    }

    /// Returns the bytes, of those held back and of `data`, that can go on now.
    fn take(&mut self, data: Bytes) -> Result<Bytes, IsJson> {
        let data = if self.held.is_empty() {
            data
        } else {
            self.held.extend_from_slice(&data);
            take(&mut self.held).freeze()
        };
        match look(&data) {
            BodyStart::Space => Ok(data),
            BodyStart::Other => {
                self.is_decided = true;
                Ok(data)
            }
            BodyStart::Brace(at) if data.len() - at <= LONGEST => {
                self.held.extend_from_slice(&data[at..]);
                Ok(data.slice(..at))
            }
            BodyStart::Object | BodyStart::Brace(_) => {
                self.source = Source::Empty;
                Err(IsJson)
            }
        }
    }
}

impl http_body::Body for StartInspector {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        loop {
            let frame = ready!(self.source.poll_frame(cx));
            if self.is_decided {
                return Poll::Ready(frame);
            }
            let data = match frame {
                Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None if self.held.is_empty() => return Poll::Ready(None),
                None => {
                    self.is_decided = true;
                    let held = take(&mut self.held).freeze();
                    return Poll::Ready(Some(Ok(Frame::data(held))));
                }
            };
            match self.take(data) {
                Ok(data) if data.is_empty() => {}
                Ok(data) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                Err(error) => return Poll::Ready(Some(Err(error.into()))),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.held.is_empty() && self.source.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (hint, held) = (self.source.size_hint(), self.held.len() as u64);
        let mut all = SizeHint::new();
        all.set_lower(hint.lower() + held);
        if let Some(upper) = hint.upper() {
            all.set_upper(upper + held);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use super::*;
    use crate::body::Body;

    fn in_pieces(pieces: Vec<Bytes>) -> Body {
        let frames = pieces
            .into_iter()
            .map(|piece| Ok::<_, BoxError>(Frame::data(piece)));
        let frames: Vec<_> = frames.collect();
        Body::stream(http_body_util::StreamBody::new(futures_util::stream::iter(
            frames,
        )))
    }

    #[tokio::test]
    async fn what_begins_as_json_goes_nowhere() {
        let bytes = |text: &'static [u8]| Bytes::from_static(text);
        for text in [
            &b"{\"id\":[\"a\"]}"[..],
            b" \n{ \"id\":1}",
            b"\xef\xbb\xbf{\t\"id\":1}",
        ] {
            assert!(Body::full(text).unless_json().is_err(), "{text:?}");
            let single = text.chunks(1).map(bytes).collect();
            for pieces in [vec![Bytes::new(), bytes(text)], single] {
                let streamed = in_pieces(pieces).unless_json().unwrap();
                assert!(streamed.collect_up_to(99).await.is_err(), "{text:?}");
            }
        }
        let long = [b"{".to_vec(), vec![b' '; 5000], b"\"id\":1}".to_vec()].concat();
        let pieces = long.chunks(7).map(Bytes::copy_from_slice).collect();
        let streamed = in_pieces(pieces).unless_json().unwrap();
        assert!(streamed.collect_up_to(9999).await.is_err());
        for text in [
            &b"\xff\xff\xff\xff\x10\0"[..],
            b"ARROW1{\"a\":1}",
            b"\x7c\0\0\0",
            b"",
            b"rows",
            b"  {",
            b"{ }",
            b"{x",
            b"    ",
        ] {
            let whole = Body::full(text).unless_json().unwrap();
            assert_eq!(whole.collect_up_to(99).await.unwrap(), text);
            for size in [1, 2, 99] {
                let pieces = text.chunks(size).map(bytes).collect();
                let streamed = in_pieces(pieces).unless_json().unwrap();
                assert_eq!(streamed.collect_up_to(99).await.unwrap(), text, "{text:?}");
            }
        }
    }
}
