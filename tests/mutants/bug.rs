//! A planted bug: a piece of source text, and its wrong replacement.

/// A bug.
pub struct Bug {
    /// The name, as a report of the bug would have it.
    pub name: &'static str,
    /// The file that the bug is planted in.
    pub file: &'static str,
    /// The right text, which occurs once in the file.
    pub right: &'static str,
    /// The wrong text that replaces it.
    pub wrong: &'static str,
    /// The tests that may catch it: arguments of `cargo test`, target and filter. They are run in order until one
    /// fails.
    pub checkers: &'static [&'static [&'static str]],
}
