//! The frames of an HTTP/2 client that ask for nothing: so many at a time, and the connection ends.
//!
//! h2 bounds streams that are reset and headers that go on, but answers PING and SETTINGS, and reads PRIORITY,
//! WINDOW_UPDATE and empty DATA, for as long as they come. A client earns them: by what it asks and sends, and by what
//! it takes of answers, for which it opens windows.

use std::io;
use std::time::Instant;

/// Frames that nothing has earned, at most.
const ALLOWANCE: u32 = 10_000;
/// A frame of headers, or of a body, earns so many …
const FOR_CONTENT: u32 = 4;
/// … each KiB that the client is sent so many, for clients that open their windows by little …
const FOR_KIB: u32 = 2;
/// … and each second so many.
const FOR_SECOND: u32 = 100;

const HEAD: usize = 9;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
/// Of DATA and HEADERS.
const END_STREAM: u8 = 1;

/// The frames of a connection.
pub(super) struct Frames {
    head: [u8; HEAD],
    /// So many bytes of it have come.
    known: usize,
    /// So many bytes are left of a frame's payload.
    left: usize,
    allowed: u32,
    /// Since when seconds count.
    since: Instant,
}

/// There were too many.
#[derive(Debug, thiserror::Error)]
#[error("the client sends too many HTTP/2 frames that carry no request")]
struct Flood;

impl Frames {
    /// Of a connection that opens with so many bytes that are no frames.
    pub(super) fn after(preface: usize) -> Self {
        Self {
            head: [0; HEAD],
            known: 0,
            left: preface,
            allowed: ALLOWANCE,
            since: Instant::now(),
        }
    }

    /// Looks at what came next.
    ///
    /// # Errors
    /// There were too many frames that ask for nothing.
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

    /// So many bytes were sent to the client.
    pub(super) fn sent(&mut self, bytes: usize) {
        let kib = u32::try_from(bytes.div_ceil(1 << 10)).unwrap_or(u32::MAX);
        self.earn(kib.saturating_mul(FOR_KIB));
    }

    fn earn(&mut self, frames: u32) {
        self.allowed = self.allowed.saturating_add(frames).min(ALLOWANCE);
    }

    /// A frame begins.
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

    /// More than any allowance.
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
            // A second or two may pass.
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
