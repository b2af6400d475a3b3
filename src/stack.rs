//! THE list of layers that every request goes through, outermost first.

mod current;

use std::sync::Arc;

use tower::ServiceBuilder;

use crate::auth::access::Rules;

use crate::gateway::Gateway;
use crate::layer::authenticate::{Authenticate, AuthenticateLayer, Verifier};
use crate::layer::authorize::{Authorize, AuthorizeLayer};
use crate::layer::context::{TakeContext, TakeContextLayer};
use crate::layer::limits::{Limits, LimitsLayer};
use crate::layer::metrics::{Metrics, MetricsLayer};
use crate::layer::rate::{Rate, RateLayer, Rates};
use crate::layer::recognize::{Recognize, RecognizeLayer};
use crate::layer::rescue::{Rescue, RescueLayer};
use crate::layer::trace::{Trace, TraceLayer};
use crate::metrics::Requests;
use crate::request::span::Recorder;
use crate::telemetry::Log;
pub use current::Current;

/// The whole stack. A concrete type: no layer costs an allocation for being one.
pub type Stack =
    Trace<Metrics<Rescue<Limits<Recognize<Authenticate<Rate<TakeContext<Authorize<Gateway>>>>>>>>>;

/// What the layers are made of.
pub struct Parts {
    /// Where requests are counted.
    pub requests: Arc<Requests>,
    /// Where each request gets a line; `None`: nowhere.
    pub access_log: Option<Log>,
    /// Where its spans go; `None`: nowhere.
    pub spans: Option<Arc<dyn Recorder>>,
    /// Requests served at a time.
    pub limits: LimitsLayer,
    /// Who may come in.
    pub verifier: Arc<Verifier>,
    /// How often a caller may ask; `None`: as often as it likes.
    pub rates: Option<Arc<Rates>>,
    /// What accompanies a request.
    pub context: TakeContextLayer,
    /// Who may do what; `None`: everyone everything.
    pub rules: Option<Arc<Rules>>,
}

/// Puts the layers around `gateway`.
pub fn stack(parts: Parts, gateway: Gateway) -> Stack {
    let metrics = MetricsLayer::new(parts.requests);
    let places = Arc::clone(parts.limits.places());
    let told = [metrics.watcher(), parts.limits.watcher()];
    ServiceBuilder::new()
        // Before anything can fail, so that every answer carries the request's id.
        .layer(TraceLayer::new(parts.access_log, parts.spans, told))
        // Outside of rescue, so that answers which the gateway makes up are counted like any other.
        .layer(metrics)
        // Everything further in may fail; nothing further out can.
        .layer(RescueLayer)
        // Before any work is done for a request that is too many.
        .layer(parts.limits)
        // Before authentication: who has no token learns which routes exist, and nothing else.
        .layer(RecognizeLayer)
        // Before anything that depends on the caller.
        .layer(AuthenticateLayer::new(parts.verifier))
        // As soon as it is known whose request it is: who asks too often, or takes more than its share of the places,
        // must not keep others out.
        .layer(RateLayer::new(parts.rates).sharing(places))
        // After authentication, because claims win over headers.
        .layer(parts.context)
        // Last: a denial is about what is known by now, and nothing that it denies has been begun.
        .layer(AuthorizeLayer::new(parts.rules))
        .service(gateway)
}
