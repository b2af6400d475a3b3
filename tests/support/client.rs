//! A client of the contract: sends bytes exactly as given and reads the answer.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::PATIENCE;

/// The type of all request bodies.
pub type Body = UnsyncBoxBody<Bytes, std::io::Error>;

/// A client with a connection pool. Clones are cheap and share the pool.
#[derive(Clone)]
pub struct Client {
    base: String,
    inner: hyper_util::client::legacy::Client<HttpsConnector<HttpConnector>, Body>,
    headers: HeaderMap,
}

/// An answer that was read to its end.
#[derive(Debug, Clone)]
pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Client {
    /// Makes a client that speaks HTTP/1.1.
    pub fn new(address: SocketAddr) -> Self {
        Self::with(format!("http://{address}"), plain(), false)
    }

    /// Makes a client that speaks HTTP/2 with prior knowledge.
    pub fn h2(address: SocketAddr) -> Self {
        Self::with(format!("http://{address}"), plain(), true)
    }

    /// Makes a client that speaks TLS to `localhost`, with HTTP/2 inside if `http2` is true, else
    /// HTTP/1.1.
    pub fn tls(port: u16, config: rustls::ClientConfig, http2: bool) -> Self {
        let builder = HttpsConnectorBuilder::new()
            .with_tls_config(config)
            .https_only();
        let connector = if http2 {
            builder.enable_http2().build()
        } else {
            builder.enable_http1().build()
        };
        Self::with(format!("https://localhost:{port}"), connector, http2)
    }

    fn with(base: String, connector: HttpsConnector<HttpConnector>, http2: bool) -> Self {
        let inner = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .http2_only(http2)
            .build(connector);
        Self {
            base,
            inner,
            headers: HeaderMap::new(),
        }
    }

    /// Returns a copy of the client that adds a header to every request.
    pub fn header(&self, name: &'static str, value: &str) -> Self {
        let mut other = self.clone();
        let value = value.parse().expect("a header value");
        other.headers.append(name, value);
        other
    }

    /// Returns a copy of the client without the header `name`.
    pub fn without(&self, name: &str) -> Self {
        let mut other = self.clone();
        other.headers.remove(name);
        other
    }

    pub async fn get(&self, target: &str) -> Reply {
        let reply = self.send(Method::GET, target, empty()).await;
        reply.unwrap_or_else(|error| panic!("GET {target}: {error}"))
    }

    /// Sends a POST with a JSON body.
    pub async fn post(&self, target: &str, body: &Value) -> Reply {
        self.post_bytes(target, body.to_string()).await
    }

    /// Sends a POST with these bytes as its JSON body.
    pub async fn post_bytes(&self, target: &str, body: impl Into<Bytes>) -> Reply {
        let client = self.typed("application/json");
        let reply = client.send(Method::POST, target, full(body)).await;
        reply.unwrap_or_else(|error| panic!("POST {target}: {error}"))
    }

    /// Sends a POST without a body.
    pub async fn post_nothing(&self, target: &str) -> Reply {
        let reply = self.send(Method::POST, target, empty()).await;
        reply.unwrap_or_else(|error| panic!("POST {target}: {error}"))
    }

    /// Sends a POST with rows.
    pub async fn post_rows(&self, target: &str, body: Body) -> Reply {
        let client = self.typed("application/vnd.apache.arrow.stream");
        let reply = client.send(Method::POST, target, body).await;
        reply.unwrap_or_else(|error| panic!("POST {target}: {error}"))
    }

    /// Sends a request and reads the answer to its end; an error says why there is no whole answer.
    pub async fn send(&self, method: Method, target: &str, body: Body) -> Result<Reply, String> {
        let response = self.open(method, target, body).await?;
        let (parts, body) = response.into_parts();
        let body = tokio::time::timeout(PATIENCE, body.collect()).await;
        let body = body.map_err(|_| "no end of the answer")?;
        Ok(Reply {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body: body.map_err(|error| error.to_string())?.to_bytes(),
        })
    }

    /// Sends a request and returns the answer with its body still to be read.
    pub async fn open(
        &self,
        method: Method,
        target: &str,
        body: Body,
    ) -> Result<http::Response<hyper::body::Incoming>, String> {
        let uri = format!("{}{target}", self.base);
        let mut request = Request::new(body);
        *request.uri_mut() = uri.parse().map_err(|error| format!("{error}"))?;
        *request.method_mut() = method;
        request.headers_mut().extend(self.headers.clone());
        let sent = tokio::time::timeout(PATIENCE, self.inner.request(request)).await;
        sent.map_err(|_| "no answer")?
            .map_err(|error| error.to_string())
    }

    fn typed(&self, kind: &str) -> Self {
        if self.headers.contains_key("content-type") {
            self.clone()
        } else {
            self.header("content-type", kind)
        }
    }
}

impl Reply {
    /// Parses the body as JSON; panics if it is not JSON.
    pub fn json(&self) -> Value {
        let parsed = serde_json::from_slice(&self.body);
        parsed.unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Returns the status, and the code of an error in the contract's shape; `None` for other
    /// bodies.
    pub fn outcome(&self) -> (u16, Option<u64>) {
        let body: Option<Value> = serde_json::from_slice(&self.body).ok();
        let code = body.and_then(|body| body.get("code")?.as_u64());
        (self.status, code)
    }

    /// The text of the error.
    pub fn words(&self) -> String {
        self.json()["error"].as_str().unwrap_or_default().to_owned()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Returns itself if the status is 200; panics otherwise.
    pub fn ok(self) -> Self {
        assert_eq!(self.status, StatusCode::OK, "{self:?}");
        self
    }
}

/// Makes a connector for clients that do not use TLS.
fn plain() -> HttpsConnector<HttpConnector> {
    let provider = std::sync::Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("its versions are the provider's")
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    HttpsConnectorBuilder::new()
        .with_tls_config(config)
        .https_or_http()
        .enable_http1()
        .build()
}

pub fn empty() -> Body {
    full(Bytes::new())
}

pub fn full(body: impl Into<Bytes>) -> Body {
    Full::new(body.into())
        .map_err(std::io::Error::other)
        .boxed_unsync()
}

/// Sends bytes as they are, and returns everything that came back until the other side closed.
pub async fn raw(address: SocketAddr, bytes: &[u8]) -> String {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await.expect("a connection");
        let _ = stream.write_all(bytes).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    };
    let answer = tokio::time::timeout(PATIENCE, exchange).await;
    answer.expect("the other side closes")
}
