//! Whole lines: a part of a line that was written when the disk became full is taken back, and a full disk is not written
//! to in vain.

use std::io;
use std::time::Instant;

use super::shortage::{Shortage, Space, end_of_lines, first_line};

/// A file, or a stream.
pub(super) trait Medium {
    /// Writes some of these bytes, and returns their number.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Removes the last bytes. Returns false if that is impossible.
    fn take_back(&mut self, bytes: u64) -> bool;

    /// Returns the space of its file system; `None` if it is not known.
    fn space(&self) -> Option<Space>;
}

/// A medium to which whole lines go.
pub(super) struct WholeLines<M> {
    to: M,
    /// True if a part of a line was written, and could not be taken back.
    is_torn: bool,
    /// `None` if the last attempt found room.
    shortage: Option<Shortage>,
}

impl<M: Medium> WholeLines<M> {
    pub(super) fn new(to: M) -> Self {
        Self {
            to,
            is_torn: false,
            shortage: None,
        }
    }

    pub(super) fn medium(&self) -> &M {
        &self.to
    }

    /// Writes lines; returns the number of bytes of whole lines that were written, and the error that stopped it.
    pub(super) fn put(&mut self, lines: &[u8]) -> (usize, Option<io::Error>) {
        let fitting = self.fitting(lines);
        let (written, failure) = match fitting {
            0 => (0, None),
            _ => match self.mend() {
                Some(error) => (0, Some(error)),
                None => self.write(&lines[..fitting]),
            },
        };
        let whole = end_of_lines(&lines[..written]);
        let part = (written - whole) as u64;
        if part > 0 {
            self.is_torn = !self.to.take_back(part);
        }
        let left = &lines[whole..];
        let failure = match failure {
            Some(error) => {
                let fitted = if self.is_torn { 0 } else { part };
                let line = (fitted, first_line(left) as u64);
                let before = self.shortage.take().filter(|_| whole == 0);
                let space = self.to.space();
                let now = Instant::now();
                self.shortage = Shortage::of(&error, line, space, before.as_ref(), now);
                Some(self.short_of(left).unwrap_or(error))
            }
            None if left.is_empty() => {
                self.shortage = None;
                None
            }
            None => self.short_of(left),
        };
        (whole, failure)
    }

    /// Returns the number of bytes for which there may be room.
    fn fitting(&self, lines: &[u8]) -> usize {
        let short = self.shortage.as_ref();
        short.map_or(lines.len(), |short| {
            short.fitting(lines, self.to.space(), Instant::now())
        })
    }

    fn short_of(&self, lines: &[u8]) -> Option<io::Error> {
        self.shortage.as_ref().map(|short| short.error(lines))
    }

    /// Ends a torn line. Returns the error that prevents it.
    fn mend(&mut self) -> Option<io::Error> {
        if self.is_torn {
            let (written, error) = self.write(b"\n");
            self.is_torn = written == 0;
            return error;
        }
        None
    }

    fn write(&mut self, lines: &[u8]) -> (usize, Option<io::Error>) {
        let mut written = 0;
        while written < lines.len() {
            match self.to.write(&lines[written..]) {
                Ok(0) => return (written, Some(io::ErrorKind::WriteZero.into())),
                Ok(more) => written += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (written, Some(error)),
            }
        }
        (written, None)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use nix::errno::Errno;

    use super::*;

    /// A disk with room for `size` bytes, which `others` use, too.
    #[derive(Default)]
    struct Disk {
        lines: Vec<u8>,
        size: usize,
        others: usize,
        writes: usize,
        /// True if nothing can be taken back.
        is_stream: bool,
    }

    impl Disk {
        fn free(&self) -> usize {
            self.size - self.others - self.lines.len()
        }
    }

    impl Medium for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.writes += 1;
            let some = bytes.len().min(self.free());
            if some == 0 {
                return Err(io::Error::from_raw_os_error(Errno::ENOSPC as i32));
            }
            self.lines.extend_from_slice(&bytes[..some]);
            Ok(some)
        }

        fn take_back(&mut self, bytes: u64) -> bool {
            let left = self.lines.len() - usize::try_from(bytes).unwrap();
            self.lines.truncate(if self.is_stream {
                self.lines.len()
            } else {
                left
            });
            !self.is_stream
        }

        fn space(&self) -> Option<Space> {
            let free = self.free() as u64;
            Some(Space {
                free,
                available: free,
            })
            .filter(|_| !self.is_stream)
        }
    }

    fn line(length: usize) -> Vec<u8> {
        let mut line = vec![b'x'; length - 1];
        line.push(b'\n');
        line
    }

    #[test]
    fn a_line_for_which_a_full_disk_has_no_room_does_not_fill_it_again_until_it_has() {
        let mut to = WholeLines::new(Disk {
            size: 1000,
            others: 500,
            ..Disk::default()
        });
        let lines = [line(100), line(600), line(100)].concat();
        let (written, failure) = to.put(&lines);
        assert_eq!(
            (written, to.to.lines.len()),
            (100, 100),
            "the part is taken back"
        );
        assert_eq!(failure.unwrap().kind(), io::ErrorKind::StorageFull);
        let left = &lines[100..];
        let writes = to.to.writes;
        for others in [500, 600, 400, 301] {
            to.to.others = others;
            let (written, failure) = to.put(left);
            assert_eq!(
                (written, to.to.writes),
                (0, writes),
                "{others}: the disk is left alone"
            );
            assert_eq!(failure.unwrap().kind(), io::ErrorKind::StorageFull);
        }
        // Room for one of the two.
        to.to.others = 250;
        let (written, failure) = to.put(left);
        assert_eq!((written, to.to.lines.len()), (600, 700));
        assert!(failure.is_some());
        to.to.others = 0;
        let (written, failure) = to.put(&left[600..]);
        assert!(written == 100 && failure.is_none());
        assert_eq!(to.to.lines, lines);
    }

    #[test]
    fn a_line_that_was_torn_is_ended_and_written_again_as_a_whole() {
        let mut to = WholeLines::new(Disk {
            size: 50,
            is_stream: true,
            ..Disk::default()
        });
        assert_eq!(to.put(&line(100)).0, 0);
        to.to.size = 500;
        let (written, failure) = to.put(&line(100));
        assert!(written == 100 && failure.is_none());
        let whole = [&[b'x'; 50][..], b"\n", &line(100)].concat();
        assert_eq!(to.to.lines, whole);
    }
}
