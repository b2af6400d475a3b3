//! Chooses the worker that serves a new connection: the one that has the fewest.

use std::io;

use tokio::net::TcpStream;
use tokio::runtime::Handle;

use crate::util::budget::BudgetedStream;

/// The workers, each with its number of connections. The first is the one that accepts.
pub(super) struct Workers(Vec<(Handle, usize)>);

/// A connection on its way to its worker, which has to register it with its own runtime.
pub(super) enum Stream {
    Here(TcpStream),
    Elsewhere(std::net::TcpStream),
}

impl Workers {
    /// Creates the list. `workers` has at least one element.
    pub(super) fn new(workers: &[Handle]) -> Self {
        Self(workers.iter().map(|worker| (worker.clone(), 0)).collect())
    }

    /// Chooses the worker of one more connection, and returns its number.
    pub(super) fn choose(&mut self) -> usize {
        let workers = self.0.iter_mut().enumerate();
        let fewest = workers.min_by_key(|(_, (_, connections))| *connections);
        let Some((index, (_, connections))) = fewest else {
            return 0;
        };
        *connections += 1;
        index
    }

    pub(super) fn handle(&self, index: usize) -> &Handle {
        &self.0[index].0
    }

    /// Notes that a connection of this worker has ended.
    pub(super) fn ended(&mut self, index: usize) {
        self.0[index].1 -= 1;
    }
}

impl Stream {
    /// Prepares `stream` for the worker with this number.
    pub(super) fn to(index: usize, stream: TcpStream) -> io::Result<Self> {
        match index {
            0 => Ok(Self::Here(stream)),
            _ => stream.into_std().map(Self::Elsewhere),
        }
    }

    /// Returns the stream for use; to be called on its worker.
    pub(super) fn arrived(self) -> io::Result<BudgetedStream> {
        let stream = match self {
            Self::Here(stream) => stream,
            Self::Elsewhere(stream) => TcpStream::from_std(stream)?,
        };
        Ok(BudgetedStream::new(stream))
    }
}
