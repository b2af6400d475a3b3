//! Batches over a log that is shared with other gateways, or that another process can take over.

use std::sync::Arc;

use super::Batches;
use crate::batch::fleet::{Fleet, OwnedGuards, RELEASE_EVERY};
use crate::batch::ids::Ids;
use crate::batch::log::Log;
use crate::batch::run::guarding::{CoordinatorTables, Sharing};
use crate::batch::run::recovery::forgotten::restore_always;
use crate::batch::run::{Coordinator, WallClock};
use crate::config::BatchConfig;
use crate::metrics;

impl Batches {
    /// Creates the batches over a log that is shared with other gateways, or that another process can take over.
    /// `guards` are the guards of this gateway's batches; `None` if it has the log for itself.
    pub fn sharing(
        log: Arc<dyn Log>,
        fleet: &Arc<Fleet>,
        guards: Option<OwnedGuards>,
        settings: BatchConfig,
        metrics: metrics::Batch,
    ) -> Self {
        let coordinator = Coordinator::new(log, settings, metrics);
        Self::shared(coordinator, fleet, guards)
    }

    /// Does the same with the given clock, for a simulation that must not depend on the time of day.
    #[doc(hidden)]
    pub fn sharing_with_clock(
        log: Arc<dyn Log>,
        fleet: &Arc<Fleet>,
        guards: OwnedGuards,
        settings: BatchConfig,
        metrics: metrics::Batch,
        clock: WallClock,
    ) -> Self {
        let mut coordinator = Coordinator::new(log, settings, metrics);
        coordinator.clock = clock;
        coordinator.ids = Ids::simulated(clock);
        Self::shared(coordinator, fleet, Some(guards))
    }

    fn shared(
        mut coordinator: Coordinator,
        fleet: &Arc<Fleet>,
        guards: Option<OwnedGuards>,
    ) -> Self {
        coordinator.sharing = Some(Sharing {
            fleet: Arc::clone(fleet),
            guards,
        });
        let batches = Self::over(coordinator);
        let tables = CoordinatorTables(Arc::downgrade(&batches.coordinator));
        fleet.serve_from(Arc::new(tables));
        batches
    }

    /// The gateways that share the log; `None` if it is for one process only.
    pub fn fleet(&self) -> Option<&Arc<Fleet>> {
        self.coordinator
            .sharing
            .as_ref()
            .map(|sharing| &sharing.fleet)
    }

    /// The state of the batch log, for the metrics.
    pub fn log_counts(&self) -> metrics::LogCounts {
        let Some(sharing) = &self.coordinator.sharing else {
            return metrics::LogCounts {
                owned: true,
                gateways: 1,
                ..metrics::LogCounts::default()
            };
        };
        let mut counts = sharing.fleet.counts();
        if counts.owned {
            counts.guarded_tables = sharing.guards.as_ref().map_or(0, OwnedGuards::len);
        }
        counts
    }

    /// The reason why the batch log cannot be written now; `None` if it can.
    pub fn log_trouble(&self) -> Option<String> {
        self.coordinator.log.trouble()
    }

    /// Writes again what the log lacks of batches that this gateway knows, whenever it reaches another copy of the log. The
    /// gateway owns the log, and has recovered it. Ends when the log cannot be used any more.
    pub async fn restore_log(&self) {
        if let Some(fleet) = self.fleet() {
            // Whoever reads or writes the log reports the error.
            let _ = restore_always(&self.coordinator, &self.outcomes, fleet.copy()).await;
        }
    }

    /// Releases the guards that batches do not need any more, until the future is dropped.
    pub async fn release_guards(&self) {
        let mut tick = tokio::time::interval(RELEASE_EVERY);
        loop {
            tick.tick().await;
            self.coordinator.release_guards().await;
        }
    }
}
