//! Loads a [`Config`] from a file: text, tree, sections, cross checks. Every problem is found in one
//! go.

pub mod digests;
pub(in crate::config) mod named;
pub(in crate::config) mod nearest;
mod placeholder;
pub mod problem;
pub(in crate::config) mod reader;
pub(in crate::config) mod yaml;

use std::io::Read;
use std::path::Path;

use digests::Digests;
pub use problem::{Origin, Position, Problem, Problems};

use super::keys::{self, Section};
use super::{Config, LogAddress, check};
use reader::{Found, Reader};

/// The largest configuration file: enough for hundreds of thousands of mounts.
const MAX_BYTES: u64 = 32 << 20;

/// A configuration with which the gateway can start.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// The configuration, with defaults filled in.
    pub config: Config,
    /// The warnings for its author.
    pub warnings: Vec<Problem>,
    /// The digests of the file itself, if it was one, and of the files that it names, taken before they were read: if they
    /// differ later, the files must be read again.
    pub files: Digests,
    /// The places of its keys.
    pub origin: Origin,
}

/// Reads the file at `path`; placeholders are taken from this process's environment.
///
/// # Errors
/// Every problem of the file.
pub fn from_path(path: &Path) -> Result<Loaded, Problems> {
    let name = path.display().to_string();
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let base = absolute.parent().unwrap_or(Path::new(""));
    let mut own = Digests::default();
    own.add(&absolute);
    let read = read(path).map_err(|(place, message)| alone(&name, place, message));
    let mut loaded =
        read.and_then(|text| from_text(text, &name, base, &|name| std::env::var(name).ok()));
    let files = match &mut loaded {
        Ok(loaded) => &mut loaded.files,
        Err(problems) => &mut problems.files,
    };
    files.keep(&own);
    loaded
}

/// Reads `text` as if it were the file `file_name` in the folder `base`; `env` is the environment.
///
/// # Errors
/// Every problem of the text.
pub fn from_str(
    text: &str,
    file_name: &str,
    base: &Path,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Loaded, Problems> {
    from_text(text.to_owned(), file_name, base, env)
}

fn from_text(
    text: String,
    file_name: &str,
    base: &Path,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Loaded, Problems> {
    let (config, reader) = load(text, base, env);
    let (found, places, files) = reader.finish();
    let named = |found: Found| Problem {
        file: file_name.to_owned(),
        place: Some(found.place),
        key: found.key,
        message: found.message,
        warning: found.warning,
    };
    let (warnings, errors): (Vec<_>, Vec<_>) = found
        .into_iter()
        .map(named)
        .partition(|problem| problem.warning);
    if errors.is_empty() {
        let file = file_name.to_owned();
        Ok(Loaded {
            config,
            warnings,
            files,
            origin: Origin { file, places },
        })
    } else {
        Err(Problems {
            errors,
            warnings,
            files,
        })
    }
}

fn load<'e>(
    text: String,
    base: &'e Path,
    env: &'e dyn Fn(&str) -> Option<String>,
) -> (Config, Reader<'e>) {
    let mut config = Config::blank();
    if let LogAddress::File(path) = &mut config.batch.log {
        *path = named::resolve(base, &*path);
    }
    let mut reader = Reader::new(base, env);
    let tree = yaml::parse(&text);
    // Of a long file, text and tree take more memory than the configuration, so each goes as soon as it can.
    drop(text);
    let broken = !tree.problems.is_empty();
    for (place, message) in tree.problems {
        reader.problem(place, message);
    }
    match tree.root {
        Some(root) if !matches!(root.value, yaml::Value::Null) => {
            let read = reader.at("", root.place, |reader| {
                keys::read(&mut config, &root, reader)
            });
            drop(root);
            for (name, backend) in &mut config.backends {
                backend.name.clone_from(name);
            }
            if read.is_some() {
                check::whole(&config, &mut reader);
            }
        }
        _ if broken => {}
        _ => reader.problem(
            Position::START,
            "there is nothing in this file; write at least `auth`, `backends` and `mounts`",
        ),
    }
    (config, reader)
}

fn read(path: &Path) -> Result<String, (Option<Position>, String)> {
    let mut content = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut content))
        .map_err(|error| (None, format!("cannot be read ({error}); name the configuration with --config FILE or NSGATE_CONFIG")))?;
    if content.len() as u64 > MAX_BYTES {
        return Err((
            None,
            "is larger than 32MiB, which no configuration needs to be; name the right file"
                .to_owned(),
        ));
    }
    String::from_utf8(content).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let before = String::from_utf8_lossy(valid);
        let last = before.rsplit('\n').next().unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let place = Position::at(line, last.chars().count() + 1);
        (
            Some(place),
            "not UTF-8 text from here on; save the file as UTF-8".to_owned(),
        )
    })
}

fn alone(file: &str, place: Option<Position>, message: String) -> Problems {
    let problem = Problem {
        file: file.to_owned(),
        place,
        key: String::new(),
        message,
        warning: false,
    };
    Problems {
        errors: vec![problem],
        warnings: Vec::new(),
        files: Digests::default(),
    }
}
