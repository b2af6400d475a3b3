//! The contract's operations: one table of facts, and what each request line asks for.
//!
//! Recognising a request allocates nothing. A path that could mean different things to different
//! servers (dot segments, empty segments, `;`, `\`) is refused, never interpreted: the gateway
//! must not authorize one operation while a catalog performs another.

mod recognize;
mod table;

pub use recognize::{Target, Unrecognized, recognize};
pub use table::Operation;

/// What the `{id}` of a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A namespace, which has tables and namespaces below it.
    Namespace,
    /// A table.
    Table,
    /// A materialized view.
    MaterializedView,
    /// A transaction. Some catalogs name it below its table, others alone.
    Transaction,
}

impl Kind {
    /// Each of them, in their order.
    pub(crate) const ALL: [Self; 4] = [
        Self::Namespace,
        Self::Table,
        Self::MaterializedView,
        Self::Transaction,
    ];
}

/// Whether an operation may be asked again without harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Changes nothing.
    Read,
    /// May change something.
    Write,
}

/// What a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Payload {
    /// Nothing (some clients send `null` all the same).
    None,
    /// One JSON value.
    Json,
    /// An Arrow IPC stream of any length.
    ArrowStream,
    /// An Arrow IPC file of any length.
    ArrowFile,
}

/// What an operation must hold while the catalog works on it, so that no batch is seen half done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lock {
    /// No version can change its answer.
    None,
    /// Changes a table, or lets the catalog pick the table's latest version.
    Shared,
    /// Answers with versions: no lock, but the answer is filtered.
    Versions,
    /// Removes a namespace: waits for every table below it.
    Namespace,
    /// Is a batch and takes its own locks.
    Batch,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_a_byte_of_its_own() {
        let all = Operation::LISTED.into_iter();
        let all = all.chain(Kind::ALL.map(Operation::Unlisted));
        let mut expected = 1;
        for operation in all {
            assert_eq!(operation.byte(), expected, "{operation:?}");
            assert_eq!(Operation::from_byte(expected), Some(operation));
            expected += 1;
        }
        for none in [0, expected, u8::MAX] {
            assert_eq!(Operation::from_byte(none), None);
        }
    }
}
