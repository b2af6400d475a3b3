//! Where a table is before and after its catalog renames it: some do it and answer that they have no rename.

use super::participant::{self, CallerContext, CatalogDescription, same_place};
use super::step::Refusal;
use super::{Batches, RenameCall, RenameEnd, busy};
use crate::error::Error;

/// The two names of a rename that a catalog is asked for, and where the table was before.
pub struct Whereabouts {
    old: RenameEnd,
    new: RenameEnd,
    asker: CallerContext,
    before: Place,
}

/// What a catalog says of a name.
enum Place {
    /// No table has it.
    Absent,
    /// The location of its table.
    At(String),
    /// The catalog does not say.
    Unknown,
}

impl Batches {
    /// The names of a rename that is about to be left to its catalog.
    pub fn whereabouts(&self, call: &RenameCall) -> Whereabouts {
        Whereabouts {
            old: call.old.clone(),
            new: call.new.clone(),
            asker: self.asker(&call.caller),
            before: Place::Unknown,
        }
    }
}

impl Whereabouts {
    /// Notes where the table is. To be called while both names are held, before the catalog is asked for the rename:
    /// refused (503) while a batch gives that place another name that is not decided or may come back.
    pub async fn note(&mut self, batches: &Batches) -> Result<(), Error> {
        self.before = Place::of(&self.find(&self.old).await);
        let old = self.old.key();
        let left = batches.coordinator.visibility.may_leave(|place| {
            let is_there = matches!(&self.before, Place::At(at) if same_place(at, &place.location));
            is_there || place.origin.as_ref() == Some(&old)
        });
        left.map_err(Refusal::into_error)
    }

    /// Whether the table has been renamed, although its catalog has answered that it has no rename. 503 where that
    /// cannot be told.
    pub async fn has_moved(&self) -> Result<bool, Error> {
        if matches!(self.before, Place::Absent) {
            return Ok(false);
        }
        let (old, new) = tokio::join!(self.find(&self.old), self.find(&self.new));
        match (&self.before, Place::of(&old), Place::of(&new)) {
            (Place::At(before), Place::Absent, Place::At(now)) if same_place(before, &now) => {
                Ok(true)
            }
            // It is under its old name still.
            _ if matches!(old, Ok(Some(_))) => Ok(false),
            // What the catalog does not tell of is refused by who needs to know it.
            (Place::Unknown, Place::Unknown, _) => Ok(false),
            _ => Err(busy(
                "the catalog answered that it does not support rename, but it may have renamed the table; look for the table under both names",
            )),
        }
    }

    async fn find(&self, end: &RenameEnd) -> Result<Option<CatalogDescription>, Refusal> {
        participant::table(&end.backend, &end.line(), &self.asker).await
    }
}

impl Place {
    fn of(found: &Result<Option<CatalogDescription>, Refusal>) -> Self {
        match found {
            Ok(None) => Self::Absent,
            Ok(Some(found)) => {
                let location = found.proof.location.clone();
                location.map_or(Self::Unknown, Self::At)
            }
            Err(_) => Self::Unknown,
        }
    }
}
