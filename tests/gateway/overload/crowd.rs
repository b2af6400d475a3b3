//! A crowd of callers whose answers are classified: served, shed in good form, or odd.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::{Mutex, mpsc};

use crate::catalog::faults::PATIENCE;
use crate::hostile::wire::{self, Message};
use crate::token;

/// The bytes of a request with a token of the caller's own.
#[derive(Clone)]
pub struct Caller(Arc<[u8]>);

/// A number of callers, and the connections that they share.
pub struct Crowd {
    address: SocketAddr,
    callers: Vec<Caller>,
    connections: usize,
}

/// The counts of the requests' outcomes.
#[derive(Debug, Default)]
pub struct Tally {
    pub asked: usize,
    pub served: usize,
    pub shed: usize,
    pub throttled: usize,
    /// The requests that were due when every connection was still waiting for an answer.
    pub late: usize,
    /// Descriptions of the odd answers; the first hundred.
    pub odd: Vec<String>,
}

impl Caller {
    pub fn named(subject: &str) -> Self {
        let token = token::token(&json!({ "sub": subject }));
        let request = format!(
            "POST /v1/table/west%24t/exists HTTP/1.1\r\nhost: g\r\nauthorization: Bearer {token}\r\n\
             content-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}"
        );
        Self(request.into_bytes().into())
    }
}

impl Crowd {
    pub fn new(address: SocketAddr, callers: Vec<Caller>, connections: usize) -> Self {
        Self {
            address,
            callers,
            connections,
        }
    }

    /// Sends requests for `time`; each connection sends the next one as soon as the last is answered.
    pub async fn closed(&self, time: Duration) -> Tally {
        let began = Instant::now();
        let lines = (0..self.connections).map(async |number| {
            let mut line = Line::open(self.address).await;
            let mut tally = Tally::default();
            for caller in self.callers.iter().cycle().skip(number) {
                if began.elapsed() >= time {
                    break;
                }
                line.ask(caller, &mut tally).await;
            }
            tally
        });
        join_all(lines)
            .await
            .into_iter()
            .fold(Tally::default(), Tally::and)
    }

    /// Sends `rate` requests in a second for `time`, whether or not others have been answered. Waits in the end until
    /// all that were sent are answered.
    pub async fn open(&self, rate: f64, time: Duration) -> Tally {
        let (orders, waiting) = mpsc::channel::<Caller>(self.connections);
        let waiting = Arc::new(Mutex::new(waiting));
        let mut lines = Vec::new();
        for _ in 0..self.connections {
            let mut line = Line::open(self.address).await;
            let waiting = waiting.clone();
            lines.push(tokio::spawn(async move {
                let mut tally = Tally::default();
                while let Some(caller) = next(&waiting).await {
                    line.ask(&caller, &mut tally).await;
                }
                tally
            }));
        }
        let (began, mut due, mut late) = (Instant::now(), 0, 0);
        let mut pace = tokio::time::interval(Duration::from_millis(5));
        while began.elapsed() < time {
            pace.tick().await;
            let by_now = (began.elapsed().as_secs_f64() * rate) as usize;
            for number in due..by_now {
                let caller = self.callers[number % self.callers.len()].clone();
                late += usize::from(orders.try_send(caller).is_err());
            }
            due = by_now;
        }
        drop(orders);
        let tallies = join_all(lines).await.into_iter().map(Result::unwrap);
        let all = tallies.fold(Tally::default(), Tally::and);
        Tally { late, ..all }
    }
}

async fn next(waiting: &Mutex<mpsc::Receiver<Caller>>) -> Option<Caller> {
    waiting.lock().await.recv().await
}

impl Tally {
    fn and(mut self, other: Self) -> Self {
        self.asked += other.asked;
        self.served += other.served;
        self.shed += other.shed;
        self.throttled += other.throttled;
        self.late += other.late;
        self.odd.extend(other.odd);
        self.odd.truncate(100);
        self
    }

    fn note(&mut self, answer: Result<Message, String>) {
        self.asked += 1;
        match answer.and_then(|answer| judge(&answer)) {
            Ok(200) => self.served += 1,
            Ok(503) => self.shed += 1,
            Ok(_) => self.throttled += 1,
            Err(words) if self.odd.len() < 100 => self.odd.push(words),
            Err(_) => {}
        }
    }
}

/// Returns the status of an answer in good form: the catalog's, or an error of the contract that says when to retry.
fn judge(answer: &Message) -> Result<u16, String> {
    let status = answer.status();
    let (body, id) = (answer.body.as_slice(), answer.header("x-request-id"));
    if status == 200 && body == b"{}" && id.is_some() {
        return Ok(status);
    }
    let error: Value = serde_json::from_slice(body).unwrap_or_default();
    let number = |name| {
        answer
            .header(name)
            .and_then(|value| value.parse::<u64>().ok())
    };
    let code = match status {
        503 => 17,
        429 => 21,
        _ => return Err(format!("{answer:?}")),
    };
    let good = error["code"] == code
        && error["error"]
            .as_str()
            .is_some_and(|words| words.contains("retry"))
        && error["instance"] == "/v1/table/west%24t/exists"
        && answer.header("content-type") == Some("application/json")
        && number("retry-after").is_some_and(|wait| (1..=60).contains(&wait))
        && id.is_some()
        && answer.header("connection").is_none();
    if good {
        Ok(status)
    } else {
        Err(format!("{answer:?}"))
    }
}

/// A connection. It is kept after refusals, because a refusal is no reason for a client to close it.
struct Line {
    address: SocketAddr,
    stream: TcpStream,
    buffer: BytesMut,
}

impl Line {
    async fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            address,
            stream,
            buffer: BytesMut::new(),
        }
    }

    async fn ask(&mut self, caller: &Caller, tally: &mut Tally) {
        let exchange = async {
            self.stream
                .write_all(&caller.0)
                .await
                .map_err(|error| error.to_string())?;
            let answer = wire::read(&mut self.stream, &mut self.buffer).await?;
            answer.ok_or_else(|| "the gateway hung up".to_owned())
        };
        let answer = tokio::time::timeout(PATIENCE, exchange).await;
        let answer = answer.unwrap_or_else(|_| Err("no answer".to_owned()));
        let broken = answer.is_err();
        tally.note(answer);
        if broken {
            *self = Self::open(self.address).await;
        }
    }
}
