//! `${NAME}` and `${file:PATH}`: values from the environment and from files, inside any text value.

use std::borrow::Cow;
use std::io::Read;
use std::path::Path;

use super::named::{self, NamedFiles};
use crate::util::bom;

/// The most bytes of a file that `${file:PATH}` names.
const MAX_FILE: u64 = 64 << 10;

/// Stands for the opening brace of a placeholder while the YAML parser reads it, as `CLOSE` does for the
/// closing one.
///
/// Braces end a plain value inside `{ … }`, so `{ token: ${file:admin.token} }` is not YAML. Each brace is
/// replaced by one private-use character, so that columns stay the same.
const OPEN: char = '\u{E000}';
const CLOSE: char = '\u{E001}';

/// The sources of the values of placeholders.
pub(super) struct Sources<'e> {
    /// The folder that relative paths start from: that of the configuration file.
    pub(super) base: &'e Path,
    /// The environment.
    pub(super) env: &'e dyn Fn(&str) -> Option<String>,
    /// The files that placeholders name.
    pub(super) named: NamedFiles,
}

/// Hides the braces of placeholders from the YAML parser. [`unmask`] restores them.
pub(super) fn mask(text: &str) -> Cow<'_, str> {
    if !text.contains("${") {
        return Cow::Borrowed(text);
    }
    let mut masked = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        let (before, from) = rest.split_at(start + 1);
        masked.push_str(before);
        let inside = &from[1..];
        match inside.find(['}', '\n', '{']) {
            Some(end) if inside[end..].starts_with('}') => {
                masked.push(OPEN);
                masked.push_str(&inside[..end]);
                masked.push(CLOSE);
                rest = &inside[end + 1..];
            }
            _ => {
                masked.push('{');
                rest = inside;
            }
        }
    }
    masked.push_str(rest);
    Cow::Owned(masked)
}

/// Restores the text as it was written.
pub(super) fn unmask(text: &str) -> String {
    text.replace(OPEN, "{").replace(CLOSE, "}")
}

/// Returns the place of the first character that [`mask`] needs for itself; `None` if there is none.
pub(super) fn reserved(text: &str) -> Option<super::Position> {
    text.lines().enumerate().find_map(|(line, content)| {
        let column = content.chars().position(|c| c == OPEN || c == CLOSE)?;
        Some(super::Position::at(line + 1, column + 1))
    })
}

/// Replaces every placeholder in `raw`; `$${` stands for `${` itself.
///
/// # Errors
/// A value is missing. The error says how to give it, and never what a source held.
pub(super) fn expand<'t>(raw: &'t str, sources: &Sources<'_>) -> Result<Cow<'t, str>, String> {
    if !raw.contains("${") {
        return Ok(Cow::Borrowed(raw));
    }
    let mut expanded = String::new();
    let mut rest = raw;
    while let Some(start) = rest.find("${") {
        let (before, from) = rest.split_at(start);
        if let Some(escaped) = before.strip_suffix('$') {
            expanded.push_str(escaped);
            expanded.push_str("${");
            rest = &from[2..];
            continue;
        }
        expanded.push_str(before);
        let Some(end) = from.find('}') else {
            return Err("`${` is not closed; write ${NAME} or ${file:PATH}, or $${ for the two characters themselves".to_owned());
        };
        expanded.push_str(&resolve(&from[2..end], sources)?);
        rest = &from[end + 1..];
    }
    expanded.push_str(rest);
    Ok(Cow::Owned(expanded))
}

fn resolve(name: &str, sources: &Sources<'_>) -> Result<String, String> {
    if let Some(path) = name.strip_prefix("file:") {
        let path = sources.base.join(path);
        sources.named.note(&path);
        return read(&path);
    }
    let legal = !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if !legal {
        return Err(format!(
            "`${{{name}}}` is neither a variable nor a file; write ${{NAME}} (letters, digits and _) or ${{file:PATH}}"
        ));
    }
    (sources.env)(name).ok_or_else(|| {
        format!("the environment variable {name} is not set; set it, or write the value here")
    })
}

fn read(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let mut content = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(MAX_FILE + 1).read_to_end(&mut content))
        .map_err(|error| named::unreadable(path, &error))?;
    if content.len() as u64 > MAX_FILE {
        return Err(format!(
            "the file {shown} is larger than 64KiB; a file named here holds one value"
        ));
    }
    let text = str::from_utf8(bom::without(&content)).map_err(|_| {
        format!("the file {shown} is not UTF-8 text; a file named here holds one value")
    })?;
    Ok(text
        .strip_suffix('\n')
        .map_or(text, |line| line.strip_suffix('\r').unwrap_or(line))
        .to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use super::*;

    fn expand_in(raw: &str, base: &Path) -> Result<String, String> {
        let env = |name: &str| (name == "KEY").then(|| "k3y".to_owned());
        let sources = Sources {
            base,
            env: &env,
            named: NamedFiles::default(),
        };
        expand(raw, &sources).map(Cow::into_owned)
    }

    #[test]
    fn placeholders_become_their_values() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("token"), "t0ken\r\n").unwrap();
        for (raw, expected) in [
            ("plain", "plain"),
            ("${KEY}", "k3y"),
            ("a${KEY}b${KEY}", "ak3ybk3y"),
            ("Bearer ${file:token}", "Bearer t0ken"),
            ("$${KEY}", "${KEY}"),
            ("cost: 5$", "cost: 5$"),
        ] {
            assert_eq!(expand_in(raw, folder.path()).unwrap(), expected, "{raw}");
        }
    }

    #[test]
    fn a_missing_source_is_named() {
        for (raw, expected) in [
            ("${NOPE}", "variable NOPE is not set"),
            ("${file:nope}", "there is no file /nonexistent/nope"),
            ("${a-b}", "`${a-b}` is neither"),
            ("${}", "`${}` is neither"),
            ("${KEY", "is not closed"),
        ] {
            let message = expand_in(raw, Path::new("/nonexistent")).unwrap_err();
            assert!(message.contains(expected), "{raw}: {message}");
        }
    }

    #[test]
    fn masking_keeps_columns_and_is_undone() {
        for text in [
            "{ token: ${file:admin.token}, x: {y: 1} }",
            "${unclosed\n}",
            "${a{b}",
            "none",
        ] {
            let masked = mask(text);
            assert_eq!(masked.chars().count(), text.chars().count(), "{text}");
            assert_eq!(unmask(&masked), text);
        }
        assert!(!mask("${A}").contains(['{', '}']));
    }
}
