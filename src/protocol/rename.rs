//! The request of a rename: the new name of a table.

use super::identifier::Identifier;
use super::json::{Document, names, string};
use super::shape::{Fields, require};
use crate::error::Error;

/// Returns the new name of `table`. 400, code 13, with the field in the message if it is missing or has
/// another shape.
pub fn destination(table: &Identifier, body: &[u8]) -> Result<Identifier, Error> {
    let document = Document::new(body)?;
    let (mut namespace, mut name) = (None, None);
    let mut fields = Fields::default();
    if !document.is_nothing() {
        document.members(document.text, "the body", &mut |member| {
            match &*member.name {
                "new_namespace_id" => {
                    fields.once(&member, "")?;
                    namespace = names(member.value, "new_namespace_id")?;
                }
                "new_table_name" => {
                    fields.once(&member, "")?;
                    name = string(member.value).map(|name| name.into_owned());
                    require(name.is_some(), "new_table_name", "a string")?;
                }
                _ => {}
            }
            Ok(())
        })?;
    }
    let name = name.ok_or_else(|| Error::invalid("`new_table_name` is required"))?;
    let namespace = namespace
        .or_else(|| table.parent())
        .unwrap_or_else(Identifier::root);
    let destination = namespace.join(&name);
    destination.map_err(|why| Error::invalid(format!("`new_table_name`: {why}")))
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
