//! An issuer on loopback, which publishes what a test sets.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};

/// The path of the key set.
pub const JWKS: &str = "/jwks";

#[derive(Clone)]
pub struct Issuer {
    pub address: SocketAddr,
    state: Arc<State>,
}

struct State {
    answers: Mutex<Vec<Answer>>,
    asked: watch::Sender<Vec<String>>,
    gate: Semaphore,
    serving: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Clone)]
struct Answer {
    path: String,
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Bytes,
}

impl Issuer {
    /// Starts an issuer that publishes nothing yet.
    pub async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let issuer = Self {
            address: listener.local_addr().unwrap(),
            state: Arc::new(State {
                answers: Mutex::default(),
                asked: watch::Sender::default(),
                gate: Semaphore::new(Semaphore::MAX_PERMITS),
                serving: Mutex::default(),
            }),
        };
        issuer.serve(listener);
        issuer
    }

    fn serve(&self, listener: TcpListener) {
        let state = Arc::clone(&self.state);
        let serving = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let state = Arc::clone(&state);
                connections.spawn(async move {
                    let service = service_fn(|request| answer(Arc::clone(&state), request));
                    let http = hyper::server::conn::http1::Builder::new();
                    let _ = http.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        *self.state.serving.lock().unwrap() = Some(serving);
    }

    /// Stops listening, and cuts off open connections.
    pub async fn stop(&self) {
        let serving = self.state.serving.lock().unwrap().take();
        let serving = serving.expect("it serves");
        serving.abort();
        let _ = serving.await;
    }

    /// Listens again at the same address.
    pub async fn restart(&self) {
        self.serve(TcpListener::bind(self.address).await.unwrap());
    }

    /// Starts an issuer with this key set.
    pub async fn with(keys: &str) -> Self {
        let issuer = Self::start().await;
        issuer.publish(JWKS, 200, &[], keys);
        issuer
    }

    pub fn uri(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Sets the answer at `path`.
    pub fn publish(
        &self,
        path: &str,
        status: u16,
        headers: &[(&'static str, &str)],
        body: impl Into<String>,
    ) {
        let headers = headers
            .iter()
            .map(|&(name, value)| (name, value.to_owned()));
        let answer = Answer {
            path: path.to_owned(),
            status,
            headers: headers.collect(),
            body: body.into().into(),
        };
        let mut answers = self.state.answers.lock().unwrap();
        answers.retain(|other| other.path != path);
        answers.push(answer);
    }

    /// Holds back the answers until [`Issuer::open`].
    pub fn close(&self) {
        self.state.gate.forget_permits(Semaphore::MAX_PERMITS);
    }

    pub fn open(&self) {
        self.state.gate.add_permits(1000);
    }

    /// Returns the paths that were requested.
    pub fn asked(&self) -> Vec<String> {
        self.state.asked.borrow().clone()
    }

    /// Waits until this many requests have come.
    pub async fn is_asked(&self, times: usize) {
        let mut asked = self.state.asked.subscribe();
        asked.wait_for(|asked| asked.len() >= times).await.unwrap();
    }
}

async fn answer(
    state: Arc<State>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().to_owned();
    state.asked.send_modify(|asked| asked.push(path.clone()));
    let _open = state.gate.acquire().await.unwrap();
    let answers = state.answers.lock().unwrap();
    let Some(answer) = answers.iter().find(|answer| answer.path == path) else {
        return Ok(Response::builder()
            .status(404)
            .body(Full::default())
            .unwrap());
    };
    let mut response = Response::builder().status(answer.status);
    for (name, value) in &answer.headers {
        response = response.header(*name, value);
    }
    Ok(response.body(Full::new(answer.body.clone())).unwrap())
}
