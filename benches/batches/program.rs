//! The program itself, and a client with one connection.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::running_gateway::{self, RunningGateway};

/// A running gateway; killed when it is dropped.
pub struct Program {
    pub address: SocketAddr,
    /// The address for operators.
    pub admin: SocketAddr,
    gateway: RunningGateway,
    _folder: TempDir,
}

/// A client with one connection.
pub struct Client(SendRequest<Full<Bytes>>);

impl Program {
    /// Starts the program as an operator would, over these catalogs, each mounted under its name;
    /// anonymous callers are allowed.
    pub fn start(catalogs: &[(&str, SocketAddr)]) -> Self {
        Self::with(catalogs, "")
    }

    /// Does the same with more settings of the listener: `, name: value`.
    pub fn with(catalogs: &[(&str, SocketAddr)], listen: &str) -> Self {
        Self::of(catalogs, listen, "log: batches.redb")
    }

    /// Starts one of several gateways that share the log in the schema `nsgate` of this database.
    pub fn sharing(catalogs: &[(&str, SocketAddr)], log: &str, lease: u32) -> Self {
        let batch =
            format!("log: \"{log}\", lease: {lease}s, gateways: {{ address: 127.0.0.1:0 }}");
        Self::of(catalogs, "", &batch)
    }

    fn of(catalogs: &[(&str, SocketAddr)], listen: &str, batch: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut yaml = format!("listen: {{ address: 127.0.0.1:0{listen} }}\n");
        let _ = write!(
            yaml,
            "admin: {{ address: 127.0.0.1:0 }}\nauth: {{ anonymous: true }}\n\
             batch: {{ {batch} }}\nbackends:\n",
        );
        for (name, address) in catalogs {
            let _ = writeln!(
                yaml,
                "  {name}:\n    implementation: rest\n    properties: {{ uri: \"http://{address}\" }}\n    batch: versions"
            );
        }
        yaml.push_str("mounts:\n");
        for (name, _) in catalogs {
            let _ = writeln!(
                yaml,
                "  - {{ namespace: [{name}], backend: {name}, backend_namespace: [] }}"
            );
        }
        std::fs::write(folder.path().join("gateway.yaml"), yaml).unwrap();
        let gateway = RunningGateway::start(&mut running_gateway::command(folder.path()));
        Self {
            address: gateway.address,
            admin: gateway.admin,
            gateway,
            _folder: folder,
        }
    }

    /// Returns the id of its process.
    pub fn id(&self) -> u32 {
        self.gateway.id()
    }
}

impl Client {
    pub async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let (sender, connection) = handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Self(sender)
    }

    /// Returns the time to the last byte of the answer; panics if the answer is not a success.
    pub async fn post(&mut self, target: &str, key: Option<String>, body: String) -> Duration {
        let mut headers = vec![("content-type", "application/json")];
        if let Some(key) = &key {
            headers.push(("idempotency-key", key));
        }
        self.send(target, &headers, body.into()).await
    }

    /// Does the same with any headers.
    pub async fn send(
        &mut self,
        target: &str,
        headers: &[(&'static str, &str)],
        body: Bytes,
    ) -> Duration {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = target.parse().unwrap();
        for (name, value) in headers.iter().chain([&("host", "localhost")]) {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        self.0.ready().await.unwrap();
        let began = Instant::now();
        let response = self.0.send_request(request).await.unwrap();
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let took = began.elapsed();
        assert_eq!(status, StatusCode::OK, "{}", String::from_utf8_lossy(&body));
        took
    }
}
