//! A catalog that parses bytes strictly and records what it was sent.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::BytesMut;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use super::wire::{self, Message};

/// The requests that were received, and the violations in them.
#[derive(Default)]
pub struct Seen {
    pub requests: Vec<Message>,
    pub violations: Vec<String>,
}

/// The recording catalog; it lives as long as the test's runtime.
#[derive(Clone)]
pub struct Recorder {
    pub address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
}

impl Recorder {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::<Mutex<Seen>>::default();
        let recorder = Self { address, seen };
        let own = recorder.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(own.clone().serve(stream));
            }
        });
        recorder
    }

    /// The operation and the body of every request whose target contains `mark`.
    pub fn reached(&self, mark: &str) -> Vec<String> {
        let seen = self.seen.lock().unwrap();
        let of = seen
            .requests
            .iter()
            .filter(|request| request.start.contains(mark));
        of.map(|request| {
            let target = request.start.split(' ').nth(1).unwrap_or_default();
            let operation = target
                .split('?')
                .next()
                .and_then(|path| path.rsplit('/').next());
            let body = String::from_utf8_lossy(&request.body);
            format!("{} {body}", operation.unwrap_or_default())
        })
        .collect()
    }

    /// The number of requests without health checks, and all violations.
    pub fn totals(&self) -> (usize, Vec<String>) {
        let seen = self.seen.lock().unwrap();
        let of = |request: &&Message| !request.start.starts_with("GET / ");
        (
            seen.requests.iter().filter(of).count(),
            seen.violations.clone(),
        )
    }

    async fn serve(self, mut stream: TcpStream) {
        let mut buffer = BytesMut::new();
        loop {
            let request = match wire::read(&mut stream, &mut buffer).await {
                Ok(Some(request)) => request,
                Ok(None) => return,
                // The gateway may abort a request in the middle.
                Err(words) if words.starts_with("an end") => return,
                Err(words) => return self.seen.lock().unwrap().violations.push(words),
            };
            let wrong = self.judge(&request, &buffer);
            self.note(request, wrong);
            let answer =
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
            if stream.write_all(answer).await.is_err() {
                return;
            }
        }
    }

    fn note(&self, request: Message, wrong: Option<String>) {
        let mut seen = self.seen.lock().unwrap();
        seen.violations.extend(wrong);
        seen.requests.push(request);
    }

    /// Checks more than the framing: exactly one host, which is the catalog's own, and no bytes
    /// after the request before its answer. Returns the violation, if there is one.
    fn judge(&self, request: &Message, rest: &BytesMut) -> Option<String> {
        let hosts = request.headers.iter().filter(|(name, _)| name == "host");
        let hosts: Vec<_> = hosts.map(|(_, value)| value.clone()).collect();
        let line: Vec<_> = request.start.split(' ').collect();
        if hosts != [self.address.to_string()] {
            return Some(format!("hosts {hosts:?}: {request:?}"));
        }
        if line.len() != 3 || line[2] != "HTTP/1.1" || !line[1].starts_with('/') {
            return Some(format!("a request line: {request:?}"));
        }
        (!rest.is_empty()).then(|| format!("{rest:?} after {request:?}"))
    }
}
