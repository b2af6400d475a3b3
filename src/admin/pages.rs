//! The contents of the pages `/ready` and `/backends`.

use http::StatusCode;
use serde_json::json;

use super::{AdminState, Page, reload};

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
