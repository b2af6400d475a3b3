//! Finds a table before and after a rename at its catalog: some catalogs rename it and answer that they have no
//! rename.

use super::participant::{self, CallerContext, CatalogDescription, same_place};
use super::step::Refusal;
use super::visibility::gates::renaming;
use super::visibility::names::RenamedLocation;
use super::{Batches, RenameCall, RenameEnd, busy};
use crate::error::Error;

/// The two names of a rename that is sent to a catalog, and the table's location before it.
pub struct Whereabouts {
    old: RenameEnd,
    new: RenameEnd,
    caller: CallerContext,
    before: KnownLocation,
}

/// A catalog's answer about a name.
enum KnownLocation {
    /// The name has no table.
    Absent,
    /// The location of its table.
    At(String),
    /// The catalog does not tell.
    Unknown,
}

impl Batches {
    /// Returns the names of a rename that is about to be sent to its catalog.
    pub fn whereabouts(&self, call: &RenameCall) -> Whereabouts {
        Whereabouts {
            old: call.old.clone(),
            new: call.new.clone(),
            caller: self.context_of(&call.caller),
            before: KnownLocation::Unknown,
        }
    }
}

impl Whereabouts {
    /// Notes the location of the table. Must be called while both names are locked, before the rename is sent to the
    /// catalog. Fails (503) while a batch gives that location another name and is undecided, or may still register
    /// that name, and while a committed one removes the name that the location had before.
    pub async fn note(&mut self, batches: &Batches) -> Result<(), Error> {
        self.before = KnownLocation::of(&self.find(&self.old).await);
        let old = self.old.key();
        let is_there = |place: &RenamedLocation| matches!(&self.before, KnownLocation::At(at) if same_place(at, &place.location));
        let visibility = &batches.coordinator.visibility;
        let left =
            visibility.may_leave(|place| is_there(place) || place.origin.as_ref() == Some(&old));
        left.map_err(Refusal::into_error)?;
        match batches.name_before(|place| is_there(place) || place.name == old) {
            Some(_) => Err(renaming().into_error()),
            None => Ok(()),
        }
    }

    /// Returns true if the table was renamed, although its catalog answered that it has no rename. Fails with 503 if
    /// that cannot be told.
    pub async fn has_moved(&self) -> Result<bool, Error> {
        if matches!(self.before, KnownLocation::Absent) {
            return Ok(false);
        }
        let (old, new) = tokio::join!(self.find(&self.old), self.find(&self.new));
        match (
            &self.before,
            KnownLocation::of(&old),
            KnownLocation::of(&new),
        ) {
            (KnownLocation::At(before), KnownLocation::Absent, KnownLocation::At(now))
                if same_place(before, &now) =>
            {
                Ok(true)
            }
            // The table still has its old name.
            _ if matches!(old, Ok(Some(_))) => Ok(false),
            // If the catalog tells nothing about the table, the step that needs the answer refuses the rename.
            (KnownLocation::Unknown, KnownLocation::Unknown, _) => Ok(false),
            _ => Err(busy(
                "the catalog answered that it does not support rename, but it may have renamed the table; look for the table under both names",
            )),
        }
    }

    async fn find(&self, end: &RenameEnd) -> Result<Option<CatalogDescription>, Refusal> {
        participant::table(&end.backend, &end.line(), &self.caller).await
    }
}

impl KnownLocation {
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
