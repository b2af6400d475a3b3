//! A bounded queue of lines, and the thread that writes them.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::config::LogFormat;

/// The most lines that wait to be written; further ones are lost.
pub(super) const QUEUE: usize = 8192;
/// The number of bytes after which lines are written.
pub(super) const CHUNK: usize = 64 << 10;
/// The longest time that the end of the program waits for the last lines.
pub(super) const FLUSH: Duration = Duration::from_secs(2);
/// The pause of an end that waits for room in the queue.
const PAUSE: Duration = Duration::from_millis(10);
/// The time after which lines that could not be written are tried again.
const RETRY: Duration = Duration::from_secs(1);

/// A record that becomes a line on the thread that writes it.
pub trait Record: Send {
    /// Appends the line, its end included.
    fn write(&self, format: LogFormat, to: &mut Vec<u8>);

    /// Returns the channel that is told when the line is written; `None` if nothing waits for it.
    fn written(&mut self) -> Option<oneshot::Sender<()>> {
        None
    }

    /// Returns what is kept until the line, of this length in bytes, is written; `None` if nothing is.
    fn kept(&mut self, _line: usize) -> Option<Kept> {
        None
    }

    /// True if the lines of other records are written before it while lines cannot be written.
    fn gives_way(&self) -> bool {
        false
    }
}

/// A value that is dropped when its line is written.
pub(super) type Kept = Box<dyn Send>;

/// The end to which lines go.
pub(super) trait Sink: Send + 'static {
    /// The time that a line may wait for others to be written with.
    fn linger(&self) -> Duration;

    /// Writes whole lines and returns the number of their bytes that are done with. The rest, which begins with a
    /// line, comes again.
    fn write(&mut self, lines: &[u8]) -> usize;

    /// Returns the line that reports lost lines, its end included.
    fn losses(&mut self, lost: u64) -> String;
}

/// The queue. Cheap to clone.
#[derive(Clone)]
pub(super) struct Queue {
    entries: SyncSender<Entry>,
    lost: Arc<AtomicU64>,
}

enum Entry {
    Line(Vec<u8>),
    Record(Box<dyn Record>),
    Flush(SyncSender<()>),
    Wake,
}

/// The lines that are about to be written.
#[derive(Default)]
struct Chunk {
    lines: Lines,
    /// The lines that give way to these.
    later: Lines,
    flushed: Option<SyncSender<()>>,
    /// True if the last write left some: more of those that give way are taken off the queue then, to find the others.
    is_stuck: bool,
}

/// Lines in the order in which they are written.
#[derive(Default)]
struct Lines {
    bytes: Vec<u8>,
    /// The channels to tell, each with the end of its line.
    waiting: Vec<(usize, oneshot::Sender<()>)>,
    /// The values to drop, likewise.
    kept: Vec<(usize, Kept)>,
}

impl Queue {
    /// Starts a thread with this name that writes to `sink`.
    pub(super) fn to(name: &str, sink: impl Sink, format: LogFormat) -> Self {
        let (entries, queued) = sync_channel(QUEUE);
        let lost = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&lost);
        let writer = thread::Builder::new().name(name.to_owned());
        if let Err(error) = writer.spawn(move || write(sink, format, &queued, &counter)) {
            let _ = writeln!(
                io::stderr(),
                "cannot start the writer of the {name}, so there is none: {error}"
            );
        }
        Self { entries, lost }
    }

    /// Queues a line, its end included.
    pub(super) fn line(&self, line: Vec<u8>) {
        self.queue(Entry::Line(line));
    }

    /// Queues a record. Returns false if it is lost.
    pub(super) fn record(&self, record: Box<dyn Record>) -> bool {
        self.queue(Entry::Record(record))
    }

    /// Counts a line as lost that was not queued.
    pub(super) fn lose(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
    }

    /// Wakes the writer, if it has nothing to do.
    pub(super) fn wake(&self) {
        // A full queue has woken it.
        let _ = self.entries.try_send(Entry::Wake);
    }

    fn queue(&self, entry: Entry) -> bool {
        let is_queued = self.entries.try_send(entry).is_ok();
        if !is_queued {
            self.lose();
        }
        is_queued
    }

    /// Waits, two seconds at most, until the lines so far are written.
    pub(super) fn flush(&self) {
        let (done, written) = sync_channel(1);
        let until = Instant::now() + FLUSH;
        let mut entry = Entry::Flush(done);
        while let Err(refused) = self.entries.try_send(entry) {
            match refused {
                TrySendError::Full(back) if Instant::now() < until => entry = back,
                _ => return,
            }
            thread::sleep(PAUSE);
        }
        let _ = written.recv_timeout(until.saturating_duration_since(Instant::now()));
    }
}

impl Chunk {
    fn add(&mut self, entry: Entry, format: LogFormat) {
        match entry {
            Entry::Line(line) => self.lines.bytes.extend_from_slice(&line),
            Entry::Record(record) if record.gives_way() => self.later.add(record, format),
            Entry::Record(record) => self.lines.add(record, format),
            Entry::Flush(done) => self.flushed = Some(done),
            Entry::Wake => {}
        }
    }

    fn is_full(&self) -> bool {
        let is_long = |lines: &Lines| lines.bytes.len() >= CHUNK;
        // What gives way has a bound of its own.
        is_long(&self.lines) || !self.is_stuck && is_long(&self.later) || self.flushed.is_some()
    }

    fn is_empty(&self) -> bool {
        self.lines.bytes.is_empty() && self.later.bytes.is_empty()
    }

    fn write_to(&mut self, sink: &mut impl Sink) {
        self.lines.write_to(sink);
        if self.lines.bytes.is_empty() && !self.later.bytes.is_empty() {
            self.later.write_to(sink);
        }
        self.is_stuck = !self.is_empty();
    }
}

impl Lines {
    fn add(&mut self, mut record: Box<dyn Record>, format: LogFormat) {
        let begin = self.bytes.len();
        record.write(format, &mut self.bytes);
        let end = self.bytes.len();
        let written = record.written();
        self.waiting.extend(written.map(|written| (end, written)));
        let kept = record.kept(end - begin);
        self.kept.extend(kept.map(|kept| (end, kept)));
    }

    /// Writes what can be written, and tells those that waited for their lines. Others stop waiting: their lines are
    /// tried again, but nobody knows for how long.
    fn write_to(&mut self, sink: &mut impl Sink) {
        let done = sink.write(&self.bytes);
        let first_left = self.waiting.partition_point(|(end, _)| *end <= done);
        for (_, written) in self.waiting.drain(..first_left) {
            let _ = written.send(());
        }
        self.waiting.clear();
        self.kept.retain_mut(|(end, _)| {
            let is_left = *end > done;
            *end = end.saturating_sub(done);
            is_left
        });
        self.bytes.drain(..done);
        // One long line must not hold its memory for ever.
        self.bytes.shrink_to(4 * CHUNK);
    }
}

fn write(mut sink: impl Sink, format: LogFormat, entries: &Receiver<Entry>, lost: &AtomicU64) {
    let mut chunk = Chunk::default();
    let mut behind = false;
    loop {
        let first = if chunk.is_empty() {
            let Ok(first) = entries.recv() else { return };
            Some(first)
        } else {
            thread::sleep(RETRY);
            match entries.try_recv() {
                Err(TryRecvError::Disconnected) => return,
                first => first.ok(),
            }
        };
        let linger = sink.linger();
        if !behind && !linger.is_zero() && !matches!(first, Some(Entry::Flush(_))) {
            thread::sleep(linger);
        }
        let mut next = first;
        while let Some(entry) = next {
            chunk.add(entry, format);
            next = if chunk.is_full() {
                None
            } else {
                entries.try_recv().ok()
            };
        }
        behind = chunk.lines.bytes.len() >= CHUNK;
        let lost = lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let losses = sink.losses(lost);
            chunk.lines.bytes.extend_from_slice(losses.as_bytes());
        }
        chunk.write_to(&mut sink);
        if let Some(done) = chunk.flushed.take() {
            let _ = done.send(());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// A sink with room for so many bytes.
    struct Small(Vec<u8>, usize);

    impl Sink for Small {
        fn linger(&self) -> Duration {
            Duration::ZERO
        }

        fn write(&mut self, lines: &[u8]) -> usize {
            let whole = if lines.len() <= self.1 {
                lines.len()
            } else {
                0
            };
            self.0.extend_from_slice(&lines[..whole]);
            self.1 -= whole;
            whole
        }

        fn losses(&mut self, _: u64) -> String {
            String::new()
        }
    }

    struct Line(&'static str, bool, Arc<AtomicUsize>);

    struct Held(Arc<AtomicUsize>);

    impl Drop for Held {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }

    impl Record for Line {
        fn write(&self, _: LogFormat, to: &mut Vec<u8>) {
            to.extend_from_slice(self.0.as_bytes());
        }

        fn kept(&mut self, _: usize) -> Option<Kept> {
            self.2.fetch_add(1, Ordering::Relaxed);
            Some(Box::new(Held(Arc::clone(&self.2))))
        }

        fn gives_way(&self) -> bool {
            self.1
        }
    }

    #[test]
    fn a_line_that_gives_way_keeps_no_other_out_and_takes_its_room_until_it_is_written() {
        let held = Arc::new(AtomicUsize::new(0));
        let (mut chunk, mut sink) = (Chunk::default(), Small(Vec::new(), 0));
        let add = |chunk: &mut Chunk, line, gives_way| {
            let record = Line(line, gives_way, Arc::clone(&held));
            chunk.add(Entry::Record(Box::new(record)), LogFormat::Json);
        };
        add(&mut chunk, "a long refusal\n", true);
        chunk.write_to(&mut sink);
        assert_eq!(held.load(Ordering::Relaxed), 1);
        add(&mut chunk, "change\n", false);
        // Room for the change, not for the refusal before it.
        sink.1 = 8;
        chunk.write_to(&mut sink);
        assert_eq!(
            (&*sink.0, held.load(Ordering::Relaxed)),
            (&b"change\n"[..], 1)
        );
        // Room for the refusal, not for the change after it.
        add(&mut chunk, "another, longer change\n", false);
        sink.1 = 20;
        chunk.write_to(&mut sink);
        assert_eq!(sink.0, b"change\n");
        sink.1 = 100;
        chunk.write_to(&mut sink);
        assert_eq!(sink.0, b"change\nanother, longer change\na long refusal\n");
        assert!(chunk.is_empty() && held.load(Ordering::Relaxed) == 0);
    }
}
