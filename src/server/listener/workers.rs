//! Who serves a new connection: the worker that has the fewest.

use std::io;

use tokio::net::TcpStream;
use tokio::runtime::Handle;

/// The workers, the first of them the one that accepts, and what each has to serve.
pub(super) struct Workers(Vec<(Handle, usize)>);

/// A connection on its way to its worker, where it is to be awaited.
pub(super) enum Stream {
    Here(TcpStream),
    Elsewhere(std::net::TcpStream),
}

impl Workers {
    /// At least one.
    pub(super) fn new(workers: &[Handle]) -> Self {
        Self(workers.iter().map(|worker| (worker.clone(), 0)).collect())
    }

    /// The number of the worker that is to serve one more.
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

    /// One that it served has ended.
    pub(super) fn ended(&mut self, index: usize) {
        self.0[index].1 -= 1;
    }
}

impl Stream {
    /// For the worker with that number.
    pub(super) fn to(index: usize, stream: TcpStream) -> io::Result<Self> {
        match index {
            0 => Ok(Self::Here(stream)),
            _ => stream.into_std().map(Self::Elsewhere),
        }
    }

    /// What its worker serves.
    pub(super) fn arrived(self) -> io::Result<TcpStream> {
        match self {
            Self::Here(stream) => Ok(stream),
            Self::Elsewhere(stream) => TcpStream::from_std(stream),
        }
    }
}
