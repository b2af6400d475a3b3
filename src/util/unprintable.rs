//! Characters that command a terminal, a browser or a reader instead of being seen: a name or an error may hold any.

use std::fmt::Write as _;

/// The format characters of Unicode 16 (general category Cf), and the separators of lines and paragraphs.
const INVISIBLE: [(u32, u32); 20] = [
    (0xad, 0xad),
    (0x600, 0x605),
    (0x61c, 0x61c),
    (0x6dd, 0x6dd),
    (0x70f, 0x70f),
    (0x890, 0x891),
    (0x8e2, 0x8e2),
    (0x180e, 0x180e),
    (0x200b, 0x200f),
    // With the two separators.
    (0x2028, 0x202e),
    // With one that is not assigned.
    (0x2060, 0x206f),
    (0xfeff, 0xfeff),
    (0xfff9, 0xfffb),
    (0x1_10bd, 0x1_10bd),
    (0x1_10cd, 0x1_10cd),
    (0x1_3430, 0x1_343f),
    (0x1_bca0, 0x1_bca3),
    (0x1_d173, 0x1_d17a),
    (0xe_0001, 0xe_0001),
    (0xe_0020, 0xe_007f),
];

/// True for a character that is not seen and may change what else is seen: controls, format characters, and separators
/// of lines.
pub fn is_unprintable(character: char) -> bool {
    let code = u32::from(character);
    // Most characters are ASCII.
    if code < 0x80 {
        return character.is_ascii_control();
    }
    let is_invisible = |(first, last): &(u32, u32)| (*first..=*last).contains(&code);
    character.is_control() || INVISIBLE.iter().any(is_invisible)
}

/// Returns a text with `\u{…}`, or `\n` and the like, for each character that is not printable.
pub fn printable(text: &str) -> String {
    let mut printable = String::with_capacity(text.len());
    for character in text.chars() {
        if is_unprintable(character) {
            printable.extend(character.escape_default());
        } else {
            printable.push(character);
        }
    }
    printable
}

/// Appends the escape of JSON for a character, as `\u202e`.
pub(crate) fn escape_json(character: char, to: &mut String) {
    for unit in character.encode_utf16(&mut [0; 2]) {
        // Writing to a string does not fail.
        let _ = write!(to, "\\u{unit:04x}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_seen_is_escaped_and_what_is_seen_is_not() {
        for hidden in
            "\u{1b}\u{7f}\u{9b}\u{ad}\u{202e}\u{2066}\u{2028}\u{2029}\u{feff}\u{e0041}\u{200b}\n"
                .chars()
        {
            assert!(is_unprintable(hidden), "{hidden:?}");
        }
        for seen in "a~ \u{a0}é中🙂\u{fffd}".chars() {
            assert!(!is_unprintable(seen), "{seen:?}");
        }
        assert_eq!(printable("a\u{202e}b\n"), r"a\u{202e}b\n");
        let mut escaped = String::new();
        escape_json('\u{e0041}', &mut escaped);
        assert_eq!(escaped, r"\udb40\udc41");
    }
}
