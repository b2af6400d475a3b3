//! Refuses requests beyond the number that may be served at a time.
//!
//! Requests never wait here: a queue in front of a gateway that is too slow makes it slower. A place is given back
//! when the response has ended, not when it began, because a body that streams costs as long as it streams.

use std::sync::Arc;

use http::Request;
use tower::Layer;

use super::guard::{Guard, GuardService};
use crate::body::Body;
use crate::error::Error;
use crate::error::retry_after::RetryAfter;
use crate::metrics::Limit;
use crate::request::CompletionObserver;
use crate::request::context::RequestContext;
use crate::request::places::Places;

/// Makes [`Limits`] services, which share the places.
#[derive(Clone)]
pub struct LimitsLayer(Arc<Places>);

/// The service of [`LimitsLayer`].
pub type Limits<S> = GuardService<S, LimitsLayer>;

impl LimitsLayer {
    /// Admits at most as many requests at a time as there are `places`.
    pub fn new(places: Arc<Places>) -> Self {
        Self(places)
    }

    /// The shared places.
    pub fn places(&self) -> &Arc<Places> {
        &self.0
    }

    /// Returns the observer that frees the place of each request at its end.
    pub fn watcher(&self) -> Arc<dyn CompletionObserver> {
        Arc::clone(&self.0) as Arc<dyn CompletionObserver>
    }
}

impl<S> Layer<S> for LimitsLayer {
    type Service = Limits<S>;

    fn layer(&self, inner: S) -> Limits<S> {
        GuardService::new(inner, self.clone())
    }
}

impl Guard for LimitsLayer {
    fn admit(&self, request: &mut Request<Body>) -> Result<(), Error> {
        if !self.0.take() {
            return Err(full());
        }
        // Whoever watches it has begun its record.
        if let Some(exchange) = &RequestContext::of(request.extensions()).exchange {
            exchange.served();
        }
        Ok(())
    }
}

fn full() -> Error {
    Error::unavailable("the gateway has reached its limit of requests in flight; retry later")
        .because(Limit::InFlight.as_str())
        .with_retry_after(RetryAfter::SOON)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use futures_util::FutureExt as _;
    use http::{Response, StatusCode};
    use tower::{Service, service_fn};

    use super::*;
    use crate::request::RequestRecord;

    /// Acts as the outermost layer does: the end of the response's body is the end of the exchange.
    async fn ask<S>(limits: &LimitsLayer, service: &mut S) -> Result<Response<Body>, Error>
    where
        S: Service<Request<Body>, Response = Response<Body>, Error = Error>,
    {
        let mut request = Request::default();
        let watchers = [limits.watcher()].into_iter().collect();
        let exchange = RequestRecord::begin(None, watchers);
        RequestContext::more(request.extensions_mut()).exchange = Some(Arc::clone(&exchange));
        let mut response = service.call(request).await?;
        exchange.observe_response(response.body_mut());
        Ok(response)
    }

    #[tokio::test]
    async fn a_place_is_free_again_when_the_response_has_ended_or_was_given_up() {
        let inner =
            service_fn(async |_: Request<Body>| Ok::<_, Error>(Response::new(Body::full("x"))));
        let limits = LimitsLayer::new(Arc::new(Places::new(2, 75)));
        let mut service = limits.layer(inner);
        let first = ask(&limits, &mut service).await.unwrap();
        let second = ask(&limits, &mut service).await.unwrap();
        let refused = ask(&limits, &mut service).await.unwrap_err();
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(refused.code().number(), 17);
        assert_eq!(refused.retry_after(), Some(RetryAfter::SOON));

        first.into_body().collect_up_to(9).await.unwrap();
        let third = ask(&limits, &mut service).await.unwrap();
        ask(&limits, &mut service).await.unwrap_err();
        drop(second);
        let fourth = ask(&limits, &mut service).await.unwrap();
        ask(&limits, &mut service).await.unwrap_err();
        drop((third, fourth));
    }

    #[tokio::test]
    async fn a_place_is_free_again_when_the_inner_service_fails_or_is_dropped() {
        let inner =
            service_fn(async |_: Request<Body>| Err::<Response<Body>, _>(Error::invalid("no")));
        let limits = LimitsLayer::new(Arc::new(Places::new(1, 75)));
        let mut service = limits.layer(inner);
        for _ in 0..3 {
            assert_eq!(
                ask(&limits, &mut service)
                    .await
                    .unwrap_err()
                    .code()
                    .number(),
                13
            );
        }
        let inner = service_fn(async |_: Request<Body>| {
            std::future::pending::<Result<Response<Body>, Error>>().await
        });
        let limits = LimitsLayer::new(Arc::new(Places::new(1, 75)));
        let mut service = limits.layer(inner);
        for _ in 0..3 {
            let mut asked = Box::pin(ask(&limits, &mut service));
            assert!(asked.as_mut().now_or_never().is_none());
        }
    }
}
