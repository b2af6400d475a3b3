//! A receiver of log lines for tests, in memory.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// The bytes that were written so far; a clone receives the same.
#[derive(Clone, Default)]
pub(crate) struct MemorySink(pub(crate) Arc<Mutex<Vec<u8>>>);

impl io::Write for MemorySink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        written.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
