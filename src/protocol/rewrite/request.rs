//! Checks the body of a request against its route, takes `identity` and `context` out of it, and rewrites its
//! identifiers.

use std::borrow::Cow;

use bytes::Bytes;

use super::field::{Field, Guard, resembled};
use crate::error::Error;
use crate::protocol::batch::{MOST_ENTRIES, bounded};
use crate::protocol::identifier::Identifier;
use crate::protocol::json::{
    Agreement, Document, Edits, Member, agreement, brief, names, spell, string,
};
use crate::protocol::mode;
use crate::protocol::operation::Operation;

/// The facts of the request line, which the body must not contradict.
#[derive(Clone, Copy, Debug)]
pub struct RequestRoute<'a> {
    /// The operation.
    pub operation: Operation,
    /// The route's identifier as clients spell it, for operations that have one.
    pub id: Option<&'a Identifier>,
    /// The route's index name, decoded.
    pub index_name: Option<&'a str>,
}

/// A body that agrees with its route, in the form for the catalog.
#[derive(Debug)]
pub struct CheckedBody {
    /// The body; the very same bytes if nothing had to change.
    pub body: Bytes,
    /// True if the body asks for `load_detailed_metadata`.
    pub with_details: bool,
    /// True if the body's `mode` may overwrite an existing object.
    pub overwrites: bool,
}

/// Checks a request's body and prepares it for the catalog.
///
/// `locate` returns the catalog's spelling of each identifier in the body, and of the new name of a renamed
/// table: `None` keeps the bytes; its error is the answer to the request (e.g. 406 for an identifier of
/// another mount). `keep_context` gets each entry of `context` and returns true if it stays in the body.
///
/// An empty body and `null` are legal and stay as they are. 400, code 13: any other body that is not an
/// object; a governed field that is repeated, spelled with escapes or of the wrong shape; an `id` or
/// `index_name` that differs from the route's.
pub fn request(
    asked: RequestRoute<'_>,
    body: Bytes,
    mut locate: impl FnMut(&Identifier) -> Result<Option<Identifier>, Error>,
    mut keep_context: impl FnMut(&str, &str) -> Result<bool, Error>,
) -> Result<CheckedBody, Error> {
    let document = Document::new(&body)?;
    let mut pass = BodyWalk {
        asked,
        document,
        locate: &mut locate,
        keep_context: &mut keep_context,
        edits: Edits::default(),
        with_details: false,
        overwrites: false,
        new_namespace: None,
        new_name: None,
    };
    if !document.is_nothing() {
        pass.top()?;
    }
    pass.destination()?;
    let BodyWalk {
        edits,
        with_details,
        overwrites,
        ..
    } = pass;
    Ok(CheckedBody {
        with_details,
        overwrites,
        body: edits.apply(body),
    })
}

type Locate<'p> = &'p mut dyn FnMut(&Identifier) -> Result<Option<Identifier>, Error>;
type KeepContext<'p> = &'p mut dyn FnMut(&str, &str) -> Result<bool, Error>;

/// One walk over a body.
struct BodyWalk<'a, 'p> {
    asked: RequestRoute<'p>,
    document: Document<'a>,
    locate: Locate<'p>,
    keep_context: KeepContext<'p>,
    edits: Edits,
    with_details: bool,
    overwrites: bool,
    new_namespace: Option<Identifier>,
    new_name: Option<String>,
}

impl<'a> BodyWalk<'a, '_> {
    fn top(&mut self) -> Result<(), Error> {
        let mut guard = Guard::new("");
        let document = self.document;
        // The body of a rename alone names the objects that are acted on: only the understood members are sent
        // on.
        let is_whole = self.asked.operation == Operation::RenameTable;
        let is_metadata = self.asked.operation == Operation::UpdateTableSchemaMetadata;
        let wanted: &dyn Fn(&str) -> bool = if is_whole { &|_| true } else { &is_governed };
        let seen = document.members_where(document.text, "the body", wanted, &mut |member| {
            // This body is the metadata itself, whose keys may have any name.
            if is_metadata && member.value.starts_with('"') && Field::named(&member.name).is_none()
            {
                return Ok(());
            }
            match guard.admit(&member)? {
                Some(field) if !is_whole || field.is_of_rename() => {
                    self.top_field(field, &member, &mut guard)
                }
                admitted if is_whole => {
                    let checked = admitted.map(|field| self.top_field(field, &member, &mut guard));
                    self.remove(&member, &mut guard);
                    checked.unwrap_or(Ok(()))
                }
                _ => Ok(()),
            }
        });
        seen.map(drop)
    }

    fn top_field(
        &mut self,
        field: Field,
        member: &Member<'a>,
        guard: &mut Guard<'_>,
    ) -> Result<(), Error> {
        use Operation::{
            BatchCommitTables, BatchCreateTableVersions, RenameTable, UpdateTableSchemaMetadata,
        };
        match (field, self.asked.operation) {
            // This body is the metadata itself, whose keys may have any name.
            (_, UpdateTableSchemaMetadata) if member.value.starts_with('"') => Ok(()),
            (Field::Id, _) => self.route_id(member),
            (Field::Identity, _) => {
                self.remove(member, guard);
                Ok(())
            }
            (Field::Context, _) => self.context(member, "context"),
            (Field::IndexName, _) => self.index_name(member),
            (Field::Entries, BatchCreateTableVersions) => self.entries(member),
            (Field::Operations, BatchCommitTables) => self.operations(member),
            (Field::NewNamespaceId, RenameTable) => self.new_namespace_id(member),
            (Field::NewTableName, RenameTable) => self.new_table_name(member),
            (Field::LoadDetailedMetadata, _) => {
                // Some catalogs accept `"true"` and 1 as true.
                self.with_details = !matches!(member.value, "false" | "null");
                Ok(())
            }
            (Field::Mode, _) => {
                let mode = string(member.value);
                self.overwrites =
                    member.value != "null" && mode.is_none_or(|mode| mode::overwrites(&mode));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn route_id(&mut self, member: &Member<'a>) -> Result<(), Error> {
        let Some(route) = self.asked.id else {
            return Ok(());
        };
        match agreement(member.value, route, "id")? {
            Agreement::Absent => Ok(()),
            Agreement::Same => self.locate(route, member),
            // Some clients (DuckDB) send the route's own text as the only name. Catalogs get the names one by one.
            Agreement::Different if is_joined(member.value, route) => {
                let there = (self.locate)(route)?;
                let span = self.document.span(member.value);
                let names = there.as_ref().unwrap_or(route).joined();
                self.edits.rename(self.document, span, names);
                Ok(())
            }
            Agreement::Different => Err(Error::invalid(format!(
                "the body's `id` is not the route's, which is {}",
                spell(route)
            ))),
        }
    }

    fn index_name(&self, member: &Member<'a>) -> Result<(), Error> {
        match self.asked.index_name {
            Some(route) if member.value != "null" => {
                if string(member.value).is_some_and(|name| name == route) {
                    return Ok(());
                }
                Err(Error::invalid(format!(
                    "the body's `index_name` is not the route's, which is {route:?}"
                )))
            }
            _ => Ok(()),
        }
    }

    fn new_namespace_id(&mut self, member: &Member<'a>) -> Result<(), Error> {
        let Some(namespace) = names(member.value, "new_namespace_id")? else {
            return Ok(());
        };
        self.locate(&namespace, member)?;
        self.new_namespace = Some(namespace);
        Ok(())
    }

    fn new_table_name(&mut self, member: &Member<'a>) -> Result<(), Error> {
        let name = string(member.value)
            .ok_or_else(|| Error::invalid("`new_table_name` must be a string"))?;
        self.new_name = Some(name.into_owned());
        Ok(())
    }

    /// Checks the new name of a rename: it is in the table's own namespace unless the body names another.
    fn destination(&mut self) -> Result<(), Error> {
        let (Some(id), Some(name)) = (self.asked.id, &self.new_name) else {
            return Ok(());
        };
        let namespace = match &self.new_namespace {
            Some(namespace) => namespace.clone(),
            None => id.parent().unwrap_or_else(Identifier::root),
        };
        let destination = namespace
            .join(name)
            .map_err(|why| Error::invalid(format!("`new_table_name`: {why}")))?;
        (self.locate)(&destination).map(drop)
    }

    fn entries(&mut self, member: &Member<'a>) -> Result<(), Error> {
        let document = self.document;
        document.elements(member.value, "`entries`", &mut |index, entry| {
            bounded("entries", index, MOST_ENTRIES)?;
            self.nested(entry, &format!("entries[{index}]"))
        })
    }

    /// Walks over the operations: each is an object with one member, which is the kind and names its table.
    fn operations(&mut self, member: &Member<'a>) -> Result<(), Error> {
        let document = self.document;
        document.elements(member.value, "`operations`", &mut |index, operation| {
            bounded("operations", index, MOST_ENTRIES)?;
            let path = format!("operations[{index}]");
            document.members(operation, &format!("`{path}`"), &mut |action| {
                if action.value == "null" {
                    return Ok(());
                }
                self.nested(action.value, &format!("{path}.{}", brief(&action.name)))
            })
        })
    }

    /// Walks over an object inside of a request that names a table of its own.
    fn nested(&mut self, object: &'a str, path: &str) -> Result<(), Error> {
        let mut guard = Guard::new(path);
        let mut has_id = false;
        let document = self.document;
        document.members_where(object, &format!("`{path}`"), &is_governed, &mut |member| {
            match guard.admit(&member)? {
                Some(Field::Id) => {
                    let field = format!("{path}.id");
                    let Some(id) = names(member.value, &field)? else {
                        return Ok(());
                    };
                    has_id = true;
                    self.locate(&id, &member)
                }
                Some(Field::Identity) => {
                    self.remove(&member, &mut guard);
                    Ok(())
                }
                Some(Field::Context) => self.context(&member, &format!("{path}.context")),
                _ => Ok(()),
            }
        })?;
        if has_id {
            return Ok(());
        }
        Err(Error::invalid(format!("`{path}.id` is required")))
    }

    fn context(&mut self, member: &Member<'a>, path: &str) -> Result<(), Error> {
        if member.value == "null" {
            return Ok(());
        }
        let mut removed = 0;
        let document = self.document;
        document.members(member.value, &format!("`{path}`"), &mut |entry| {
            let value = string(entry.value).ok_or_else(|| {
                Error::invalid(format!("`{path}.{}` must be a string", brief(&entry.name)))
            })?;
            if !(self.keep_context)(&entry.name, &value)? {
                self.edits.remove(document, &entry, removed);
                removed += 1;
            }
            Ok(())
        })
    }

    fn remove(&mut self, member: &Member<'a>, guard: &mut Guard<'_>) {
        self.edits.remove(self.document, member, guard.removed);
        guard.removed += 1;
    }

    fn locate(&mut self, id: &Identifier, member: &Member<'a>) -> Result<(), Error> {
        if let Some(there) = (self.locate)(id)? {
            let span = self.document.span(member.value);
            self.edits.rename(self.document, span, there.joined());
        }
        Ok(())
    }
}

/// True if an `id` is one name, which is the route's identifier with the default delimiter.
fn is_joined(raw: &str, route: &Identifier) -> bool {
    let one = serde_json::from_str::<[Cow<'_, str>; 1]>(raw);
    !route.is_root() && one.is_ok_and(|[one]| *one == *route.to_string())
}

/// True if a member is checked: one with a meaning, or one that another server could take for such a member.
fn is_governed(name: &str) -> bool {
    Field::named(name).is_some() || resembled(name).is_some()
}

#[cfg(test)]
mod tests;
