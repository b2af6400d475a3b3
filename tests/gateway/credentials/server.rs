//! A token server on a loopback port that issues numbered tokens, and misbehaves when ordered to.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::catalog::faults::Gate;

/// The behaviour of the server.
#[derive(Clone)]
pub enum Way {
    /// Issues a token that is valid for this number of seconds.
    Good(u64),
    /// Answers this status, content type and body; TOKEN in the body stands for a token.
    Says(u16, &'static str, &'static str),
    /// Redirects to another address.
    Redirect(String),
    /// Sends a body that does not end.
    Endless,
    /// Issues tokens in exchange for others, but none for the gateway itself.
    OnlyTrades,
    /// Issues a token, but only once the gate opens.
    Held(Gate),
}

/// A request that the server received.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The client id and secret from `Authorization: Basic`, still percent-encoded.
    pub client: String,
    pub target: String,
    pub form: BTreeMap<String, String>,
}

pub struct TokenServer {
    pub address: SocketAddr,
    shared: Arc<Mutex<Shared>>,
    serving: JoinHandle<()>,
}

struct Shared {
    way: Way,
    asked: Vec<Asked>,
}

impl TokenServer {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Mutex::new(Shared {
            way: Way::Good(3600),
            asked: Vec::new(),
        }));
        let state = shared.clone();
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = state.clone();
                let answer = service_fn(move |request| answer(state.clone(), request));
                let server = hyper::server::conn::http1::Builder::new();
                tokio::spawn(server.serve_connection(TokioIo::new(stream), answer));
            }
        });
        Self {
            address,
            shared,
            serving,
        }
    }

    /// The line for a backend's section that configures this server.
    pub fn oauth(&self, more: &str) -> String {
        let url = format!("http://{}/realm/token?tenant=1", self.address);
        format!(
            "oauth: {{ token_url: \"{url}\", client_id: nsgate, client_secret: hunter2hunter2{more} }}"
        )
    }

    pub fn set(&self, way: Way) {
        self.shared.lock().unwrap().way = way;
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.shared.lock().unwrap().asked.clone()
    }
}

impl Drop for TokenServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn answer(
    shared: Arc<Mutex<Shared>>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    assert_eq!(head.method, http::Method::POST);
    let kind = head.headers["content-type"].to_str().unwrap();
    assert_eq!(kind, "application/x-www-form-urlencoded");
    let basic = head.headers["authorization"].to_str().unwrap();
    let basic = BASE64
        .decode(basic.strip_prefix("Basic ").unwrap())
        .unwrap();
    let asked = Asked {
        client: String::from_utf8(basic).unwrap(),
        target: head.uri.to_string(),
        form: form(&body),
    };
    let (way, number) = {
        let mut shared = shared.lock().unwrap();
        shared.asked.push(asked.clone());
        (shared.way.clone(), shared.asked.len())
    };
    // The token shows whether it was issued for the gateway itself or in an exchange.
    let token = match asked.form.get("subject_token") {
        None => format!("own-{number}"),
        Some(_) => format!("traded-{number}"),
    };
    let good = |life: u64| {
        let body =
            format!(r#"{{"access_token":"{token}","token_type":"bearer","expires_in":{life}}}"#);
        (200, "application/json", body)
    };
    let (status, kind, body) = match &way {
        Way::Good(life) => good(*life),
        Way::Says(status, kind, body) => (*status, *kind, body.replace("TOKEN", &token)),
        Way::OnlyTrades if token.starts_with("own") => {
            let body = r#"{"error":"unauthorized_client"}"#.to_owned();
            (400, "application/json", body)
        }
        Way::OnlyTrades => good(3600),
        Way::Redirect(_) => (302, "text/plain", String::new()),
        Way::Endless => (200, "application/json", " ".repeat(1 << 20)),
        Way::Held(gate) => {
            gate.pass().await;
            good(3600)
        }
    };
    let mut response = Response::builder()
        .status(status)
        .header("content-type", kind);
    if let Way::Redirect(to) = &way {
        response = response.header("location", to);
    }
    Ok(response.body(Full::from(body)).unwrap())
}

fn form(body: &[u8]) -> BTreeMap<String, String> {
    let text = std::str::from_utf8(body).unwrap();
    let decode = |part: &str| {
        let part = part.replace('+', " ");
        let decoded = percent_encoding::percent_decode_str(&part).decode_utf8();
        decoded.unwrap().into_owned()
    };
    let mut form = BTreeMap::new();
    for pair in text.split('&') {
        let (name, value) = pair.split_once('=').unwrap();
        let twice = form.insert(decode(name), decode(value));
        assert!(twice.is_none(), "{name} twice in {text}");
    }
    form
}
