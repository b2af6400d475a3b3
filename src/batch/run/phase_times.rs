//! Measures the time that the phases of a batch take.

use tokio::time::Instant;

use crate::metrics::{self, Phase};
use crate::request::origin::Origin;

/// Measures one batch.
pub(super) struct Timing {
    begun: Instant,
    phase_begun: Instant,
    /// True while an undo runs whose time has not been counted.
    is_undoing: bool,
}

impl Timing {
    /// Begins with the first phase of a batch that came then.
    pub(super) fn since(came: Instant) -> Self {
        Self {
            begun: came,
            phase_begun: Instant::now(),
            is_undoing: false,
        }
    }

    /// The time at which the batch arrived.
    pub(super) fn begun(&self) -> Instant {
        self.begun
    }

    /// Ends a phase and begins the next. The time goes to the metrics and, if the request is traced, into its span.
    pub(super) fn end(&mut self, phase: Phase, metrics: &metrics::Batch, origin: &Origin) {
        let now = Instant::now();
        let took = now.duration_since(self.phase_begun);
        metrics.phase(phase, took);
        if let Some(traced) = origin.traced() {
            traced.took(format!("batch {}", phase.as_str()), took);
        }
        self.phase_begun = now;
    }

    /// Notes that an undo is under way, or that there is none.
    pub(super) fn undoing(&mut self, is_undoing: bool) {
        self.is_undoing = is_undoing;
    }

    /// Begins an undo apart from the phases before it: for a create that landed after they had ended.
    pub(super) fn begin_undo(&mut self) {
        (self.is_undoing, self.phase_begun) = (true, Instant::now());
    }

    /// Ends the undo, if one is under way.
    pub(super) fn end_undo(&mut self, metrics: &metrics::Batch, origin: &Origin) {
        if std::mem::take(&mut self.is_undoing) {
            self.end(Phase::Undo, metrics, origin);
        }
    }
}
