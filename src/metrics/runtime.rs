//! The metrics of the process and of its worker threads, read when they are rendered.

use std::sync::OnceLock;

use prometheus::{Counter, CounterVec, Gauge, IntCounterVec, IntGauge, IntGaugeVec};
use tokio::runtime::Handle;

use super::families::Register;
use super::process::ProcessFigures;

/// The families, with the names that Prometheus' own libraries give those of the process.
pub(super) struct RuntimeFamilies {
    cpu: Counter,
    resident: IntGauge,
    allocated: IntGauge,
    open_files: IntGauge,
    max_files: Gauge,
    started: Gauge,
    threads: IntGauge,
    busy: CounterVec,
    parks: IntCounterVec,
    tasks: IntGaugeVec,
    workers: OnceLock<Vec<Handle>>,
}

impl RuntimeFamilies {
    pub(super) fn register(new: &Register<'_>) -> Self {
        let of_worker = &["worker"];
        Self {
            cpu: new.float_counter(
                "process_cpu_seconds_total",
                "Processor time that the process has used, of the kernel for it included, in seconds.",
            ),
            resident: new.gauge(
                "process_resident_memory_bytes",
                "Memory of the process that is in use and not swapped out, in bytes.",
            ),
            allocated: new.gauge(
                "nsgate_allocated_bytes",
                "Memory that the program has allocated and not freed, in bytes; 0 if the allocator does not tell.",
            ),
            open_files: new.gauge(
                "process_open_fds",
                "Open files of the process, connections included.",
            ),
            max_files: new.float_gauge(
                "process_max_fds",
                "The most files that the process may have open.",
            ),
            started: new.float_gauge(
                "process_start_time_seconds",
                "Unix time at which the process started, in seconds.",
            ),
            threads: new.gauge("process_threads", "Threads of the process."),
            busy: new.float_counters(
                "nsgate_worker_busy_seconds_total",
                "Seconds in which a worker was running tasks and not waiting for events.",
                of_worker,
            ),
            parks: new.counters(
                "nsgate_worker_parks_total",
                "Times that a worker had nothing left to run and waited for events.",
                of_worker,
            ),
            tasks: new.gauges(
                "nsgate_worker_tasks",
                "Tasks of a worker: one for each connection, and those of the gateway itself.",
                of_worker,
            ),
            workers: OnceLock::new(),
        }
    }

    /// Sets the workers, which stay the same as long as the process runs.
    pub(super) fn watch(&self, workers: &[Handle]) {
        // A second call names the same workers.
        let _ = self.workers.set(workers.to_vec());
    }

    /// Updates all of them to the present values.
    pub(super) fn refresh(&self) {
        let figures = ProcessFigures::read();
        let whole = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        grow(&self.cpu, figures.cpu_seconds);
        self.resident.set(whole(figures.resident_bytes));
        let allocated = figures.allocated_bytes.unwrap_or_default();
        self.allocated.set(whole(allocated));
        self.open_files.set(whole(figures.open_files));
        self.max_files.set(figures.max_files as f64);
        self.started.set(figures.start_time_seconds);
        self.threads.set(whole(figures.threads));
        for (index, worker) in self.workers.get().into_iter().flatten().enumerate() {
            let label = [index.to_string()];
            // Each worker is a runtime of its own, with one thread.
            let seen = worker.metrics();
            let busy = seen.worker_total_busy_duration(0).as_secs_f64();
            grow(&self.busy.with_label_values(&label), busy);
            let parks = self.parks.with_label_values(&label);
            parks.inc_by(seen.worker_park_count(0).saturating_sub(parks.get()));
            let tasks = u64::try_from(seen.num_alive_tasks()).unwrap_or(u64::MAX);
            self.tasks.with_label_values(&label).set(whole(tasks));
        }
    }
}

/// Raises a counter to `now`. Two renderings at the same time can come in either order, and a counter never falls.
fn grow(counter: &Counter, now: f64) {
    let more = now - counter.get();
    if more > 0.0 {
        counter.inc_by(more);
    }
}
