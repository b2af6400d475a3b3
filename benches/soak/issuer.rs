//! An issuer on loopback that changes its key again and again.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::TcpListener;

use crate::forge::{self, Pair};

pub const ISSUER: &str = "https://soak.test";
/// The lifetime of a token in seconds, shorter than that of a key.
const LIFE: u64 = 120;

/// The issuer. Clones are the same one.
#[derive(Clone)]
pub struct Issuer {
    pub address: SocketAddr,
    keys: Arc<Mutex<Keys>>,
}

/// The last key, the current one, which signs, and the next one, which is published ahead.
struct Keys {
    pairs: [Arc<Pair>; 3],
    generation: u64,
}

impl Issuer {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let pairs = [(); 3].map(|()| Arc::new(Pair::p256()));
        let keys = Keys {
            pairs,
            generation: 1,
        };
        let issuer = Self {
            address: listener.local_addr().unwrap(),
            keys: Arc::new(Mutex::new(keys)),
        };
        let served = issuer.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let issuer = served.clone();
                let service = service_fn(move |_: Request<Incoming>| {
                    let set = issuer.set();
                    async move {
                        let mut response = Response::new(Full::new(Bytes::from(set)));
                        let headers = response.headers_mut();
                        headers.insert("cache-control", "max-age=60".parse().unwrap());
                        Ok::<_, Infallible>(response)
                    }
                });
                let server = hyper::server::conn::http1::Builder::new();
                tokio::spawn(server.serve_connection(TokioIo::new(stream), service));
            }
        });
        issuer
    }

    /// Signs with the next key from now on, and publishes one more.
    pub fn rotate(&self) {
        let mut keys = self.keys.lock().unwrap();
        keys.pairs.rotate_left(1);
        keys.pairs[2] = Arc::new(Pair::p256());
        keys.generation += 1;
    }

    /// Returns the header of a new token of this subject.
    pub fn bearer(&self, subject: &str) -> String {
        self.signed(subject, now() + LIFE)
    }

    /// Returns the header of a token that has expired.
    pub fn expired(&self, subject: &str) -> String {
        self.signed(subject, now() - LIFE)
    }

    fn signed(&self, subject: &str, end: u64) -> String {
        let (pair, name) = {
            let keys = self.keys.lock().unwrap();
            (Arc::clone(&keys.pairs[1]), name(keys.generation))
        };
        let claims = json!({"iss": ISSUER, "aud": "catalog", "sub": subject, "exp": end, "tenant": "acme",
            "jti": fastrand::u64(..), "scope": "catalog.read catalog.write"});
        let token = forge::token(&forge::header("ES256", &name), &claims, &pair);
        format!("Bearer {token}")
    }

    fn set(&self) -> String {
        let keys = self.keys.lock().unwrap();
        let generations = keys.generation - 1..;
        let set: Vec<_> = keys
            .pairs
            .iter()
            .zip(generations)
            .map(|(pair, generation)| pair.jwk(&name(generation)))
            .collect();
        forge::set(&set)
    }
}

fn name(generation: u64) -> String {
    format!("key-{generation}")
}

fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap().as_secs()
}
