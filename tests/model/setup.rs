//! The setup of a search: the batch, the kind of catalogs, and a flaw of the gateway or of the world, if any.

use nsgate::batch::step::{Kind, Shape};

/// The maximum number of entries of a batch.
pub const MOST: usize = 3;

/// The settings that stay the same throughout a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Setup {
    pub plan: Plan,
    pub tags: Tags,
    /// True if catalogs keep staged manifests, so that a repeated create may act again.
    pub keeps: bool,
    /// A bug in what the gateway does around the protocol; `None` in a true search.
    pub flaw: Option<Flaw>,
    /// An assumption about the world that this search lifts; `None` if all of them hold.
    pub lifted: Option<Assumption>,
}

/// The entries of the batch.
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
    /// Two versions of one table, and one of another. The first table's catalog creates both of its versions, or none.
    Grouped,
    /// A version in each of two tables, and the first table loses its first version (entry 1).
    Mixed,
    /// The first table loses its name (entry 0), and the second table gets a version.
    Moved,
}

/// The proof of authorship. Versions have the same size, except some strangers', so size proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tags {
    /// The staged manifest's tag is kept, and proves whose version it is.
    Kept,
    /// The tag in a create's answer is the version's. A version that landed late has another one.
    Answered,
    /// No tag.
    None,
}

/// A bug in what the gateway does around the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flaw {
    /// Creates of others that got no answer are forgotten: a version that looks alike is taken for the batch's.
    StraysForgotten,
    /// Creates that an earlier life let through are not considered after a start, if the log is empty.
    StraysUnexpected,
    /// The late create of another batch is not considered.
    RivalsForgotten,
    /// A client that created a released number does not keep it.
    TakenForgotten,
    /// A version above a hidden one is shown.
    AboveShown,
    /// A change for which the catalog chooses the version passes while something is uncertain.
    ChangesPass,
    /// A rename passes while something is uncertain.
    RenamesPass,
    /// A rename passes although the table's batch is committed and another create of it may act.
    KeptRenamed,
    /// A create passes although a removal may hit its number.
    LeavingPasses,
    /// A create passes that waited while its base was created again.
    WaitedPasses,
    /// The number that a catalog counted is not checked.
    CountUnchecked,
    /// The watch ends while something is still under way.
    WatchShort,
    /// A version that may still land is not hidden.
    LandingShown,
}

/// An assumption about the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Assumption {
    /// A delete or create that was answered does not arrive once more.
    AnsweredOnce,
    /// No message arrives after the watch.
    WatchOutlives,
    /// Creates of others that got no answer are remembered for as long as they may land, and for as long as a batch
    /// takes to be decided.
    StraysRemembered,
    /// An operator decides when no removal that was sent can arrive any more.
    PersonWaits,
    /// A client that has built on what it saw in storage sends its create before that number is created again.
    RawAsksSoon,
    /// A create and its removal do not both arrive between a catalog's count and the gateway's look.
    CountUncrossed,
    /// No client behind the gateway's back creates the version that a delete under way would hit.
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

    /// Returns true if the entry removes something.
    pub fn removes(self, entry: usize) -> bool {
        matches!((self, entry), (Self::Mixed, 1) | (Self::Moved, 0))
    }

    /// The entries that one create makes: all of them, or none. An entry alone unless its catalog groups.
    pub fn together(self, entry: usize) -> &'static [usize] {
        match (self, entry) {
            (Self::Grouped, 0 | 1) => &[0, 1],
            (_, 0) => &[0],
            (_, 1) => &[1],
            _ => &[2],
        }
    }

    /// The table of the entry, and its place in that table.
    pub fn place_of(self, entry: usize) -> (usize, usize) {
        for (table, share) in self.shares().iter().enumerate() {
            if let Some(place) = share.iter().position(|other| *other == entry) {
                return (table, place);
            }
        }
        unreachable!("entry {entry} is in no share")
    }
}
