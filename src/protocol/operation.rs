//! The contract's operations: one table of facts, and the recognition of request lines.
//!
//! Recognizing a request allocates nothing. A path that could mean different things to different
//! servers (dot segments, empty segments, `;`, `\`) is refused, never interpreted: the gateway must
//! not authorize one operation while a catalog performs another.

mod recognize;
mod table;

pub use recognize::{Target, Unrecognized, recognize};
pub use table::Operation;

/// The kind of object that the `{id}` of a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A namespace, which has tables and namespaces below it.
    Namespace,
    /// A table.
    Table,
    /// A materialized view.
    MaterializedView,
    /// A transaction. Some catalogs name it below its table, others by a name of its own.
    Transaction,
}

impl Kind {
    /// All kinds, in their order.
    pub(crate) const ALL: [Self; 4] = [
        Self::Namespace,
        Self::Table,
        Self::MaterializedView,
        Self::Transaction,
    ];
}

/// The effect of an operation: only reads may be repeated without harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// The operation changes nothing.
    Read,
    /// The operation may change something.
    Write,
}

/// The type of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Payload {
    /// No body (some clients send `null` nevertheless).
    None,
    /// One JSON value.
    Json,
    /// An Arrow IPC stream of any length.
    ArrowStream,
    /// An Arrow IPC file of any length.
    ArrowFile,
}

impl Operation {
    /// True if a table can get or lose its name through the operation. Operations outside the contract may do anything.
    pub fn is_about_name(self) -> bool {
        matches!(
            self,
            Self::CreateTable
                | Self::CreateMaterializedView
                | Self::DeclareTable
                | Self::RegisterTable
                | Self::RenameTable
                | Self::DeregisterTable
                | Self::DropTable
                | Self::Unlisted(_)
        )
    }
}

/// The lock that an operation must hold while the catalog works on it, so that no batch is seen
/// half done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lock {
    /// No lock: no version can change the answer.
    None,
    /// A shared lock: the operation changes a table, or lets the catalog pick the table's latest
    /// version.
    Shared,
    /// No lock, but the answer contains versions and is filtered.
    Versions,
    /// A lock for the removal of a namespace, which waits for every table below it.
    Namespace,
    /// No lock here: a batch takes its own.
    Batch,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_a_byte_of_its_own() {
        let all = Operation::LISTED.into_iter();
        let all = all.chain(Kind::ALL.map(Operation::Unlisted));
        let all = all.chain([Operation::Snapshot]);
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
