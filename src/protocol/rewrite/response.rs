//! The body of a successful answer.

use bytes::Bytes;

use crate::error::Error;
use crate::protocol::identifier::Identifier;
use crate::protocol::json::{Document, Edits, Member, names, spell};
use crate::protocol::operation::Operation;

/// The field that says who manages a table's versions.
const MANAGED: &str = "managed_versioning";

/// Spells an answer's identifiers as the client does, and says `managed_versioning: true` in the
/// answers to describe and declare if it `manages_versions`.
///
/// `asked` is the route's identifier as the client spells it; `to_client` translates what the
/// catalog names, `None` where that is outside of the mount: then the answer is made from `asked`.
/// A body that is not what the contract says is passed on as it is.
pub fn response(
    operation: Operation,
    asked: &Identifier,
    body: &Bytes,
    to_client: impl Fn(&Identifier) -> Option<Identifier>,
    manages_versions: bool,
) -> Bytes {
    let edits = match collect(operation, asked, body, &to_client, manages_versions) {
        Ok(edits) => edits,
        Err(_) => return body.clone(),
    };
    edits.apply(body)
}

fn collect(
    operation: Operation,
    asked: &Identifier,
    body: &Bytes,
    to_client: &dyn Fn(&Identifier) -> Option<Identifier>,
    manages_versions: bool,
) -> Result<Edits, Error> {
    let document = Document::new(body)?;
    let mut edits = Edits::default();
    let says_managed = matches!(
        operation,
        Operation::DescribeTable | Operation::DeclareTable
    );
    let mut managed = !(manages_versions && says_managed);
    let id_fields = operation.response_id_fields();
    let wanted = |name: &str| name == MANAGED || id_fields.contains(&name);
    let members = document.members_where(document.text, "the answer", &wanted, &mut |member| {
        let span = document.span(member.value);
        if member.name == MANAGED {
            if manages_versions && says_managed {
                managed = true;
                edits.replace(document, span, "true");
            }
        } else if let Some(id) = client_spelling(asked, &member, to_client) {
            edits.replace(document, span, &spell(&id));
        }
        Ok(())
    })?;
    if !managed && let Some(brace) = document.text.find('{') {
        let comma = if members == 0 { "" } else { "," };
        let text = format!("\"managed_versioning\":true{comma}");
        edits.insert_before(document, brace + 1, &text);
    }
    Ok(edits)
}

/// What a field that names an identifier must say; `None` leaves it as it is.
fn client_spelling(
    asked: &Identifier,
    member: &Member<'_>,
    to_client: &dyn Fn(&Identifier) -> Option<Identifier>,
) -> Option<Identifier> {
    let there = names(member.value, &member.name).ok()??;
    let here = to_client(&there).or_else(|| match &*member.name {
        "namespace" => asked.parent(),
        _ => Some(asked.clone()),
    })?;
    (here != there).then_some(here)
}

#[cfg(test)]
mod tests;
