//! Logging: one writer for the program's own records and for the access log, which never makes a request wait.
//!
//! Lines go through a bounded queue to a thread that writes them to standard error. If nobody reads there fast
//! enough, lines are lost and counted; a request is never held up.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::layer::SubscriberExt as _;

use crate::config::{LogFormat, LogLevel, Telemetry};

/// Lines that wait to be written; beyond it they are lost.
const QUEUE: usize = 8192;
/// How much is written at once.
const CHUNK: usize = 64 << 10;
/// How long a line may wait for others to be written with: waking the writer for each costs more than the line.
const LINGER: Duration = Duration::from_millis(10);
/// How long the end of the program waits for the last lines.
const FLUSH: Duration = Duration::from_secs(2);

/// Where lines go. Cheap to clone.
#[derive(Clone)]
pub struct Log {
    queue: SyncSender<Entry>,
    lost: Arc<AtomicU64>,
    format: LogFormat,
}

enum Entry {
    Line(Vec<u8>),
    Flush(SyncSender<()>),
}

/// Starts the log and makes it the one that `tracing` events of this process go to.
pub fn start(settings: &Telemetry) -> Log {
    let log = Log::to(io::stderr(), settings.log);
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(level(settings.level))
        .with_target(false)
        .with_writer(log.clone());
    // A second start in one process, as tests do, keeps the first subscriber.
    let _ = match settings.log {
        LogFormat::Text => {
            let subscriber = subscriber.with_ansi(false).compact().finish();
            tracing::subscriber::set_global_default(subscriber.with(ours(settings.level)))
        }
        LogFormat::Json => {
            let subscriber = subscriber.json().flatten_event(true);
            let subscriber = subscriber.with_current_span(false).finish();
            tracing::subscriber::set_global_default(subscriber.with(ours(settings.level)))
        }
    };
    log
}

/// What is worth a line. Libraries speak of their insides already at `info`, an embedded catalog of every file it
/// touches: that is for who asks for `debug`.
fn ours(settings: LogLevel) -> Targets {
    let level = level(settings);
    let theirs = match level {
        Level::INFO => Level::WARN,
        other => other,
    };
    Targets::new()
        .with_default(theirs)
        .with_target(env!("CARGO_CRATE_NAME"), level)
}

/// Now, as the records have it (RFC 3339, UTC).
pub fn timestamp() -> String {
    let mut text = String::with_capacity(32);
    // A clock before 1970 leaves it empty.
    let _ = SystemTime.format_time(&mut Writer::new(&mut text));
    text
}

impl Log {
    /// A log that writes to `sink` from a thread of its own.
    pub fn to(sink: impl io::Write + Send + 'static, format: LogFormat) -> Self {
        let (queue, entries) = sync_channel(QUEUE);
        let lost = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&lost);
        let writer = thread::Builder::new().name("log".to_owned());
        if let Err(error) = writer.spawn(move || write(sink, &entries, &counter)) {
            let _ = writeln!(io::stderr(), "there will be no log: {error}");
        }
        Self {
            queue,
            lost,
            format,
        }
    }

    /// How records look.
    pub fn format(&self) -> LogFormat {
        self.format
    }

    /// Writes a line, its end included, soon.
    pub fn line(&self, line: Vec<u8>) {
        if self.queue.try_send(Entry::Line(line)).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits, two seconds at most, until the lines so far are written.
    pub fn flush(&self) {
        let (done, written) = sync_channel(1);
        if self.queue.send(Entry::Flush(done)).is_ok() {
            let _ = written.recv_timeout(FLUSH);
        }
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// A record arrives in one piece.
impl io::Write for Log {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.line(line.to_vec());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write(mut sink: impl io::Write, entries: &Receiver<Entry>, lost: &AtomicU64) {
    let mut chunk = Vec::new();
    let mut behind = false;
    while let Ok(first) = entries.recv() {
        if !behind && matches!(first, Entry::Line(_)) {
            thread::sleep(LINGER);
        }
        let mut next = Some(first);
        let mut flushed = None;
        while let Some(entry) = next {
            match entry {
                Entry::Line(line) => chunk.extend_from_slice(&line),
                Entry::Flush(done) => flushed = Some(done),
            }
            let full = chunk.len() >= CHUNK || flushed.is_some();
            next = if full { None } else { entries.try_recv().ok() };
        }
        behind = chunk.len() >= CHUNK;
        let lost = lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let _ = writeln!(
                chunk,
                "{lost} log lines were lost: nobody read them fast enough"
            );
        }
        // Nobody can be told that standard error is gone.
        let _ = sink.write_all(&chunk).and_then(|()| sink.flush());
        chunk.clear();
        if let Some(done) = flushed {
            let _ = done.send(());
        }
    }
}

fn level(level: LogLevel) -> Level {
    match level {
        LogLevel::Error => Level::ERROR,
        LogLevel::Warn => Level::WARN,
        LogLevel::Info => Level::INFO,
        LogLevel::Debug => Level::DEBUG,
        LogLevel::Trace => Level::TRACE,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use std::sync::Mutex;

    use super::*;

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_queue_loses_lines_instead_of_waiting_and_says_how_many() {
        const LINE: &[u8] = b"12345678\n";
        // While the sink is held, the writer can take one chunk off the queue.
        const SENT: usize = QUEUE + CHUNK / LINE.len() + 1000;
        let sink = Sink::default();
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
            .filter_map(|line| line.split_once(" log lines were lost"));
        let lost = lost
            .map(|(count, _)| count.parse::<usize>().unwrap())
            .sum::<usize>();
        assert!(lost > 0);
        assert_eq!(lines + lost, SENT);
    }

    #[test]
    fn libraries_are_silent_until_someone_looks_for_trouble() {
        let cases = [
            (LogLevel::Error, Level::ERROR, Level::ERROR),
            (LogLevel::Info, Level::INFO, Level::WARN),
            (LogLevel::Debug, Level::DEBUG, Level::DEBUG),
        ];
        for (setting, own, theirs) in cases {
            let levels = [
                Level::ERROR,
                Level::WARN,
                Level::INFO,
                Level::DEBUG,
                Level::TRACE,
            ];
            for level in levels {
                let logged = |target| ours(setting).would_enable(target, &level);
                assert_eq!(logged("nsgate::batch"), level <= own, "{setting:?} {level}");
                assert_eq!(logged("lance::io"), level <= theirs, "{setting:?} {level}");
            }
        }
    }

    #[test]
    fn the_time_is_in_utc() {
        let now = timestamp();
        assert!(now.ends_with('Z') && now.contains('T'), "{now}");
    }
}
