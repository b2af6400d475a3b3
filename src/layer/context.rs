//! Turns a request's context headers into its [`Context`], under the rule that a claim wins over a header.
//!
//! The headers themselves go no further. Entries of a body are added later, where the body is read.

use std::sync::Arc;

use http::Request;
use tower::Layer;

use super::guard::{Guard, GuardService};
use crate::body::Body;
use crate::error::Error;
use crate::protocol::context::{ClaimEntries, Context, ContextRules, Source};
use crate::request::RequestRecord;
use crate::request::context::RequestContext;

/// Makes [`TakeContext`].
#[derive(Clone)]
pub struct TakeContextLayer(Arc<ContextRules>);

/// The service. It notes the [`Context`].
pub type TakeContext<S> = GuardService<S, TakeContextLayer>;

impl TakeContextLayer {
    /// Takes the headers that `rules` define as context.
    pub fn new(rules: ContextRules) -> Self {
        Self(Arc::new(rules))
    }
}

impl<S> Layer<S> for TakeContextLayer {
    type Service = TakeContext<S>;

    fn layer(&self, inner: S) -> TakeContext<S> {
        GuardService::new(inner, self.clone())
    }
}

impl Guard for TakeContextLayer {
    fn admit(&self, request: &mut Request<Body>) -> Result<(), Error> {
        take(request, &self.0)
    }
}

fn take(request: &mut Request<Body>, rules: &ContextRules) -> Result<(), Error> {
    let principal = &RequestContext::of(request.extensions()).principal;
    let claims = principal
        .as_ref()
        .map_or_else(ClaimEntries::default, |p| p.context().clone());
    let context = Context::take(request.headers_mut(), rules, claims)?;
    if context.shows() {
        let claims = context.shown(Source::Claim);
        RequestRecord::of(request).described(claims.chain(context.shown(Source::Header)));
    }
    RequestContext::more(request.extensions_mut()).context = Some(context);
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests say what they expect")]

    use http::{Response, StatusCode};
    use tower::{ServiceExt as _, service_fn};

    use super::*;
    use crate::protocol::principal::{Identity, Principal};

    fn rules(shown: &[&str]) -> ContextRules {
        let shown = shown.iter().map(|&key| key.to_owned());
        ContextRules::new(vec!["x-ns-ctx-".to_owned()], 4, 100).showing(shown.collect())
    }

    fn caller() -> Principal {
        let tenant = [("tenant", Some("acme".to_owned()))];
        Principal::new(Identity {
            issuer: "https://one.test".into(),
            context: ClaimEntries::new(tenant).unwrap(),
            ..Identity::default()
        })
    }

    /// Returns the request that the inner services get for these headers.
    async fn ask(rules: ContextRules, headers: &[(&str, &str)]) -> Result<Request<Body>, Error> {
        let inner = service_fn(async |request: Request<Body>| {
            let mut response = Response::new(Body::empty());
            response
                .extensions_mut()
                .insert(Arc::new(std::sync::Mutex::new(Some(request))));
            Ok::<_, Error>(response)
        });
        let mut request = Request::builder();
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut request = request.body(Body::empty()).unwrap();
        RequestContext::more(request.extensions_mut()).principal = Some(caller());
        let service = TakeContextLayer::new(rules).layer(inner);
        let response = service.oneshot(request).await?;
        let kept = response
            .extensions()
            .get::<Arc<std::sync::Mutex<Option<Request<Body>>>>>();
        Ok(kept.unwrap().lock().unwrap().take().unwrap())
    }

    #[tokio::test]
    async fn the_layers_inside_see_entries_and_no_headers() {
        let headers = [
            ("x-ns-ctx-tenant", "evil"),
            ("x-ns-ctx-team", "red"),
            ("accept", "*/*"),
        ];
        let request = ask(rules(&[]), &headers).await.unwrap();
        assert_eq!(request.headers().keys().collect::<Vec<_>>(), ["accept"]);
        let context = RequestContext::of(request.extensions())
            .context
            .as_ref()
            .unwrap();
        let entries: Vec<_> = context.iter().map(|e| (e.key(), e.value())).collect();
        assert_eq!(entries, [("tenant", "acme"), ("team", "red")]);
    }

    #[tokio::test]
    async fn the_access_log_shows_what_it_was_told_to() {
        let headers = [("x-ns-ctx-team", "red"), ("x-ns-ctx-secret", "x")];
        let shown = rules(&["team", "tenant", "absent", "run"]);
        let mut request = ask(shown, &headers).await.unwrap();
        let exchange = Arc::clone(RequestRecord::of(&mut request));
        let context = RequestContext::more(request.extensions_mut())
            .context
            .as_mut();
        let context = context.unwrap();
        assert!(context.add_body("Run", "7").unwrap());
        exchange.described(context.shown(Source::Body));
        let shown = exchange.context();
        let shown: Vec<_> = shown
            .iter()
            .map(|(key, value)| (&**key, &**value))
            .collect();
        assert_eq!(shown, [("tenant", "acme"), ("team", "red"), ("run", "7")]);
    }

    #[tokio::test]
    async fn context_that_cannot_be_carried_is_refused() {
        let headers = [("x-ns-ctx-team", "red"), ("x-ns-ctx-team", "blue")];
        let error = ask(rules(&[]), &headers).await.unwrap_err();
        assert_eq!(
            (error.status(), error.code().number()),
            (StatusCode::BAD_REQUEST, 13)
        );
        assert_eq!(
            error.message(),
            "the context entry `team` is given more than once"
        );
    }
}
