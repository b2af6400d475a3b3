//! The trace of a simulation: a line for each event, to be read when a seed is replayed, and a hash that tells runs
//! apart.

use std::cell::RefCell;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::time::Duration;

use tracing::Level;
use tracing::subscriber::with_default;

thread_local! {
    /// The log of the gateways since the last line of the trace.
    static LOG: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The lines; `None` unless a trace was requested, because writing it takes longer than the simulation.
pub struct Trace(Option<Vec<String>>);

impl Trace {
    pub fn new(wanted: bool) -> Self {
        Self(wanted.then(Vec::new))
    }

    pub fn add(&mut self, at: Duration, line: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.0 {
            let logged = LOG.take();
            let logged = String::from_utf8_lossy(&logged);
            lines.extend(logged.lines().map(|line| format!("          log: {line}")));
            let line = without_random_names(&line());
            lines.push(format!("{:>9.3} {line}", at.as_secs_f64()));
        }
    }

    pub fn lines(&self) -> &[String] {
        self.0.as_deref().unwrap_or_default()
    }

    pub fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.lines().hash(&mut hasher);
        hasher.finish()
    }
}

/// Runs a simulation whose trace has the log of the gateways, too. What is random in the log differs in each run.
pub fn with_log<T>(run: impl FnOnce() -> T) -> T {
    struct Log;
    impl io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            LOG.with_borrow_mut(|log| log.extend_from_slice(bytes));
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let log = tracing_subscriber::fmt()
        .with_max_level(Level::DEBUG)
        .with_ansi(false)
        .with_target(false)
        .without_time()
        .with_writer(|| Log);
    with_default(log.finish(), run)
}

/// Removes the random names that the gateway uses to find out whether a catalog deregisters: they differ in each run.
fn without_random_names(line: &str) -> String {
    let mut parts = line.split("nsgate-");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push_str("nsgate-…");
        text.push_str(part.get(36..).unwrap_or_default());
    }
    text
}
