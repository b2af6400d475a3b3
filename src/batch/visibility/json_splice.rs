//! Cuts hidden versions out of a list of versions without parsing all of it: lists are long, and few versions are
//! hidden. A list of two versions, one of them hidden, costs 18.7 % more if it is parsed (`instructions`).
//!
//! The code relies on the form of the text: one array in the whole body, and no `\u` escapes. Then `"version"` before a
//! colon is always a member's name, and an object belongs to the list if a bracket or a comma stands before it. If the
//! form is different, or nothing would be left, [`super::filter`] parses the page.
//!
//! Each number in the list is checked if everything above a version is hidden: one that is above it may stand beyond a
//! gap, and then the page is parsed.

use std::ops::{Range, RangeInclusive};

use bytes::{Buf, Bytes, BytesMut};
use memchr::{memchr2, memchr2_iter, memmem, memrchr};

use super::Hidden;

/// The largest number of hidden versions that are searched for one by one.
const FEW: u64 = 8;
const KEY: &[u8] = b"\"version\"";

/// Removes the hidden versions from a whole `ListTableVersionsResponse`.
///
/// # Errors
///
/// Returns the body if it must be parsed.
pub fn without(body: Bytes, hidden: &Hidden) -> Result<Bytes, Bytes> {
    let Some(gaps) = gaps(&body, hidden) else {
        return Err(body);
    };
    if gaps.is_empty() {
        return Ok(body);
    }
    let body = body.try_into_mut();
    let mut body = body.unwrap_or_else(|shared| BytesMut::from(&shared[..]));
    for gap in gaps.into_iter().rev() {
        cut(&mut body, gap);
    }
    Ok(body.freeze())
}

/// Removes a part by moving the shorter of the two sides. The offsets of the bytes before the part must stay valid, so
/// parts are removed from the end.
fn cut(body: &mut BytesMut, gap: Range<usize>) {
    let length = body.len();
    if gap.start <= length - gap.end {
        body.copy_within(..gap.start, gap.len());
        body.advance(gap.len());
    } else {
        body.copy_within(gap.end.., gap.start);
        body.truncate(length - gap.len());
    }
}

/// The parts to remove, in order; `None` if the body must be parsed.
fn gaps(body: &[u8], hidden: &Hidden) -> Option<Vec<Range<usize>>> {
    let list = list(body)?;
    let mut objects: Vec<Range<usize>> = Vec::new();
    let few = few(hidden)?;
    if let Some(start) = few.open {
        // The next page may hold more of the hidden versions.
        if !is_whole(&body[list.end..]) || may_exceed(&body[list.clone()], start) {
            return None;
        }
    }
    for number in few.numbers {
        let digits = number.to_string();
        for place in memmem::find_iter(&body[list.clone()], &digits) {
            let place = list.start + place;
            let name = match version_at(body, place..place + digits.len()) {
                NumberSpelling::Not => continue,
                NumberSpelling::Oddly => return None,
                NumberSpelling::Plainly { name } => name,
            };
            let object = begin(body, name)?..end(body, name)?;
            match body[..object.start].trim_ascii_end().last()? {
                b'[' | b',' => objects.push(object),
                // An object inside an object of the list.
                b':' => {}
                _ => return None,
            }
        }
    }
    objects.sort_by_key(|object| object.start);
    objects.dedup();
    // Join neighbours to one part, with one of the commas around them.
    let mut runs: Vec<Range<usize>> = Vec::new();
    for object in objects {
        match runs.last_mut() {
            Some(run) if body[run.end..object.start].trim_ascii() == b"," => run.end = object.end,
            _ => runs.push(object),
        }
    }
    runs.into_iter().map(|run| with_comma(body, run)).collect()
}

/// Extends a part by one comma next to it; `None` if there is none, because the list would be empty.
fn with_comma(body: &[u8], run: Range<usize>) -> Option<Range<usize>> {
    let (before, after) = (&body[..run.start], &body[run.end..]);
    let spaces = after.len() - after.trim_ascii_start().len();
    if after.get(spaces) == Some(&b',') {
        return Some(run.start..run.end + spaces + 1);
    }
    let before = before.trim_ascii_end().strip_suffix(b",")?;
    Some(before.len()..run.end)
}

/// The range between the brackets of `{"versions": […], …}`; `None` if there are other brackets.
fn list(body: &[u8]) -> Option<Range<usize>> {
    let mut brackets = memchr2_iter(b'[', b']', body);
    let (start, end) = (brackets.next()?, brackets.next()?);
    let two = body[start] == b'[' && body[end] == b']' && brackets.next().is_none();
    let head = body[..start].trim_ascii().strip_prefix(b"{")?;
    let head = head.trim_ascii().strip_prefix(b"\"versions\"")?;
    let once = head.trim_ascii() == b":" && memmem::find(&body[end..], b"\"versions\"").is_none();
    let plain = || memmem::find(body, br"\u").is_none();
    (two && once && plain()).then_some(start + 1..end)
}

/// The hidden versions to search for.
struct HiddenNumbers {
    numbers: Vec<u64>,
    /// The first version of a range without end: it and all above are hidden.
    open: Option<u64>,
}

/// The versions to search for; `None` if they are too many.
fn few(hidden: &Hidden) -> Option<HiddenNumbers> {
    let is_open = |range: &&RangeInclusive<u64>| *range.end() == u64::MAX;
    let open = hidden.0.iter().filter(is_open).map(|range| *range.start());
    let open = open.min();
    let mut numbers: Vec<u64> = open.into_iter().collect();
    for range in &hidden.0 {
        let (start, end) = (*range.start(), *range.end());
        if open.is_some_and(|open| start >= open) {
            continue;
        }
        let count = end.saturating_sub(start).saturating_add(1);
        if (numbers.len() as u64).saturating_add(count) > FEW {
            return None;
        }
        numbers.extend(start..=end);
    }
    numbers.sort_unstable();
    numbers.dedup();
    Some(HiddenNumbers { numbers, open })
}

/// True if a version in the list may be above `start`.
fn may_exceed(list: &[u8], start: u64) -> bool {
    let mut names = memmem::find_iter(list, KEY);
    names.any(|name| {
        let value = list[name + KEY.len()..].trim_ascii_start();
        let Some(value) = value.strip_prefix(b":") else {
            return false;
        };
        number(value.trim_ascii_start()).is_none_or(|number| number > start)
    })
}

/// The value of a member as a number; `None` if it is not a plain one.
fn number(value: &[u8]) -> Option<u64> {
    let length = value.iter().take_while(|byte| byte.is_ascii_digit());
    let (digits, rest) = value.split_at(length.count());
    let plain = matches!(
        rest.first(),
        Some(b',' | b'}' | b' ' | b'\t' | b'\r' | b'\n')
    );
    let digits = std::str::from_utf8(digits).ok().filter(|_| plain)?;
    digits.parse().ok()
}

/// True if the text after the list names no further page.
fn is_whole(tail: &[u8]) -> bool {
    let Some(at) = memmem::find(tail, b"\"page_token\"") else {
        return true;
    };
    let value = tail[at + b"\"page_token\"".len()..].trim_ascii_start();
    let value = value.strip_prefix(b":").map(<[u8]>::trim_ascii_start);
    value.is_some_and(|value| value.starts_with(b"null"))
}

/// The result of checking whether digits are a version's number.
enum NumberSpelling {
    Not,
    /// The digits may be one.
    Oddly,
    Plainly {
        /// The offset of the member's name.
        name: usize,
    },
}

fn version_at(body: &[u8], digits: Range<usize>) -> NumberSpelling {
    let before = body[..digits.start].trim_ascii_end();
    let (before, quoted) = match before.strip_suffix(b"\"") {
        Some(before) => (before.trim_ascii_end(), true),
        None => (before, false),
    };
    let Some(before) = before.strip_suffix(b":") else {
        return NumberSpelling::Not;
    };
    let Some(before) = before.trim_ascii_end().strip_suffix(KEY) else {
        return NumberSpelling::Not;
    };
    match body.get(digits.end) {
        Some(b'0'..=b'9') => NumberSpelling::Not,
        Some(b',' | b'}' | b' ' | b'\t' | b'\r' | b'\n') if !quoted && !before.ends_with(b"\\") => {
            NumberSpelling::Plainly { name: before.len() }
        }
        _ => NumberSpelling::Oddly,
    }
}

/// The start of the object that has a member at `at`; `None` if it is not found.
fn begin(body: &[u8], mut at: usize) -> Option<usize> {
    let mut within = 0;
    while at > 0 {
        at -= 1;
        match body[at] {
            b'"' => at = opening(body, at)?,
            b'}' => within += 1,
            b'{' if within == 0 => return Some(at),
            b'{' => within -= 1,
            _ => {}
        }
    }
    None
}

/// The end of the object that contains `at`; `None` if it is not found.
fn end(body: &[u8], mut at: usize) -> Option<usize> {
    let mut within = 0;
    while at < body.len() {
        match body[at] {
            b'"' => at = closing(body, at)?,
            b'{' => within += 1,
            b'}' if within == 0 => return Some(at + 1),
            b'}' => within -= 1,
            _ => {}
        }
        at += 1;
    }
    None
}

/// The quote that opens the string which the quote at `at` closes.
fn opening(body: &[u8], at: usize) -> Option<usize> {
    let mut before = &body[..at];
    loop {
        before = &before[..memrchr(b'"', before)?];
        let slashes = before.iter().rev().take_while(|byte| **byte == b'\\');
        if slashes.count().is_multiple_of(2) {
            return Some(before.len());
        }
    }
}

/// The quote that closes the string which the quote at `at` opens.
fn closing(body: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += 1;
        at += memchr2(b'"', b'\\', body.get(at..)?)?;
        if body[at] == b'"' {
            return Some(at);
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests;
