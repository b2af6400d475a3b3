//! The answers of a catalog over an HTTP/1.1 connection. Most answers are read without hyper; hyper reads the others,
//! also after a beginning that was read without it. Both readers must give the same result, and the next request must
//! get its own answer. The first byte of the input is the position at which an answer is cut in two.

use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Request, StatusCode};
use nsgate::backend::Backend;
use nsgate::body::Body;
use nsgate::config::{
    BackendConfig, BatchMode, Implementation, Limits, ManagedVersioning, RestConfig,
};
use nsgate::metrics::Metrics;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::task::yield_now;

/// A timeout that is never reached.
const FOREVER: Duration = Duration::from_secs(60);
/// The end of every request.
const BODY: &str = "\r\n\r\nx";
/// The answer to the next request.
const NEXT: &str = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nnext";

thread_local! {
    static CATALOG: Catalog = Catalog::new();
}

/// The reader of an answer.
#[derive(Clone, Copy)]
enum Reader {
    /// The task of the request, as long as the answer is simple.
    Own,
    /// The HTTP library hyper.
    Hyper,
}

/// The result of a request: an answer, whose body may be truncated, or no answer, and whether the catalog can have
/// acted.
#[derive(Debug, PartialEq)]
enum Seen {
    Answer(StatusCode, HeaderMap, Option<Bytes>),
    Nothing(bool),
}

struct Catalog {
    runtime: Runtime,
    listener: TcpListener,
    metrics: Metrics,
    config: BackendConfig,
}

pub fn check(data: &[u8]) {
    let Some((cut, answer)) = data.split_first() else {
        return;
    };
    let pieces = answer.split_at(usize::from(*cut) % (answer.len() + 1));
    let named = String::from_utf8_lossy(answer);
    CATALOG.with(|catalog| {
        let seen = catalog.ends(Reader::Hyper, (answer, b""));
        assert_eq!(catalog.ends(Reader::Own, (answer, b"")), seen, "{named:?}");
        assert_eq!(catalog.ends(Reader::Own, pieces), seen, "{pieces:?}");
        // Only after such an answer may the connection remain open.
        if matches!(&seen, Seen::Answer(_, headers, Some(_)) if headers.contains_key(CONTENT_LENGTH))
        {
            let (own, hyper) = (Reader::Own, Reader::Hyper);
            assert!(
                catalog.stays(hyper, answer) || !catalog.stays(own, answer),
                "{named:?}"
            );
        }
    });
}

impl Catalog {
    fn new() -> Self {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"));
        let listener = listener.expect("a port");
        let address = listener.local_addr().expect("an address");
        let uri = format!("http://{address}").parse().expect("an address");
        let config = BackendConfig {
            selects: None,
            name: "warehouse".into(),
            implementation: Implementation::Rest(Box::new(RestConfig::new(uri))),
            context_prefix: "x-ns-ctx-".into(),
            managed_versioning: ManagedVersioning::Keep,
            batch: BatchMode::Versions,
        };
        Self {
            runtime,
            listener,
            metrics: Metrics::new(),
            config,
        }
    }

    /// Returns the result of a request whose answer is `pieces` followed by the end of the connection.
    fn ends(&self, reader: Reader, pieces: (&[u8], &[u8])) -> Seen {
        let answering = async {
            let mut stream = self.asked().await;
            // The gateway may close the connection before it has read everything.
            let _ = stream.write_all(pieces.0).await;
            for _ in 0..10 {
                yield_now().await;
            }
            let _ = stream.write_all(pieces.1).await;
            let _ = stream.shutdown().await;
            stream
        };
        let asking = async { ask(&self.backend().await, reader).await };
        let (seen, _stream) = self.run(async { tokio::join!(asking, answering) });
        seen
    }

    /// True if the next request uses the same connection as one whose answer is `answer`.
    fn stays(&self, reader: Reader, answer: &[u8]) -> bool {
        let answering = async {
            let mut first = self.asked().await;
            let _ = first.write_all(answer).await;
            let stays = is_asked(&mut first).await;
            let mut next = if stays { first } else { self.asked().await };
            next.write_all(NEXT.as_bytes()).await.expect("a reader");
            (next, stays)
        };
        let asking = async {
            let backend = self.backend().await;
            ask(&backend, reader).await;
            ask(&backend, Reader::Own).await
        };
        let (next, (_stream, stays)) = self.run(async { tokio::join!(asking, answering) });
        let own = matches!(&next, Seen::Answer(_, _, Some(body)) if body == "next");
        assert!(own, "{next:?}");
        stays
    }

    fn run<T>(&self, doing: impl Future<Output = T>) -> T {
        let doing = async { tokio::time::timeout(FOREVER, doing).await };
        self.runtime.block_on(doing).expect("an end")
    }

    /// Returns a backend without connections.
    async fn backend(&self) -> Backend {
        let backend = Backend::open(&self.config, &Limits::default(), &self.metrics).await;
        backend.expect("a backend")
    }

    /// Accepts a connection and reads a request from it.
    async fn asked(&self) -> TcpStream {
        let (mut stream, _) = self.listener.accept().await.expect("a connection");
        assert!(is_asked(&mut stream).await, "no request");
        stream
    }
}

async fn ask(backend: &Backend, reader: Reader) -> Seen {
    let whole = Body::full("x");
    let request = Request::post("/").body(match reader {
        Reader::Own => whole,
        Reader::Hyper => Body::stream(whole),
    });
    match backend.send(request.expect("a request")).await {
        Ok(response) => {
            let (head, body) = response.into_parts();
            let body = body.collect_up_to(1 << 20).await.ok();
            Seen::Answer(head.status, head.headers, body)
        }
        Err(failure) => Seen::Nothing(failure.may_have_acted()),
    }
}

/// Reads a request; returns false at the end of the connection.
async fn is_asked(stream: &mut TcpStream) -> bool {
    let mut read = Vec::new();
    while !read.ends_with(BODY.as_bytes()) {
        if !matches!(stream.read_buf(&mut read).await, Ok(1..)) {
            return false;
        }
    }
    true
}
