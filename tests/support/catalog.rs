//! A simulated catalog without sockets: its state, and its answer to each request at one instant.
//!
//! Names and storage are separate. A name leads to a *place*, and two names may lead to the same one. A place has
//! sequences of versions: the main one and perhaps a branch. Every version shows its `author` and its `place`, which
//! no real catalog does: this is how a reader of the simulation knows whose version it was shown. A test among those
//! with real catalogs compares its statuses and codes with a real one's.

// The paths are spelled out because another test includes this file by its path.
#[path = "catalog/names.rs"]
mod names;
#[path = "catalog/question.rs"]
mod question;
#[path = "catalog/server.rs"]
mod server;
#[path = "catalog/versions.rs"]
mod versions;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use nsgate::protocol::operation::Operation;

pub use question::Question;

/// The name of the only branch that exists.
pub const BRANCH: &str = "b";

/// The differences between this catalog and others.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ways {
    /// True if a create first looks and puts later, provided that nothing is there then.
    pub puts_later: bool,
    /// The entity tags of its versions.
    pub tags: Tags,
    /// True if it has an atomic batch-create of its own.
    pub atomic: bool,
    /// True if the gateway's configuration says whether the catalog is atomic.
    pub told: bool,
    /// True if a staged manifest stays where it is after a version has been made of it.
    pub keeps_staged: bool,
    /// True if it accepts a manifest that was staged for another table.
    pub takes_any_staged: bool,
    /// True if it has a rename of its own.
    pub renames: bool,
    /// True if it registers only places that are named relative to its root.
    pub relative: bool,
    /// True if it also makes versions above the next one.
    pub skips: bool,
}

/// The entity tags of versions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tags {
    /// Tags that differ from those of the staged manifests.
    #[default]
    Changed,
    /// The tags of the staged manifests.
    Kept,
    /// Kept for some versions, changed for others.
    Mixed,
    /// No tags.
    Hidden,
    /// Gives every version and every staged manifest the same tag.
    Equal,
}

/// One catalog.
#[derive(Clone, Default)]
pub struct Catalog {
    pub ways: Ways,
    number: usize,
    /// The place of each table, by the table's identifier with its names joined by `$`.
    names: BTreeMap<String, usize>,
    /// The places by their number; `None` for one that was dropped.
    places: Vec<Option<Place>>,
    /// The manifests that writers have staged, by path, each with the place below which it was staged.
    staged: BTreeMap<String, (Version, usize)>,
    tags: u64,
    /// The authors of server-side writes. A second copy of a write gets another author, so it makes another version.
    written: BTreeSet<String>,
    /// The changes since [`Self::changes`] was last called.
    changes: Vec<Change>,
}

/// The versions of one table and of its branch.
#[derive(Clone, Default)]
struct Place {
    main: Versions,
    branch: Option<Versions>,
}

type Versions = BTreeMap<u64, Version>;

/// The identity of one sequence of versions: that of a table, or of its branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Spot {
    pub catalog: usize,
    pub place: usize,
    pub branch: bool,
}

/// One version of a table, or a manifest that is staged to become one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    pub author: String,
    pub size: u64,
    pub tag: String,
}

/// A change of a catalog's state.
#[derive(Clone, Debug)]
pub enum Change {
    Made {
        spot: Spot,
        version: u64,
        author: String,
        onto: Onto,
    },
    Deleted {
        spot: Spot,
        version: u64,
        author: String,
    },
    /// A name leads to another place now, or to none.
    Named {
        name: String,
        from: Option<usize>,
        to: Option<usize>,
    },
}

/// The rows of a new version besides its author's.
#[derive(Clone, Debug)]
pub enum Onto {
    /// The rows of the manifest's base or, if its writer knew none, of the version below it.
    Manifest { below: Option<String> },
    /// The rows of this version.
    Rows(Option<String>),
    /// No other rows: the write replaced all of them.
    Nothing,
}

/// An answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub status: u16,
    pub body: String,
}

/// A create that has looked and is about to put.
#[derive(Clone, Debug)]
pub struct Put {
    spot: Spot,
    version: u64,
    path: String,
    manifest: Version,
}

impl Catalog {
    pub fn with(number: usize, ways: Ways) -> Self {
        Self {
            ways,
            number,
            ..Self::default()
        }
    }

    /// Adds a table with versions `1..=latest`, and a branch with one version.
    pub fn seed(&mut self, table: &str, latest: u64) {
        let place = self.new_place(true);
        self.names.insert(table.to_owned(), place);
        for (branch, latest) in [(false, latest), (true, 1)] {
            let spot = self.spot(place, branch);
            for version in 1..=latest {
                let manifest = Version::staged(&seed(spot, version), 100);
                let below = version.checked_sub(1).filter(|below| *below > 0);
                let below = below.map(|below| seed(spot, below));
                self.write(spot, version, manifest, Onto::Rows(below));
            }
        }
    }

    /// Puts a manifest where writers stage theirs.
    pub fn stage(&mut self, path: &str, place: usize, manifest: Version) {
        self.staged.insert(path.to_owned(), (manifest, place));
    }

    /// Removes a staged manifest.
    pub fn unstage(&mut self, path: &str) {
        self.staged.remove(path);
    }

    /// The place that a name leads to; `None` if there is no such name.
    pub fn place(&self, table: &str) -> Option<usize> {
        self.names.get(table).copied()
    }

    /// All names, and the places that they lead to.
    pub fn names(&self) -> &BTreeMap<String, usize> {
        &self.names
    }

    pub fn versions(&self, spot: Spot) -> BTreeMap<u64, String> {
        let versions = self.line(spot).into_iter().flatten();
        versions
            .map(|(number, version)| (*number, version.author.clone()))
            .collect()
    }

    /// Returns true if there is such a sequence of versions; its table may have been dropped under another name.
    pub fn has(&self, spot: Spot) -> bool {
        self.line(spot).is_some()
    }

    /// Returns the changes since the last call, and forgets them.
    pub fn changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// Executes a request and answers it, all at one instant.
    pub fn answer(&mut self, question: &Question) -> Reply {
        use Operation as Op;
        let answered = match question.operation {
            Op::CreateTableVersion => self.look(question).map(|put| self.put(put)),
            Op::DescribeTableVersion => self.describe(question),
            Op::ListTableVersions => self.list(question),
            Op::BatchDeleteTableVersions => self.delete(question),
            Op::BatchCreateTableVersions => self.create_all(question),
            Op::InsertIntoTable | Op::UpdateTable | Op::RestoreTable => self.change(question),
            Op::CountTableRows => self.count(question),
            _ => self.about_names(question),
        };
        answered.unwrap_or_else(|refused| refused)
    }

    fn table(&self, table: &str, branch: Option<&str>) -> Result<(Spot, &Versions), Reply> {
        let place = self.place(table).ok_or_else(|| missing(table))?;
        let branch = branch.is_some_and(|branch| branch == BRANCH);
        let spot = self.spot(place, branch);
        match self.line(spot) {
            Some(versions) => Ok((spot, versions)),
            None if branch => Err(refusal(404, 22, "no such branch")),
            None => Err(missing(table)),
        }
    }

    fn line(&self, spot: Spot) -> Option<&Versions> {
        let place = self.places.get(spot.place)?.as_ref()?;
        if spot.branch {
            place.branch.as_ref()
        } else {
            Some(&place.main)
        }
    }

    fn spot(&self, place: usize, branch: bool) -> Spot {
        Spot {
            catalog: self.number,
            place,
            branch,
        }
    }

    fn show(&self, to: &mut String, spot: Spot, number: u64, version: &Version) {
        let Version { author, size, tag } = version;
        let place = spot.place;
        write!(
            to,
            "{{\"version\":{number},\"manifest_path\":\"v/{number}\",\"manifest_size\":{size},\"author\":\"{author}\",\"place\":{place}"
        )
        .expect("a string takes everything");
        match self.ways.tags {
            Tags::Hidden => to.push('}'),
            _ => write!(to, ",\"e_tag\":\"{tag}\"}}").expect("a string takes everything"),
        }
    }
}

impl Version {
    /// Makes a manifest that a writer has staged; its tag is derived from the author alone.
    pub fn staged(author: &str, size: u64) -> Self {
        Self {
            author: author.to_owned(),
            size,
            tag: Tags::Kept.staged(author),
        }
    }
}

impl Tags {
    /// The tag of the manifest that this author has staged.
    pub fn staged(self, author: &str) -> String {
        match self {
            Self::Equal => "equal".to_owned(),
            _ => format!("s-{author}"),
        }
    }
}

/// The author of a version that exists from the beginning.
pub fn seed(spot: Spot, version: u64) -> String {
    let Spot {
        catalog,
        place,
        branch,
    } = spot;
    let line = if branch { "b" } else { "m" };
    format!("seed-c{catalog}p{place}{line}{version}")
}

pub fn refusal(status: u16, code: u64, message: &str) -> Reply {
    let body = serde_json::json!({"error": message, "code": code}).to_string();
    Reply { status, body }
}

fn latest(versions: &Versions) -> u64 {
    versions.last_key_value().map_or(0, |(number, _)| *number)
}

fn exists(version: u64) -> Reply {
    refusal(
        409,
        14,
        &format!("Version {version} already exists with different content"),
    )
}

fn missing(table: &str) -> Reply {
    refusal(404, 4, &format!("table id '{table}'"))
}
