//! The signals: SIGTERM and SIGINT, SIGHUP, and SIGXFSZ.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The number of SIGXFSZ on Linux and macOS. It comes with a write beyond the size that files may have (`ulimit -f`),
/// and would end the process without a message. With a listener, the write fails as on a full disk.
const FILE_TOO_LARGE: i32 = 25;

/// The signals that ask the process to stop.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    _too_large: Signal,
}

/// The signal that asks the process to read its configuration again.
pub(super) struct Hangups(Signal);

impl Hangups {
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self(signal(SignalKind::hangup())?))
    }

    /// Waits for the next signal; several that came meanwhile count as one.
    pub(super) async fn next(&mut self) {
        if self.0.recv().await.is_none() {
            std::future::pending().await
        }
    }
}

impl Signals {
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            _too_large: signal(SignalKind::from_raw(FILE_TOO_LARGE))?,
        })
    }

    /// Waits for the next signal.
    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
