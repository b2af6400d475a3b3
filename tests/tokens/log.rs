//! Captures the log of all tests in this process, at every level.

use std::io;
use std::sync::{LazyLock, Mutex};

use tracing_subscriber::filter::LevelFilter;

static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());
static STARTED: LazyLock<()> = LazyLock::new(|| {
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        .with_ansi(false)
        .with_writer(|| Writer);
    subscriber.init();
});

struct Writer;

impl io::Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LOG.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Starts to capture.
pub fn start() {
    LazyLock::force(&STARTED);
}

/// Returns the log so far.
pub fn text() -> String {
    String::from_utf8_lossy(&LOG.lock().unwrap()).into_owned()
}
