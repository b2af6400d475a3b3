//! A catalog with a fixed number of clerks, each of whom takes the same time for every request.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

const ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";

/// The slow catalog; it lives as long as the test's runtime.
#[derive(Clone)]
pub struct Desk {
    pub address: SocketAddr,
    clerks: Arc<Semaphore>,
    service: Duration,
    served: Arc<AtomicUsize>,
}

impl Desk {
    pub async fn open(clerks: usize, service: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let desk = Self {
            address: listener.local_addr().unwrap(),
            clerks: Arc::new(Semaphore::new(clerks)),
            service,
            served: Arc::default(),
        };
        let own = desk.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(own.clone().serve(stream));
            }
        });
        desk
    }

    pub fn served(&self) -> usize {
        self.served.load(Ordering::Relaxed)
    }

    /// Serves one connection. Every request in these tests ends with its headers or with `{}`.
    async fn serve(self, mut stream: TcpStream) -> Option<()> {
        stream.set_nodelay(true).ok()?;
        let mut request = Vec::with_capacity(4096);
        loop {
            request.clear();
            while !request.ends_with(b"\r\n\r\n{}") && !is_get(&request) {
                if stream.read_buf(&mut request).await.ok()? == 0 {
                    return None;
                }
            }
            if !is_get(&request) {
                let clerk = self.clerks.acquire().await.ok()?;
                tokio::time::sleep(self.service).await;
                drop(clerk);
                self.served.fetch_add(1, Ordering::Relaxed);
            }
            stream.write_all(ANSWER).await.ok()?;
        }
    }
}

fn is_get(request: &[u8]) -> bool {
    request.starts_with(b"GET ") && request.ends_with(b"\r\n\r\n")
}
