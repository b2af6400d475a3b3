//! What was in files, as far as it takes to see that it has changed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{Context, SHA256};

/// More than that of a file is not looked at: no certificate, key or secret is so long.
const MAX_BYTES: u64 = 64 << 20;

/// The contents of files. Their names, times and links count for nothing, so that a file which a link leads to
/// elsewhere, as Kubernetes does it, has changed when what is read through it has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Digests(BTreeMap<PathBuf, Option<[u8; 32]>>);

impl Digests {
    /// What is in the same files now. Blocks.
    #[must_use]
    pub fn again(&self) -> Self {
        let now = |path: &PathBuf| (path.clone(), digest(path));
        Self(self.0.keys().map(now).collect())
    }

    /// Looks at the files that it does not know yet; false: it knew them all. Blocks.
    pub fn add(&mut self, files: &BTreeSet<PathBuf>) -> bool {
        let new: Vec<_> = files
            .iter()
            .filter(|file| !self.0.contains_key(*file))
            .collect();
        for &file in &new {
            self.0.insert(file.clone(), digest(file));
        }
        !new.is_empty()
    }

    /// Takes in what `other` knows and this does not.
    pub fn keep(&mut self, other: &Self) {
        for (path, digest) in &other.0 {
            self.0.entry(path.clone()).or_insert(*digest);
        }
    }

    /// Whether both know `path`, and found the same there.
    pub fn agree(&self, other: &Self, path: &Path) -> bool {
        matches!((self.0.get(path), other.0.get(path)), (Some(one), Some(two)) if one == two)
    }

    /// The files that both know, and that are not what they were.
    pub fn changed<'a>(&'a self, before: &'a Self) -> impl Iterator<Item = &'a Path> {
        let known = |(path, now): (&'a PathBuf, _)| Some((path, before.0.get(path)?, now));
        let changed = self.0.iter().filter_map(known);
        changed
            .filter(|(_, before, now)| before != now)
            .map(|(path, ..)| path.as_path())
    }
}

/// `None`: there is nothing to read. What is no file, a pipe for example, may be read only once, and is never looked at.
fn digest(path: &Path) -> Option<[u8; 32]> {
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    read(File::open(path).ok()?.take(MAX_BYTES)).ok()
}

fn read(mut from: impl Read) -> io::Result<[u8; 32]> {
    let mut context = Context::new(&SHA256);
    let mut buffer = [0; 8 << 10];
    loop {
        match from.read(&mut buffer)? {
            0 => break,
            read => context.update(&buffer[..read]),
        }
    }
    let mut digest = [0; 32];
    digest.copy_from_slice(context.finish().as_ref());
    Ok(digest)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_file_has_changed_when_what_is_read_has() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        // As Kubernetes mounts a secret: file -> ..data/file, ..data -> a folder that is swapped whole.
        for (version, content) in [("v1", "one"), ("v2", "two"), ("v3", "two")] {
            fs::create_dir(at(version)).unwrap();
            fs::write(at(version).join("key"), content).unwrap();
        }
        symlink("v1", at("..data")).unwrap();
        symlink("..data/key", at("key")).unwrap();
        let mut files = Digests::default();
        let named = [at("key"), at("missing"), folder.path().to_owned()];
        assert!(files.add(&named.into()));
        assert!(!files.add(&[at("key")].into()));
        assert_eq!(files.again(), files);
        let swap = |to: &str| {
            symlink(to, at("..next")).unwrap();
            fs::rename(at("..next"), at("..data")).unwrap();
        };
        swap("v2");
        let second = files.again();
        let changed: Vec<_> = second.changed(&files).collect();
        assert_eq!(changed, [at("key")]);
        assert!(!second.agree(&files, &at("key")) && second.agree(&files, &at("missing")));
        swap("v3");
        assert_eq!(second.again(), second, "the same content elsewhere");
        fs::write(at("missing"), "here").unwrap();
        let third = second.again();
        assert_eq!(third.changed(&second).collect::<Vec<_>>(), [at("missing")]);
        fs::remove_file(at("key")).unwrap();
        assert_eq!(third.again().changed(&third).count(), 1);
    }
}
