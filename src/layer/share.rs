//! Refuses a caller that has its share of the requests served at a time, once more than half of the places are taken.

use std::sync::Arc;

use http::Request;
use tower::Layer;

use super::guard::{Guard, Guarded};
use crate::body::Body;
use crate::error::Error;
use crate::exchange::Exchange;
use crate::exchange::caller::Caller;
use crate::exchange::learned::Learned;
use crate::exchange::places::Places;

/// Makes [`Share`]; all that it makes share the places.
#[derive(Clone)]
pub struct ShareLayer(Arc<Places>);

/// The service.
pub type Share<S> = Guarded<S, ShareLayer>;

impl ShareLayer {
    /// Of these places.
    pub fn new(places: Arc<Places>) -> Self {
        Self(places)
    }
}

impl<S> Layer<S> for ShareLayer {
    type Service = Share<S>;

    fn layer(&self, inner: S) -> Share<S> {
        Guarded::new(inner, self.clone())
    }
}

impl Guard for ShareLayer {
    fn admit(&self, request: &mut Request<Body>) -> Result<(), Error> {
        if !self.0.is_scarce() {
            return Ok(());
        }
        let exchange: Option<Arc<Exchange>> = Learned::of(request.extensions()).exchange.clone();
        let counted = exchange
            .as_ref()
            .is_none_or(|exchange| self.0.count(&Caller::of(request), exchange));
        if counted {
            return Ok(());
        }
        Err(Error::unavailable(
            "this caller has as many requests under way as one may have: try again when some have ended",
        )
        .retry_after(1))
    }
}
