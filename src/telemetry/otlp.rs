//! Exports spans to a collector: OTLP 1.x over HTTP, as protobuf (cargo feature `otlp`).
//!
//! Spans go through a bounded queue to a thread with a runtime of its own, which sends them in batches. A collector
//! that is slow, hung or gone costs spans, which are counted and logged once a minute, and never a request's time.

mod client;
mod wire;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use http::Uri;
use tokio::sync::Notify;

use crate::error::BoxError;
use crate::request::span::{Recorder, Span};
use client::{Client, ExportOutcome};

/// The most spans that wait to be sent; further ones are lost.
const QUEUE: usize = 8192;
/// The most spans in one request to the collector.
const BATCH: usize = 512;
/// The time that a span waits for others to be sent with.
const LINGER: Duration = Duration::from_millis(200);
/// The longest time that the end of the program waits for the last spans.
const FLUSH: Duration = Duration::from_secs(2);
/// The time that the collector has to answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The number of times that the same spans are sent to a collector that asks to retry later or cannot be reached.
const ATTEMPTS: u32 = 3;
/// The pause before the second attempt; it doubles with each further one.
const PAUSE: Duration = Duration::from_secs(1);
/// The interval of the log lines about lost spans.
const TELL: Duration = Duration::from_secs(60);

/// Takes spans and hands them to the thread.
pub(super) struct Exporter {
    queue: SyncSender<Span>,
    lost: Arc<AtomicU64>,
    hurry: Arc<FlushRequest>,
}

/// The signal to the thread to send at once what it has.
#[derive(Default)]
struct FlushRequest {
    asked: Notify,
    waiting: std::sync::Mutex<Vec<SyncSender<()>>>,
}

/// The state of the thread.
struct Worker {
    spans: Receiver<Span>,
    lost: Arc<AtomicU64>,
    hurry: Arc<FlushRequest>,
    client: Client,
    last_warning: Option<Instant>,
    /// The reason why the last spans were lost.
    why: String,
}

impl Exporter {
    /// Starts the thread.
    pub(super) fn to(uri: &Uri) -> Result<Self, BoxError> {
        let (queue, spans) = mpsc::sync_channel(QUEUE);
        let (lost, hurry) = (
            Arc::new(AtomicU64::new(0)),
            Arc::new(FlushRequest::default()),
        );
        let worker = Worker {
            spans,
            lost: Arc::clone(&lost),
            hurry: Arc::clone(&hurry),
            client: Client::new(uri)?,
            last_warning: None,
            why: "there were more spans than the collector takes in that time".to_owned(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let thread = thread::Builder::new().name("spans".to_owned());
        thread.spawn(move || runtime.block_on(worker.run()))?;
        Ok(Self { queue, lost, hurry })
    }

    /// Sends the spans in the queue, and waits for that at most two seconds.
    pub(super) fn flush(&self) {
        let (done, sent) = mpsc::sync_channel(1);
        self.hurry.waiting().push(done);
        self.hurry.asked.notify_one();
        let _ = sent.recv_timeout(FLUSH);
    }
}

impl Recorder for Exporter {
    fn record(&self, span: Span) {
        if self.queue.try_send(span).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl FlushRequest {
    fn waiting(&self) -> std::sync::MutexGuard<'_, Vec<SyncSender<()>>> {
        self.waiting
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Worker {
    /// Runs until no sender is left.
    async fn run(mut self) {
        let mut open = true;
        while open {
            let hurried = tokio::select! {
                () = tokio::time::sleep(LINGER) => false,
                () = self.hurry.asked.notified() => true,
            };
            // A caller that waits for the last spans does not wait for a collector to come back.
            let patience = if hurried { 1 } else { ATTEMPTS };
            open = self.empty(patience).await;
            // This comes before the waiting callers go on, because they may end the log.
            self.tell(hurried || !open);
            for waiting in self.hurry.waiting().drain(..) {
                let _ = waiting.try_send(());
            }
        }
    }

    /// Sends the spans in the queue; false if no sender is left.
    async fn empty(&mut self, patience: u32) -> bool {
        loop {
            let mut batch = Vec::new();
            let open = loop {
                match self.spans.try_recv() {
                    Ok(span) => batch.push(span),
                    Err(TryRecvError::Empty) => break true,
                    Err(TryRecvError::Disconnected) => break false,
                }
                if batch.len() == BATCH {
                    break true;
                }
            };
            let full = batch.len() == BATCH;
            if !batch.is_empty() {
                self.send(batch, patience).await;
            }
            if !full {
                return open;
            }
        }
    }

    async fn send(&mut self, batch: Vec<Span>, patience: u32) {
        let count = batch.len() as u64;
        let body = self.client.encode(batch);
        let mut pause = PAUSE;
        for attempt in 1.. {
            let sent = tokio::time::timeout(TIMEOUT, self.client.send(body.clone())).await;
            let (lost, why, again) = match sent {
                Ok(ExportOutcome::All) => return,
                Ok(ExportOutcome::Without(rejected, why)) => (rejected.min(count), why, false),
                Ok(ExportOutcome::Refused(why)) => (count, why, false),
                Ok(ExportOutcome::NotNow(why)) => (count, why, true),
                Err(_) => (
                    count,
                    "the collector did not answer in time".to_owned(),
                    false,
                ),
            };
            if !again || attempt >= patience {
                self.lost.fetch_add(lost, Ordering::Relaxed);
                self.why = why;
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => pause *= 2,
                () = self.hurry.asked.notified() => self.hurry.asked.notify_one(),
            }
        }
    }

    /// Logs the spans that were lost, at most once a minute. `last` is true if there may be no next time.
    fn tell(&mut self, last: bool) {
        if !last && self.last_warning.is_some_and(|last| last.elapsed() < TELL) {
            return;
        }
        let lost = self.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            self.last_warning = Some(Instant::now());
            tracing::warn!(lost, cause = self.why, "spans did not reach the collector");
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use std::time::SystemTime;

    use super::*;
    use crate::protocol::trace::SpanContext;
    use crate::request::span::Role;

    #[test]
    fn a_full_queue_loses_spans_instead_of_waiting() {
        // Connections reach its backlog, but are never answered.
        let hung = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let uri = format!("http://{}", hung.local_addr().unwrap());
        let exporter = Exporter::to(&uri.parse().unwrap()).unwrap();
        let span = Span {
            context: SpanContext::start(),
            parent: None,
            role: Role::Internal,
            name: "work".to_owned(),
            ended: SystemTime::now(),
            took: Duration::ZERO,
            failed: false,
            facts: Vec::new(),
        };
        let began = Instant::now();
        for _ in 0..3 * QUEUE {
            exporter.record(span.clone());
        }
        assert!(began.elapsed() < TIMEOUT, "somebody waited");
        assert!(exporter.lost.load(Ordering::Relaxed) > 0);
        exporter.flush();
        assert!(began.elapsed() < TIMEOUT + FLUSH, "the end waited");
    }
}
