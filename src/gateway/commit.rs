//! `batch-commit`: passed on where one catalog owns everything in it.

use std::collections::BTreeSet;

use http::{Request, Response};

use super::{Shared, World, extension, forward, hold, payload};
use crate::body::Body;
use crate::error::Error;
use crate::protocol::error::Code;
use crate::protocol::operation::{Kind, Operation};

/// Has the one catalog that owns all tables in it commit. 406, code 0, where there are several.
pub(super) async fn commit(
    shared: &Shared,
    world: &World,
    mut request: Request<Body>,
) -> Result<Response<Body>, Error> {
    let operation = extension::<Operation>(&request)?;
    let mut owner = None;
    let mut tables = BTreeSet::new();
    payload::admit(&mut request, operation, None, shared.json_body, |id| {
        let mount = world.routes.owner(id, Kind::Table)?;
        if *owner.get_or_insert(mount.backend) != mount.backend {
            let message =
                format!("batch-commit works within one catalog, and {id} belongs to another one");
            return Err(Error::new(Code::Unsupported, message));
        }
        tables.insert(hold::key(world.backend(mount), &mount.to_catalog(id)));
        Ok((!mount.keeps_path()).then(|| mount.to_catalog(id)))
    })
    .await?;
    let owner = owner.ok_or_else(|| Error::invalid("`operations` names no table"))?;
    let mut held = Vec::with_capacity(tables.len());
    // In the order of their keys, as everyone takes several locks.
    for table in tables {
        held.push(shared.batches.hold(table, operation.access()).await?);
    }
    let response = forward::send(&world.backends[owner], request).await?;
    Ok(hold::keep(response, held))
}
