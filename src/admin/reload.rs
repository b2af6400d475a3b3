//! `POST /reload`, and the result of the last reload, whatever triggered it.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use http::header::{ALLOW, HeaderValue};
use http::{Method, Response, StatusCode};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use super::{AdminState, Page, Problem};
use crate::body::Body;
use crate::config::reload::Report;
use crate::error::code::Code;
use crate::telemetry::audit::{AuditRecord, Who};

/// The most callers that may wait for a reload at a time.
const WAITING: usize = 64;
/// The most problems that are shown on a page that needs no token.
const SHOWN: usize = 10;

/// The queue of requests for a reload, and the result of the last one.
pub struct Reloads {
    ask: mpsc::Sender<Waiting>,
    last: ArcSwapOption<Report>,
}

/// A caller that waits for the result of the next reload that begins.
pub type Waiting = oneshot::Sender<Arc<Report>>;

impl Reloads {
    /// Creates the queue. The receiver yields the callers that request a reload.
    pub fn new() -> (Arc<Self>, mpsc::Receiver<Waiting>) {
        let (ask, asked) = mpsc::channel(WAITING);
        let last = ArcSwapOption::empty();
        (Arc::new(Self { ask, last }), asked)
    }

    /// The result of the last reload; `None` if there was none yet.
    pub fn last(&self) -> Option<Arc<Report>> {
        self.last.load_full()
    }

    /// Stores the result of a reload.
    pub fn over(&self, report: Arc<Report>) {
        self.last.store(Some(report));
    }

    async fn reload(&self) -> Option<Arc<Report>> {
        let (waiting, report) = oneshot::channel();
        self.ask.try_send(waiting).ok()?;
        report.await.ok()
    }
}

/// Handles `/reload`; the response is the result of the reload.
pub(super) async fn reload(shown: &AdminState, method: &Method, who: Who) -> Response<Body> {
    if method != Method::POST {
        let words = "use POST to reload";
        let page = Problem::new(Code::InvalidInput, words)
            .with_status(StatusCode::METHOD_NOT_ALLOWED)
            .at("/reload");
        let mut response = page.into_response();
        let allowed = HeaderValue::from_static("POST");
        response.headers_mut().insert(ALLOW, allowed);
        return response;
    }
    let report = shown.reloads.reload().await;
    if let (Some(audit), Some(report)) = (&shown.audit, &report) {
        audit.write(AuditRecord::reload(report, who));
    }
    let page = match report {
        Some(report) => page(&report),
        None => Problem::new(
            Code::ServiceUnavailable,
            "cannot reload now: the gateway is starting or stopping, or too many reloads are waiting",
        )
        .at("/reload"),
    };
    page.into_response()
}

fn page(report: &Report) -> Page {
    match &report.outcome {
        Ok(applied) => Page::json(
            StatusCode::OK,
            &json!({
                "reloaded": true,
                "changed": applied.difference.changed,
                "files": applied.files,
                "restart_needed": applied.difference.restart_needed,
                "warnings": applied.warnings,
            }),
        ),
        Err(problems) => Page::json(
            StatusCode::UNPROCESSABLE_ENTITY,
            &json!({
                "error": "configuration reload failed; the previous configuration stays active",
                "code": Code::InvalidInput.number(),
                "detail": problems.join("\n"),
                "instance": "/reload",
                "problems": problems,
            }),
        ),
    }
}

/// Returns the last reload in the form that `/ready` shows.
pub(super) fn summary(report: &Report) -> Value {
    let mut summary = json!({ "at": report.at, "trigger": report.trigger });
    match &report.outcome {
        Ok(applied) => {
            summary["result"] = json!("success");
            summary["restart_needed"] = json!(applied.difference.restart_needed);
        }
        Err(problems) => {
            let shown = &problems[..problems.len().min(SHOWN)];
            summary["result"] = json!("failure");
            summary["problems"] = json!(shown);
        }
    }
    summary
}
