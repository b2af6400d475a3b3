//! Decides which part of a request batches may concern: a table, a listing, or nothing.

use crate::batch::fleet::{Subject, guard_key};
use crate::gateway::RoutingSnapshot;
use crate::protocol::identifier::Identifier;
use crate::protocol::operation::{Kind, Lock, Operation};
use crate::request::context::RequestContext;

/// A [`Subject`] with the key of its table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SharedSubject {
    Nothing,
    Table(String),
    Names,
    Owner,
}

impl SharedSubject {
    /// Returns the subject of a request whose operation and identifier are known.
    pub(super) fn of(world: &RoutingSnapshot, learned: &RequestContext) -> Self {
        use Operation as Op;
        let Some(operation) = learned.operation else {
            return Self::Nothing;
        };
        match operation {
            // The body of a create says whether it overwrites a namespace, with the tables of batches below it.
            Op::CreateNamespace
            | Op::BatchCreateTableVersions
            | Op::BatchCommitTables
            | Op::Snapshot
            | Op::DescribeTransaction
            | Op::AlterTransaction => return Self::Owner,
            Op::ListTables | Op::ListAllTables => return Self::Names,
            _ if operation.is_about_name() || operation.lock() == Lock::Namespace => {
                return Self::Owner;
            }
            _ => {}
        }
        let (Some(Kind::Table | Kind::MaterializedView), Some(id)) =
            (operation.kind(), &learned.identifier)
        else {
            return Self::Nothing;
        };
        table(world, operation, id).map_or(Self::Nothing, Self::Table)
    }

    pub(super) fn as_ref(&self) -> Subject<'_> {
        match self {
            Self::Nothing => Subject::Nothing,
            Self::Table(key) => Subject::Table(key),
            Self::Names => Subject::Names,
            Self::Owner => Subject::Owner,
        }
    }
}

/// Returns the key of a table; `None` if no catalog owns it, so that the request is refused further in.
fn table(world: &RoutingSnapshot, operation: Operation, id: &Identifier) -> Option<String> {
    let kind = operation.kind().unwrap_or(Kind::Table);
    let mount = world.routes.owner(id, kind).ok()?;
    let backend = world.backend(mount);
    let address = backend.addresses().first();
    let address = address.map_or(&**backend.name(), |address| &**address);
    Some(if mount.keeps_path() {
        guard_key(address, id)
    } else {
        guard_key(address, &mount.to_catalog(id))
    })
}
