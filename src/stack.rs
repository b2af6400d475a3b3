//! The list of layers that every request goes through, outermost first.

mod current;

use std::sync::Arc;

use tower::ServiceBuilder;

use crate::auth::access::Rules;

use crate::gateway::Gateway;
use crate::layer::audit::{AuditLayer, Audited};
use crate::layer::authenticate::{Authenticate, AuthenticateLayer, Verifier};
use crate::layer::authorize::{Authorize, AuthorizeLayer};
use crate::layer::context::{TakeContext, TakeContextLayer};
use crate::layer::limits::{Limits, LimitsLayer};
use crate::layer::metrics::{Metrics, MetricsLayer};
use crate::layer::rate::{Rate, RateLayer, Rates};
use crate::layer::recognize::{HealthPath, Recognize, RecognizeLayer};
use crate::layer::rescue::{Rescue, RescueLayer};
use crate::layer::share::{Share, ShareLayer, Sharing};
use crate::layer::trace::access::AccessLog;
use crate::layer::trace::{Trace, TraceLayer};
use crate::metrics::Requests;
use crate::request::span::Recorder;
use crate::telemetry::audit::Audit;
pub use current::Current;

/// The whole stack. It is a concrete type, so that no layer costs an allocation.
pub type Stack = Trace<
    Metrics<
        Rescue<
            Recognize<Authenticate<Limits<Rate<Share<TakeContext<Authorize<Audited<Gateway>>>>>>>>,
        >,
    >,
>;

/// The parts from which the layers are made.
pub struct Parts {
    /// The counters of requests.
    pub requests: Arc<Requests>,
    /// The access log, with a line for each request; `None` if it is off.
    pub access_log: Option<AccessLog>,
    /// The audit log; `None` if there is none.
    pub audit: Option<Audit>,
    /// True if the log may name tables.
    pub log_names: bool,
    /// True if changes need the audit log.
    pub audit_required: bool,
    /// The receiver of each request's spans; `None` if there is none.
    pub spans: Option<Arc<dyn Recorder>>,
    /// The limits on requests that are served at a time.
    pub limits: LimitsLayer,
    /// The path that tells load balancers whether the gateway serves; `None` if there is none.
    pub health: Option<HealthPath>,
    /// The gateways that share the batch log; `None` if it is for one process only.
    pub sharing: Option<Arc<Sharing>>,
    /// The verifier of callers' tokens.
    pub verifier: Arc<Verifier>,
    /// The limits on each caller's request rate; `None` if there are none.
    pub rates: Option<Arc<Rates>>,
    /// The layer that collects the context of a request.
    pub context: TakeContextLayer,
    /// The access rules; `None` if every caller may do everything.
    pub rules: Option<Arc<Rules>>,
}

/// Puts the layers around `gateway`.
pub fn stack(parts: Parts, gateway: Gateway) -> Stack {
    let metrics = MetricsLayer::new(parts.requests);
    let places = Arc::clone(parts.limits.places());
    let required = parts.audit.clone().filter(|_| parts.audit_required);
    let watchers = [metrics.watcher(), parts.limits.watcher()];
    ServiceBuilder::new()
        // First, before anything can fail, so that every response carries the request's id.
        .layer(TraceLayer::new(
            parts.access_log,
            parts.audit,
            parts.spans,
            watchers,
        ))
        // Outside of `rescue`, so that responses which the gateway itself makes are counted like any other.
        .layer(metrics)
        // Every layer further in may fail; no layer further out can.
        .layer(RescueLayer::new(parts.log_names))
        // Before authentication: a caller without a token learns which routes exist, and nothing else.
        .layer(RecognizeLayer::new(parts.health))
        // Before anything that depends on the caller, and before anything that takes a place or reads a body.
        .layer(AuthenticateLayer::new(parts.verifier))
        // After authentication: whoever has shown no token takes no place of those who have.
        .layer(parts.limits)
        // As soon as the caller is known: one that sends too many requests, or takes more than its share of the
        // places, must not keep others out.
        .layer(RateLayer::new(parts.rates).sharing(places))
        // Before the request is changed: the gateway that has the batch log gets it as the client sent it.
        .layer(ShareLayer::new(parts.sharing))
        // After authentication, because claims win over headers.
        .layer(parts.context)
        // A denial rests on everything known by now, and nothing of the denied request has been started.
        .layer(AuthorizeLayer::new(parts.rules))
        // Last: what was refused before has changed nothing, and needs no acknowledged line.
        .layer(AuditLayer::new(required))
        .service(gateway)
}
