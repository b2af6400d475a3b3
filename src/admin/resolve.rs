//! `POST /batches/ID/resolve`: reads an operator's decision and passes it to the batch.

use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::batches::unknown;
use super::{AdminState, Page, Problem};
use crate::batch::step::Decision;
use crate::batch::{Batches, ResolveError, Resolver, TransactionStatus};
use crate::body::Body;
use crate::error::code::Code;
use crate::telemetry::audit::AuditRecord;
use crate::util::unprintable::is_unprintable;

/// The longest body, in bytes. This and the limit of its texts bound what is kept in the log.
const MAX_BODY: usize = 16 << 10;
const MAX_TEXT: usize = 2 << 10;
const SHAPE: &str =
    r#"send {"decision": "commit" or "abort", "who": "…", "why": "…"} as application/json"#;

/// The body of a request to resolve a batch.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResolveRequest {
    /// The decision.
    pub decision: Decision,
    /// The operator who decides; empty if unknown.
    #[serde(default)]
    pub who: String,
    /// The operator's reason; empty if none is given.
    #[serde(default)]
    pub why: String,
}

/// Returns the batch that a path of this shape names; `None` for other paths.
pub(super) fn batch_of(path: &str) -> Option<&str> {
    let id = path.strip_prefix("/batches/")?.strip_suffix("/resolve")?;
    (!id.is_empty() && !id.contains('/')).then_some(id)
}

/// Handles the request. The response is 200 once the decision is in the log; it is carried out
/// after that.
pub(super) async fn resolve(
    shown: &AdminState,
    id: &str,
    request: Request<Body>,
) -> Response<Body> {
    let path = request.uri().path().to_owned();
    if request.method() != Method::POST {
        let problem = Problem::new(Code::InvalidInput, "use POST to resolve a batch");
        let page = problem.with_status(StatusCode::METHOD_NOT_ALLOWED);
        let mut response = page.at(&path).into_response();
        let allowed = HeaderValue::from_static("POST");
        response.headers_mut().insert(ALLOW, allowed);
        return response;
    }
    let page = match decide(shown, id, request).await {
        Ok(page) => page,
        Err(problem) => problem.at(&path),
    };
    page.into_response()
}

async fn decide(shown: &AdminState, id: &str, request: Request<Body>) -> Result<Page, Problem> {
    let (batches, caller) = (&shown.batches, super::who(&request));
    let ResolveRequest { decision, who, why } = read(request).await?;
    let word = decision.name();
    let by = Resolver {
        who: who.clone(),
        why: why.clone(),
    };
    let resolved = batches.resolve(id, decision, by).await;
    if let Some(audit) = &shown.audit {
        let refused = resolved.as_ref().err().map(ToString::to_string);
        let said = (&*who, &*why);
        audit.write(AuditRecord::decision(
            id,
            word,
            said,
            refused.as_deref(),
            caller,
        ));
    }
    match resolved {
        Ok(()) => {
            let now = format!(
                "the decision is recorded, and the gateway carries it out; what is left of the batch is at /batches/{id}"
            );
            let taken = json!({ "id": id, "decision": word, "who": who, "why": why, "now": now });
            Ok(Page::json(StatusCode::OK, &taken))
        }
        Err(ResolveError::Unknown(_)) => Err(gone(batches, id, decision).await),
        Err(ResolveError::Refused(reason)) => {
            tracing::info!(batch = %id, decision = word, who, why, reason, "resolve of a batch refused");
            let words = format!("batch {id} cannot be resolved with {word} now: {reason}");
            Err(Problem::new(Code::ConcurrentModification, words))
        }
    }
}

/// Returns the response to a decision about a batch that is not open.
async fn gone(batches: &Batches, id: &str, decision: Decision) -> Problem {
    let status = batches.transaction(id).await;
    let status = status.ok().flatten().map(|batch| batch.status);
    match (decision, status) {
        (Decision::Commit, Some(TransactionStatus::Failed)) => {
            let words = format!(
                "batch {id} is finished: it had been aborted already, and this decision commits nothing"
            );
            Problem::new(Code::TransactionNotFound, words)
        }
        _ => unknown(batches, id).await,
    }
}

async fn read(request: Request<Body>) -> Result<ResolveRequest, Problem> {
    let bad = |words: String| Problem::new(Code::InvalidInput, words).with_detail(SHAPE);
    // A page of another site in a browser cannot send this type without asking first.
    let kind = request.headers().get(CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or("none");
    let essence = kind.split(';').next().unwrap_or(kind).trim();
    if !essence.eq_ignore_ascii_case("application/json") {
        return Err(bad(format!("the content type is {kind}")));
    }
    let body = request.into_body().collect_up_to(MAX_BODY).await;
    let body = body.map_err(|error| bad(error.to_string()))?;
    let mut asked: ResolveRequest = serde_json::from_slice(&body)
        .map_err(|error| bad(format!("the body is not a decision: {error}")))?;
    for (name, text) in [("who", &asked.who), ("why", &asked.why)] {
        if text.len() > MAX_TEXT {
            return Err(bad(format!("`{name}` is longer than {MAX_TEXT} bytes")));
        }
        if text.chars().any(is_unprintable) {
            return Err(bad(format!(
                "`{name}` has characters in it that are not seen, such as a line break; write one line"
            )));
        }
    }
    if asked.who.trim().is_empty() {
        asked.who = "unknown".to_owned();
    }
    Ok(asked)
}
