//! The thread of the log, with a runtime of its own: a gateway that is busy with requests still shows that it lives.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::runtime::Builder;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::connect::{Connector, Link};
use super::fence::Fence;
use super::outage::Outage;
use super::owner::{self, Instance};
use super::reader::read_all;
use super::writer::Writer;
use super::{CLOSE, LOOKUPS, PostgresLog, QUEUE, Queues, Running, WRITERS};
use crate::batch::log::LogError;
use crate::config::PostgresLogConfig;

type OnFailure = Box<dyn FnOnce(LogError) + Send>;

/// The parts of an open log that its users have.
type Opened = Result<(Arc<Fence>, Queues), LogError>;

struct Thread {
    config: PostgresLogConfig,
    connector: Arc<Connector>,
    outage: Arc<Outage>,
    me: Instance,
    patience: Duration,
    abandon: watch::Receiver<bool>,
}

/// Starts the thread, and returns the log as soon as this process owns it.
pub(super) async fn start(
    config: &PostgresLogConfig,
    name: &str,
    patience: Duration,
    on_failure: OnFailure,
) -> Result<PostgresLog, LogError> {
    let address = config.address.clone();
    let unusable = |cause: String| LogError::Unusable {
        path: config.address.clone(),
        cause,
    };
    let connector = Connector::new(config).map_err(|error| unusable(error.to_string()))?;
    let outage = Arc::new(Outage::new(&address));
    let (abandon, abandoned) = watch::channel(false);
    let (ready, opened) = oneshot::channel();
    let thread = Thread {
        config: config.clone(),
        connector: Arc::new(connector),
        outage: Arc::clone(&outage),
        me: Instance::new(name.to_owned(), config.lease),
        patience,
        abandon: abandoned,
    };
    let thread = std::thread::Builder::new()
        .name("batch-log".into())
        .spawn(move || thread.run(ready, on_failure))
        .map_err(|error| unusable(error.to_string()))?;
    let opened = opened.await;
    let (fence, queues) = opened.map_err(|_| unusable("its thread ended".into()))??;
    Ok(PostgresLog {
        address,
        fence,
        outage,
        queues: Mutex::new(Some(queues)),
        running: Mutex::new(Some(Running { abandon, thread })),
    })
}

impl Thread {
    fn run(mut self, ready: oneshot::Sender<Opened>, on_failure: OnFailure) {
        let runtime = match Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => {
                let cause = error.to_string();
                let path = self.config.address;
                let _ = ready.send(Err(LogError::Unusable { path, cause }));
                return;
            }
        };
        let mut abandoned = self.abandon.clone();
        runtime.block_on(async {
            tokio::select! {
                () = self.work(ready, on_failure) => {}
                // A sender that is gone means the same.
                _ = abandoned.wait_for(|abandon| *abandon) => {}
            }
        });
    }

    fn link(&self) -> Link {
        Link::new(Arc::clone(&self.connector), Arc::clone(&self.outage))
    }

    async fn work(&mut self, ready: oneshot::Sender<Opened>, on_failure: OnFailure) {
        let mut link = self.link();
        let joined = owner::join(&mut link, &self.me, &self.config, self.patience).await;
        let number = match joined {
            Ok(number) => number,
            Err(error) => {
                let _ = ready.send(Err(error));
                return;
            }
        };
        let fence = Fence::new(&self.config.address, self.me.id, number, on_failure);
        let fence = Arc::new(fence);
        let (mut senders, mut writers) = (Vec::new(), Vec::new());
        for number in 0..WRITERS {
            let (sender, queue) = mpsc::channel(QUEUE);
            senders.push(sender);
            let writer = Writer::new(number, self.link(), Arc::clone(&fence), queue);
            writers.push(tokio::spawn(writer.run()));
        }
        let (lookups, queue) = mpsc::channel(LOOKUPS);
        tokio::spawn(read_all(self.link(), queue));
        let queues = Queues {
            writers: senders.into(),
            lookups,
        };
        if ready.send(Ok((Arc::clone(&fence), queues))).is_err() {
            // The process ends before it has begun.
            return leave(&mut link, &self.me).await;
        }
        tokio::select! {
            _ = join_all(writers) => {}
            () = beat(&mut link, &fence, &self.me) => {}
            () = fence.is_lost() => {}
        }
        leave(&mut link, &self.me).await;
    }
}

/// Shows others that this process lives, until another one owns the log.
async fn beat(link: &mut Link, fence: &Fence, me: &Instance) {
    let mut tick = interval(owner::pause(me.lease));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = Instant::now();
    loop {
        tick.tick().await;
        let asked = Instant::now();
        let beat = link.query("SELECT beat_1($1)", &[&me.id]).await;
        let Ok(rows) = beat else { continue };
        if !rows.first().is_some_and(|row| row.get(0)) {
            let successor = owner::successor(link).await;
            return fence.taken_over(&successor);
        }
        if last.elapsed() > me.lease {
            tracing::warn!(
                seconds = last.elapsed().as_secs_f64(),
                "this gateway was silent for longer than `batch.lease`; another one could have taken its batch log over"
            );
        }
        last = asked;
    }
}

/// Gives the log up, so that the next process need not wait. Harmless for a process that does not own it.
async fn leave(link: &mut Link, me: &Instance) {
    let left = timeout(CLOSE / 2, link.query("SELECT leave_1($1)", &[&me.id])).await;
    if !matches!(left, Ok(Ok(_))) {
        tracing::warn!("the batch log could not be given up; the next gateway waits for a lease");
    }
}
