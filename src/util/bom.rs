//! The byte order mark, with which some editors begin a file of UTF-8 text.

const BOM: &[u8] = b"\xef\xbb\xbf";

/// Returns the text of a file without its mark.
pub(crate) fn without(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(BOM).unwrap_or(bytes)
}
