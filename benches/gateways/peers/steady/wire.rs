//! A non-blocking connection, with the bytes that were read and not yet parsed.

use std::io::{ErrorKind, Read, Write};

use mio::net::TcpStream;

/// The largest number of bytes that are read and not yet parsed: more than any message has.
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
            // Untouched pages take no memory.
            input: vec![0; MOST],
            filled: 0,
        }
    }

    /// Reads the available bytes. Returns false if the peer has closed its side; `ends` is true if the poll reported
    /// that it has.
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
                    // A short read has emptied the socket, and more data will be a new event: another read is not
                    // needed.
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

    /// Removes the first bytes of the input.
    pub fn take(&mut self, count: usize) {
        let count = count.min(self.filled);
        self.input.copy_within(count..self.filled, 0);
        self.filled -= count;
    }

    /// Writes at once, in one piece: the loopback has room for it, unless the peer does not read.
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
