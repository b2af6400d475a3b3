//! The contents of the pages `/metrics`, `/ready` and `/backends`.

use http::StatusCode;
use serde_json::json;

use super::{AdminState, EXPOSITION, Page, Problem, reload};
use crate::error::code::Code;

pub(super) fn metrics(shown: &AdminState) -> Page {
    shown.metrics.batch().open(&shown.batches.counts());
    shown.metrics.log(&shown.batches.log_counts());
    for backend in &shown.current.load().world.backends {
        backend.show();
    }
    match shown.metrics.render() {
        Ok(body) => Page {
            status: StatusCode::OK,
            kind: EXPOSITION,
            body,
            headers: None,
        },
        Err(error) => {
            tracing::error!(cause = %error, "the metrics cannot be written");
            Problem::new(Code::Internal, "the metrics cannot be written").at("/metrics")
        }
    }
}

pub(super) fn ready(shown: &AdminState) -> Page {
    let missing = shown.readiness.missing(&shown.current.load().keys);
    let status = if missing.is_empty() {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let mut page = json!({ "ready": missing.is_empty(), "missing": missing });
    // A file with errors is not in use: it is no reason to stop serving with the active
    // configuration.
    if let Some(last) = shown.reloads.last() {
        page["last_reload"] = reload::summary(&last);
    }
    Page::json(status, &page)
}
