//! The operations that are told apart.

use crate::protocol::operation::{Kind, Operation};

/// The listed operations, the unlisted ones, and requests that are no operation.
pub(super) const OPERATIONS: usize = Operation::LISTED.len() + 2;
const NO_OPERATION: &str = "unrecognized";

/// The place of an operation among all that are told apart.
pub(super) fn number(operation: Option<Operation>) -> usize {
    operation.map_or(OPERATIONS - 1, Operation::number)
}

/// By their number.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    let listed = Operation::LISTED.iter().map(|operation| operation.name());
    listed.chain([Operation::Unlisted(Kind::Table).name(), NO_OPERATION])
}

/// What it is called.
pub(super) fn name(operation: Option<Operation>) -> &'static str {
    operation.map_or(NO_OPERATION, Operation::name)
}
