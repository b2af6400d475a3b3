//! Writes for which the catalog chooses the version.

use serde_json::json;

use super::Client;
use super::asking::path;
use crate::front::Call;
use crate::history::{Entry, Kind, Op, Saw};

/// One such write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Insert,
    Overwrite,
    Update,
    Restore(u64),
}

impl Client {
    pub(super) async fn let_write(&mut self) {
        let table = self.any_table();
        let branch = self.random.chance(20);
        let change = match self.random.below(10) {
            0 => Change::Overwrite,
            1 | 2 => Change::Update,
            3 => match self.list(table, branch).await {
                Saw::All(all) => {
                    let shown: Vec<u64> = all.into_keys().collect();
                    Change::Restore(*self.random.pick(&shown))
                }
                _ => return,
            },
            _ => Change::Insert,
        };
        self.write(table, change, branch).await;
    }

    /// Has the catalog make the next version. Returns the operation's number.
    pub async fn write(&mut self, table: usize, change: Change, branch: bool) -> usize {
        let op = {
            let inner = &mut *self.world.lock();
            let op = inner.history.ops.len();
            let author = format!("i{op}");
            inner.history.authors.insert(author.clone(), (op, 0));
            // A restored version has the rows of its original.
            let overwrites = matches!(change, Change::Overwrite | Change::Restore(_));
            let entry = Entry {
                table,
                branch,
                version: 0,
                author,
                size: 100,
                base: None,
            };
            let kind = Kind::Server { overwrites };
            inner.history.ops.push(Op::one(kind, vec![entry]));
            op
        };
        let author = format!("i{op}");
        let query = match (change, branch) {
            (Change::Insert, true) => "?branch=b",
            (Change::Overwrite, false) => "?mode=overwrite",
            (Change::Overwrite, true) => "?mode=overwrite&branch=b",
            _ => "",
        };
        let mut body = json!({ "author": author });
        if branch {
            body["branch"] = "b".into();
        }
        let (tail, body) = match change {
            Change::Insert | Change::Overwrite => (format!("insert{query}"), author),
            Change::Update => {
                body["updates"] = json!([["a", "1"]]);
                ("update".into(), body.to_string())
            }
            Change::Restore(version) => {
                body["version"] = version.into();
                ("restore".into(), body.to_string())
            }
        };
        let call = Call {
            path: path(&self.world.scenario.tables[table].names, &tail),
            body,
            patience: self.patience(),
            ..Call::default()
        };
        self.once(op, call, true).await;
        op
    }
}
