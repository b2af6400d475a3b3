//! Rewrites the body of a successful answer: the identifiers in the fields that `operation/table.rs` names,
//! `managed_versioning`, and `storage_options`.

use std::borrow::Cow;

use bytes::Bytes;

use crate::error::Error;
use crate::protocol::identifier::Identifier;
use crate::protocol::json::{Document, Edits, Member, is_spelled, names};
use crate::protocol::operation::Operation;

/// The field that tells clients whether the catalog manages a table's versions.
const MANAGED: &str = "managed_versioning";
/// The field with the keys of a table's storage.
const CREDENTIALS: &str = "storage_options";

/// The changes that an answer needs besides the spelling of identifiers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Changes {
    /// True if `managed_versioning: true` belongs into the answers to describe and declare.
    pub manages_versions: bool,
    /// True if the answer must not hold the keys of the table's storage.
    pub lacks_credentials: bool,
}

/// The request that is answered.
#[derive(Clone, Copy, Debug)]
pub struct ResponseRoute<'a> {
    /// The operation.
    pub operation: Operation,
    /// The route's identifier as the client spells it.
    pub asked: &'a Identifier,
    /// The route's identifier as the catalog spells it.
    pub there: &'a Identifier,
}

/// Changes an answer's identifiers to the client's spelling, and what `changes` says.
///
/// `to_client` translates the catalog's identifiers; `None` for one that is outside of the mount: then the
/// identifier of the request is used. A body that does not follow the contract is passed on unchanged.
///
/// # Errors
/// The body does not follow the contract, and something in it would have to be left out.
pub fn response(
    answered: ResponseRoute<'_>,
    body: &Bytes,
    to_client: impl Fn(&Identifier) -> Option<Identifier>,
    changes: Changes,
) -> Result<Bytes, Error> {
    match collect(answered, body, &to_client, changes) {
        Ok(edits) => Ok(edits.apply(body.clone())),
        Err(error) if changes.lacks_credentials => Err(error),
        Err(_) => Ok(body.clone()),
    }
}

fn collect(
    answered: ResponseRoute<'_>,
    body: &Bytes,
    to_client: &dyn Fn(&Identifier) -> Option<Identifier>,
    changes: Changes,
) -> Result<Edits, Error> {
    let document = Document::new(body)?;
    let mut edits = Edits::default();
    let says_managed = matches!(
        answered.operation,
        Operation::DescribeTable | Operation::DeclareTable
    );
    let sets_managed = changes.manages_versions && says_managed;
    let mut managed = false;
    let id_fields = answered.operation.response_id_fields();
    let wanted = |name: &str| {
        id_fields.contains(&name)
            || sets_managed && name == MANAGED
            || changes.lacks_credentials && name == CREDENTIALS
    };
    let members =
        document.all_members_where(document.text, "the answer", &wanted, &mut |member| {
            let span = document.span(member.value);
            if member.name == MANAGED {
                managed = true;
                edits.replace(document, span, "true");
            } else if member.name == CREDENTIALS {
                edits.replace(document, span, "null");
            } else if let Some(here) = answered.renamed(&member, to_client) {
                edits.rename(document, span, &here);
            }
            Ok(())
        })?;
    if sets_managed
        && !managed
        && let Some(brace) = document.text.find('{')
    {
        let comma = if members == 0 { "" } else { "," };
        let text = format!("\"{MANAGED}\":true{comma}");
        edits.insert_before(document, brace + 1, &text);
    }
    Ok(edits)
}

impl ResponseRoute<'_> {
    /// Returns the new value of a field that names an identifier, as names separated by NUL; `None` if it
    /// stays as it is.
    fn renamed(
        &self,
        member: &Member<'_>,
        to_client: &dyn Fn(&Identifier) -> Option<Identifier>,
    ) -> Option<Cow<'_, str>> {
        let is_parent = member.name == "namespace";
        let (asked, there) = if is_parent {
            (self.asked.joined_parent(), self.there.joined_parent())
        } else {
            (self.asked.joined(), self.there.joined())
        };
        // The root has no parent.
        let asked = (!is_parent || !self.asked.is_root()).then_some(asked);
        // Most catalogs answer the identifier in this spelling, which is compared without building an
        // identifier.
        if is_spelled(member.value, there) && !self.asked.is_root() {
            return asked.filter(|asked| *asked != there).map(Cow::Borrowed);
        }
        let there = names(member.value, &member.name).ok()??;
        let here = match to_client(&there) {
            Some(here) => Cow::Owned(here.joined().to_owned()),
            None => Cow::Borrowed(asked?),
        };
        (here != there.joined()).then_some(here)
    }
}

#[cfg(test)]
mod tests;
