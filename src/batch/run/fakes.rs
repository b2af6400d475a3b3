//! A log, a catalog and a caller for tests.
#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

use std::sync::Arc;

use futures_util::future::{BoxFuture, pending};
use http::{Request, Response, StatusCode};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::backend::{Authority, Catalog, Failure};
use crate::batch::log::{BatchId, Intent, Log, Logged, Record, Resolution, Verdict};
use crate::batch::step::{Decision, Settled};
use crate::batch::{BatchCall, Caller, Form};
use crate::body::Body;
use crate::protocol::commit::CommitOperation;
use crate::protocol::context::Context;
use crate::request::origin::Origin;

/// A log that takes no time and is never read.
#[derive(Default)]
pub(super) struct Nothing {
    /// The write at which it fails; none if empty.
    pub(super) breaks_over: &'static str,
}

impl Log for Nothing {
    fn is_new(&self) -> bool {
        true
    }

    fn intend(&self, _: BatchId, _: Arc<Intent>) -> Logged<'_, ()> {
        Box::pin(async {
            assert_ne!(self.breaks_over, "an intent", "a bug");
            Ok(())
        })
    }
    fn decide(&self, _: BatchId, verdict: Verdict) -> Logged<'_, Decision> {
        Box::pin(async move {
            assert_ne!(self.breaks_over, "a decision", "a bug");
            Ok(verdict.decision())
        })
    }
    fn resolve(&self, _: BatchId, _: Resolution) -> Logged<'_, ()> {
        Box::pin(async { Ok(()) })
    }
    fn note(&self, _: BatchId, _: usize, _: Settled) -> Logged<'_, ()> {
        match self.breaks_over {
            "a note" => Box::pin(pending()),
            _ => Box::pin(async { Ok(()) }),
        }
    }
    fn end(&self, _: BatchId, _: u64) -> Logged<'_, ()> {
        Box::pin(async { Ok(()) })
    }
    fn forget(&self, _: u64) -> Logged<'_, ()> {
        Box::pin(async { Ok(()) })
    }
    fn find(&self, _: BatchId) -> Logged<'_, Option<Record>> {
        Box::pin(async { Ok(None) })
    }
    fn find_by_key<'a>(&'a self, _: &'a str) -> Logged<'a, Option<Record>> {
        Box::pin(async { Ok(None) })
    }
    fn scan<'a>(&'a self, _: &'a mut (dyn FnMut(Record) + Send)) -> Logged<'a, ()> {
        Box::pin(async { Ok(()) })
    }
}

/// A catalog whose tables have version 1, and that makes every version of a request.
#[derive(Default)]
pub(super) struct Willing {
    /// True if it never answers.
    pub(super) hangs: bool,
}

impl Catalog for Willing {
    fn call(&self, request: Request<Body>) -> BoxFuture<'_, Result<Response<Body>, Failure>> {
        let hangs = self.hangs;
        Box::pin(async move {
            if hangs {
                return pending().await;
            }
            let (head, body) = request.into_parts();
            let body = body.collect_up_to(1 << 20).await.unwrap();
            let asked: Value = serde_json::from_slice(&body).unwrap_or_default();
            let version = |version: &Value| json!({"version": version, "manifest_size": 6});
            let answer = if head.uri.path().ends_with("list") {
                json!({"versions": [version(&json!(1))]})
            } else {
                json!({"version": version(&asked["version"])})
            };
            let mut response = Response::new(Body::full(answer.to_string()));
            *response.status_mut() = StatusCode::OK;
            Ok(response)
        })
    }
}

pub(super) fn caller(key: Option<&str>) -> Caller {
    Caller {
        came: Instant::now(),
        name: "ada".into(),
        counts_as: "ada".into(),
        besides: String::new(),
        is_judged: false,
        held: None,
        idempotency_key: key.map(str::to_owned),
        authority: Authority::Caller(None),
        context: Context::default(),
        origin: Origin::default(),
    }
}

/// A batch that creates version 2 of each table.
pub(super) fn call<const N: usize>(tables: [&str; N], key: Option<&str>) -> BatchCall {
    let entry = |table: &str| json!({"id": [table], "version": 2, "manifest_path": "m", "manifest_size": 6});
    let body = json!({"entries": tables.map(entry).to_vec()}).to_string();
    let entries = crate::protocol::batch::parse(body.as_bytes(), N).unwrap();
    let creates = entries.entries.into_iter();
    BatchCall {
        form: Form::Create,
        operations: creates.map(CommitOperation::CreateTableVersion).collect(),
        caller: caller(key),
    }
}
