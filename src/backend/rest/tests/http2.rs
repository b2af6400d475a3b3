//! HTTP/2 to a catalog, frame by frame: the catalog's frames decide whether a request is sent
//! again.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::watch;

use super::*;

/// The types of frames (RFC 9113, section 6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;

const PREFACE: usize = 24;
const REFUSED_STREAM: u32 = 7;
const CANCEL: u32 = 8;

/// The reaction of the catalog to a request that it has read completely.
#[derive(Clone, Copy)]
enum Act {
    Answer(&'static str),
    /// The beginning of an answer.
    Begin(&'static str),
    /// The beginning of an answer, after which the connection is closed.
    Half(&'static str),
    /// A reset of the stream with this code.
    Reset(u32),
    /// A GOAWAY that names this stream as the last one that was processed.
    GoAway(u32),
    /// The end of the connection.
    Close,
    Silence,
}

/// A catalog. Each request, over any connection, takes the next action of its script.
struct Catalog {
    address: SocketAddr,
    /// The connection and the stream of each request.
    seen: watch::Sender<Vec<(usize, u32)>>,
    /// The streams that were reset, and the codes.
    resets: watch::Sender<Vec<(u32, u32)>>,
}

impl Catalog {
    /// Starts a catalog that allows `streams` streams at a time on each connection.
    async fn start(streams: u32, mut script: Vec<Act>) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let catalog = Arc::new(Self {
            address: listener.local_addr().unwrap(),
            seen: watch::Sender::new(Vec::new()),
            resets: watch::Sender::new(Vec::new()),
        });
        script.reverse();
        let (script, shared) = (Arc::new(Mutex::new(script)), Arc::clone(&catalog));
        tokio::spawn(async move {
            for number in 1.. {
                let (stream, _) = listener.accept().await.unwrap();
                let (shared, script) = (Arc::clone(&shared), Arc::clone(&script));
                tokio::spawn(async move { shared.serve(number, stream, streams, &script).await });
            }
        });
        catalog
    }

    /// Serves a connection until either side closes it.
    async fn serve(
        &self,
        number: usize,
        mut io: TcpStream,
        streams: u32,
        script: &Mutex<Vec<Act>>,
    ) -> Option<()> {
        let mut preface = [0; PREFACE];
        io.read_exact(&mut preface).await.ok()?;
        let limit = [&[0, 3], &streams.to_be_bytes()[..]].concat();
        write(&mut io, SETTINGS, 0, 0, &limit).await?;
        loop {
            let (kind, flags, stream, payload) = read_frame(&mut io).await?;
            match kind {
                SETTINGS if flags == 0 => write(&mut io, SETTINGS, 1, 0, &[]).await?,
                RST_STREAM => {
                    let code = u32::from_be_bytes(payload.try_into().unwrap());
                    self.resets.send_modify(|all| all.push((stream, code)));
                }
                HEADERS | DATA if flags & 1 == 1 => {
                    self.seen.send_modify(|all| all.push((number, stream)));
                    let act = script.lock().unwrap().pop();
                    act.expect("no more is asked than the script has")
                        .play(&mut io, stream)
                        .await?;
                }
                _ => {}
            }
        }
    }

    fn backend(&self) -> Kind {
        let uri = format!("http://{}", self.address);
        rest(&RestConfig {
            http2: true,
            ..config(&uri)
        })
    }

    fn seen(&self) -> Vec<(usize, u32)> {
        self.seen.borrow().clone()
    }

    async fn was_reset(&self, stream: u32, code: u32) {
        let mut resets = self.resets.subscribe();
        let found = resets.wait_for(|all| all.contains(&(stream, code)));
        let waited = tokio::time::timeout(SOON * 20, found).await;
        assert!(waited.is_ok(), "{:?}", self.resets.borrow());
    }
}

impl Act {
    async fn play(self, io: &mut TcpStream, stream: u32) -> Option<()> {
        // `:status: 200`, an entry of the static table.
        let ok = [0x88];
        match self {
            Self::Answer(body) => {
                write(io, HEADERS, 4, stream, &ok).await?;
                write(io, DATA, 1, stream, body.as_bytes()).await
            }
            Self::Begin(body) => {
                write(io, HEADERS, 4, stream, &ok).await?;
                write(io, DATA, 0, stream, body.as_bytes()).await
            }
            Self::Half(body) => {
                write(io, HEADERS, 4, stream, &ok).await?;
                write(io, DATA, 0, stream, body.as_bytes()).await?;
                None
            }
            Self::Reset(code) => write(io, RST_STREAM, 0, stream, &code.to_be_bytes()).await,
            Self::GoAway(last) => {
                let payload = [last.to_be_bytes(), [0; 4]].concat();
                write(io, GOAWAY, 0, 0, &payload).await?;
                None
            }
            Self::Close => None,
            Self::Silence => Some(()),
        }
    }
}

async fn write(io: &mut TcpStream, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Option<()> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let head = [&length[1..], &[kind, flags], &stream.to_be_bytes()].concat();
    io.write_all(&[&head, payload].concat()).await.ok()
}

async fn read_frame(io: &mut TcpStream) -> Option<(u8, u8, u32, Vec<u8>)> {
    let mut head = [0; 9];
    io.read_exact(&mut head).await.ok()?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
    let mut payload = vec![0; length as usize];
    io.read_exact(&mut payload).await.ok()?;
    Some((head[3], head[4], stream, payload))
}

async fn sent(backend: &Kind, request: Request<Body>) -> Result<Response<Body>, Failure> {
    backend.send(SOON, request).await
}

async fn said(answer: Result<Response<Body>, Failure>) -> Bytes {
    whole(answer.unwrap()).await.unwrap()
}

#[tokio::test]
async fn requests_share_a_connection() {
    let catalog = Catalog::start(100, vec![Act::Answer("one"), Act::Answer("two")]).await;
    let backend = catalog.backend();
    assert_eq!(said(sent(&backend, read()).await).await, "one");
    assert_eq!(
        said(sent(&backend, streamed(Operation::InsertIntoTable)).await).await,
        "two"
    );
    assert_eq!(catalog.seen(), [(1, 1), (1, 3)]);
}

#[tokio::test]
async fn more_requests_than_a_connection_takes_open_another() {
    let script = vec![
        Act::Begin("first"),
        Act::Begin("second"),
        Act::Answer("third"),
    ];
    let catalog = Catalog::start(1, script).await;
    let backend = catalog.backend();
    let first = sent(&backend, read()).await.unwrap();
    let second = sent(&backend, read()).await.unwrap();
    drop(first);
    catalog.was_reset(1, CANCEL).await;
    assert_eq!(said(sent(&backend, read()).await).await, "third");
    assert_eq!(catalog.seen(), [(1, 1), (2, 1), (1, 3)]);
    drop(second);
}

#[tokio::test]
async fn a_write_that_the_catalog_did_not_look_at_is_sent_again() {
    for refusal in [Act::Reset(REFUSED_STREAM), Act::GoAway(0)] {
        let catalog = Catalog::start(100, vec![refusal, Act::Answer("done")]).await;
        let backend = catalog.backend();
        assert_eq!(said(sent(&backend, super::write()).await).await, "done");
        assert_eq!(catalog.seen().len(), 2);
    }
}

#[tokio::test]
async fn a_catalog_that_looks_at_nothing_is_not_asked_for_ever() {
    for refusal in [Act::Reset(REFUSED_STREAM), Act::GoAway(0)] {
        let catalog = Catalog::start(100, vec![refusal; 3]).await;
        let outcome = sent(&catalog.backend(), super::write()).await;
        assert_eq!(kind(&outcome), "not sent");
        assert_eq!(catalog.seen().len(), 3);
    }
}

#[tokio::test]
async fn a_body_that_is_gone_is_not_sent_again_though_nobody_looked_at_it() {
    let catalog = Catalog::start(100, vec![Act::Reset(REFUSED_STREAM)]).await;
    let outcome = sent(&catalog.backend(), streamed(Operation::InsertIntoTable)).await;
    assert_eq!(kind(&outcome), "not sent");
    assert_eq!(catalog.seen().len(), 1);
}

#[tokio::test]
async fn a_write_that_the_catalog_may_have_looked_at_is_not_sent_again() {
    for end in [Act::Reset(CANCEL), Act::GoAway(1), Act::Close] {
        let catalog = Catalog::start(100, vec![end]).await;
        let outcome = sent(&catalog.backend(), super::write()).await;
        assert_eq!(kind(&outcome), "lost");
        assert_eq!(catalog.seen().len(), 1);
    }
}

#[tokio::test]
async fn a_read_is_sent_again_after_its_connection_broke() {
    let script = vec![Act::Answer("warm"), Act::Close, Act::Answer("again")];
    let catalog = Catalog::start(100, script).await;
    let backend = catalog.backend();
    warm(&backend).await;
    assert_eq!(said(sent(&backend, read()).await).await, "again");
    assert_eq!(catalog.seen(), [(1, 1), (1, 3), (2, 1)]);
}

#[tokio::test]
async fn a_request_without_an_answer_in_time_is_taken_back() {
    let catalog = Catalog::start(100, vec![Act::Silence, Act::Answer("next")]).await;
    let backend = catalog.backend();
    let outcome = sent(&backend, super::write()).await;
    assert_eq!(kind(&outcome), "timed out");
    catalog.was_reset(1, CANCEL).await;
    assert_eq!(said(sent(&backend, read()).await).await, "next");
    assert_eq!(catalog.seen(), [(1, 1), (1, 3)]);
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_no_whole_answer() {
    for end in [Act::Half("half"), Act::Begin("half")] {
        let script = vec![end, Act::Answer("more")];
        let catalog = Catalog::start(100, script).await;
        let answer = sent(&catalog.backend(), read()).await.unwrap();
        let whole = tokio::time::timeout(SOON, whole(answer)).await;
        assert!(!matches!(whole, Ok(Ok(_))), "{whole:?}");
    }
}

#[tokio::test]
async fn nobody_at_the_address_has_acted() {
    let config = RestConfig {
        http2: true,
        ..config(&nobody().await)
    };
    let backend = rest(&config);
    let both = tokio::join!(sent(&backend, super::write()), sent(&backend, read()));
    assert_eq!((kind(&both.0), kind(&both.1)), ("not sent", "not sent"));
}
