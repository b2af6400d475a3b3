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
}

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
    bytes: Vec<u8>,
    /// The channels to tell, each with the end of its line.
    waiting: Vec<(usize, oneshot::Sender<()>)>,
    flushed: Option<SyncSender<()>>,
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
            Entry::Line(line) => self.bytes.extend_from_slice(&line),
            Entry::Record(mut record) => {
                record.write(format, &mut self.bytes);
                let end = self.bytes.len();
                self.waiting
                    .extend(record.written().map(|written| (end, written)));
            }
            Entry::Flush(done) => self.flushed = Some(done),
            Entry::Wake => {}
        }
    }

    fn is_full(&self) -> bool {
        self.bytes.len() >= CHUNK || self.flushed.is_some()
    }

    /// Removes the first `done` bytes, and tells those that waited for their lines. Others stop waiting: their lines
    /// are tried again, but nobody knows for how long.
    fn written(&mut self, done: usize) {
        let first_left = self.waiting.partition_point(|(end, _)| *end <= done);
        for (_, written) in self.waiting.drain(..first_left) {
            let _ = written.send(());
        }
        self.waiting.clear();
        if done == self.bytes.len() {
            self.bytes.clear();
        } else {
            self.bytes.drain(..done);
        }
    }
}

fn write(mut sink: impl Sink, format: LogFormat, entries: &Receiver<Entry>, lost: &AtomicU64) {
    let mut chunk = Chunk::default();
    let mut behind = false;
    loop {
        let first = if chunk.bytes.is_empty() {
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
        behind = chunk.bytes.len() >= CHUNK;
        let lost = lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            chunk.bytes.extend_from_slice(sink.losses(lost).as_bytes());
        }
        let done = sink.write(&chunk.bytes);
        chunk.written(done);
        if let Some(done) = chunk.flushed.take() {
            let _ = done.send(());
        }
    }
}
