//! A catalog for tests that handles each request as its script says.

#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The action after one request was read completely.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Answers with these bytes, and keeps the connection open.
    Answer(String),
    /// Answers with these bytes, and closes the connection.
    AnswerAndClose(String),
    /// Closes the connection.
    Close,
    /// Resets the connection.
    Reset,
    /// Never answers.
    Silence,
}

/// The connections and requests that the catalog has seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// The number of connections that were accepted.
    pub(crate) connections: usize,
    /// All requests: head and body.
    pub(crate) requests: Vec<String>,
}

/// A catalog on loopback. Each request, over any connection, takes the next action of its script.
pub(crate) struct Catalog {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
}

/// Returns a 200 answer with a `content-length`.
pub(crate) fn ok(body: &str) -> Act {
    Act::Answer(format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    ))
}

impl Catalog {
    pub(crate) async fn start(script: Vec<Act>) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").await.unwrap(), script)
    }

    pub(crate) fn on(listener: TcpListener, mut script: Vec<Act>) -> Self {
        script.reverse();
        let script = Arc::new(Mutex::new(script));
        let seen = Arc::<Mutex<Seen>>::default();
        let address = listener.local_addr().unwrap();
        let shared = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                shared.lock().unwrap().connections += 1;
                tokio::spawn(connection(stream, Arc::clone(&script), Arc::clone(&shared)));
            }
        });
        Self { address, seen }
    }

    pub(crate) fn uri(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn connections(&self) -> usize {
        self.seen.lock().unwrap().connections
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.seen.lock().unwrap().requests.clone()
    }
}

async fn connection(mut stream: TcpStream, script: Arc<Mutex<Vec<Act>>>, seen: Arc<Mutex<Seen>>) {
    while let Some(request) = read_request(&mut stream).await {
        seen.lock().unwrap().requests.push(request);
        let act = script.lock().unwrap().pop().unwrap_or(Act::Close);
        match act {
            Act::Answer(bytes) => stream.write_all(bytes.as_bytes()).await.unwrap(),
            Act::AnswerAndClose(bytes) => {
                stream.write_all(bytes.as_bytes()).await.unwrap();
                return;
            }
            Act::Close => return,
            Act::Reset => return stream.set_zero_linger().unwrap(),
            Act::Silence => std::future::pending().await,
        }
    }
}

/// Reads one request with a length or in chunks; `None` if the other side closed the connection.
pub(crate) async fn read_request<S>(stream: &mut S) -> Option<String>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut read = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&read).into_owned();
        if let Some(head) = text.find("\r\n\r\n") {
            let lower = text[..head].to_ascii_lowercase();
            let length = lower.split("content-length: ").nth(1);
            let length = length.and_then(|rest| rest.split("\r\n").next()?.parse::<usize>().ok());
            let whole = match length {
                Some(length) => text.len() >= head + 4 + length,
                None if lower.contains("transfer-encoding: chunked") => text.ends_with("0\r\n\r\n"),
                None => true,
            };
            if whole {
                return Some(text);
            }
        }
        if stream.read_buf(&mut read).await.ok()? == 0 {
            return None;
        }
    }
}
