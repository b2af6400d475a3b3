//! Writes for which the catalog chooses the version, and reads of its latest version.

use nsgate::protocol::operation::Operation;

use super::question::{Asked, Question};
use super::{Catalog, Onto, Reply, Version, latest, refusal};

impl Catalog {
    /// Inserts into, overwrites, updates or restores a table: the catalog makes the next version by
    /// itself.
    pub(super) fn change(&mut self, question: &Question) -> Result<Reply, Reply> {
        let data = question.operation == Operation::InsertIntoTable;
        let asked = if data {
            Asked::default()
        } else {
            question.asked()?
        };
        let branch = question.parameter("branch").or(asked.branch.as_deref());
        let (spot, versions) = self.table(&question.table, branch)?;
        let rows = |version: u64| versions.get(&version).map(|it| it.author.clone());
        let onto = match (question.operation, question.parameter("mode")) {
            (Operation::RestoreTable, _) => {
                let rows = rows(asked.version.unwrap_or_default());
                Onto::Rows(Some(
                    rows.ok_or_else(|| refusal(404, 11, "no such version"))?,
                ))
            }
            (_, Some("overwrite")) => Onto::Nothing,
            _ => Onto::Rows(rows(latest(versions))),
        };
        let next = latest(versions) + 1;
        let author = if data {
            question.author()
        } else {
            asked.author.unwrap_or_default()
        };
        let manifest = self.by_the_catalog(author);
        self.write(spot, next, manifest, onto);
        let body = format!("{{\"transaction_id\":null,\"version\":{next}}}");
        Ok(Reply { status: 200, body })
    }

    /// Answers a count or a query with the latest version.
    pub(super) fn count(&self, question: &Question) -> Result<Reply, Reply> {
        let asked = question.asked()?;
        let (spot, versions) = self.table(&question.table, asked.branch.as_deref())?;
        Ok(match versions.last_key_value() {
            Some((number, version)) => self.created(spot, *number, version),
            None => Reply {
                status: 200,
                body: "{\"versions\":[]}".into(),
            },
        })
    }

    /// Makes a manifest of the catalog's own.
    pub(super) fn by_the_catalog(&mut self, mut author: String) -> Version {
        while !self.written.insert(author.clone()) {
            author.push('+');
        }
        Version::staged(&author, 100)
    }
}
