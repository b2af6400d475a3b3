//! Bytes that wait to be written.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf as _, Bytes, BytesMut};

/// The longest piece that is copied behind the one before it, in bytes. A catalog may send its body in chunks of a
/// byte.
const SMALL: usize = 1 << 10;

/// Bytes in the order in which they are to be written. Small pieces are joined, so that their number does not matter.
#[derive(Default)]
pub(crate) struct Pieces {
    whole: VecDeque<Bytes>,
    /// The small pieces behind those in `whole`.
    small: BytesMut,
    /// The number of bytes in all pieces.
    length: usize,
}

impl Pieces {
    /// Returns the number of bytes that wait.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Appends a piece.
    pub(crate) fn push(&mut self, piece: Bytes) {
        self.length += piece.len();
        if piece.len() <= SMALL {
            self.small.extend_from_slice(&piece);
        } else {
            self.seal();
            self.whole.push_back(piece);
        }
    }

    /// Fills `slices` with the first bytes. Returns the number of slices that are filled.
    pub(crate) fn slices<'a>(&'a mut self, slices: &mut [IoSlice<'a>]) -> usize {
        self.seal();
        let mut count = 0;
        for (slice, piece) in slices.iter_mut().zip(&self.whole) {
            *slice = IoSlice::new(piece);
            count += 1;
        }
        count
    }

    /// Removes the first `written` bytes.
    pub(crate) fn advance(&mut self, mut written: usize) {
        self.length = self.length.saturating_sub(written);
        while let Some(piece) = self.whole.front_mut() {
            if written < piece.len() {
                return piece.advance(written);
            }
            written -= piece.len();
            self.whole.pop_front();
        }
    }

    fn seal(&mut self) {
        if !self.small.is_empty() {
            self.whole.push_back(self.small.split().freeze());
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use super::*;

    #[test]
    fn small_pieces_are_one_and_all_bytes_keep_their_order() {
        let mut pieces = Pieces::default();
        let (large, mut expected) = ("x".repeat(SMALL + 1), String::new());
        for round in 0..1000 {
            let piece = if round == 500 {
                large.clone()
            } else {
                format!("{round},")
            };
            expected.push_str(&piece);
            pieces.push(piece.into());
        }
        assert_eq!(pieces.len(), expected.len());
        let mut written = Vec::new();
        while pieces.len() > 0 {
            let mut slices = [IoSlice::new(&[]); 16];
            let count = pieces.slices(&mut slices);
            assert!((1..=3).contains(&count), "{count}");
            let some: Vec<u8> = slices[..count]
                .iter()
                .flat_map(|slice| slice.to_vec())
                .collect();
            let some = &some[..some.len().min(777)];
            written.extend_from_slice(some);
            let length = some.len();
            pieces.advance(length);
        }
        assert_eq!(String::from_utf8(written).unwrap(), expected);
    }
}
