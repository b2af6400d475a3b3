//! One entry of a running batch: the proof of its create, and the state of its version number.

use crate::batch::log::Proof;
use crate::batch::participant::CatalogDescription;
use crate::batch::step::Hazard;

/// The run of one entry, beside its state in the protocol.
#[derive(Clone, Debug, Default)]
pub(super) struct EntryRun {
    /// The catalog's answer to the create, reduced to what identifies the version or table.
    pub(super) proof: Option<Proof>,
    /// The object as its catalog last described it.
    pub(super) described: Option<CatalogDescription>,
    /// The table's latest version, when the entry's own was last looked up and found.
    pub(super) latest: Option<u64>,
    /// True if the create was answered and no removal has reached the catalog since, in this life of the gateway or an
    /// earlier one. Then no other writer can have made the version that has its number.
    pub(super) is_held: bool,
    /// True if another writer may have used the number after it was freed.
    pub(super) is_contested: bool,
    /// The number after an undo.
    pub(super) number: Number,
    /// The last error of the catalog, if the call has not succeeded since.
    pub(super) error: Option<String>,
    /// Retries so far. The pause before the next one grows with it.
    pub(super) retries: u32,
    /// The hazard that the log and the metrics have been told of.
    pub(super) reported_hazard: Option<Hazard>,
}

/// The version number, or the name, of an entry after its undo.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Number {
    /// Kept: nothing was undone.
    #[default]
    Used,
    /// Freed by undo; its cool-down begins when the table is unlocked.
    Freed,
    /// Freed, and in cool-down or watched.
    Resting,
}
