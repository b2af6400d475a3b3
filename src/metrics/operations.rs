//! The operations that the metrics distinguish.

use crate::protocol::operation::{Kind, Operation};

/// The number of distinguished operations: the listed ones, the unlisted ones together, the gateway's own extension,
/// and requests without an operation.
pub(super) const OPERATIONS: usize = Operation::LISTED.len() + 3;
const NO_OPERATION: &str = "unrecognized";

/// Returns the index of an operation among those that are distinguished.
pub(super) fn number(operation: Option<Operation>) -> usize {
    operation.map_or(OPERATIONS - 1, Operation::number)
}

/// Returns the names of the operations, by their index.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    let listed = Operation::LISTED.iter().map(|operation| operation.name());
    let others = [Operation::Unlisted(Kind::Table), Operation::Snapshot];
    let others = others.map(Operation::name);
    listed.chain(others).chain([NO_OPERATION])
}

/// Returns the name of an operation in labels.
pub(super) fn name(operation: Option<Operation>) -> &'static str {
    operation.map_or(NO_OPERATION, Operation::name)
}
