//! The pages for operators and scrapers, on an address of their own: the list of routes, and which of them need the
//! admin token.
//!
//! `/metrics`, `/live`, `/ready`, the empty status page and the manual of the alerts are open to every caller who
//! reaches the address; the others need the configured token.

mod alerts;
pub mod backends;
pub mod batches;
mod exposition;
pub mod gateways;
pub mod history;
mod host;
mod pages;
mod problem;
mod readiness;
mod reload;
mod resolve;
mod starting;
pub mod status;

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll};

use arc_swap::ArcSwap;
use aws_lc_rs::constant_time::verify_slices_are_equal;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::{ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use serde_json::{Value, json};
use tower::Service;

pub use history::History;
pub use readiness::Readiness;
pub use reload::{Reloads, Waiting};
pub use resolve::ResolveRequest;
pub use starting::Starting;

use problem::Problem;

use crate::auth::keys::Keys;
use crate::batch::Batches;
use crate::body::Body;
use crate::config::{Config, Secret};
use crate::error::code::Code;
use crate::gateway::RoutingSnapshot;
use crate::layer::share::PeerClient;
use crate::metrics::Metrics;
use crate::request::context::RequestContext;
use crate::telemetry::audit::{Audit, AuditRecord, Who};

const JSON: &str = "application/json";

/// The state that the pages show.
pub struct AdminState {
    /// The counters.
    pub metrics: Arc<Metrics>,
    /// The readiness to serve requests.
    pub readiness: Arc<Readiness>,
    /// The batches, of which the pages show the unfinished ones.
    pub batches: Arc<Batches>,
    /// The active configuration.
    pub current: Arc<ArcSwap<CurrentConfig>>,
    /// The queue of requests for a reload, and the last result.
    pub reloads: Arc<Reloads>,
    /// The curves of the last hour.
    pub history: History,
    /// The configuration file.
    pub config_file: PathBuf,
    /// The audit log; `None` if there is none.
    pub audit: Option<Audit>,
}

/// The parts of the active configuration that the pages show.
pub struct CurrentConfig {
    /// The configuration. It is shown without its secrets.
    pub config: Arc<Config>,
    /// The backends and their mounts.
    pub world: Arc<RoutingSnapshot>,
    /// The issuers' keys.
    pub keys: Arc<Keys>,
    /// The client to the gateways that share the batch log; `None` if there are none.
    pub peers: Option<Arc<PeerClient>>,
    /// The token that the guarded pages need; `None` if they need none.
    pub token: Option<Secret>,
    /// The token with which everything can be read and nothing changed; `None` if there is none.
    pub read_token: Option<Secret>,
}

/// The admin service. Cheap to clone.
#[derive(Clone)]
pub struct Admin(Arc<AdminState>);

struct Page {
    status: StatusCode,
    kind: &'static str,
    body: Bytes,
    /// Headers for browsers; `None` if the page needs none.
    headers: Option<&'static HeaderMap>,
}

/// Returns the caller of a page for the audit log: operators are known by their address and certificate.
fn who(request: &Request<Body>) -> Who {
    Who::at(RequestContext::of(request.extensions()).peer.as_ref())
}

impl Admin {
    /// Creates the service that shows `shown`.
    pub fn new(shown: AdminState) -> Self {
        Self(Arc::new(shown))
    }

    /// Makes a page on a thread of its own. With many backends or mounts it takes longer than a request may wait.
    async fn off_worker(&self, make: impl FnOnce(&AdminState) -> Page + Send + 'static) -> Page {
        let shown = Arc::clone(&self.0);
        let made = tokio::task::spawn_blocking(move || make(&shown)).await;
        made.unwrap_or_else(|_| Page::broken())
    }

    /// Takes samples for the curves of the status page until the future is dropped.
    pub async fn keep_history(self) {
        history::keep(self.0).await;
    }

    async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let shown = &*self.0;
        let path = request.uri().path();
        let open = matches!(path, "/" | "/metrics" | "/live" | "/ready");
        let open = open || path.starts_with("/alerts/");
        let reads = [Method::GET, Method::HEAD].contains(request.method());
        if !open && let Some(refusal) = self.refusal(request.headers(), reads) {
            if let Some(audit) = &shown.audit {
                audit.write(AuditRecord::admin_refused(
                    refusal.code().status(),
                    who(&request),
                ));
            }
            let unknown = refusal.code() == Code::Unauthenticated;
            let mut response = refusal.at(path).into_response();
            if unknown {
                let challenge = HeaderValue::from_static("Bearer");
                response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
            }
            return response;
        }
        let guarded = shown.current.load().token.is_some();
        if !guarded && !host::is_this_machine(request.uri(), request.headers()) {
            let words = "no `admin.token` is configured: use an IP address or localhost as the host of the admin address";
            let page = Problem::new(Code::PermissionDenied, words).at(path);
            return page.into_response();
        }
        if !reads && !host::is_own_page(request.uri(), request.headers()) {
            let words = "pages of other sites cannot change anything here: `Origin` or `Sec-Fetch-Site` names another site";
            let page = Problem::new(Code::PermissionDenied, words).at(path);
            return page.into_response();
        }
        if gateways::is_about_batches(path) {
            if let Some(words) = gateways::recovering(shown) {
                let problem = Problem::new(Code::ServiceUnavailable, words);
                return problem.at(path).into_response();
            }
            if let Some(elsewhere) = gateways::elsewhere(shown) {
                return gateways::pass_on(elsewhere, request).await;
            }
        }
        self.page(request).await
    }

    /// Answers a request that is permitted.
    async fn page(&self, request: Request<Body>) -> Response<Body> {
        let shown = &*self.0;
        let path = request.uri().path();
        if let Some(id) = resolve::batch_of(path) {
            let id = id.to_owned();
            return resolve::resolve(shown, &id, request).await;
        }
        if path == "/reload" {
            let (method, who) = (request.method().clone(), who(&request));
            return reload::reload(shown, &method, who).await;
        }
        let page = match path {
            "/" => status::page(),
            "/status" => {
                let peer = RequestContext::of(request.extensions()).peer.clone();
                status::report_page(Arc::clone(&self.0), peer).await
            }
            "/metrics" => {
                let wanted = exposition::Wanted::by(request.headers());
                self.off_worker(move |shown| exposition::metrics(shown, wanted))
                    .await
            }
            "/live" => Page::live(),
            "/ready" => pages::ready(shown),
            "/gateways" => Page::json(StatusCode::OK, &json!(gateways::list(shown))),
            "/config" => {
                self.off_worker(|shown| {
                    Page::json(StatusCode::OK, &shown.current.load().config.redacted())
                })
                .await
            }
            "/backends" => {
                self.off_worker(|shown| {
                    let list = backends::list(shown, usize::MAX);
                    Page::json(StatusCode::OK, &json!(list))
                })
                .await
            }
            "/batches" => {
                self.off_worker(|shown| Page::json(StatusCode::OK, &json!(batches::list(shown))))
                    .await
            }
            _ => match (
                path.strip_prefix("/batches/"),
                path.strip_prefix("/alerts/"),
            ) {
                (Some(id), _) if !id.is_empty() && !id.contains('/') => {
                    batches::show(shown, id).await
                }
                (_, Some(name)) => alerts::page(name).unwrap_or_else(|| no_such_page(path)),
                _ => no_such_page(path),
            },
        };
        if page.status == StatusCode::NOT_FOUND
            || [Method::GET, Method::HEAD].contains(request.method())
        {
            return page.into_response();
        }
        let page = Problem::new(
            Code::InvalidInput,
            "this page can only be read; use GET or HEAD",
        )
        .with_status(StatusCode::METHOD_NOT_ALLOWED)
        .at(path);
        let mut response = page.into_response();
        let allowed = HeaderValue::from_static("GET, HEAD");
        response.headers_mut().insert(ALLOW, allowed);
        response
    }

    /// Returns why a request with these headers is refused; `None` if it is permitted. `reads` is true for a request
    /// that changes nothing.
    fn refusal(&self, headers: &HeaderMap, reads: bool) -> Option<Problem> {
        let current = self.0.current.load();
        let token = current.token.as_ref()?;
        let given = bearer(headers);
        let is = |token: &Secret| {
            given.is_some_and(|given| {
                verify_slices_are_equal(given, token.expose().as_bytes()).is_ok()
            })
        };
        if is(token) {
            return None;
        }
        if current.read_token.as_ref().is_some_and(is) {
            let words = "the given token may only read: it is `admin.read_token`";
            let problem = Problem::new(Code::PermissionDenied, words);
            return (!reads)
                .then(|| problem.with_detail("to change something, give `admin.token`"));
        }
        let words = "the admin token is missing or wrong";
        Some(Problem::new(Code::Unauthenticated, words))
    }
}

/// Returns the one bearer token of a request.
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let mut given = headers.get_all(AUTHORIZATION).iter();
    let (Some(given), None) = (given.next(), given.next()) else {
        return None;
    };
    let (scheme, given) = given.as_bytes().split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then_some(given)
}

impl Service<Request<Body>> for Admin {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let admin = self.clone();
        Box::pin(async move { Ok(admin.answer(request).await) })
    }
}

impl Page {
    fn json(status: StatusCode, value: &Value) -> Self {
        Self {
            status,
            kind: JSON,
            body: format!("{value:#}\n").into(),
            headers: None,
        }
    }

    /// Returns the answer to the probe for a process that lives.
    fn live() -> Self {
        Self::json(StatusCode::OK, &json!({ "live": true }))
    }

    /// Returns the page for one that could not be made.
    fn broken() -> Self {
        let words = "the page cannot be made; the log says why";
        Problem::new(Code::Internal, words).at("")
    }

    fn into_response(self) -> Response<Body> {
        let mut response = Response::new(Body::full(self.body));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.kind));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.extend(self.headers.cloned().unwrap_or_default());
        response
    }
}

fn no_such_page(path: &str) -> Page {
    let words = "no such page; the pages are / /status /metrics /live /ready /config /backends /gateways /batches /batches/ID /alerts/NAME, and POST /reload";
    Problem::new(Code::Unsupported, words)
        .with_status(StatusCode::NOT_FOUND)
        .at(path)
}

#[cfg(test)]
mod tests;
