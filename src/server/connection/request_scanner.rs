//! Finds header lines of HTTP/1.1 requests that end with a bare LF instead of CR and LF.
//!
//! hyper takes a bare LF as the end of a line, as RFC 9112, section 2.2, allows. A proxy in front of the gateway may
//! not, and what it took as one header would be two here. So the raw bytes are checked, and followed to know where each
//! request ends.

use std::mem::take;

/// Follows the requests of one connection.
#[derive(Default)]
pub(super) struct RequestScanner {
    at: ScanState,
    /// The part of an unfinished line that has come.
    line: Vec<u8>,
    /// True if the first line of the current head has come.
    has_begun: bool,
    /// The length of the body, as the header lines state it.
    length: BodyLength,
}

/// The part of a request that comes next.
#[derive(Clone, Copy, Default)]
enum ScanState {
    #[default]
    Head,
    /// The next `left` bytes of a body, or of a chunk if `chunked`.
    Body {
        left: u64,
        chunked: bool,
    },
    Chunk,
    Trailers,
    /// Malformed chunks or lengths. hyper judges them: a proxy in front of the gateway writes chunks of its own.
    Other,
}

#[derive(Clone, Copy, Default)]
enum BodyLength {
    #[default]
    None,
    Known(u64),
    Chunked,
    Other,
}

impl RequestScanner {
    /// Scans the next bytes. Returns the place of a bare LF that ends a line of a head; `None` if there is none.
    pub(super) fn read(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut from = 0;
        while from < bytes.len() {
            let rest = &bytes[from..];
            match self.at {
                ScanState::Other => return None,
                ScanState::Body { left, chunked } => from += self.skip(left, chunked, rest.len()),
                ScanState::Head if self.line.is_empty() => match self.lines_of_head(rest) {
                    Ok(passed) => from += passed,
                    Err(place) => return Some(from + place),
                },
                ScanState::Head | ScanState::Chunk | ScanState::Trailers => {
                    let Some(end) = memchr::memchr(b'\n', rest) else {
                        self.line.extend_from_slice(rest);
                        return None;
                    };
                    let is_whole = if self.line.is_empty() {
                        self.end_line(&rest[..end])
                    } else {
                        self.line.extend_from_slice(&rest[..end]);
                        let line = take(&mut self.line);
                        self.end_line(&line)
                    };
                    if !is_whole {
                        return Some(from + end);
                    }
                    from += end + 1;
                }
            }
        }
        None
    }

    /// Scans the complete lines of a head, and keeps what has come of the last line. Returns the number of bytes
    /// scanned, or the place of a bare LF as the error.
    fn lines_of_head(&mut self, bytes: &[u8]) -> Result<usize, usize> {
        let mut begin = 0;
        for end in memchr::memchr_iter(b'\n', bytes) {
            if end == begin || bytes[end - 1] != b'\r' {
                return Err(end);
            }
            match bytes[begin] {
                b'\r' if end == begin + 1 => {
                    self.end_head();
                    return Ok(end + 1);
                }
                // Hardly any name but the two that count begins with one of these letters.
                b'c' | b'C' | b't' | b'T' => self.note(&bytes[begin..end - 1]),
                _ => {}
            }
            self.has_begun = true;
            begin = end + 1;
        }
        self.line.extend_from_slice(&bytes[begin..]);
        Ok(bytes.len())
    }

    /// Skips what has come of a body. Returns the number of bytes skipped.
    fn skip(&mut self, left: u64, chunked: bool, there: usize) -> usize {
        let passed = usize::try_from(left).map_or(there, |left| left.min(there));
        let left = left - passed as u64;
        self.at = match (left, chunked) {
            (0, false) => ScanState::Head,
            (0, true) => ScanState::Chunk,
            _ => ScanState::Body { left, chunked },
        };
        passed
    }

    /// Scans one line, up to its LF. Returns false if it belongs to a head and has no CR before the LF.
    fn end_line(&mut self, line: &[u8]) -> bool {
        let [line @ .., b'\r'] = line else {
            let is_head = matches!(self.at, ScanState::Head);
            self.at = ScanState::Other;
            return !is_head;
        };
        match self.at {
            ScanState::Head if line.is_empty() => self.end_head(),
            ScanState::Head => {
                self.has_begun = true;
                self.note(line);
            }
            ScanState::Chunk => self.at = chunk(line),
            ScanState::Trailers if line.is_empty() => self.at = ScanState::Head,
            ScanState::Trailers | ScanState::Body { .. } | ScanState::Other => {}
        }
        true
    }

    fn end_head(&mut self) {
        // Empty lines may come before the first line.
        if !take(&mut self.has_begun) {
            return;
        }
        self.at = match take(&mut self.length) {
            BodyLength::None | BodyLength::Known(0) => ScanState::Head,
            BodyLength::Known(left) => ScanState::Body {
                left,
                chunked: false,
            },
            BodyLength::Chunked => ScanState::Chunk,
            BodyLength::Other => ScanState::Other,
        };
    }

    /// Notes what a header line states about the length of the body (RFC 9112, section 6.3).
    fn note(&mut self, line: &[u8]) {
        let has = |name: &str| {
            line.get(name.len()) == Some(&b':')
                && line[..name.len()].eq_ignore_ascii_case(name.as_bytes())
        };
        if has("transfer-encoding") {
            self.length = BodyLength::Chunked;
        } else if has("content-length") && !matches!(self.length, BodyLength::Chunked) {
            let digits = line["content-length:".len()..].trim_ascii();
            self.length = number(digits).map_or(BodyLength::Other, BodyLength::Known);
        }
    }
}

/// Parses a number that consists of digits only; `None` for anything else, or if it is too large.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

/// Returns the state after `line`, which begins a chunk.
fn chunk(line: &[u8]) -> ScanState {
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit());
    let digits = std::str::from_utf8(&line[..digits.count()]).unwrap_or_default();
    match u64::from_str_radix(digits, 16) {
        Ok(0) => ScanState::Trailers,
        // The two more bytes are the line end after the chunk.
        Ok(size) if size < u64::MAX - 2 => ScanState::Body {
            left: size + 2,
            chunked: true,
        },
        _ => ScanState::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the place of the first bare LF, and checks that it does not depend on how the bytes are cut.
    fn read(bytes: &[u8]) -> Option<usize> {
        let whole = RequestScanner::default().read(bytes);
        for size in [1, 2, 3, 7] {
            let mut lines = RequestScanner::default();
            let mut pieces = bytes.chunks(size).enumerate();
            let found = pieces.find_map(|(index, piece)| {
                let place = lines.read(piece)?;
                Some(index * size + place)
            });
            assert_eq!(found, whole, "{size}: {}", bytes.escape_ascii());
        }
        whole
    }

    #[test]
    fn a_line_that_ends_without_cr_is_found_in_heads_and_nowhere_else() {
        let fine = "POST / HTTP/1.1\r\nhost: x\r\n";
        let lf = "GET /b HTTP/1.1\nhost: x\r\n\r\n";
        for (before, bare) in [
            (String::new(), ""),
            (String::new(), "\n"),
            ("\r\n\r\n".to_owned(), ""),
            (format!("{fine}\r\n"), ""),
            (format!("{fine}content-length: 4\r\n\r\na\nb\n"), ""),
            (format!("{fine}Content-Length:4\r\n\r\n\n\n\n\n"), ""),
            (
                format!("{fine}transfer-encoding: chunked\r\n\r\n4;a=\"b\"\r\na\nb\n\r\n0\r\n\r\n"),
                "",
            ),
            (
                format!("{fine}Transfer-Encoding: Chunked\r\nContent-Length: 1\r\n\r\n00\r\n\r\n"),
                "",
            ),
            (
                format!("{fine}transfer-encoding: chunked\r\n\r\n1\r\n\n\r\n0\r\na: b\r\n\r\n"),
                "",
            ),
        ] {
            let place = before.len() + if bare.is_empty() { 15 } else { bare.len() - 1 };
            let all = format!("{before}{bare}{lf}");
            assert_eq!(read(all.as_bytes()), Some(place), "{all:?}");
            assert_eq!(read(before.as_bytes()), None, "{before:?}");
        }
        for header in ["x: y\n", "x:\n", "x: y \n"] {
            let all = format!("{fine}{header}\r\n");
            assert_eq!(read(all.as_bytes()), Some(fine.len() + header.len() - 1));
        }
        assert_eq!(read(format!("{fine}\n").as_bytes()), Some(fine.len()));
    }
}
