//! Limits the HTTP/2 frames of a client that carry no request: beyond an allowance, the connection ends.
//!
//! h2 limits streams that are reset and headers without end. But it answers PING and SETTINGS, and reads PRIORITY,
//! WINDOW_UPDATE and empty DATA, for as long as they come. A client earns allowance for these frames by the requests
//! and bodies that it sends, and by the response bytes that it takes, for which it opens windows.

use std::io;
use std::time::Instant;

/// The frames without content that a connection may send at its start, and the most that it can save up.
const ALLOWANCE: u32 = 10_000;
/// The frames that each frame of headers or of a body earns.
const FOR_CONTENT: u32 = 4;
/// The frames that each KiB sent to the client earns. Some clients open their windows in small steps.
const FOR_KIB: u32 = 2;
/// The frames that each second earns.
const FOR_SECOND: u32 = 100;

const HEAD: usize = 9;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
/// The END_STREAM flag of DATA and HEADERS frames.
const END_STREAM: u8 = 1;

/// Counts the frames of one connection.
pub(super) struct Frames {
    head: [u8; HEAD],
    /// The number of bytes of `head` that have come.
    known: usize,
    /// The number of bytes that are left of the current frame's payload.
    left: usize,
    allowed: u32,
    /// The start of the seconds that have not been counted yet.
    since: Instant,
}

/// The error of a client that sent too many frames without content.
#[derive(Debug, thiserror::Error)]
#[error("the client sends too many HTTP/2 frames that carry no request")]
struct Flood;

impl Frames {
    /// Creates the count for a connection whose first `preface` bytes are no frames.
    pub(super) fn after(preface: usize) -> Self {
        Self {
            head: [0; HEAD],
            known: 0,
            left: preface,
            allowed: ALLOWANCE,
            since: Instant::now(),
        }
    }

    /// Counts the frames in the next bytes from the client.
    ///
    /// # Errors
    /// The client has sent too many frames without content.
    pub(super) fn read(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let passed = self.left.min(bytes.len());
            self.left -= passed;
            bytes = &bytes[passed..];
            let more = (HEAD - self.known).min(bytes.len());
            self.head[self.known..self.known + more].copy_from_slice(&bytes[..more]);
            self.known += more;
            bytes = &bytes[more..];
            if self.known == HEAD {
                self.known = 0;
                self.begin()?;
            }
        }
        Ok(())
    }

    /// Notes that `bytes` bytes were sent to the client.
    pub(super) fn sent(&mut self, bytes: usize) {
        let kib = u32::try_from(bytes.div_ceil(1 << 10)).unwrap_or(u32::MAX);
        self.earn(kib.saturating_mul(FOR_KIB));
    }

    fn earn(&mut self, frames: u32) {
        self.allowed = self.allowed.saturating_add(frames).min(ALLOWANCE);
    }

    /// Counts the frame whose head is complete.
    fn begin(&mut self) -> io::Result<()> {
        let [a, b, c, kind, flags, ..] = self.head;
        self.left = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
        let is_content = match kind {
            DATA => self.left > 0 || flags & END_STREAM != 0,
            HEADERS => true,
            _ => false,
        };
        if is_content {
            self.earn(FOR_CONTENT);
            return Ok(());
        }
        if self.allowed == 0 {
            let seconds = u32::try_from(self.since.elapsed().as_secs()).unwrap_or(u32::MAX);
            if seconds == 0 {
                return Err(io::Error::other(Flood));
            }
            self.since = Instant::now();
            self.earn(seconds.saturating_mul(FOR_SECOND));
        }
        self.allowed -= 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number of frames that is larger than any allowance.
    const MANY: usize = 12_000;

    fn frame(kind: u8, flags: u8, payload: usize) -> Vec<u8> {
        let length = u32::try_from(payload).unwrap_or(0).to_be_bytes();
        let head = [length[1], length[2], length[3], kind, flags, 0, 0, 0, 1];
        [&head[..], &vec![6; payload]].concat()
    }

    fn how_many(frames: &mut Frames, wave: &[u8]) -> usize {
        (0..MANY)
            .take_while(|_| wave.chunks(7).all(|piece| frames.read(piece).is_ok()))
            .count()
    }

    #[test]
    fn frames_that_ask_for_nothing_come_to_an_end() {
        for (kind, flags, payload) in [
            (6, 0, 8),
            (4, 0, 6),
            (8, 0, 4),
            (2, 0, 5),
            (0, 0, 0),
            (99, 0, 30),
        ] {
            let mut frames = Frames::after(3);
            assert!(frames.read(b"PRI").is_ok());
            let wave = frame(kind, flags, payload);
            // The test may take a second or two, which earns more frames.
            let count = how_many(&mut frames, &wave);
            assert!(
                (ALLOWANCE as usize..MANY).contains(&count),
                "{kind}: {count}"
            );
        }
    }

    #[test]
    fn what_is_asked_and_taken_earns_them() {
        let (ping, window) = (frame(6, 0, 8), frame(8, 0, 4));
        for content in [frame(1, 4, 100), frame(0, 1, 0), frame(0, 0, 70)] {
            let wave = [content, ping.repeat(2), window.repeat(2)].concat();
            assert_eq!(how_many(&mut Frames::after(0), &wave), MANY);
        }
        let mut frames = Frames::after(0);
        for _ in 0..MANY {
            frames.sent(1 << 10);
            assert!(frames.read(&window.repeat(2)).is_ok());
        }
    }
}
