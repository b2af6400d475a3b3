//! JSON without characters that are not seen: names stay exact, and none can command a terminal or turn its text around.

use std::io;

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::Formatter;

use crate::util::unprintable::{escape_json, is_unprintable};

struct Escaped;

/// Returns a value as one line, its end included.
pub(super) fn line(value: &impl Serialize) -> String {
    let mut line = Vec::with_capacity(512);
    // Strings and numbers are always valid JSON, and a vector takes all of it.
    let _ = value.serialize(&mut Serializer::with_formatter(&mut line, Escaped));
    line.push(b'\n');
    String::from_utf8_lossy(&line).into_owned()
}

impl Formatter for Escaped {
    /// Writes a part of a string. The library has escaped what JSON forbids; DEL, the C1 controls and what is not seen
    /// remain.
    fn write_string_fragment<W: io::Write + ?Sized>(
        &mut self,
        to: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut rest = fragment;
        while let Some(at) = rest.find(is_unprintable) {
            let (before, after) = rest.split_at(at);
            to.write_all(before.as_bytes())?;
            let mut characters = after.chars();
            if let Some(hidden) = characters.next() {
                let mut escape = String::new();
                escape_json(hidden, &mut escape);
                to.write_all(escape.as_bytes())?;
            }
            rest = characters.as_str();
        }
        to.write_all(rest.as_bytes())
    }
}
