//! HTTP/1.1 as bytes, parsed strictly, so that nothing ambiguous passes for harmless.

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

/// A message as it was on the wire.
#[derive(Clone, Debug)]
pub struct Message {
    /// The request line or status line.
    pub start: String,
    /// The headers, with their names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Message {
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut of = self.headers.iter().filter(|(n, _)| n == name);
        of.next().map(|(_, value)| value.as_str())
    }

    fn count(&self, name: &str) -> usize {
        self.headers.iter().filter(|(n, _)| n == name).count()
    }

    /// The status of an answer; 0 if there is none.
    pub fn status(&self) -> u16 {
        let status = self.start.split(' ').nth(1);
        status.and_then(|status| status.parse().ok()).unwrap_or(0)
    }
}

/// Reads the next message; `None` at a clean end. An error describes what readers could disagree
/// on.
pub async fn read<T>(stream: &mut T, buffer: &mut BytesMut) -> Result<Option<Message>, String>
where
    T: AsyncRead + Unpin,
{
    let end = loop {
        if let Some(at) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
            break at;
        }
        if more(stream, buffer).await == 0 {
            return if buffer.is_empty() {
                Ok(None)
            } else {
                Err(format!("an end in the headers: {buffer:?}"))
            };
        }
    };
    let mut message = head(&buffer.split_to(end + 2))?;
    buffer.advance(2);
    let lengths = message.count("content-length") + message.count("transfer-encoding");
    if lengths > 1 {
        return Err(format!("two lengths: {message:?}"));
    }
    if message
        .header("transfer-encoding")
        .is_some_and(|coding| coding != "chunked")
    {
        return Err(format!("an unknown coding: {message:?}"));
    }
    let informal = (100..200).contains(&message.status());
    message.body = match message.header("content-length") {
        Some(length) => {
            let digits = !length.is_empty() && length.bytes().all(|b| b.is_ascii_digit());
            let length = length.parse().ok().filter(|_| digits);
            exactly(stream, buffer, length.ok_or("a length that is no number")?).await?
        }
        None if lengths == 1 => chunks(stream, buffer).await?,
        None if message.status() == 0 || informal => Vec::new(),
        None => return Err(format!("an answer without a length: {message:?}")),
    };
    Ok(Some(message))
}

fn head(bytes: &[u8]) -> Result<Message, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| format!("not text: {bytes:?}"))?;
    let mut lines = text.split("\r\n");
    let start = lines.next().unwrap_or_default().to_owned();
    let mut headers = Vec::new();
    for line in lines.filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').ok_or(format!("no colon: {line:?}"))?;
        let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        if name.is_empty() || !name.chars().all(token) {
            return Err(format!("a name that is none: {line:?}"));
        }
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    if text
        .replace("\r\n", "")
        .contains(|c: char| c.is_control() && c != '\t')
    {
        return Err(format!("a control character: {text:?}"));
    }
    Ok(Message {
        start,
        headers,
        body: Vec::new(),
    })
}

async fn exactly<T>(stream: &mut T, buffer: &mut BytesMut, length: usize) -> Result<Vec<u8>, String>
where
    T: AsyncRead + Unpin,
{
    while buffer.len() < length {
        if more(stream, buffer).await == 0 {
            return Err(format!("an end after {} of {length} bytes", buffer.len()));
        }
    }
    Ok(buffer.split_to(length).to_vec())
}

async fn chunks<T>(stream: &mut T, buffer: &mut BytesMut) -> Result<Vec<u8>, String>
where
    T: AsyncRead + Unpin,
{
    let mut body = Vec::new();
    loop {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            line.extend(exactly(stream, buffer, 1).await?);
        }
        let size = std::str::from_utf8(&line[..line.len() - 2]).unwrap_or_default();
        let digits = !size.is_empty() && size.bytes().all(|b| b.is_ascii_hexdigit());
        let size = usize::from_str_radix(size, 16).ok().filter(|_| digits);
        let size = size.ok_or(format!("a chunk size that is no number: {line:?}"))?;
        body.extend(exactly(stream, buffer, size).await?);
        if exactly(stream, buffer, 2).await? != b"\r\n" {
            return Err("a chunk that does not end where it says".to_owned());
        }
        if size == 0 {
            return Ok(body);
        }
    }
}

async fn more<T>(stream: &mut T, buffer: &mut BytesMut) -> usize
where
    T: AsyncRead + Unpin,
{
    stream.read_buf(buffer).await.unwrap_or(0)
}
