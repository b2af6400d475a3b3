//! The end of a JSON value whose bytes come in pieces. The value itself is not checked.

use memchr::memchr2;

/// A value of which at least the first byte has come.
#[derive(Clone, Copy, Debug)]
pub(super) struct JsonValue {
    /// The number of objects and arrays that are open.
    depth: usize,
    is_in_string: bool,
    /// True if the next byte belongs to an escape in a string.
    is_escaped: bool,
}

impl JsonValue {
    /// Creates the value that begins with this byte.
    pub(super) fn begun(first: u8) -> Self {
        Self {
            depth: usize::from(matches!(first, b'{' | b'[')),
            is_in_string: first == b'"',
            is_escaped: false,
        }
    }

    /// Reads on. Returns the number of bytes that belong to the value, and true if it is over.
    pub(super) fn read(&mut self, bytes: &[u8]) -> (usize, bool) {
        let mut at = 0;
        while at < bytes.len() {
            if self.is_in_string {
                let (used, is_over) = self.read_string(&bytes[at..]);
                at += used;
                if is_over && self.depth == 0 {
                    return (at, true);
                }
                continue;
            }
            match bytes[at] {
                b'"' => self.is_in_string = true,
                // A number or a word ends where something else begins.
                b',' | b']' | b'}' | b' ' | b'\t' | b'\r' | b'\n' if self.depth == 0 => {
                    return (at, true);
                }
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        return (at + 1, true);
                    }
                }
                _ => {}
            }
            at += 1;
        }
        (at, false)
    }

    /// Reads on to the end of a string. Returns the number of its bytes, and true if it is over.
    fn read_string(&mut self, bytes: &[u8]) -> (usize, bool) {
        let mut at = 0;
        if self.is_escaped {
            self.is_escaped = false;
            at = 1;
        }
        while let Some(found) = bytes.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
            at += found + 1;
            if bytes[at - 1] == b'"' {
                self.is_in_string = false;
                return (at, true);
            }
            if at == bytes.len() {
                self.is_escaped = true;
                return (at, false);
            }
            at += 1;
        }
        (bytes.len(), false)
    }
}
