//! The part of HTTP/1.1 that is needed to send requests and answers over blocking sockets: whole messages, one
//! at a time.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

/// One end of a connection.
pub struct Connection(BufReader<TcpStream>);

/// A received message.
pub struct Message {
    /// The request line or the status line.
    pub first: String,
    pub body: Vec<u8>,
}

impl Connection {
    pub fn open(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).unwrap())
    }

    pub fn over(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        Self(BufReader::new(stream))
    }

    /// Sends a message in one piece, so that the cost of reading it is the same each time.
    pub fn send(&mut self, message: &[u8]) {
        self.0.get_mut().write_all(message).unwrap();
    }

    /// Returns the next message; `None` if the other end has closed the connection.
    pub fn receive(&mut self) -> Option<Message> {
        let first = self.line()?;
        let (mut length, mut chunked) = (0, false);
        loop {
            let line = self.line()?;
            let Some((name, value)) = line.split_once(": ") else {
                break;
            };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.parse().unwrap(),
                "transfer-encoding" => chunked = value == "chunked",
                _ => {}
            }
        }
        let mut body = Vec::new();
        if chunked {
            self.chunks(&mut body)?;
        } else {
            self.more(&mut body, length)?;
        }
        Some(Message { first, body })
    }

    fn chunks(&mut self, body: &mut Vec<u8>) -> Option<()> {
        loop {
            let length = usize::from_str_radix(&self.line()?, 16).unwrap();
            self.more(body, length)?;
            self.line()?;
            if length == 0 {
                return Some(());
            }
        }
    }

    fn more(&mut self, body: &mut Vec<u8>, length: usize) -> Option<()> {
        let before = body.len();
        body.resize(before + length, 0);
        self.0.read_exact(&mut body[before..]).ok()
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.0.read_line(&mut line).ok()?;
        line.truncate(line.trim_end().len());
        (read > 0).then_some(line)
    }
}
