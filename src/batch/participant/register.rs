//! Registers tables under other names, after checks of what can be known beforehand. The result is checked, because
//! some catalogs then have the table in another place, or do not have it at all.

use std::borrow::Cow;

use bytes::Bytes;
use http::StatusCode;
use percent_encoding::percent_decode_str;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use uuid::Uuid;

use super::answers::{created, is_absent, is_unsupported, last, refusal, same_place};
use super::latest::versions_if_listed;
use super::{
    CallerContext, CatalogDescription, CreateOutcome, Found, UnclearAnswer, but_there, silent,
    table, unreachable,
};
use crate::backend::{Backend, InternalAnswer};
use crate::batch::log::Action;
use crate::batch::plan::Entry;
use crate::batch::step::{Finding, Hazard, Match, Refusal};
use crate::batch::visibility::TableBranch;
use crate::error::code::Code;
use crate::error::origin::ErrorOrigin;
use crate::protocol::identifier::Identifier;
use crate::protocol::operation::Operation;

/// Checks whether a catalog deregisters tables beside this one for this caller: sends a deregister for a name that
/// cannot exist.
pub async fn can_deregister(
    backend: &Backend,
    line: &TableBranch,
    caller: &CallerContext,
) -> Result<(), Refusal> {
    let namespace = line.table.table.parent().unwrap_or_else(Identifier::root);
    let Ok(nothing) = namespace.join(&format!("nsgate-{}", Uuid::now_v7())) else {
        // No other name fits below this namespace, which says nothing about deregistering.
        return Ok(());
    };
    let mut ask = caller.ask(Operation::DeregisterTable, &nothing);
    ask.body = Some(named(&nothing, None));
    let answer = backend.ask(ask).await;
    let answer = answer.map_err(|failure| unreachable(backend, &failure))?;
    match answer.status {
        status if is_unsupported(status, &answer.body) => {
            Err(lacking(backend, "does not support deregister", &answer))
        }
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS => {
            Err(refusal(backend.name(), &answer))
        }
        status if status.is_server_error() => Err(refusal(backend.name(), &answer)),
        _ => Ok(()),
    }
}

/// Returns whether the namespace of a table exists. Returns true if its catalog does not tell.
pub async fn has_namespace(
    backend: &Backend,
    line: &TableBranch,
    caller: &CallerContext,
) -> Result<bool, Refusal> {
    let Some(namespace) = line.table.table.parent().filter(|above| !above.is_root()) else {
        return Ok(true);
    };
    let mut ask = caller.ask(Operation::NamespaceExists, &namespace);
    ask.body = Some(named(&namespace, None));
    let answer = backend.ask(ask).await;
    let answer = answer.map_err(|failure| unreachable(backend, &failure))?;
    Ok(!is_absent(&answer))
}

/// Builds the body that registers a table as it was described, without its location.
pub fn registration(there: &Identifier, found: &CatalogDescription) -> Bytes {
    #[derive(Deserialize)]
    struct Table<'a> {
        #[serde(borrow)]
        properties: Option<&'a RawValue>,
    }
    let table: Option<Table<'_>> = serde_json::from_str(found.raw.get()).ok();
    named(there, table.and_then(|table| table.properties))
}

/// Registers the location of `origin` under another name. `Refused` means that nothing is registered.
pub async fn register(entry: &Entry, origin: &Entry, caller: &CallerContext) -> CreateOutcome {
    let Entry { backend, line, .. } = entry;
    let Action::Register { location } = &entry.action else {
        return CreateOutcome::Lost(None);
    };
    // Some catalogs take a location as others describe it, some only the part below their root.
    let spellings = [Some(Cow::from(location)), below_root(location)];
    let mut refused = None;
    for spelling in spellings.into_iter().flatten() {
        let mut ask = caller.ask(Operation::RegisterTable, &line.table.table);
        ask.body = Some(located(&entry.body, &spelling));
        let answer = match backend.ask(ask).await {
            Ok(answer) => answer,
            Err(failure) if !failure.may_have_acted() => {
                return CreateOutcome::Unsent(unreachable(backend, &failure));
            }
            Err(failure) => return CreateOutcome::Lost(Some(silent(backend, &failure))),
        };
        match answer.status {
            status if status.is_success() => return settle(entry, origin, location, caller).await,
            status if is_unsupported(status, &answer.body) => {
                return CreateOutcome::Refused(lacking(
                    backend,
                    "does not support register",
                    &answer,
                ));
            }
            StatusCode::BAD_REQUEST => {
                refused = Some(lacking(
                    backend,
                    "does not accept the location of the table",
                    &answer,
                ));
            }
            _ => return created(backend.name(), None, &answer),
        }
    }
    refused.map_or(CreateOutcome::Lost(None), CreateOutcome::Refused)
}

/// Returns the part of a location below the catalog's root: a name, not a part of a URL.
fn below_root(location: &str) -> Option<Cow<'_, str>> {
    let name = last(location)?;
    if !location.contains("://") {
        return Some(Cow::from(name));
    }
    percent_decode_str(name).decode_utf8().ok()
}

/// Checks the table that a catalog says it has registered: it must have all of its versions, or the registration is
/// taken back.
async fn settle(
    entry: &Entry,
    origin: &Entry,
    location: &str,
    caller: &CallerContext,
) -> CreateOutcome {
    let Entry { backend, line, .. } = entry;
    let Ok(found) = table(backend, line, caller).await else {
        return CreateOutcome::Lost(None);
    };
    let wrong = match &found {
        None => unsupported(backend, "accepted the table and then does not have it"),
        Some(found) if !is_at(found, location) => unsupported(
            backend,
            "would put the table elsewhere: its location is not below the catalog's root",
        ),
        Some(made) => match has_versions(entry, origin, caller).await {
            Ok(true) => return CreateOutcome::Yes(made.clone()),
            Ok(false) => unsupported(
                backend,
                "does not have the table's versions under its new name",
            ),
            Err(refusal) => refusal,
        },
    };
    CreateOutcome::Spoiled(wrong, found)
}

/// Checks, before the registration of a name is undone, that its table has the other name still. Otherwise nothing would
/// lead to the table any more: the name counts as one that was built on.
pub async fn look_for_origin(
    entry: &Entry,
    origin: &Entry,
    mut found: Found,
    caller: &CallerContext,
) -> Result<Found, UnclearAnswer> {
    let (Action::Register { location }, Finding::Present { obstacle, .. }) =
        (&entry.action, &mut found.finding)
    else {
        return Ok(found);
    };
    let before = table(&origin.backend, &origin.line, caller).await;
    let has_it = before
        .map_err(but_there)?
        .is_some_and(|before| before.proof.location.is_none() || is_at(&before, location));
    if !has_it {
        *obstacle = Some(Hazard::BuiltOn);
    }
    Ok(found)
}

/// Checks a name that was found because the answer to its registration was lost: it is the batch's own only if it has all
/// versions of the table.
pub async fn look_for_versions(
    entry: &Entry,
    origin: &Entry,
    mut found: Found,
    caller: &CallerContext,
) -> Result<Found, UnclearAnswer> {
    if let Finding::Present { likeness, .. } = &mut found.finding
        && matches!(likeness, Match::Proven | Match::Alike)
        && !has_versions(entry, origin, caller)
            .await
            .map_err(but_there)?
    {
        *likeness = Match::Unlike;
    }
    Ok(found)
}

/// Returns whether a table has the same latest version under both of its names. Returns true if its catalog lists no
/// versions, or if its versions are only there under the new name: there are none to lose.
async fn has_versions(
    entry: &Entry,
    origin: &Entry,
    caller: &CallerContext,
) -> Result<bool, Refusal> {
    let before = versions_if_listed(&origin.backend, &origin.line, caller);
    let after = versions_if_listed(&entry.backend, &entry.line, caller);
    let (before, after) = tokio::join!(before, after);
    let Some(before) = before? else {
        return Ok(true);
    };
    let after = after?.unwrap_or_default();
    Ok(before == after || (before == 0 && has_moved(origin, caller).await?))
}

/// Returns whether a table does not have its old name any more: somebody has taken it, or the batch itself has, and the
/// log has lost that it was committed.
async fn has_moved(origin: &Entry, caller: &CallerContext) -> Result<bool, Refusal> {
    let before = table(&origin.backend, &origin.line, caller).await?;
    Ok(before.is_none())
}

fn is_at(found: &CatalogDescription, location: &str) -> bool {
    let found = found.proof.location.as_deref();
    found.is_some_and(|found| same_place(found, location))
}

/// The body of a request about a table, or of its registration. Properties keep their bytes.
#[derive(Default, Serialize, Deserialize)]
struct TableRequest<'a> {
    #[serde(borrow)]
    id: Vec<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    location: Option<&'a str>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    properties: Option<&'a RawValue>,
}

impl TableRequest<'_> {
    fn body(&self) -> Bytes {
        let body = serde_json::to_vec(self);
        body.expect("texts can be written as JSON").into()
    }
}

fn named(id: &Identifier, properties: Option<&RawValue>) -> Bytes {
    let about = TableRequest {
        id: id.names().map(Cow::Borrowed).collect(),
        location: None,
        properties,
    };
    about.body()
}

fn located(registration: &Bytes, location: &str) -> Bytes {
    let about: TableRequest<'_> = serde_json::from_slice(registration).unwrap_or_default();
    let about = TableRequest {
        location: Some(location),
        ..about
    };
    about.body()
}

fn lacking(backend: &Backend, what: &str, answer: &InternalAnswer) -> Refusal {
    let words = refusal(backend.name(), answer).message;
    let mut refusal = unsupported(backend, what);
    refusal.message = format!("{} ({words})", refusal.message);
    refusal.origin = ErrorOrigin::Catalog;
    refusal
}

fn unsupported(backend: &Backend, what: &str) -> Refusal {
    let name = backend.name();
    let message = format!("the table cannot be renamed: backend `{name}` {what}");
    Refusal::new(Code::Unsupported, message)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use super::*;
    use crate::batch::participant::Proof;

    #[test]
    fn the_part_below_the_root_is_a_name_and_not_a_part_of_a_url() {
        for (location, name) in [
            ("file:///catalog/a_n%C3%A4me$t", Some("a_näme$t")),
            ("s3://bucket/catalog/a_100%25$t/", Some("a_100%$t")),
            ("/catalog/a_100%25$t", Some("a_100%25$t")),
            ("file:///catalog/a_%FF", None),
            ("nowhere", None),
        ] {
            assert_eq!(below_root(location).as_deref(), name, "{location}");
        }
    }

    #[test]
    fn properties_are_registered_as_they_were_described() {
        let there = Identifier::from_names(["p\"", "t"]).unwrap();
        for properties in [
            r#"{"a":"\u00fc","n":9007199254740993.0}"#,
            // `serde_json` reads such an object as the JSON text in it, if it parses the properties into a value.
            r#"{"$serde_json::private::RawValue":"{\"owner\":\"me\"}"}"#,
            r#"{"$serde_json::private::RawValue":"no JSON"}"#,
        ] {
            let raw = format!(r#"{{"location":"l","properties":{properties}}}"#);
            let found = CatalogDescription {
                raw: RawValue::from_string(raw).unwrap(),
                proof: Proof::default(),
            };
            let body = registration(&there, &found);
            let plain = format!(r#"{{"id":["p\"","t"],"properties":{properties}}}"#);
            assert_eq!(body, plain);
            let body = located(&body, "file:///\"");
            let located = format!(
                r#"{{"id":["p\"","t"],"location":"file:///\"","properties":{properties}}}"#
            );
            assert_eq!(body, located);
        }
    }
}
