//! Authentication: a request goes on with a [`Principal`], or is refused.
//!
//! The `Authorization` header stays: the backend's policy decides what becomes of it. A token that was verified before
//! costs a lookup and a comparison. A new one is verified at once, and its request yields once ([`YieldOnce`]). Only a
//! token whose key is unknown waits, for at most the time of one fetch.

mod memory;
mod seen;
mod turn;
mod verifier;

use std::borrow::BorrowMut;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::Either;
use http::header::AUTHORIZATION;
use http::{HeaderValue, Request, Response};
use tower::{Layer, Service};

use super::refused::RefusedFuture;
use crate::auth::token::{Refusal, bearer, claimed};
use crate::body::Body;
use crate::error::Error;
use crate::error::code::Code;
use crate::error::retry_after::RetryAfter;
use crate::protocol::principal::Principal;
use crate::request::context::RequestContext;

pub use turn::YieldOnce;
pub use verifier::Verifier;
use verifier::{LastCredential, Verdict};

/// Makes [`Authenticate`] services, which share the verified tokens.
#[derive(Clone)]
pub struct AuthenticateLayer(Arc<Verifier>);

/// The service, one for each connection. It notes the [`Principal`].
pub struct Authenticate<S> {
    inner: S,
    verifier: Arc<Verifier>,
    last: LastCredential,
}

type Answer = Result<Response<Body>, Error>;

impl AuthenticateLayer {
    /// Admits the callers that `verifier` accepts.
    pub fn new(verifier: Arc<Verifier>) -> Self {
        Self(verifier)
    }
}

impl<S> Layer<S> for AuthenticateLayer {
    type Service = Authenticate<S>;

    fn layer(&self, inner: S) -> Authenticate<S> {
        Authenticate {
            inner,
            verifier: Arc::clone(&self.0),
            last: LastCredential::default(),
        }
    }
}

/// A clone starts without the last credential: it is for another connection.
impl<S: Clone> Clone for Authenticate<S> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            verifier: Arc::clone(&self.verifier),
            last: LastCredential::default(),
        }
    }
}

impl<S, R> Service<R> for Authenticate<S>
where
    R: BorrowMut<Request<Body>> + Send + 'static,
    S: Service<R, Response = Response<Body>, Error = Error> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Response<Body>;
    type Error = Error;
    type Future = Either<
        YieldOnce<S::Future>,
        Either<RefusedFuture, Pin<Box<dyn Future<Output = Answer> + Send>>>,
    >;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: R) -> Self::Future {
        let asked = request.borrow_mut();
        if let Some(credentials) = asked.headers_mut().get_mut(AUTHORIZATION) {
            // `Debug` does not show a sensitive value, and no HTTP/2 connection to a catalog keeps it in its table.
            credentials.set_sensitive(true);
        }
        let wait = match self.verifier.judge(asked, &mut self.last) {
            Ok(Verdict::Known(principal)) => {
                admit(asked, principal);
                return Either::Left(YieldOnce::new(false, self.inner.call(request)));
            }
            Ok(Verdict::Checked(principal)) => {
                admit(asked, principal);
                return Either::Left(YieldOnce::new(true, self.inner.call(request)));
            }
            Ok(Verdict::Later(wait)) => wait,
            Err(refusal) => {
                self.verifier.count(&refusal);
                tell(asked, &refusal);
                return Either::Right(Either::Left(RefusedFuture::with(refusal)));
            }
        };
        // The service that was polled ready must be the one that is called.
        let spare = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, spare);
        let verifier = Arc::clone(&self.verifier);
        Either::Right(Either::Right(Box::pin(async move {
            wait.over().await;
            let asked = request.borrow_mut();
            match verifier.judge_again(asked) {
                Ok(principal) => admit(asked, principal),
                Err(refusal) => {
                    verifier.count(&refusal);
                    tell(asked, &refusal);
                    return Err(refusal.into());
                }
            }
            inner.call(request).await
        })))
    }
}

fn admit(request: &mut Request<Body>, principal: Principal) {
    let learned = RequestContext::more(request.extensions_mut());
    if let Some(exchange) = &learned.exchange
        && !principal.is_anonymous()
    {
        exchange.authenticated(&principal);
    }
    learned.principal = Some(principal);
}

/// Notes for operators what a refused token states about itself.
fn tell(request: &Request<Body>, refusal: &Refusal) {
    let learned = RequestContext::of(request.extensions());
    let stated = bearer(request.headers()).ok().and_then(claimed);
    if let (Some(exchange), Some(stated)) = (&learned.exchange, stated) {
        exchange.explained(format!("{refusal}; unverified, the token states {stated}"));
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        let reason = refusal.reason();
        if refusal == Refusal::NoKeys {
            let error = Self::unavailable(refusal.to_string()).with_retry_after(RetryAfter::KEYS);
            return error.because(reason);
        }
        let challenge = match &refusal {
            // RFC 6750, section 3.1: a challenge names no error if there was no token.
            Refusal::Missing => Ok(HeaderValue::from_static("Bearer")),
            refusal => HeaderValue::try_from(format!(
                r#"Bearer error="invalid_token", error_description="{refusal}""#
            )),
        };
        let challenge =
            challenge.unwrap_or(HeaderValue::from_static(r#"Bearer error="invalid_token""#));
        let error = Self::new(Code::Unauthenticated, refusal.to_string());
        error.challenge(challenge).because(reason)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests say what they expect")]

    use tower::{ServiceExt as _, service_fn};

    use super::*;
    use crate::auth::keys::{Clock, Keys, SystemClock};
    use crate::config::Auth;
    use crate::metrics::Metrics;

    #[tokio::test]
    async fn where_nobody_is_asked_who_they_are_everyone_is_the_same() {
        let metrics = Metrics::new();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let keys = Keys::new(&Auth::default(), &clock, metrics.auth()).unwrap();
        let nobody = Verifier::new(&keys, clock, metrics.auth().clone());
        let inner = service_fn(async |request: Request<Body>| {
            let principal = &RequestContext::of(request.extensions()).principal;
            assert!(principal.as_ref().unwrap().is_anonymous());
            Ok::<_, Error>(Response::new(Body::empty()))
        });
        let everyone = AuthenticateLayer::new(Arc::new(nobody.anonymous())).layer(inner);
        for credentials in ["", "Basic x", "Bearer forged"] {
            let request = Request::builder().header("authorization", credentials);
            let request = request.body(Body::empty()).unwrap();
            everyone.clone().oneshot(request).await.unwrap();
        }
        assert_eq!(keys.missing().count(), 0, "there is nothing to wait for");
    }

    #[test]
    fn a_refusal_can_always_be_a_header() {
        let refusals = [
            Refusal::Missing,
            Refusal::Credentials("x"),
            Refusal::Required("a".repeat(100)),
            Refusal::Required("\r\n".to_owned()),
        ];
        for refusal in refusals {
            let error = Error::from(refusal);
            let challenge = error.headers()[0].1.to_str().unwrap();
            assert!(challenge.starts_with("Bearer"), "{challenge}");
        }
    }
}
