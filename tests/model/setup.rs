//! What a search is about: the batch, the kind of catalogs, and what is wrong with the gateway or the world, if anything.

use nsgate::batch::step::{Kind, Shape};

/// Entries that a batch has at most.
pub const MOST: usize = 3;

/// What stays the same throughout a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Setup {
    pub plan: Plan,
    pub tags: Tags,
    /// Catalogs keep staged manifests: a create that comes again may act again.
    pub keeps: bool,
    /// A bug in what the gateway does around the protocol.
    pub flaw: Option<Flaw>,
    /// Something that is assumed of the world, and is not so.
    pub lifted: Option<Assumption>,
}

/// What the batch consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Plan {
    /// One version.
    One,
    /// Two versions of one table.
    Chain,
    /// A version in each of two tables.
    Pair,
    /// Two versions of one table, and one of another.
    Versions,
    /// The same; the first table's catalog makes both of its own, or none.
    Grouped,
    /// A version in each of two tables; and the first one loses what it had (entry 1).
    Mixed,
    /// The first table loses its name (entry 0), the second gets something new.
    Moved,
}

/// What tells versions apart, beyond their size, which is always the same but for some strangers'.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tags {
    /// The staged manifest's tag is kept: it proves whose a version is.
    Kept,
    /// The tag in a create's answer is the version's; a version that landed late has another one.
    Answered,
    /// Nothing.
    None,
}

/// A bug in what the gateway does around the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flaw {
    /// Strays do not count: what looks alike is ours.
    StraysForgotten,
    /// After a start nobody thinks of what an earlier life had let through, where its log is empty.
    StraysUnexpected,
    /// Another batch's late create does not count.
    RivalsForgotten,
    /// Who has made a number that was let go does not have it.
    TakenForgotten,
    /// What stands on a hidden version is shown.
    AboveShown,
    /// A change of which the catalog chooses the version goes through.
    ChangesPass,
    /// A change of a name goes through.
    RenamesPass,
    /// The same, of a table whose batch is committed.
    KeptRenamed,
    /// A create of a number that a removal may hit goes through.
    LeavingPasses,
    /// A create that waited while its base was made again goes through.
    WaitedPasses,
    /// What a catalog counted is not checked.
    CountUnchecked,
    /// The watch is over while something is under way.
    WatchShort,
    /// A version that may land is not hidden.
    LandingShown,
}

/// Something that is assumed of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Assumption {
    /// What was answered clearly does not arrive once more.
    AnsweredOnce,
    /// What was sent does not arrive after the watch.
    WatchOutlives,
    /// What others had sent is remembered for as long as it may land, and a batch takes to be decided.
    StraysRemembered,
    /// A person decides when nothing that was sent about it can arrive any more.
    PersonWaits,
    /// Who has built on what he saw in storage asks before that number is made again.
    RawAsksSoon,
    /// A create and a removal of it do not both arrive while a catalog counts and the gateway looks.
    CountUncrossed,
    /// Nobody behind the gateway's back makes what a delete is under way for.
    StrangersKeepOff,
}

impl Plan {
    /// The batch's entries, table by table, in the order of their versions.
    pub const fn shares(self) -> &'static [&'static [usize]] {
        match self {
            Self::One => &[&[0]],
            Self::Chain => &[&[0, 1]],
            Self::Pair | Self::Moved => &[&[0], &[1]],
            Self::Versions | Self::Grouped | Self::Mixed => &[&[0, 1], &[2]],
        }
    }

    pub fn entries(self) -> usize {
        self.shares().iter().map(|share| share.len()).sum()
    }

    pub fn shape(self) -> Shape {
        let mut shape = Shape::versions(self.shares().iter().map(|share| share.to_vec()).collect());
        match self {
            Self::Grouped => shape.groups = vec![Some(0), Some(0), None],
            Self::Mixed => shape.kinds[1] = Kind::Removed,
            Self::Moved => shape.kinds[0] = Kind::Removed,
            Self::One | Self::Chain | Self::Pair | Self::Versions => {}
        }
        shape
    }

    /// This entry removes something.
    pub fn removes(self, entry: usize) -> bool {
        matches!((self, entry), (Self::Mixed, 1) | (Self::Moved, 0))
    }

    /// Its catalog makes them all or none.
    pub fn together(self, entry: usize) -> &'static [usize] {
        match (self, entry) {
            (Self::Grouped, 0 | 1) => &[0, 1],
            (_, 0) => &[0],
            (_, 1) => &[1],
            _ => &[2],
        }
    }

    /// The entry's table, and its place in the table's line.
    pub fn place_of(self, entry: usize) -> (usize, usize) {
        for (table, share) in self.shares().iter().enumerate() {
            if let Some(place) = share.iter().position(|other| *other == entry) {
                return (table, place);
            }
        }
        unreachable!("entry {entry} is in no share")
    }
}
