//! The world outside of the process, as the log meets it: the servers, and the kernel. A simulation has one of its own.

use std::io;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};

/// A stream of bytes to a server.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// A simulated world.
pub trait Outside: Send + Sync + 'static {
    /// Opens a stream to a server of `batch.log`, by its place there.
    fn dial(&self, server: usize) -> BoxFuture<'_, io::Result<Box<dyn Stream>>>;

    /// Ends the process after `left`, unless this is called again before; never if `left` is zero.
    fn end_after(&self, left: Duration);
}
