//! The body of a snapshot request: the tables whose latest versions are wanted at one moment.

use super::identifier::Identifier;
use super::json::{Document, Member, spell, string};
use super::shape::{named, plain, require};
use crate::error::Error;

/// One table of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotTable {
    /// The table, as the client spells it. Not the root.
    pub id: Identifier,
    /// The branch; `None` for the main one.
    pub branch: Option<String>,
}

/// Reads the tables of a snapshot, at least one. 400, code 13, with the table and its field in the message, e.g.
/// `tables[2].id`; also for more than `most`.
pub fn parse(body: &[u8], most: usize) -> Result<Vec<SnapshotTable>, Error> {
    let document = Document::new(body)?;
    let mut list = None;
    if !document.is_nothing() {
        document.members(document.text, "the body", &mut |member| {
            if member.name == "tables" {
                plain(&member, "")?;
                list = Some(member.value);
            }
            Ok(())
        })?;
    }
    let list = list.ok_or_else(|| Error::invalid("`tables` is required"))?;
    let mut tables = Vec::new();
    document.elements(list, "`tables`", &mut |index, raw| {
        if index == most {
            return Err(Error::invalid(format!(
                "`tables[{index}]`: a snapshot has at most {most} tables"
            )));
        }
        tables.push(table(raw, &format!("tables[{index}]"))?);
        Ok(())
    })?;
    require(
        !tables.is_empty(),
        "tables",
        "a list with at least one table",
    )?;
    Ok(tables)
}

fn table(raw: &str, at: &str) -> Result<SnapshotTable, Error> {
    let path = format!("{at}.");
    let mut branch = None;
    let mut see = |member: &Member<'_>| {
        if member.name != "branch" {
            return Ok(());
        }
        plain(member, &path)?;
        branch = string(member.value).map(|text| text.into_owned());
        let fits = branch.is_some() || member.value == "null";
        require(fits, &format!("{path}branch"), "a string")
    };
    let (id, _) = named(raw, at, &mut see)?;
    Ok(SnapshotTable { id, branch })
}

impl SnapshotTable {
    /// Returns the table's identifier as JSON, in the client's spelling of its names.
    pub fn spelled(&self) -> String {
        spell(&self.id)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use super::*;

    #[test]
    fn tables_keep_their_order_and_unknown_members_pass() {
        let body = br#"{"new":1,"tables":[
            {"id":["b","t"],"branch":"dev","identity":{"api_key":"k"},"new":[]},
            {"id":["a","\u0074"],"branch":null}]}"#;
        let tables = parse(body, 2).unwrap();
        let seen = tables
            .iter()
            .map(|table| (table.spelled(), table.branch.as_deref()));
        let expected = [
            (r#"["b","t"]"#.to_owned(), Some("dev")),
            (r#"["a","t"]"#.to_owned(), None),
        ];
        assert_eq!(seen.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_refusal_names_the_table_and_its_field() {
        let cases = [
            ("", "`tables` is required"),
            ("null", "`tables` is required"),
            ("{}", "`tables` is required"),
            ("[]", "the body"),
            (
                r#"{"tables":[]}"#,
                "`tables` must be a list with at least one table",
            ),
            (r#"{"tables":{}}"#, "`tables`"),
            (
                r#"{"tables":[],"tables":[]}"#,
                "`tables` is given more than once",
            ),
            (r#"{"\u0074ables":[]}"#, "`tables` is spelled with escapes"),
            (r#"{"tables":[7]}"#, "`tables[0]`"),
            (
                r#"{"tables":[{"id":["a","t"]},{}]}"#,
                "`tables[1].id` is required",
            ),
            (r#"{"tables":[{"id":[]}]}"#, "`tables[0].id` must be"),
            (r#"{"tables":[{"id":["a",""]}]}"#, "`tables[0].id`"),
            (
                r#"{"tables":[{"id":["a","t"],"id":["b","t"]}]}"#,
                "`tables[0].id` is given more than once",
            ),
            (
                r#"{"tables":[{"id":["a","t"],"branch":7}]}"#,
                "`tables[0].branch` must be a string",
            ),
            (
                r#"{"tables":[{"id":["a","t"]},{"id":["b","t"]},{"id":["c","t"]}]}"#,
                "`tables[2]`: a snapshot has at most 2 tables",
            ),
        ];
        for (body, expected) in cases {
            let error = parse(body.as_bytes(), 2).unwrap_err();
            assert_eq!((error.status().as_u16(), error.code().number()), (400, 13));
            assert!(error.message().contains(expected), "{body}: {error}");
        }
    }
}
