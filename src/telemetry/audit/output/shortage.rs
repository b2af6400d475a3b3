//! The decision when a full disk is written to again: a line that is too long for what is left of it must not fill the
//! disk, and free it again, at each attempt.

use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

/// The first and the longest pause after attempts in a row that wrote nothing.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));
/// The time after which a disk is written to although its free space has not grown: a file system may count wrongly.
const ANYWAY: Duration = Duration::from_secs(300);
/// The length of a line from which an error says it: the disk may have free space, and still not enough.
const LONG: usize = 4096;

/// The bytes of a file system that are free, and those of them that are available without privileges.
#[derive(Clone, Copy, Debug)]
pub(super) struct Space {
    pub(super) free: u64,
    pub(super) available: u64,
}

/// A disk that was too full for a line.
#[derive(Debug)]
pub(super) struct Shortage {
    /// The number of the system's error.
    error: i32,
    /// The bytes of the line for which there was room; they were taken back.
    fitted: u64,
    /// The free bytes after that; `None` if they say nothing about the room for the line.
    free: Option<u64>,
    since: Instant,
    /// The pause before the next attempt.
    pause: Duration,
}

impl Shortage {
    /// Returns the shortage that an attempt at `since` has shown; `None` if its error is another one. `before` is the
    /// shortage of the last attempt if this one wrote nothing, `fitted` the part of the line of `length` bytes for which
    /// there was room, and `space` that of the file system since it was taken back.
    pub(super) fn of(
        error: &io::Error,
        (fitted, length): (u64, u64),
        space: Option<Space>,
        before: Option<&Self>,
        since: Instant,
    ) -> Option<Self> {
        let free = match error.kind() {
            ErrorKind::StorageFull => {
                // One that claims to have room enough does not tell what is missing.
                let space = space.filter(|space| space.available < length);
                space.map(|space| space.free)
            }
            // The disk of a quota or a limit may have room.
            ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => None,
            _ => return None,
        };
        let pause = before.map_or(Duration::ZERO, |before| {
            (2 * before.pause).clamp(PAUSES.0, PAUSES.1)
        });
        Some(Self {
            error: error.raw_os_error()?,
            fitted,
            free,
            since,
            pause,
        })
    }

    /// Returns the number of bytes, whole lines of `lines`, that may be written at `now`, with so many bytes free.
    pub(super) fn fitting(&self, lines: &[u8], space: Option<Space>, now: Instant) -> usize {
        let room = usize::try_from(self.room(space, now)).unwrap_or(usize::MAX);
        if room >= lines.len() {
            return lines.len();
        }
        end_of_lines(&lines[..room])
    }

    fn room(&self, space: Option<Space>, now: Instant) -> u64 {
        let waited = now.saturating_duration_since(self.since);
        match (self.free, space) {
            _ if waited < self.pause => 0,
            (Some(before), Some(space)) if waited < ANYWAY => {
                (self.fitted + space.free).saturating_sub(before)
            }
            _ => u64::MAX,
        }
    }

    /// Returns the error of the attempt, which says how long the next line is if it is long.
    pub(super) fn error(&self, lines: &[u8]) -> io::Error {
        let error = io::Error::from_raw_os_error(self.error);
        let next = first_line(lines);
        if next < LONG {
            return error;
        }
        let words = format!("{error}; the next line has {next} bytes");
        io::Error::new(error.kind(), words)
    }
}

/// Returns the end of the last whole line.
pub(super) fn end_of_lines(bytes: &[u8]) -> usize {
    memchr::memrchr(b'\n', bytes).map_or(0, |end| end + 1)
}

/// Returns the length of the first line, its end included.
pub(super) fn first_line(lines: &[u8]) -> usize {
    memchr::memchr(b'\n', lines).map_or(lines.len(), |end| end + 1)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use nix::errno::Errno;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn space(free: u64) -> Option<Space> {
        // A part is reserved for the administrator.
        let available = free.saturating_sub(1_000_000);
        Some(Space { free, available })
    }

    fn failed(
        errno: Errno,
        fitted: u64,
        space: Option<Space>,
        before: Option<&Shortage>,
    ) -> Shortage {
        let error = io::Error::from_raw_os_error(errno as i32);
        let since = before.map_or_else(Instant::now, |before| before.since + before.pause);
        Shortage::of(&error, (fitted, 500), space, before, since).unwrap()
    }

    fn lines(lengths: &[usize]) -> Vec<u8> {
        let line = |length: &usize| "x".repeat(length - 1) + "\n";
        lengths.iter().map(line).collect::<String>().into_bytes()
    }

    #[test]
    fn a_full_disk_is_not_written_to_before_it_has_room_for_the_next_line() {
        let full = failed(Errno::ENOSPC, 400, space(1_000_400), None);
        let lines = lines(&[500, 50]);
        let later = full.since + 10 * SECOND;
        for (free, fitting) in [
            (1_000_400, 0),
            (1_000_499, 0),
            (0, 0),
            (1_000_500, 500),
            (1_000_549, 500),
            (1_000_550, 550),
        ] {
            assert_eq!(full.fitting(&lines, space(free), later), fitting, "{free}");
        }
        // A shorter line would fit.
        assert_eq!(full.fitting(&lines[200..], space(1_000_400), later), 350);
    }

    #[test]
    fn a_quota_a_limit_and_a_disk_that_miscounts_are_tried_after_pauses_that_grow() {
        let wrong = Some(Space {
            free: 9_000_000,
            available: 8_000_000,
        });
        for (errno, space) in [
            (Errno::EDQUOT, space(0)),
            (Errno::EFBIG, space(0)),
            (Errno::ENOSPC, wrong),
            (Errno::ENOSPC, None),
        ] {
            let lines = lines(&[500]);
            let mut full = failed(errno, 400, space, None);
            for pause in [0, 1, 2, 4, 8, 10, 10] {
                let due = full.since + pause * SECOND;
                if pause > 0 {
                    let early = due.checked_sub(Duration::from_millis(1)).unwrap();
                    assert_eq!(full.fitting(&lines, space, early), 0, "{pause} s");
                }
                assert_eq!(full.fitting(&lines, space, due), 500, "{pause} s");
                full = failed(errno, 400, space, Some(&full));
            }
        }
    }

    #[test]
    fn a_disk_that_never_grows_is_tried_now_and_then() {
        let full = failed(Errno::ENOSPC, 0, space(0), None);
        let lines = lines(&[500]);
        let almost = full.since + ANYWAY - SECOND;
        assert_eq!(full.fitting(&lines, space(0), almost), 0);
        assert_eq!(full.fitting(&lines, space(0), full.since + ANYWAY), 500);
    }

    #[test]
    fn an_error_says_the_length_of_a_long_line_and_others_are_no_shortage() {
        let full = failed(Errno::ENOSPC, 0, None, None);
        let short = full.error(&lines(&[500, 9000])).to_string();
        assert!(short.ends_with("(os error 28)"), "{short}");
        let long = full.error(&lines(&[9000, 500])).to_string();
        assert!(long.ends_with("; the next line has 9000 bytes"), "{long}");
        let broken = io::Error::from_raw_os_error(Errno::EPIPE as i32);
        let none = Shortage::of(&broken, (0, 1), None, None, Instant::now());
        assert!(none.is_none());
    }
}
