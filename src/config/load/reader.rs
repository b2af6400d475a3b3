//! The state of reading a tree: the current key, the sources of placeholders, and the problems so far.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::digests::Digests;
use super::named::{NamedFiles, resolve};
use super::placeholder::{self, Sources};
use super::problem::{Places, Position};
use super::yaml::{Node, Value};

/// Collects problems while the tree is read; a value that could not be read keeps its default.
pub(in crate::config) struct Reader<'e> {
    sources: Sources<'e>,
    path: String,
    places: Places,
    found: Vec<Found>,
    /// The keys of errors, and all keys above them.
    wrong: HashSet<String>,
}

/// A problem without the name of its file.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::config) struct Found {
    pub(in crate::config) place: Position,
    pub(in crate::config) key: String,
    pub(in crate::config) message: String,
    pub(in crate::config) warning: bool,
}

/// A text value, with placeholders replaced.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::config) struct Text {
    /// The text with placeholders replaced.
    pub(in crate::config) value: String,
    /// The text as it stands in the file.
    pub(in crate::config) raw: String,
    /// True if it was written without quotes.
    pub(in crate::config) plain: bool,
    /// The folder that relative paths start from.
    pub(in crate::config) base: PathBuf,
    /// The list to which the files that it names are added.
    pub(in crate::config) named: NamedFiles,
}

impl<'e> Reader<'e> {
    pub(in crate::config) fn new(base: &'e Path, env: &'e dyn Fn(&str) -> Option<String>) -> Self {
        Self {
            sources: Sources {
                base,
                env,
                named: NamedFiles::default(),
            },
            path: String::new(),
            places: Places::default(),
            found: Vec::new(),
            wrong: HashSet::new(),
        }
    }

    /// Reads the value at `key` below the current key.
    pub(in crate::config) fn at<T>(
        &mut self,
        key: &str,
        place: Position,
        read: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let outer = self.path.clone();
        self.path = join(&outer, key);
        self.places.insert(&self.path, place);
        let value = read(self);
        self.path = outer;
        value
    }

    /// Records an error about the current key.
    pub(in crate::config) fn problem(&mut self, place: Position, message: impl Into<String>) {
        self.record(place, self.path.clone(), message.into(), false);
    }

    /// Records an error about `key` below the current key, at its own place or the nearest one above it.
    pub(in crate::config) fn problem_at(&mut self, key: &str, message: impl Into<String>) {
        let key = join(&self.path, key);
        self.record(self.place(&key), key, message.into(), false);
    }

    /// Records a warning as [`Reader::problem_at`] records an error; the gateway can start with it.
    pub(in crate::config) fn warn_at(&mut self, key: &str, message: impl Into<String>) {
        let key = join(&self.path, key);
        self.record(self.place(&key), key, message.into(), true);
    }

    /// True if the file has `key` below the current key.
    pub(in crate::config) fn has(&self, key: &str) -> bool {
        self.places.get(&join(&self.path, key)).is_some()
    }

    /// True if there was no error at the full key `key` or below it.
    pub(in crate::config) fn has_no_problem_below(&self, key: &str) -> bool {
        !self.wrong.contains(key)
    }

    /// True if there was no error at the current key or below it.
    pub(in crate::config) fn is_sound(&self) -> bool {
        !self.wrong.contains(&self.path)
    }

    /// Returns the place of the full key `key`, or of the nearest key above it.
    pub(in crate::config) fn place(&self, key: &str) -> Position {
        self.places.nearest(key)
    }

    /// Returns the text at `node`; `None` after a problem was recorded. `expects` says what belongs there.
    pub(in crate::config) fn text(&mut self, node: &Node, expects: &str) -> Option<Text> {
        let (raw, plain) = match &node.value {
            Value::Scalar { text, plain } => (text, *plain),
            other => {
                self.mismatch(node.place, other, expects);
                return None;
            }
        };
        match placeholder::expand(raw, &self.sources) {
            Ok(value) => Some(Text {
                value: value.into_owned(),
                raw: raw.clone(),
                plain,
                base: self.sources.base.to_owned(),
                named: self.sources.named.clone(),
            }),
            Err(message) => {
                self.problem(node.place, message);
                None
            }
        }
    }

    /// Records that `value` is of the wrong shape.
    pub(in crate::config) fn mismatch(&mut self, place: Position, value: &Value, expects: &str) {
        let is = match value {
            Value::Null => "has no value",
            Value::Scalar { .. } => "is a single value",
            Value::List(_) => "is a list",
            Value::Table(_) => "is a mapping of keys",
        };
        let remove = match value {
            Value::Null if !self.path.ends_with(']') => ", or remove the key",
            _ => "",
        };
        self.problem(place, format!("{is}; write {expects}{remove}"));
    }

    /// Returns the problems sorted by place, the places of the keys, and the files that were named.
    pub(in crate::config) fn finish(mut self) -> (Vec<Found>, Places, Digests) {
        self.found.sort();
        self.found.dedup();
        (self.found, self.places, self.sources.named.all())
    }

    fn record(&mut self, place: Position, key: String, message: String, warning: bool) {
        let mut above = (!warning).then_some(&*key);
        while let Some(key) = above
            && self.wrong.insert(key.to_owned())
        {
            above = key.rfind(['.', '[']).map(|end| &key[..end]);
        }
        self.found.push(Found {
            place,
            key,
            message,
            warning,
        });
    }
}

impl Text {
    /// Returns the value for a message: as it stands in the file, and only if that is a placeholder or short
    /// enough not to be a secret.
    pub(in crate::config) fn shown(&self) -> String {
        let harmless = self.short() || self.raw != self.value;
        if harmless {
            format!("`{}`", self.raw)
        } else {
            "this".to_owned()
        }
    }

    fn short(&self) -> bool {
        let amount = self.raw.starts_with(|c: char| c.is_ascii_digit());
        self.raw.len() <= 24 && !self.raw.contains('@') && (amount || !self.raw.contains(' '))
    }

    /// Resolves `path`: relative ones start from the folder of the configuration file.
    pub(in crate::config) fn resolve(&self, path: &str) -> PathBuf {
        resolve(&self.base, path)
    }

    /// Resolves the path of a file that is read, and notes it: when the file changes, the configuration has
    /// changed.
    pub(in crate::config) fn resolve_named(&self, path: &str) -> PathBuf {
        let path = self.resolve(path);
        self.named.note(&path);
        path
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() || key.is_empty() || key.starts_with('[') {
        format!("{path}{key}")
    } else {
        format!("{path}.{key}")
    }
}
