//! The report of connections that cannot be accepted, for example for lack of open files: a line at once, and then one
//! each ten seconds with their number.

use std::io;
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// The pause after an accept that failed for lack of a resource, such as file descriptors.
const BACKOFF: Duration = Duration::from_millis(50);
/// The least time between two lines.
const QUIET: Duration = Duration::from_secs(10);

/// The failures so far.
#[derive(Default)]
pub(super) struct AcceptErrors {
    told: Option<Instant>,
    /// The failures since the last line.
    since: u64,
}

impl AcceptErrors {
    /// Handles a failed accept. Ignores a client that left before it was accepted; reports any other error, and pauses so
    /// that it does not become a busy loop.
    pub(super) async fn handle(&mut self, error: &io::Error) {
        use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
        if matches!(
            error.kind(),
            ConnectionAborted | ConnectionReset | Interrupted
        ) {
            return;
        }
        if let Some(times) = self.note(Instant::now()) {
            tracing::error!(cause = %error, times, "cannot accept connections");
        }
        sleep(BACKOFF).await;
    }

    /// Counts a failure at `now`. Returns the number of those that a line is due for; `None` if it is too early for one.
    fn note(&mut self, now: Instant) -> Option<u64> {
        self.since += 1;
        if self.told.is_some_and(|told| now < told + QUIET) {
            return None;
        }
        self.told = Some(now);
        Some(std::mem::take(&mut self.since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_of_failures_is_a_few_lines_that_count_all_of_them() {
        let start = Instant::now();
        let mut errors = AcceptErrors::default();
        let lines: Vec<u64> = (0..1200)
            .filter_map(|time| errors.note(start + time * BACKOFF))
            .collect();
        assert_eq!(lines, [1, 200, 200, 200, 200, 200]);
    }
}
