//! The batches that hold tables, for the answers to those that cannot get them.

use std::sync::Arc;

use super::{Key, Locks, TableKey};
use crate::batch::log::BatchId;
use crate::batch::step::LockedEntry;

impl Locks {
    /// Returns the first of these tables that is locked now, and the batch that holds it.
    pub fn blocking<'a>(
        &self,
        tables: impl IntoIterator<Item = &'a TableKey>,
    ) -> Option<LockedEntry> {
        // Does not try the lock: that would make others wait.
        let is_locked = |table: &TableKey| {
            let lock = self.shared.held.get(&Key::Table(table.clone()));
            lock.is_some_and(|lock| Arc::strong_count(&lock) > 1)
        };
        let mut tables = tables.into_iter().enumerate();
        let (entry, table) = tables.find(|(_, table)| is_locked(table))?;
        let by = self.holder(table);
        Some(LockedEntry { entry, by })
    }

    /// Returns the tables that batches hold.
    pub fn held_by_batches(&self) -> Vec<TableKey> {
        let holders = self.shared.holders.iter();
        holders.map(|held| held.key().clone()).collect()
    }

    /// Returns the batch that holds a table; `None` if none does.
    pub fn holder(&self, table: &TableKey) -> Option<BatchId> {
        let holders = &self.shared.holders;
        holders.get(table).map(|batch| *batch)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that panics fails")]
    use std::time::Duration;

    use super::*;
    use crate::protocol::data_scope::DataScope;
    use crate::protocol::identifier::Identifier;

    fn key(name: &str) -> TableKey {
        TableKey {
            scope: DataScope::default(),
            backend: "lake".into(),
            table: Identifier::from_names([name]).unwrap(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_table_is_held_by_the_batch_that_has_its_lock_and_by_no_other() {
        let (locks, wait) = (Locks::default(), Duration::from_millis(1));
        let (t, u) = (key("t"), key("u"));
        let [one, other] = [1, 2].map(BatchId::from_u128);
        let mut hold = locks.exclusive([t.clone()], wait).await.unwrap();
        let nobodys = Some(LockedEntry { entry: 1, by: None });
        assert_eq!(locks.blocking([&u, &t]), nobodys);
        hold.belongs_to(one);
        hold.join(locks.exclusive([u.clone()], wait).await.unwrap());
        let ones = |entry| {
            Some(LockedEntry {
                entry,
                by: Some(one),
            })
        };
        assert_eq!(locks.blocking([&u, &t]), ones(0));
        hold.free(&u);
        assert_eq!(
            (locks.holder(&u), locks.blocking([&u, &t])),
            (None, ones(1))
        );
        let mut next = locks.exclusive([u.clone()], wait).await.unwrap();
        next.belongs_to(other);
        drop(hold);
        assert_eq!((locks.holder(&t), locks.holder(&u)), (None, Some(other)));
        drop(next);
        assert_eq!(locks.blocking([&u, &t]), None);
        let mut hold = locks.exclusive([u.clone()], wait).await.unwrap();
        hold.join(locks.exclusive([t.clone()], wait).await.unwrap());
        hold.free(&t);
        assert_eq!(
            locks.blocking([&t, &u]),
            Some(LockedEntry { entry: 1, by: None })
        );
        hold.free(&u);
        assert_eq!(locks.blocking([&t, &u]), None);
        assert!(locks.is_empty() && locks.shared.holders.is_empty());
    }
}
