//! The new name of a table in a rename, and the names that tables have while they are written.

use super::identifier::Identifier;
use super::json::{Document, Member, names, string};
use super::shape::{plain, require};
use crate::error::Error;

/// The beginning of the name of a table that is being written: it gets its real name by a rename.
const UNFINISHED: &str = "__nsgate_new_";

/// Returns true if a table with this name is still being written. Listings leave it out.
pub fn is_unfinished(name: &str) -> bool {
    name.starts_with(UNFINISHED)
}

/// Returns true if a body may contain the name of a table that is being written.
pub fn mentions_unfinished(body: &[u8]) -> bool {
    memchr::memmem::find(body, UNFINISHED.as_bytes()).is_some()
}

/// Returns the new name of `table`. 400, code 13, with the field in the message if it is missing or has
/// another shape.
pub fn destination(table: &Identifier, body: &[u8]) -> Result<Identifier, Error> {
    let document = Document::new(body)?;
    let mut new = NewName::default();
    if !document.is_nothing() {
        document.members(document.text, "the body", &mut |member| {
            new.read(&member, "")
        })?;
    }
    new.of(table, "")
}

/// The members of a rename that name the new place of the table.
#[derive(Default)]
pub(super) struct NewName {
    namespace: Option<Identifier>,
    name: Option<String>,
}

impl NewName {
    /// Reads a member of a rename; `path` is that of its object, with a dot at its end if it is not the whole body.
    pub(super) fn read(&mut self, member: &Member<'_>, path: &str) -> Result<(), Error> {
        match &*member.name {
            "new_namespace_id" => {
                plain(member, path)?;
                self.namespace = names(member.value, &format!("{path}new_namespace_id"))?;
                Ok(())
            }
            "new_table_name" => {
                plain(member, path)?;
                self.name = string(member.value).map(|name| name.into_owned());
                let field = format!("{path}new_table_name");
                require(self.name.is_some(), &field, "a string")
            }
            _ => Ok(()),
        }
    }

    /// Returns the new name of `table`: in its own namespace unless another one is given.
    pub(super) fn of(self, table: &Identifier, path: &str) -> Result<Identifier, Error> {
        let name = self
            .name
            .ok_or_else(|| Error::invalid(format!("`{path}new_table_name` is required")))?;
        let namespace = self.namespace.or_else(|| table.parent());
        let destination = namespace.unwrap_or_else(Identifier::root).join(&name);
        destination.map_err(|why| Error::invalid(format!("`{path}new_table_name`: {why}")))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use super::*;

    #[test]
    fn the_namespace_stays_unless_another_is_named() {
        let table = Identifier::from_names(["a", "b", "t"]).unwrap();
        let cases: [(&str, Result<&[&str], &str>); 10] = [
            (r#"{"new_table_name":"u"}"#, Ok(&["a", "b", "u"])),
            (
                r#"{"new_table_name":"u","new_namespace_id":null,"id":["a","b","t"]}"#,
                Ok(&["a", "b", "u"]),
            ),
            (
                r#"{"new_namespace_id":["c"],"new_table_name":"t"}"#,
                Ok(&["c", "t"]),
            ),
            (
                r#"{"new_namespace_id":[],"new_table_name":"u"}"#,
                Ok(&["u"]),
            ),
            ("", Err("`new_table_name` is required")),
            ("null", Err("`new_table_name` is required")),
            (
                r#"{"new_table_name":null}"#,
                Err("`new_table_name` must be a string"),
            ),
            (r#"{"new_table_name":""}"#, Err("`new_table_name`: ")),
            (
                r#"{"new_table_name":"u","new_table_name":"v"}"#,
                Err("`new_table_name` is given more than once"),
            ),
            (
                r#"{"new_table_name":"u","new_namespace_id":"a"}"#,
                Err("`new_namespace_id`"),
            ),
        ];
        for (body, expected) in cases {
            match (destination(&table, body.as_bytes()), expected) {
                (Ok(found), Ok(expected)) => {
                    assert_eq!(found, Identifier::from_names(expected).unwrap(), "{body}");
                }
                (Err(error), Err(words)) => {
                    assert!(error.message().starts_with(words), "{body}: {error:?}");
                    assert_eq!((error.status().as_u16(), error.code().number()), (400, 13));
                }
                (found, _) => panic!("{body}: {found:?}"),
            }
        }
    }
}
