//! Logging: one writer for the program's own records and for the access log, which never makes a request wait.
//!
//! Lines go through a bounded queue to a thread that writes them to standard error. If that is read too slowly, lines
//! are lost and counted; a request is never held up.

pub mod audit;
mod level;
#[cfg(test)]
pub(crate) mod memory_sink;
#[cfg(feature = "otlp")]
mod otlp;
mod spans;
mod time;
mod writer;

use std::io;
use std::panic::{self, PanicHookInfo};
use std::time::{Duration, SystemTime};

use tracing::Level;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;

pub use level::set_level;
pub use spans::Spans;
pub use time::rfc3339;
pub use writer::Record;
use writer::{Queue, Sink};

use crate::config::{LogFormat, Telemetry};
use crate::util::unprintable::{escape_json, is_unprintable};

/// The time that a line may wait for others to be written with: waking the writer for each costs more than the line.
const LINGER: Duration = Duration::from_millis(10);

/// The log. Cheap to clone.
#[derive(Clone)]
pub struct Log(Queue, LogFormat);

/// An output whose failures cannot be reported anywhere.
struct Output<W> {
    to: W,
    format: LogFormat,
}

/// Starts the log and makes it the one that `tracing` events of this process go to.
pub fn start(settings: &Telemetry) -> Log {
    let log = Log::to(io::stderr(), settings.log);
    let subscriber = tracing_subscriber::fmt()
        // The filter decides about levels.
        .with_max_level(Level::TRACE)
        .with_target(false)
        .with_timer(time::Now)
        .with_writer(log.clone());
    // A second start in one process, as tests do, keeps the first subscriber.
    let (installed, switch) = match settings.log {
        LogFormat::Text => {
            let (filter, switch) = level::filter(settings.level);
            let subscriber = subscriber.with_ansi(false).compact().finish();
            let subscriber = subscriber.with(filter);
            (tracing::subscriber::set_global_default(subscriber), switch)
        }
        LogFormat::Json => {
            let subscriber = subscriber.json().flatten_event(true);
            let subscriber = subscriber.with_current_span(false).finish();
            let (filter, switch) = level::filter(settings.level);
            let subscriber = subscriber.with(filter);
            (tracing::subscriber::set_global_default(subscriber), switch)
        }
    };
    if installed.is_ok() {
        level::install(switch);
    }
    panic::set_hook(Box::new(say_panic));
    log
}

/// Logs a panic as a record like any other. The standard hook writes past the log, and waits if its output is not read.
fn say_panic(panic: &PanicHookInfo<'_>) {
    let location = panic.location().map(ToString::to_string);
    let location = location.unwrap_or_default();
    let cause = panic.payload_as_str().unwrap_or("without a message");
    tracing::error!(location, cause, "panic");
}

/// Formats a line that is written past the log, whatever its level: plain, or as a record if the log has JSON.
pub fn past_log(format: LogFormat, level: Level, message: &str) -> String {
    match format {
        LogFormat::Text => message.to_owned(),
        LogFormat::Json => serde_json::json!({
            "timestamp": rfc3339(SystemTime::now()), "level": level.as_str(), "message": message,
        })
        .to_string(),
    }
}

impl Log {
    /// Creates a log that writes to `sink` from a thread of its own.
    pub fn to(sink: impl io::Write + Send + 'static, format: LogFormat) -> Self {
        Self(
            Queue::to("log", Output { to: sink, format }, format),
            format,
        )
    }

    /// Queues a line, its end included.
    pub fn line(&self, line: Vec<u8>) {
        self.0.line(line);
    }

    /// Queues a record, which becomes a line later.
    pub fn record(&self, record: Box<dyn Record>) {
        self.0.record(record);
    }

    /// Waits, two seconds at most, until the lines so far are written.
    pub fn flush(&self) {
        self.0.flush();
    }
}

impl<W: io::Write + Send + 'static> Sink for Output<W> {
    fn linger(&self) -> Duration {
        LINGER
    }

    fn write(&mut self, lines: &[u8]) -> usize {
        // A failure of standard error cannot be reported anywhere.
        let _ = self.to.write_all(lines).and_then(|()| self.to.flush());
        lines.len()
    }

    fn losses(&mut self, lost: u64) -> String {
        losses(lost, self.format)
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// Takes a record in one piece and makes it one line. A client that has chosen a part of it, such as a table's name,
/// cannot end it and write the next, nor command the terminal that shows it.
impl io::Write for Log {
    fn write(&mut self, record: &[u8]) -> io::Result<usize> {
        let mut line = record.to_vec();
        let inside = line.iter_mut().rev().skip(1);
        for end in inside.filter(|byte| matches!(byte, b'\n' | b'\r')) {
            *end = b' ';
        }
        self.line(seen(line, self.1));
        Ok(record.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns a line in which each character that is not seen is escaped, but for its end.
fn seen(line: Vec<u8>, format: LogFormat) -> Vec<u8> {
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~' | b'\n');
    if line.iter().all(is_plain) {
        return line;
    }
    let text = String::from_utf8_lossy(&line);
    let mut seen = String::with_capacity(text.len());
    for character in text.chars() {
        match format {
            _ if character == '\n' || !is_unprintable(character) => seen.push(character),
            LogFormat::Json => escape_json(character, &mut seen),
            LogFormat::Text => seen.extend(character.escape_default()),
        }
    }
    seen.into_bytes()
}

/// Returns the line that reports lost lines.
fn losses(lost: u64, format: LogFormat) -> String {
    let now = rfc3339(SystemTime::now());
    let message = "log lines were lost: the reader of the log is too slow";
    match format {
        LogFormat::Json => format!(
            "{{\"timestamp\":\"{now}\",\"level\":\"WARN\",\"message\":\"{message}\",\"lost\":{lost}}}\n"
        ),
        LogFormat::Text => format!("{now}  WARN {message} lost={lost}\n"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use std::time::Instant;

    use super::memory_sink::MemorySink;
    use super::writer::{CHUNK, FLUSH, QUEUE};
    use super::*;

    #[test]
    fn a_full_queue_loses_lines_instead_of_waiting_and_says_how_many() {
        const LINE: &[u8] = b"12345678\n";
        // While the sink is held, the writer can take one chunk off the queue.
        const SENT: usize = QUEUE + CHUNK / LINE.len() + 1000;
        let sink = MemorySink::default();
        let held = sink.0.lock().unwrap();
        let log = Log::to(sink.clone(), LogFormat::Text);
        for _ in 0..SENT {
            log.line(LINE.to_vec());
        }
        drop(held);
        log.flush();
        let written = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
        let lines = written.matches("12345678\n").count();
        let lost = written
            .lines()
            .filter(|line| line.contains("log lines were lost"))
            .map(|line| line.split_once(" lost=").unwrap().1);
        let lost = lost
            .map(|count| count.parse::<usize>().unwrap())
            .sum::<usize>();
        assert!(lost > 0);
        assert_eq!(lines + lost, SENT);
    }

    #[test]
    fn what_is_not_seen_is_escaped_in_either_form_of_the_log() {
        let line = "{\"a\":\"x\u{202e}y\u{9b}z\u{2028}\u{e0041}é\"}\n";
        let json = seen(line.as_bytes().to_vec(), LogFormat::Json);
        let json = String::from_utf8(json).unwrap();
        assert_eq!(
            json,
            "{\"a\":\"x\\u202ey\\u009bz\\u2028\\udb40\\udc41é\"}\n"
        );
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(value["a"], "x\u{202e}y\u{9b}z\u{2028}\u{e0041}é");
        let text = seen("x\u{202e}y\n".as_bytes().to_vec(), LogFormat::Text);
        assert_eq!(text, b"x\\u{202e}y\n");
    }

    #[test]
    fn a_loss_is_told_in_the_form_of_the_other_lines() {
        let line: serde_json::Value = serde_json::from_str(&losses(7, LogFormat::Json)).unwrap();
        assert_eq!((&line["lost"], &line["level"]), (&7.into(), &"WARN".into()));
    }

    #[test]
    fn the_end_of_the_program_waits_no_longer_than_it_says_for_a_reader_that_is_gone() {
        let sink = MemorySink::default();
        let held = sink.0.lock().unwrap();
        let log = Log::to(sink.clone(), LogFormat::Text);
        for _ in 0..3 * QUEUE {
            log.line(b"12345678\n".to_vec());
        }
        let began = Instant::now();
        log.flush();
        assert!(began.elapsed() < 5 * FLUSH);
        drop(held);
    }
}
