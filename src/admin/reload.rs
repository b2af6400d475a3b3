//! `POST /reload`, and what became of the last reload, whoever asked for it.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use http::header::{ALLOW, HeaderValue};
use http::{Method, Response, StatusCode};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use super::{Page, Problem};
use crate::body::Body;
use crate::config::reload::Report;
use crate::error::code::Code;

/// Who may wait for a reload at a time.
const WAITING: usize = 64;
/// Where everybody may look, no more problems than these are shown.
const SHOWN: usize = 10;

/// The way to whoever reloads.
pub struct Reloads {
    ask: mpsc::Sender<Waiting>,
    last: ArcSwapOption<Report>,
}

/// Somebody who is told what becomes of the next reload that begins.
pub type Waiting = oneshot::Sender<Arc<Report>>;

impl Reloads {
    /// Who wants a reload comes out at the receiver.
    pub fn new() -> (Arc<Self>, mpsc::Receiver<Waiting>) {
        let (ask, asked) = mpsc::channel(WAITING);
        let last = ArcSwapOption::empty();
        (Arc::new(Self { ask, last }), asked)
    }

    /// What became of the last one; `None`: there was none yet.
    pub fn last(&self) -> Option<Arc<Report>> {
        self.last.load_full()
    }

    /// This has become of one.
    pub fn over(&self, report: Arc<Report>) {
        self.last.store(Some(report));
    }

    async fn reload(&self) -> Option<Arc<Report>> {
        let (waiting, told) = oneshot::channel();
        self.ask.try_send(waiting).ok()?;
        told.await.ok()
    }
}

/// The answer to `POST /reload`.
pub(super) async fn reload(reloads: &Reloads, method: &Method) -> Response<Body> {
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
    let page = match reloads.reload().await {
        Some(report) => told(&report),
        None => Problem::new(
            Code::ServiceUnavailable,
            "cannot reload now: the gateway is starting or stopping, or too many reloads are waiting",
        )
        .at("/reload"),
    };
    page.into_response()
}

fn told(report: &Report) -> Page {
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

/// The last reload as `/ready` tells of it.
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
