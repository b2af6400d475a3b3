//! SIGTERM and SIGINT, and SIGHUP.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that ask the process to stop.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

/// The signal that asks it to read its configuration again.
pub(super) struct Hangups(Signal);

impl Hangups {
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self(signal(SignalKind::hangup())?))
    }

    /// Waits for the next one; several that came meanwhile are one.
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
        })
    }

    /// Waits for the next one.
    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
