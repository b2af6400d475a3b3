//! Header lines that are known by sight.
//!
//! What a catalog says of its answers is nearly the same each time: who it is, which day it is, what kind of body
//! follows. A line that is, byte for byte, one that was taken apart before means the same. So those that were seen twice
//! lately are kept with what they mean; to know one again costs a comparison.

use bytes::Bytes;
use http::HeaderValue;
use http::header::SET_COOKIE;

use super::field::Field;

/// So many lines are known at most. A power of two.
const LINES: usize = 128;
/// Lines whose marks are alike share so many places.
const SIDE: usize = 4;
/// Longer lines are not kept.
const LONGEST: usize = 96;

/// The lines that one thread knows.
pub(super) struct Sight {
    /// Of those that are side by side, the last learned first.
    known: Box<[Option<Known>; LINES]>,
    /// Marks of lines that were not known, the last one that led to each place.
    strange: Box<[u64; LINES]>,
}

struct Known {
    mark: u64,
    line: Box<[u8]>,
    field: Field,
}

impl Default for Sight {
    fn default() -> Self {
        Self {
            known: Box::new([const { None }; LINES]),
            strange: Box::new([0; LINES]),
        }
    }
}

impl Sight {
    /// The header in `line`, which is a part of `bytes`; see [`Field::of`].
    pub(super) fn field(&mut self, bytes: &Bytes, line: &[u8]) -> Option<Field> {
        let read = |text: &[u8]| HeaderValue::from_maybe_shared(bytes.slice_ref(text)).ok();
        let Some(mark) = mark(line) else {
            return Field::of(line, read);
        };
        let place = (mark >> (u64::BITS - LINES.ilog2())) as usize;
        let side = place & !(SIDE - 1);
        let known = &mut self.known[side..side + SIDE];
        for known in known.iter().flatten() {
            if known.mark == mark && *known.line == *line {
                return Some(known.field.clone());
            }
        }
        if self.strange[place] != mark {
            self.strange[place] = mark;
            return Field::of(line, read);
        }
        // Apart from the answer, which would be kept as a whole.
        let field = Field::of(line, |text| HeaderValue::from_bytes(text).ok())?;
        if !matches!(&field, Field::Other(name, _) if name == SET_COOKIE) {
            known.rotate_right(1);
            known[0] = Some(Known {
                mark,
                line: line.into(),
                field: field.clone(),
            });
        }
        Some(field)
    }
}

/// A number that two different lines rarely share, from both ends of a line. `None`: it is not worth it.
fn mark(line: &[u8]) -> Option<u64> {
    if line.len() > LONGEST {
        return None;
    }
    let first = u64::from_le_bytes(*line.first_chunk()?);
    let last = u64::from_le_bytes(*line.last_chunk()?);
    let mixed = first.rotate_left(23) ^ last ^ line.len() as u64;
    // The upper bits of a product depend on all of its factors' bits.
    Some(mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use super::*;

    fn known(sight: &Sight) -> usize {
        sight.known.iter().flatten().count()
    }

    fn see(sight: &mut Sight, line: &str) -> Option<(String, String)> {
        let bytes = Bytes::copy_from_slice(line.as_bytes());
        match sight.field(&bytes, &bytes)? {
            Field::Other(name, value) => {
                Some((name.as_str().to_owned(), value.to_str().unwrap().to_owned()))
            }
            _ => None,
        }
    }

    #[test]
    fn a_line_means_the_same_each_time_it_is_seen() {
        let mut sight = Sight::default();
        for round in 0..4 {
            for number in 0..1_000 {
                let value = format!("{}-{number}", "v".repeat(number % 100));
                let line = format!("X-{number}:{value}");
                let expected = (format!("x-{number}"), value);
                for _ in 0..=round {
                    assert_eq!(see(&mut sight, &line), Some(expected.clone()));
                }
            }
        }
        assert!(known(&sight) > LINES / 2);
    }

    #[test]
    fn lines_that_differ_only_within_are_told_apart() {
        let mut sight = Sight::default();
        for round in 0..6 {
            for word in ["one", "two", "six"] {
                let value = format!("begin-{word}-and-end");
                for _ in 0..=round {
                    let expected = Some(("x-within".to_owned(), value.clone()));
                    assert_eq!(see(&mut sight, &format!("x-within: {value}")), expected);
                }
            }
        }
    }

    #[test]
    fn what_is_seen_once_a_cookie_and_what_is_no_header_is_not_kept() {
        let mut sight = Sight::default();
        assert!(see(&mut sight, "x-request: 1").is_some());
        for line in [
            "a: b".to_owned(),
            "set-cookie: secret".to_owned(),
            "no header at all".to_owned(),
            "transfer-encoding: chunked".to_owned(),
            format!("x: {}", "y".repeat(LONGEST)),
        ] {
            for _ in 0..3 {
                see(&mut sight, &line);
            }
        }
        assert_eq!(known(&sight), 0);
        see(&mut sight, "x-request: 1");
        assert_eq!(known(&sight), 1);
    }
}
