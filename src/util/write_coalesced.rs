//! Joins small writes of several parts into one, because sending one piece costs the system less than
//! gathering several.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::rt::Write;

/// The most bytes that are copied: beyond that, the copy costs more than it saves.
const SMALL: usize = 4 << 10;

thread_local! {
    static PIECE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Writes `parts` in one piece if they are small, and otherwise as they are.
pub(crate) fn poll_write<T: Write + Unpin>(
    io: &mut T,
    cx: &mut Context<'_>,
    parts: &[IoSlice<'_>],
) -> Poll<io::Result<usize>> {
    match parts {
        [whole] => Pin::new(io).poll_write(cx, whole),
        _ if parts.iter().map(|part| part.len()).sum::<usize>() > SMALL => {
            Pin::new(io).poll_write_vectored(cx, parts)
        }
        _ => PIECE.with_borrow_mut(|piece| {
            piece.clear();
            for part in parts {
                piece.extend_from_slice(part);
            }
            Pin::new(io).poll_write(cx, piece)
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// Records each write call and its bytes.
    #[derive(Default)]
    struct Calls(Vec<(&'static str, Vec<u8>)>);

    impl Write for Calls {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.0.push(("one", bytes.to_vec()));
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_write_vectored(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            parts: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            let bytes: Vec<u8> = parts.iter().flat_map(|part| part.to_vec()).collect();
            let length = bytes.len();
            self.0.push(("several", bytes));
            Poll::Ready(Ok(length))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[test]
    fn small_parts_go_in_one_piece_and_large_ones_are_not_copied() {
        let mut calls = Calls::default();
        let mut write = |parts: &[&[u8]]| {
            let parts: Vec<_> = parts.iter().map(|part| IoSlice::new(part)).collect();
            let cx = &mut Context::from_waker(Waker::noop());
            let length: usize = parts.iter().map(|part| part.len()).sum();
            assert!(
                matches!(poll_write(&mut calls, cx, &parts), Poll::Ready(Ok(n)) if n == length)
            );
        };
        let large = [b'x'; SMALL];
        write(&[b"head", b"body"]);
        write(&[b"again"]);
        write(&[b"a", b"", b"b"]);
        write(&[b"head", &large]);
        write(&[&large]);
        let expected = [
            ("one", b"headbody".to_vec()),
            ("one", b"again".to_vec()),
            ("one", b"ab".to_vec()),
            ("several", [b"head", &large[..]].concat()),
            ("one", large.to_vec()),
        ];
        assert_eq!(calls.0, expected);
    }
}
