//! The digests of files, by which a change is detected.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::digest::{Context, SHA256};

/// The most bytes of a file that are read: no certificate, key or secret is so long.
const MAX_BYTES: u64 = 64 << 20;
/// The length from which a file is read again only if its stamp has changed.
const LONG: u64 = 64 << 10;
/// The time within which a file may change again and keep its stamp.
const FRESH: Duration = Duration::from_secs(2);

/// The digests of files by path. Names, times and links do not count: a file behind a link, as Kubernetes mounts it,
/// has changed if the contents that are read through the link have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Digests(BTreeMap<PathBuf, Content>);

/// The contents of a file.
#[derive(Debug, Clone, Default)]
struct Content {
    /// The digest; `None` if there is nothing to read.
    digest: Option<[u8; 32]>,
    /// The stamp of a long file that has stayed the same for a while; `None` for others.
    stamp: Option<Stamp>,
}

/// The device, number and length of a file, and the times of the last change of contents and of the file, in seconds
/// and nanoseconds.
type Stamp = [i64; 7];

impl Digests {
    /// Reads the same files again. Blocks.
    #[must_use]
    pub fn again(&self) -> Self {
        let now = SystemTime::now();
        let looked = self.0.iter();
        let looked = looked.map(|(path, before)| (path.clone(), Content::of(path, before, now)));
        Self(looked.collect())
    }

    /// Reads a file that it does not know yet. Blocks.
    pub fn add(&mut self, file: &Path) {
        if !self.0.contains_key(file) {
            let content = Content::of(file, &Content::default(), SystemTime::now());
            self.0.insert(file.to_owned(), content);
        }
    }

    /// Adds the files that `other` knows and this does not.
    pub fn keep(&mut self, other: &Self) {
        for (path, content) in &other.0 {
            self.0
                .entry(path.clone())
                .or_insert_with(|| content.clone());
        }
    }

    /// True if both know `path`, and found the same there.
    pub fn agree(&self, other: &Self, path: &Path) -> bool {
        matches!((self.0.get(path), other.0.get(path)), (Some(one), Some(two)) if one == two)
    }

    /// Returns the files that both know and whose contents have changed.
    pub fn changed<'a>(&'a self, before: &'a Self) -> impl Iterator<Item = &'a Path> {
        let known = |(path, now): (&'a PathBuf, _)| Some((path, before.0.get(path)?, now));
        let changed = self.0.iter().filter_map(known);
        changed
            .filter(|(_, before, now)| before != now)
            .map(|(path, ..)| path.as_path())
    }
}

impl Content {
    /// Returns the contents of the file, or `before` if the stamp says that nothing has changed. Other things than
    /// files are never read: a pipe, for example, may be read only once.
    fn of(path: &Path, before: &Self, now: SystemTime) -> Self {
        let Some(metadata) = std::fs::metadata(path).ok().filter(Metadata::is_file) else {
            return Self::default();
        };
        // The stamp is taken first: a file that changes while it is read has another stamp next time.
        let stamp = stamp(&metadata, now);
        if stamp.is_some() && stamp == before.stamp {
            return before.clone();
        }
        let open = File::open(path);
        Self {
            digest: open.and_then(|file| read(file.take(MAX_BYTES))).ok(),
            stamp,
        }
    }
}

/// Compares the digests alone, because stamps only save reading.
impl PartialEq for Content {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for Content {}

/// Returns the stamp; `None` if the file is short or has just changed, so that it is read.
fn stamp(file: &Metadata, now: SystemTime) -> Option<Stamp> {
    let changed = Duration::new(
        file.ctime().try_into().ok()?,
        file.ctime_nsec().try_into().ok()?,
    );
    let age = now.duration_since(UNIX_EPOCH + changed).ok()?;
    (file.len() >= LONG && age >= FRESH).then_some([
        file.dev().cast_signed(),
        file.ino().cast_signed(),
        file.len().cast_signed(),
        file.mtime(),
        file.mtime_nsec(),
        file.ctime(),
        file.ctime_nsec(),
    ])
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
        // Kubernetes mounts a secret like this: file -> ..data/file, ..data -> a folder that is swapped whole.
        for (version, content) in [("v1", "one"), ("v2", "two"), ("v3", "two")] {
            fs::create_dir(at(version)).unwrap();
            fs::write(at(version).join("key"), content).unwrap();
        }
        symlink("v1", at("..data")).unwrap();
        symlink("..data/key", at("key")).unwrap();
        let mut files = Digests::default();
        for named in [at("key"), at("missing"), folder.path().to_owned()] {
            files.add(&named);
        }
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

    #[test]
    fn a_long_file_is_read_again_only_when_its_stamp_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("long");
        fs::write(&path, vec![b'x'; LONG as usize]).unwrap();
        let later = SystemTime::now() + 2 * FRESH;
        let look = |before: &Content, now| Content::of(&path, before, now);
        let fresh = look(&Content::default(), later - 2 * FRESH);
        assert_eq!(fresh.stamp, None, "it may change within the same tick");
        let known = look(&fresh, later);
        assert!(known.stamp.is_some() && known == fresh);
        // Only a call that does not read the file can return contents that were never there.
        let never = Content {
            digest: Some([0; 32]),
            ..known
        };
        assert_eq!(look(&never, later), never);
        fs::write(&path, vec![b'y'; LONG as usize + 1]).unwrap();
        let other = look(&known, later);
        assert!(other != known && other.digest.is_some());
        fs::write(&path, "short").unwrap();
        assert_eq!(look(&known, later).stamp, None);
    }
}
