//! A connection that never blocks, with what was read and not yet understood.

use std::io::{ErrorKind, Read, Write};

use mio::net::TcpStream;

/// Bytes of what is read and not understood: more than any message has.
pub const MOST: usize = 64 << 10;

pub struct Wire {
    stream: TcpStream,
    input: Vec<u8>,
    filled: usize,
}

impl Wire {
    pub fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            // What is never touched takes no memory.
            input: vec![0; MOST],
            filled: 0,
        }
    }

    /// Takes in what is there. Not, whether the peer goes on sending; `ends` is whether it was said that it does not.
    pub fn read(&mut self, ends: bool) -> Result<bool, String> {
        loop {
            let space = &mut self.input[self.filled..];
            if space.is_empty() {
                return Err(format!("a message has more than {MOST} bytes"));
            }
            let room = space.len();
            match self.stream.read(space) {
                Ok(0) => return Ok(false),
                Ok(got) => {
                    self.filled += got;
                    // Less than would fit is all there was, and more will be news: it need not be asked for.
                    if got < room && !ends {
                        return Ok(true);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(said(error)),
            }
        }
    }

    pub fn input(&self) -> &[u8] {
        &self.input[..self.filled]
    }

    /// The first so many bytes of the input are done with.
    pub fn take(&mut self, count: usize) {
        let count = count.min(self.filled);
        self.input.copy_within(count..self.filled, 0);
        self.filled -= count;
    }

    /// At once, in one piece: on the loopback there is room for it, but with a peer that does not read.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), String> {
        match self.stream.write(bytes).map_err(said)? {
            sent if sent == bytes.len() => Ok(()),
            sent => Err(format!("the peer takes {sent} bytes of {}", bytes.len())),
        }
    }
}

fn said(error: std::io::Error) -> String {
    error.to_string()
}
