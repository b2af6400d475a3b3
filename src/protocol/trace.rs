//! The position of a request in a distributed trace: the `traceparent` header of W3C Trace Context, level 2.

use std::cell::Cell;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};

use bytes::Bytes;
use fastrand::Rng;
use http::{HeaderName, HeaderValue};

/// The header with the id of a request, from the caller to the catalog and back.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The `traceparent` header, sections 3.2 and 3.3.
pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// The header with the trace data of other systems.
pub const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// One span of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanContext {
    trace: u128,
    span: u64,
    flags: u8,
}

/// A `traceparent`, written once; its parts share the memory.
pub struct TraceParent(Bytes);

/// The length of `00-` trace `-` span `-` flags, in bytes.
const LENGTH: usize = 55;
const SAMPLED: u8 = 1;
/// The flag for a trace id that is random enough for others to sample by it (level 2, section 3.2.2.5.2).
const RANDOM: u8 = 2;

impl SpanContext {
    /// Reads a header. `None` if it must be ignored (section 3.2.2): it has upper-case digits, a zero id, or the
    /// version `ff`.
    pub fn parse(value: &HeaderValue) -> Option<Self> {
        let text = value.as_bytes();
        let (head, rest) = text.split_at_checked(LENGTH)?;
        let version = hex(&head[..2])?;
        // The header of a later version may have further fields.
        let ends = match version {
            0 => rest.is_empty(),
            0xff => false,
            _ => rest.first().is_none_or(|&next| next == b'-'),
        };
        let dashed = [2, 35, 52].iter().all(|&place| head[place] == b'-');
        if !ends || !dashed {
            return None;
        }
        let parent = Self {
            trace: hex(&head[3..35])?,
            span: u64::try_from(hex(&head[36..52])?).ok()?,
            flags: u8::try_from(hex(&head[53..])?).ok()?,
        };
        (parent.trace != 0 && parent.span != 0).then_some(parent)
    }

    /// Starts a new trace.
    pub fn start() -> Self {
        let trace = u128::from(random()) << 64 | u128::from(random());
        Self {
            trace: trace.max(1),
            span: random().max(1),
            flags: SAMPLED | RANDOM,
        }
    }

    /// Starts a new span below this one.
    pub fn child(self) -> Self {
        Self {
            span: random().max(1),
            // Section 3.2.2.5: flags that this version does not know are not passed on.
            flags: self.flags & (SAMPLED | RANDOM),
            ..self
        }
    }

    /// Returns the id of the trace.
    pub fn trace(self) -> u128 {
        self.trace
    }

    /// Returns the id of the span.
    pub fn span(self) -> u64 {
        self.span
    }

    /// Returns the flags byte.
    pub fn flags(self) -> u8 {
        self.flags
    }

    /// True if the callers record the trace, so that their callees should record it too.
    pub fn is_sampled(self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// Returns the header's text.
    pub fn header(self) -> TraceParent {
        let mut text = [b'-'; LENGTH];
        text[..2].fill(b'0');
        let (high, low) = ((self.trace >> 64) as u64, self.trace as u64);
        for (place, number) in [(3, high), (19, low), (36, self.span)] {
            text[place..place + 8].copy_from_slice(&digits((number >> 32) as u32));
            text[place + 8..place + 16].copy_from_slice(&digits(number as u32));
        }
        text[53..].copy_from_slice(&digits(u32::from(self.flags))[6..]);
        // Shared from the start: sharing a copied slice later would need another allocation.
        TraceParent(Bytes::from_owner(text))
    }
}

impl TraceParent {
    /// Returns the whole header.
    pub fn value(self) -> HeaderValue {
        value(self.0)
    }

    /// Returns the trace's id alone.
    pub fn trace_id(&self) -> HeaderValue {
        value(self.0.slice(3..35))
    }
}

fn value(text: Bytes) -> HeaderValue {
    HeaderValue::from_maybe_shared(text).expect("hexadecimal digits and dashes")
}

/// Returns a number in hexadecimal, all digits at once: every request needs 48 of them.
fn digits(number: u32) -> [u8; 8] {
    const EACH: u64 = 0x0101_0101_0101_0101;
    // Spreads each half byte into a byte of its own.
    let mut each = u64::from(number);
    each = (each | each << 16) & 0x0000_ffff_0000_ffff;
    each = (each | each << 8) & 0x00ff_00ff_00ff_00ff;
    each = (each | each << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    // Adding six carries into the next half byte for values from 10 on, which are letters.
    let letters = (each + 6 * EACH) >> 4 & EACH;
    let after_nine = u64::from(b'a' - b'9' - 1);
    (each + u64::from(b'0') * EACH + after_nine * letters).to_be_bytes()
}

/// Reads lower-case hexadecimal digits only.
fn hex(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0, |number, digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u128::from(digit))
    })
}

/// Returns a different number each time, random enough for ids. Each thread has its own generator, seeded by the
/// system through the standard library's hash keys.
fn random() -> u64 {
    thread_local!(static PLACE: Cell<u64> = Cell::new(RandomState::new().build_hasher().finish()));
    PLACE.with(|place| {
        let mut numbers = Rng::with_seed(place.get());
        let number = numbers.u64(..);
        place.set(numbers.get_seed());
        number
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use std::collections::HashSet;

    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    #[test]
    fn a_valid_parent_is_continued_and_any_other_ignored() {
        let cases = [
            (format!("00-{TRACE}-00f067aa0ba902b7-01"), true),
            (format!("00-{TRACE}-00f067aa0ba902b7-00"), true),
            (format!("00-{TRACE}-00f067aa0ba902b7-ff"), true),
            (format!("cc-{TRACE}-00f067aa0ba902b7-01"), true),
            (format!("cc-{TRACE}-00f067aa0ba902b7-01-more"), true),
            (format!("cc-{TRACE}-00f067aa0ba902b7-01more"), false),
            (format!("00-{TRACE}-00f067aa0ba902b7-01-more"), false),
            (format!("ff-{TRACE}-00f067aa0ba902b7-01"), false),
            (format!("00-{TRACE}-0000000000000000-01"), false),
            (
                "00-00000000000000000000000000000000-00f067aa0ba902b7-01".to_owned(),
                false,
            ),
            (
                format!("00-{}-00f067aa0ba902b7-01", TRACE.to_uppercase()),
                false,
            ),
            (format!("00-{TRACE}-00f067aa0ba902b7"), false),
            (format!("00_{TRACE}_00f067aa0ba902b7_01"), false),
            (format!("0x-{TRACE}-00f067aa0ba902b7-01"), false),
            (String::new(), false),
        ];
        for (text, valid) in cases {
            let parent = SpanContext::parse(&HeaderValue::from_str(&text).unwrap());
            assert_eq!(parent.is_some(), valid, "{text}");
            let Some(parent) = parent else { continue };
            let child = parent.child();
            assert_eq!(child.trace, parent.trace);
            assert_ne!(child.span, parent.span);
            assert_eq!(child.flags, parent.flags & 3, "{text}");
            assert_eq!(child.header().trace_id(), TRACE);
        }
    }

    #[test]
    fn what_is_started_is_valid_and_new() {
        let mut seen = HashSet::new();
        for _ in 0..1000 {
            let parent = SpanContext::start();
            assert_eq!(SpanContext::parse(&parent.header().value()), Some(parent));
            assert_eq!(parent.flags, 3);
            assert!(seen.insert(parent.trace));
            assert!(seen.insert(u128::from(parent.span)));
        }
    }
}
