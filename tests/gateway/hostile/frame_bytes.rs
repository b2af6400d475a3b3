//! HTTP/2 as bytes: frames written by hand (RFC 9113), headers without compression (RFC 7541, section 6.2.2).

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const PRIORITY: u8 = 2;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;

/// Encodes one frame.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// The connection preface of a client, with these settings.
pub fn greeting(settings: &[(u16, u32)]) -> Vec<u8> {
    let settings = settings
        .iter()
        .flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()[..]].concat());
    let settings: Vec<u8> = settings.collect();
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(SETTINGS, 0, 0, &settings));
    bytes
}

/// Encodes a header block; `kind` 0x00 leaves the receiver's table unchanged, 0x40 adds to it.
pub fn block(kind: u8, headers: &[(&str, &[u8])]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in headers {
        block.push(kind);
        for text in [name.as_bytes(), value] {
            // A length has a prefix of seven bits (RFC 7541, section 5.1).
            match text.len() {
                short @ 0..=126 => block.push(short as u8),
                long => {
                    block.push(127);
                    let mut rest = long - 127;
                    while rest >= 128 {
                        block.push((rest % 128) as u8 | 128);
                        rest /= 128;
                    }
                    block.push(rest as u8);
                }
            }
            block.extend(text);
        }
    }
    block
}

/// The gateway's reaction on one stream or on the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// An answer, with its status; `None` if the status is not in the static table.
    Answer(Option<u16>),
    /// A reset of the stream with this error code.
    Reset(u32),
    /// An end of the connection with this error code.
    Goaway(u32),
    /// An end of the connection without a GOAWAY frame.
    Closed,
}

/// Reads frames until one decides `stream`; `0` stands for the connection.
pub async fn outcome(reader: &mut OwnedReadHalf, stream: u32) -> Said {
    loop {
        let mut head = [0; 9];
        if reader.read_exact(&mut head).await.is_err() {
            return Said::Closed;
        }
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let about = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let mut payload = vec![0; length];
        if reader.read_exact(&mut payload).await.is_err() {
            return Said::Closed;
        }
        let number = |at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().unwrap());
        match head[3] {
            GOAWAY if number(4) != 0 => return Said::Goaway(number(4)),
            RST_STREAM if about == stream => return Said::Reset(number(0)),
            HEADERS if about == stream => return Said::Answer(status(&payload)),
            _ => {}
        }
    }
}

/// Decodes a status that is in the static table (RFC 7541, appendix A).
fn status(block: &[u8]) -> Option<u16> {
    Some(match block.first()? {
        0x88 => 200,
        0x89 => 204,
        0x8b => 304,
        0x8c => 400,
        0x8d => 404,
        0x8e => 500,
        _ => return None,
    })
}

/// Sends these bytes and returns the gateway's reaction on `stream`.
pub async fn say(address: SocketAddr, bytes: &[u8], stream: u32) -> Said {
    let (mut reader, mut writer) = TcpStream::connect(address).await.unwrap().into_split();
    let write = async {
        let _ = writer.write_all(bytes).await;
    };
    tokio::join!(outcome(&mut reader, stream), write).0
}
