//! Rewrites the body of a successful answer: the identifiers in the fields that `operation/table.rs` names, and
//! `managed_versioning`.

use std::borrow::Cow;

use bytes::Bytes;

use crate::error::Error;
use crate::protocol::identifier::Identifier;
use crate::protocol::json::{Document, Edits, Member, is_spelled, names};
use crate::protocol::operation::Operation;

/// The field that tells clients whether the catalog manages a table's versions.
const MANAGED: &str = "managed_versioning";

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

/// Changes an answer's identifiers to the client's spelling, and sets `managed_versioning: true` in the
/// answers to describe and declare if `manages_versions` is true.
///
/// `to_client` translates the catalog's identifiers; `None` for one that is outside of the mount: then the
/// identifier of the request is used. A body that does not follow the contract is passed on unchanged.
pub fn response(
    answered: ResponseRoute<'_>,
    body: &Bytes,
    to_client: impl Fn(&Identifier) -> Option<Identifier>,
    manages_versions: bool,
) -> Bytes {
    match collect(answered, body, &to_client, manages_versions) {
        Ok(edits) => edits.apply(body.clone()),
        Err(_) => body.clone(),
    }
}

fn collect(
    answered: ResponseRoute<'_>,
    body: &Bytes,
    to_client: &dyn Fn(&Identifier) -> Option<Identifier>,
    manages_versions: bool,
) -> Result<Edits, Error> {
    let document = Document::new(body)?;
    let mut edits = Edits::default();
    let says_managed = matches!(
        answered.operation,
        Operation::DescribeTable | Operation::DeclareTable
    );
    let sets_managed = manages_versions && says_managed;
    let mut managed = false;
    let id_fields = answered.operation.response_id_fields();
    let wanted = |name: &str| id_fields.contains(&name) || sets_managed && name == MANAGED;
    let members =
        document.all_members_where(document.text, "the answer", &wanted, &mut |member| {
            let span = document.span(member.value);
            if member.name == MANAGED {
                managed = true;
                edits.replace(document, span, "true");
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
