//! The authenticate layer as a client meets it, with keys and clock that the test sets.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::{Ready, ready};
use http::{HeaderValue, Request, Response, header};
use nsgate::auth::keys::{Clock, Keys};
use nsgate::body::Body;
use nsgate::config::{Algorithm, Auth, Issuer, KeySource};
use nsgate::error::Error;
use nsgate::layer::authenticate::{Authenticate, AuthenticateLayer, Verifier};
use nsgate::metrics::Metrics;
use nsgate::protocol::principal::Principal;
use nsgate::request::context::RequestContext;
use tower::{Layer, Service, ServiceExt};

use crate::forge::{NOW, ONE};
use crate::log;

pub struct Door {
    pub keys: Keys,
    pub clock: Arc<Hands>,
    pub metrics: Metrics,
    service: Authenticate<Inside>,
}

/// A client's connection, which outlives its requests.
pub struct Connection(Authenticate<Inside>);

/// A clock that the test sets: wall clock and steady clock.
pub struct Hands(Mutex<(Duration, Duration)>);

/// The service behind the layer. It returns the request's extensions.
#[derive(Clone)]
struct Inside;

impl Service<Request<Body>> for Inside {
    type Response = Response<Body>;
    type Error = Error;
    type Future = Ready<Result<Response<Body>, Error>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Error>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let kept = request.headers().get(header::AUTHORIZATION);
        assert!(kept.expect("it stays for the backend").is_sensitive());
        let mut response = Response::new(Body::empty());
        std::mem::swap(response.extensions_mut(), request.extensions_mut());
        ready(Ok(response))
    }
}

/// Returns issuer one with keys from this address and its usual rules.
pub fn one(keys: &str) -> Issuer {
    let mut issuer = Issuer::new(ONE, "catalog");
    issuer.algorithms = vec![
        Algorithm::RS256,
        Algorithm::PS256,
        Algorithm::ES256,
        Algorithm::EdDSA,
    ];
    issuer.keys.source = KeySource::Url(keys.parse().unwrap());
    issuer.require = [(
        "tenant".to_owned(),
        vec!["acme".to_owned(), "umbrella".to_owned()],
    )]
    .into();
    issuer.context = [("tenant".to_owned(), "tenant".to_owned())].into();
    issuer
}

/// Returns issuer one with keys from a file.
pub fn from_file(keys: &Path) -> Issuer {
    let mut issuer = one("http://127.0.0.1/");
    issuer.keys.source = KeySource::File(keys.to_owned());
    issuer
}

impl Door {
    /// Makes a door that has fetched no keys yet.
    pub fn new(issuers: Vec<Issuer>) -> Self {
        log::start();
        let clock = Arc::new(Hands(Mutex::new((
            Duration::from_secs(NOW),
            Duration::ZERO,
        ))));
        let metrics = Metrics::new();
        let auth = Auth {
            issuers,
            anonymous: false,
        };
        let shared: Arc<dyn Clock> = clock.clone();
        let keys = Keys::new(&auth, &shared, metrics.auth()).unwrap();
        let verifier = Verifier::new(&keys, shared, metrics.auth().clone());
        Self {
            service: AuthenticateLayer::new(Arc::new(verifier)).layer(Inside),
            keys,
            clock,
            metrics,
        }
    }

    /// Makes a door that has fetched the keys of every issuer.
    pub async fn open(issuers: Vec<Issuer>) -> Self {
        let door = Self::new(issuers);
        door.refresh().await;
        door
    }

    /// Fetches the keys of every issuer.
    pub async fn refresh(&self) {
        for issuer in self.keys.issuers() {
            issuer.refresh().await;
        }
    }

    /// Connects a new client.
    pub fn connect(&self) -> Connection {
        Connection(self.service.clone())
    }

    /// Returns the caller of a request with this token, the first request of its connection.
    pub async fn ask(&self, token: &str) -> Result<Principal, Error> {
        self.connect().ask(token).await
    }

    /// Returns the caller of a request with these `Authorization` headers.
    pub async fn ask_with(&self, values: &[&[u8]]) -> Result<Principal, Error> {
        self.connect().ask_with(values).await
    }

    /// Returns true if the metrics have this line.
    pub fn shows(&self, line: &str) -> bool {
        let text = self.metrics.render().unwrap();
        text.lines().any(|shown| shown == line)
    }

    /// Returns the value of a metric; 0 if it is missing.
    pub fn metric(&self, series: &str) -> u64 {
        let text = self.metrics.render().unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(series));
        line.map_or(0, |value| value.trim().parse().unwrap())
    }
}

impl Hands {
    /// Advances both clocks.
    pub fn advance(&self, seconds: u64) {
        let mut hands = self.0.lock().unwrap();
        hands.0 += Duration::from_secs(seconds);
        hands.1 += Duration::from_secs(seconds);
    }
}

impl Clock for Hands {
    fn wall(&self) -> Duration {
        self.0.lock().unwrap().0
    }

    fn steady(&self) -> Duration {
        self.0.lock().unwrap().1
    }
}

impl Connection {
    /// Returns the caller of a request with this token.
    pub async fn ask(&mut self, token: &str) -> Result<Principal, Error> {
        self.ask_with(&[format!("Bearer {token}").as_bytes()]).await
    }

    async fn ask_with(&mut self, values: &[&[u8]]) -> Result<Principal, Error> {
        let mut request = Request::new(Body::empty());
        for value in values {
            let value = HeaderValue::from_bytes(value).unwrap();
            request.headers_mut().append(header::AUTHORIZATION, value);
        }
        let mut response = self.0.ready().await?.call(request).await?;
        let learned = response.extensions_mut().remove::<RequestContext>();
        Ok(learned
            .and_then(|learned| learned.principal)
            .expect("a principal"))
    }
}
