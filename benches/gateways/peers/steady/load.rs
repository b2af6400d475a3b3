//! A load of requests at a fixed rate, independent of earlier answers; or of requests that are each sent as soon as
//! their connection is free.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

use crate::http;
use crate::wire::Wire;

/// The longest time until every connection has had one answer.
const WARMING: Duration = Duration::from_secs(10);
/// The longest time to wait for outstanding answers after the end.
const PATIENCE: Duration = Duration::from_secs(5);
/// The delay above which a request counts as late through the fault of the load itself.
const LATE: Duration = Duration::from_micros(100);
/// The length of a part of the load: long enough for a p99 of its own at ten thousand requests a second.
const PART: Duration = Duration::from_millis(20);
/// The largest request in bytes: as much as a connection accepts at once.
const REQUEST: usize = 8 << 10;
/// The longest recorded time, in nanoseconds.
const LONGEST: u64 = 100_000_000_000;

/// The parameters of a load.
pub struct Plan {
    port: u16,
    connections: u64,
    /// The number of requests a second; 0 for a closed loop.
    rate: u64,
    seconds: u64,
    request: Vec<u8>,
}

impl Plan {
    pub fn read(query: &str, request: &[u8]) -> Result<Self, String> {
        let one = |name: &str, range: std::ops::RangeInclusive<u64>| {
            let mut words = query.split('&').filter_map(|word| word.split_once('='));
            words
                .find(|(key, _)| *key == name)
                .and_then(|(_, value)| value.parse().ok())
                .filter(|value| range.contains(value))
                .ok_or_else(|| format!("`{name}` must be a number from {range:?}"))
        };
        if request.is_empty() || request.len() > REQUEST {
            return Err(format!(
                "the body must be the request to send, of {REQUEST} bytes at most"
            ));
        }
        Ok(Self {
            port: u16::try_from(one("port", 1..=65_535)?).unwrap_or_default(),
            connections: one("connections", 1..=1024)?,
            rate: one("rate", 0..=1_000_000)?,
            seconds: one("seconds", 1..=60)?,
            request: request.to_vec(),
        })
    }
}

/// One connection to the measured party.
struct Line {
    wire: Wire,
    stage: Stage,
}

enum Stage {
    Connecting,
    /// The first request, which is not counted, was sent.
    Warming,
    Free,
    /// A request is outstanding; the value is the time at which it was due.
    Busy(Instant),
}

/// A running load. The time of a request begins when it was due, not when a connection was free.
pub struct Load {
    plan: Plan,
    poll: Poll,
    events: Events,
    lines: Vec<Option<Line>>,
    /// The free connections, with the times since when they are free; the longest free one comes first.
    free: VecDeque<(usize, Instant)>,
    begun: Instant,
    /// The time when all connections were warm; `None` before.
    start: Option<Instant>,
    sent: u64,
    last: Instant,
    times: Histogram<u64>,
    refused: u64,
    /// The number of failed connections.
    failed: usize,
    /// The reason of the first failure.
    why: String,
    late: u64,
    /// The start and the times of the present part of the load.
    part: (Instant, Histogram<u64>),
    /// The p99 of each completed part: a short interruption by the machine affects only a few of them.
    parts: Vec<u64>,
}

impl Load {
    pub fn start(plan: Plan) -> Result<Self, String> {
        let (poll, begun) = (
            Poll::new().map_err(|error| error.to_string())?,
            Instant::now(),
        );
        let times = |digits| {
            Histogram::new_with_bounds(1, LONGEST, digits).map_err(|error| error.to_string())
        };
        let mut load = Self {
            poll,
            events: Events::with_capacity(8),
            lines: Vec::new(),
            free: VecDeque::new(),
            begun,
            start: None,
            sent: 0,
            last: begun,
            times: times(3)?,
            refused: 0,
            failed: 0,
            why: String::new(),
            late: 0,
            // The histogram is read at the end of each part, and must be small for that.
            part: (begun, times(2)?),
            parts: Vec::new(),
            plan,
        };
        let at = SocketAddr::from((Ipv4Addr::LOCALHOST, load.plan.port));
        for _ in 0..load.plan.connections {
            let line = load.connect(at).map_err(|error| error.to_string())?;
            load.lines.push(Some(line));
        }
        Ok(load)
    }

    fn connect(&self, at: SocketAddr) -> std::io::Result<Line> {
        let mut stream = TcpStream::connect(at)?;
        stream.set_nodelay(true)?;
        let both = Interest::READABLE | Interest::WRITABLE;
        let token = Token(self.lines.len());
        self.poll.registry().register(&mut stream, token, both)?;
        Ok(Line {
            wire: Wire::new(stream),
            stage: Stage::Connecting,
        })
    }

    /// Processes answers and sends the requests that are due. Returns the figures when the load has ended; an error
    /// concerns the whole load.
    pub fn turn(&mut self) -> Result<Option<String>, String> {
        let mut events = std::mem::replace(&mut self.events, Events::with_capacity(0));
        match self.poll.poll(&mut events, Some(Duration::ZERO)) {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error.to_string()),
            _ => {}
        }
        for event in &events {
            let index = event.token().0;
            if let Err(error) = self.hear(index, event.is_read_closed()) {
                self.lose(index, error);
            }
            self.send_due();
        }
        self.events = events;
        self.send_due();
        self.judge()
    }

    fn hear(&mut self, index: usize, ends: bool) -> Result<(), String> {
        let Some(Some(line)) = self.lines.get_mut(index) else {
            return Ok(());
        };
        if matches!(line.stage, Stage::Connecting) {
            // The first event of a connection: it is established, or the write returns the reason why it is not.
            line.stage = Stage::Warming;
            line.wire.write(&self.plan.request)?;
        }
        let open = line.wire.read(ends)?;
        if let Some((status, whole)) = http::response(line.wire.input())? {
            let now = Instant::now();
            line.wire.take(whole);
            match std::mem::replace(&mut line.stage, Stage::Free) {
                Stage::Busy(due) => {
                    let took = u64::try_from((now - due).as_nanos()).unwrap_or(LONGEST);
                    self.times.saturating_record(took);
                    self.part.1.saturating_record(took);
                    self.last = now;
                }
                Stage::Warming => {}
                Stage::Free | Stage::Connecting => return Err("an unasked answer".to_owned()),
            }
            self.refused += u64::from(status != 200);
            self.free.push_back((index, now));
        }
        open.then_some(())
            .ok_or_else(|| "the party closed it".to_owned())
    }

    fn lose(&mut self, index: usize, why: String) {
        if self.failed == 0 {
            self.why = why;
        }
        self.failed += 1;
        self.lines[index] = None;
        self.free.retain(|(free, _)| *free != index);
    }

    /// Returns the time when the next request is due; `None` if there is none.
    fn due(&self, start: Instant, now: Instant) -> Option<Instant> {
        let Plan { rate, seconds, .. } = self.plan;
        match rate {
            0 => (now < start + Duration::from_secs(seconds)).then_some(now),
            // The product of these numbers in nanoseconds cannot overflow.
            _ => (self.sent < rate * seconds)
                .then(|| start + Duration::from_nanos(self.sent * 1_000_000_000 / rate)),
        }
    }

    fn send_due(&mut self) {
        let Some(start) = self.start else {
            return;
        };
        while let Some((index, since)) = self.free.front().copied() {
            let now = Instant::now();
            let Some(due) = self.due(start, now).filter(|due| *due <= now) else {
                return;
            };
            self.free.pop_front();
            self.sent += 1;
            self.late += u64::from(now - due.max(since) > LATE);
            let Some(Some(line)) = self.lines.get_mut(index) else {
                continue;
            };
            line.stage = Stage::Busy(due);
            if let Err(error) = line.wire.write(&self.plan.request) {
                self.lose(index, error);
            }
        }
    }

    /// Returns the figures if the load has ended or must end.
    fn judge(&mut self) -> Result<Option<String>, String> {
        let now = Instant::now();
        let left = self.lines.len() - self.failed;
        if left == 0 {
            return Ok(Some(self.figures()));
        }
        let Some(start) = self.start else {
            if self.free.len() == left {
                (self.start, self.last, self.part.0) = (Some(now), now, now);
            } else if now > self.begun + WARMING {
                return Err(format!(
                    "{} of {left} are not answered within {WARMING:?}",
                    left - self.free.len()
                ));
            }
            return Ok(None);
        };
        if now - self.part.0 >= PART && !self.part.1.is_empty() {
            self.part.0 = now;
            self.parts.push(self.part.1.value_at_quantile(0.99));
            self.part.1.reset();
        }
        let end = start + Duration::from_secs(self.plan.seconds);
        match self.due(start, now) {
            None if self.free.len() == left => Ok(Some(self.figures())),
            Some(due) if now > due + Duration::from_secs(1) => Err(format!(
                "the party is more than a second behind {} requests a second",
                self.plan.rate
            )),
            _ if now > end + PATIENCE => {
                Err(format!("not all is answered {PATIENCE:?} after the end"))
            }
            _ => Ok(None),
        }
    }

    fn figures(&self) -> String {
        let micros = |nanos: u64| format!("{}.{:03}", nanos / 1000, nanos % 1000);
        let mut parts = self.parts.clone();
        parts.sort_unstable();
        let calm = parts.get(parts.len() / 2).copied().unwrap_or_default();
        let at = |quantile| micros(self.times.value_at_quantile(quantile));
        let took = self
            .start
            .map_or(0, |start| (self.last - start).as_micros());
        format!(
            r#"{{"requests": {}, "refused": {}, "failed": {}, "why": {}, "late": {}, "micros": {took}, "p50": {}, "p90": {}, "p99": {}, "calm": {}, "p999": {}, "max": {}}}"#,
            self.times.len(),
            self.refused,
            self.failed,
            http::quoted(&self.why),
            self.late,
            at(0.5),
            at(0.9),
            at(0.99),
            micros(calm),
            at(0.999),
            micros(self.times.max()),
        )
    }
}
