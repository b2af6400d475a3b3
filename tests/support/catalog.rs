//! A catalog as real ones are, without a socket: what it holds, and what it answers at one instant.
//!
//! Names and storage are separate: a name leads to a *place*, two names may lead to one, and a place has lines of
//! versions: the main one and perhaps a branch. Every version shows its `author` and its `place`, which no real catalog
//! does: it is how a reader of the simulation knows whose version it was shown. A test among those with real catalogs
//! holds it to a real one's statuses and codes.

// Another test uses this file by its path.
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

/// The name of the only branch that there is.
pub const BRANCH: &str = "b";

/// How this catalog differs from others.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ways {
    /// A create looks first and puts later, if nothing is there then.
    pub puts_later: bool,
    /// What entity tags its versions have.
    pub tags: Tags,
    /// It has an atomic batch-create of its own.
    pub atomic: bool,
    /// The gateway's configuration says which it is.
    pub told: bool,
    /// A staged manifest stays where it is when a version has been made of it.
    pub keeps_staged: bool,
    /// It takes what was staged for another table.
    pub takes_any_staged: bool,
    /// It has a rename of its own.
    pub renames: bool,
    /// It registers only places that are named as they are below its root.
    pub relative: bool,
}

/// The entity tags of versions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tags {
    /// Others than those of the staged manifests.
    #[default]
    Changed,
    /// Those of the staged manifests.
    Kept,
    /// Some are kept, and some are not.
    Mixed,
    /// There are none.
    Hidden,
}

/// One catalog.
#[derive(Clone, Default)]
pub struct Catalog {
    pub ways: Ways,
    number: usize,
    /// By the identifier, its names joined by `$`.
    names: BTreeMap<String, usize>,
    /// `None`: it was dropped.
    places: Vec<Option<Place>>,
    /// What writers have staged, by path, and below which place.
    staged: BTreeMap<String, (Version, usize)>,
    tags: u64,
    /// Authors of server-side writes: the second copy of one makes another version.
    written: BTreeSet<String>,
    /// What has happened since it was last looked at.
    changes: Vec<Change>,
}

/// Where a table's versions are.
#[derive(Clone, Default)]
struct Place {
    main: Versions,
    branch: Option<Versions>,
}

type Versions = BTreeMap<u64, Version>;

/// A line of versions: the storage of one table, or of its branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Spot {
    pub catalog: usize,
    pub place: usize,
    pub branch: bool,
}

/// One version of a table, or a manifest that is to become one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    pub author: String,
    pub size: u64,
    pub tag: String,
}

/// What a catalog did.
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
    /// A name leads elsewhere, or nowhere.
    Named {
        name: String,
        from: Option<usize>,
        to: Option<usize>,
    },
}

/// What rows a new version has besides its author's.
#[derive(Clone, Debug)]
pub enum Onto {
    /// Those of the manifest's base, or, where its writer knew none, of the version below it.
    Manifest { below: Option<String> },
    /// Those of this version.
    Rows(Option<String>),
    /// None: it overwrote all.
    Nothing,
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub status: u16,
    pub body: String,
}

/// A create that has looked and is going to put.
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

    /// A table with versions `1..=latest` and a branch with one.
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

    /// Puts a manifest where writers put theirs.
    pub fn stage(&mut self, path: &str, place: usize, manifest: Version) {
        self.staged.insert(path.to_owned(), (manifest, place));
    }

    /// Takes a manifest away again.
    pub fn unstage(&mut self, path: &str) {
        self.staged.remove(path);
    }

    /// The place that a name leads to.
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

    /// Whether there is such a line: it may have been dropped under another name.
    pub fn has(&self, spot: Spot) -> bool {
        self.line(spot).is_some()
    }

    /// What has happened since this was last asked.
    pub fn changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// Acts and answers, all at one instant.
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
    /// A manifest that a writer has staged; its tag is its author's alone.
    pub fn staged(author: &str, size: u64) -> Self {
        Self {
            author: author.to_owned(),
            size,
            tag: format!("s-{author}"),
        }
    }
}

/// The author of a version that is there from the beginning.
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
