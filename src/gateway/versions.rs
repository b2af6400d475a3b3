//! The create of one table version, in which batches have a say.

use http::{Request, Response};
use serde::Deserialize;

use super::send::send;
use super::{Shared, hold, payload};
use crate::backend::Backend;
use crate::batch::{Hold, Line};
use crate::body::Body;
use crate::error::Error;
use crate::protocol::identifier::Identifier;

/// Has the catalog create one version.
pub(super) async fn create(
    shared: &Shared,
    backend: &Backend,
    there: &Identifier,
    request: &mut Request<Body>,
) -> Result<Response<Body>, Error> {
    let held = hold_for_create(shared, backend, there, request).await?;
    let response = send(backend, request).await?;
    let Some((held, line, version)) = held else {
        return Ok(response);
    };
    if response.status().is_success() {
        shared.batches.created(&line, version).await;
    }
    Ok(hold::keep(response, held))
}

/// Holds a table for the create of one version, whose number and branch are in the body: the version, too.
async fn hold_for_create(
    shared: &Shared,
    backend: &Backend,
    there: &Identifier,
    request: &mut Request<Body>,
) -> Result<Option<(Hold, Line, u64)>, Error> {
    #[derive(Deserialize)]
    struct Create {
        version: Option<u64>,
        branch: Option<String>,
    }
    let body = std::mem::take(request.body_mut());
    let body = payload::read(body, shared.json_body).await?;
    *request.body_mut() = Body::full(body.clone());
    if body.is_empty() {
        return Ok(None);
    }
    let asked: Option<Create> = serde_json::from_slice(&body)
        .map_err(|error| Error::invalid(format!("`version` or `branch`: {error}")))?;
    let Some(Create {
        version: Some(version),
        branch,
    }) = asked
    else {
        // Nothing is created without a number; the catalog says so.
        return Ok(None);
    };
    let line = Line::new(hold::key(backend, there), branch);
    let hold = shared.batches.hold_for_create(&line, version).await?;
    Ok(Some((hold, line, version)))
}
