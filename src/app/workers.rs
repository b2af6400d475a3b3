//! The threads that serve. Each has a scheduler of its own: nothing that a request does wakes or waits for another
//! processor.

use std::io;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;

use crate::util::worker;

/// All of them. The first is the thread that made them, as long as it is in [`Workers::block_on`].
pub(super) struct Workers {
    first: Runtime,
    handles: Vec<Handle>,
    /// Dropped to end the others.
    _others: Vec<oneshot::Sender<()>>,
}

impl Workers {
    /// As many as `listen.workers` says; 0: one for each processor.
    pub(super) fn start(workers: usize) -> io::Result<Self> {
        let workers = match workers {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            workers => workers,
        };
        worker::announce(workers);
        let first = runtime()?;
        let mut handles = vec![first.handle().clone()];
        let mut others = Vec::new();
        for index in 1..workers {
            let runtime = runtime()?;
            handles.push(runtime.handle().clone());
            let (end, ended) = oneshot::channel();
            others.push(end);
            let thread = std::thread::Builder::new().name(format!("worker-{index}"));
            thread.spawn(move || {
                worker::become_one(index);
                let _ = runtime.block_on(ended);
                runtime.shutdown_background();
            })?;
        }
        Ok(Self {
            first,
            handles,
            _others: others,
        })
    }

    /// Where connections can be served.
    pub(super) fn handles(&self) -> &[Handle] {
        &self.handles
    }

    /// Runs `main` here, among what this thread serves.
    pub(super) fn block_on<T>(&self, main: impl Future<Output = T>) -> T {
        self.first.block_on(main)
    }

    /// Ends them. What still runs is not waited for.
    pub(super) fn end(self) {
        self.first.shutdown_background();
    }
}

/// For one thread.
pub(super) fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread()
        .thread_name("blocking")
        .enable_all()
        .build()
}
