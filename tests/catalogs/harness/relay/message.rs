//! One HTTP/1.1 message, read whole and kept as its bytes.

use std::io::{self, BufRead, BufReader, Read};
use std::net::TcpStream;

/// The largest message that a relay passes on.
const LONGEST: usize = 64 << 20;

/// A request or an answer.
#[derive(Clone, Debug)]
pub struct Message {
    /// The first line, without its end.
    pub start: String,
    /// The whole message.
    pub bytes: Vec<u8>,
    head: usize,
    closes: bool,
}

/// The way to find the end of a body.
enum Framing {
    Length(usize),
    Chunked,
    UntilClose,
}

impl Message {
    /// Reads the next request of a connection; `None` at its end.
    pub fn request(from: &mut BufReader<TcpStream>) -> io::Result<Option<Self>> {
        if from.fill_buf()?.is_empty() {
            return Ok(None);
        }
        let mut message = Self::head(from)?;
        let framing = message.framing(Framing::Length(0));
        message.body(from, &framing)?;
        Ok(Some(message))
    }

    /// Reads the answer to a request.
    pub fn answer(from: &mut BufReader<TcpStream>, to: &Self) -> io::Result<Self> {
        let mut message = Self::head(from)?;
        while message.status() < 200 {
            message = Self::head(from)?;
        }
        let empty = to.start.starts_with("HEAD ") || matches!(message.status(), 204 | 304);
        let framing = if empty {
            Framing::Length(0)
        } else {
            message.framing(Framing::UntilClose)
        };
        message.closes |= matches!(framing, Framing::UntilClose);
        message.body(from, &framing)?;
        Ok(message)
    }

    /// Returns an error in the contract's shape, as a catalog would send it.
    pub fn refusal(status: u16) -> Self {
        let code = if status == 503 { 17 } else { 18 };
        let body = format!(r#"{{"error":"the relay says so","code":{code}}}"#);
        let start = format!("HTTP/1.1 {status} Said By The Relay");
        let length = body.len();
        let head = format!(
            "{start}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        );
        Self {
            start,
            head: head.len(),
            bytes: [head, body].concat().into_bytes(),
            closes: false,
        }
    }

    /// Returns a request's path, without its query.
    pub fn path(&self) -> &str {
        let target = self.start.split(' ').nth(1).unwrap_or_default();
        target.split('?').next().unwrap_or_default()
    }

    /// Returns an answer's status; 0 if it has none.
    pub fn status(&self) -> u16 {
        let status = self.start.split(' ').nth(1);
        status.and_then(|it| it.parse().ok()).unwrap_or_default()
    }

    /// Returns the bytes after the head.
    pub fn content(&self) -> &[u8] {
        &self.bytes[self.head..]
    }

    /// Returns true if no message follows on the connection.
    pub fn closes(&self) -> bool {
        self.closes
    }

    fn head(from: &mut BufReader<TcpStream>) -> io::Result<Self> {
        let mut bytes = Vec::new();
        let mut closes = false;
        loop {
            let begin = bytes.len();
            line(from, &mut bytes)?;
            let line = bytes[begin..].trim_ascii().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            closes |= line.starts_with(b"connection:") && line.ends_with(b"close");
        }
        let end = bytes.iter().position(|byte| *byte == b'\r');
        let start = String::from_utf8_lossy(&bytes[..end.unwrap_or_default()]).into_owned();
        let head = bytes.len();
        Ok(Self {
            start,
            bytes,
            head,
            closes,
        })
    }

    fn framing(&self, otherwise: Framing) -> Framing {
        let head = String::from_utf8_lossy(&self.bytes[..self.head]).to_ascii_lowercase();
        let field = |name: &str| {
            let mut fields = head.lines().filter_map(|line| line.split_once(':'));
            let found = fields.find(|(found, _)| *found == name);
            found.map(|(_, value)| value.trim().to_owned())
        };
        if field("transfer-encoding").is_some_and(|coding| coding.ends_with("chunked")) {
            return Framing::Chunked;
        }
        let length = field("content-length").and_then(|length| length.parse().ok());
        length.map_or(otherwise, Framing::Length)
    }

    fn body(&mut self, from: &mut BufReader<TcpStream>, framing: &Framing) -> io::Result<()> {
        match framing {
            Framing::Length(length) => self.take(from, *length),
            Framing::UntilClose => {
                let rest = (LONGEST - self.head) as u64;
                from.take(rest).read_to_end(&mut self.bytes).map(|_| ())
            }
            Framing::Chunked => loop {
                let begin = self.bytes.len();
                line(from, &mut self.bytes)?;
                let size = String::from_utf8_lossy(&self.bytes[begin..]).into_owned();
                let size = size.split(';').next().unwrap_or_default().trim();
                let size = usize::from_str_radix(size, 16).map_err(io::Error::other)?;
                self.take(from, size)?;
                // Trailers may follow the last chunk; here none is expected, only the empty line.
                line(from, &mut self.bytes)?;
                if size == 0 {
                    return Ok(());
                }
            },
        }
    }

    fn take(&mut self, from: &mut BufReader<TcpStream>, length: usize) -> io::Result<()> {
        let begin = self.bytes.len();
        if begin.saturating_add(length) > LONGEST {
            return Err(io::Error::other("a message too long for a relay"));
        }
        self.bytes.resize(begin + length, 0);
        from.read_exact(&mut self.bytes[begin..])
    }
}

/// Reads a line to its end.
fn line(from: &mut BufReader<TcpStream>, bytes: &mut Vec<u8>) -> io::Result<()> {
    let rest = LONGEST.saturating_sub(bytes.len()) as u64;
    from.take(rest).read_until(b'\n', bytes)?;
    if bytes.ends_with(b"\n") {
        Ok(())
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}
