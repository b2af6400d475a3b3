//! The threads that serve.
//!
//! Each has a scheduler of its own: nothing that a request does wakes or waits for another processor.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use crate::metrics::Metrics;
use crate::util::worker;

/// The longest time that the end waits for the other threads.
const END_WITHIN: Duration = Duration::from_secs(1);
/// The time between two looks at whether a worker is late.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The most turns of tasks between two looks at sockets and timers. tokio's own number, 61, would let a timer wait for
/// 30 ms while long bodies pass, because a turn moves up to 1 MiB (see [`crate::util::budget`]).
const TURNS: u32 = 16;

/// The worker threads. The first is the thread that made them, as long as it is in [`Workers::block_on`].
pub(super) struct Workers {
    first: Runtime,
    handles: Vec<Handle>,
    /// Senders that end the other threads when they are dropped.
    others: Vec<oneshot::Sender<()>>,
    /// Has a sender in each of the other threads until that has dropped all that ran on it.
    ended: Receiver<()>,
}

impl Workers {
    /// Starts as many workers as `listen.workers` says; 0 stands for one for each processor.
    pub(super) fn start(workers: usize) -> io::Result<Self> {
        let workers = match workers {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            workers => workers,
        };
        worker::announce(workers);
        let first = runtime()?;
        let mut handles = vec![first.handle().clone()];
        let mut others = Vec::new();
        let (last, all_ended) = channel::<()>();
        for index in 1..workers {
            let runtime = runtime()?;
            handles.push(runtime.handle().clone());
            let (end, ended) = oneshot::channel();
            others.push(end);
            let last = last.clone();
            let thread = std::thread::Builder::new().name(format!("worker-{index}"));
            thread.spawn(move || {
                worker::become_one(index);
                let _ = runtime.block_on(ended);
                runtime.shutdown_background();
                drop(last);
            })?;
        }
        // The threads have the other senders.
        drop(last);
        Ok(Self {
            first,
            handles,
            others,
            ended: all_ended,
        })
    }

    /// The runtimes on which connections can be served.
    pub(super) fn handles(&self) -> &[Handle] {
        &self.handles
    }

    /// Runs `main` on this thread, besides the connections that it serves.
    pub(super) fn block_on<T>(&self, main: impl Future<Output = T>) -> T {
        worker::become_one(0);
        self.first.block_on(main)
    }

    /// Ends the workers, and drops what still runs there, without waiting for its end: a request that is dropped still
    /// has its lines in the logs.
    pub(super) fn end(self) {
        drop(self.others);
        self.first.shutdown_background();
        if self.ended.recv_timeout(END_WITHIN) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!("stopped though a worker hangs; lines of its requests may be lost");
        }
    }
}

/// Measures on each worker how late its timers fire, until the process ends.
pub(super) fn watch_stalls(workers: &[Handle], metrics: &Metrics) {
    for worker in workers {
        let stalls = metrics.worker_stall().clone();
        worker.spawn(async move {
            loop {
                let due = Instant::now() + LOOK_EVERY;
                sleep_until(due).await;
                stalls.observe(due.elapsed().as_secs_f64());
            }
        });
    }
}

/// Creates the runtime of one thread.
pub(super) fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread()
        .thread_name("blocking")
        .event_interval(TURNS)
        .enable_all()
        .build()
}
