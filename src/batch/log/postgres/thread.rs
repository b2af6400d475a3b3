//! The thread of the log, with a runtime of its own: a gateway that is busy with requests still shows that it lives.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::runtime::Builder;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::{JoinHandle, spawn_blocking, spawn_local};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use uuid::Uuid;

use super::connect::Connector;
use super::fence::{Fence, OnFailure};
use super::guards::{self, GuardRequests, PostgresGuards};
use super::link::Link;
use super::member::{End, Member, end_with_lease, unusable};
use super::observer::heartbeat_interval;
use super::outage_report::Outage;
use super::outside::Outside;
use super::owner::{self, Instance};
use super::reader::read_all;
use super::writer::Writer;
use super::{CLOSE, LOOKUPS, PostgresLog, QUEUE, Queues, Running, WRITERS};
use crate::batch::fleet::{Fleet, Role};
use crate::batch::log::LogError;
use crate::config::PostgresLogConfig;

/// The pause before a gateway that an operator has to help tries again.
const AGAIN: Duration = Duration::from_secs(10);

/// The way in which a gateway uses the log.
pub(super) enum Use {
    /// The only gateway, which waits for another one up to `patience`. `accepts` is the only note about a move that does
    /// not keep it from the log.
    Alone {
        patience: Duration,
        accepts: Option<String>,
    },
    /// One of several gateways; the others reach it at `address`.
    Shared { address: String },
}

/// The state that the thread shares with the users of the log.
pub(super) struct Shared {
    pub(super) address: String,
    pub(super) outage: Arc<Outage>,
    pub(super) fleet: Arc<Fleet>,
    /// The ownership of the log; not set while another gateway has it.
    pub(super) ownership: OnceLock<Arc<Fence>>,
    /// The queues; `None` while the log is not owned, and once it is closed.
    pub(super) queues: Mutex<Option<Queues>>,
    on_failure: Mutex<Option<OnFailure>>,
    writers: Mutex<Vec<JoinHandle<()>>>,
}

/// The work of the log under way.
pub(super) enum Work {
    Thread(std::thread::JoinHandle<()>),
    /// The task of a simulation.
    Task(JoinHandle<()>),
}

struct Thread {
    config: PostgresLogConfig,
    connector: Arc<Connector>,
    shared: Arc<Shared>,
    name: String,
    usage: Use,
    requests: GuardRequests,
    abandon: watch::Receiver<bool>,
    finish: watch::Receiver<bool>,
}

impl Use {
    fn is_shared(&self) -> bool {
        matches!(self, Self::Shared { .. })
    }
}

/// Starts the thread. Returns the log as soon as this process owns it, or takes part.
pub(super) async fn start(
    config: &PostgresLogConfig,
    name: &str,
    usage: Use,
    outside: Option<Arc<dyn Outside>>,
    on_failure: OnFailure,
) -> Result<(PostgresLog, PostgresGuards), LogError> {
    let address = config.address.clone();
    let unusable = |cause: String| unusable(&address, cause);
    let fleet = Fleet::new(config.lease, config.serves_without, usage.is_shared());
    let connector = Connector::new(config, outside.clone(), Arc::clone(fleet.copy()));
    let connector = connector.map_err(|error| unusable(error.to_string()))?;
    let shared = Arc::new(Shared {
        address: address.clone(),
        outage: Arc::new(Outage::new(&address)),
        fleet,
        ownership: OnceLock::new(),
        queues: Mutex::new(None),
        on_failure: Mutex::new(Some(on_failure)),
        writers: Mutex::default(),
    });
    let (abandon, abandoned) = watch::channel(false);
    let (finish, finished) = watch::channel(false);
    let (guards, requests) = guards::channel();
    let (ready, opened) = oneshot::channel();
    let thread = Thread {
        config: config.clone(),
        connector: Arc::new(connector),
        shared: Arc::clone(&shared),
        name: name.to_owned(),
        usage,
        requests,
        abandon: abandoned,
        finish: finished,
    };
    let work = if outside.is_some() {
        // A timer of the kernel must not leave its thread, so neither must this.
        Work::Task(spawn_local(thread.until_abandoned(ready)))
    } else {
        let started = std::thread::Builder::new()
            .name("batch-log".into())
            .spawn(move || thread.run(ready));
        Work::Thread(started.map_err(|error| unusable(error.to_string()))?)
    };
    let opened = opened.await;
    opened.map_err(|_| unusable("its thread ended".into()))??;
    let log = PostgresLog {
        shared,
        withdrawals: Mutex::default(),
        running: Mutex::new(Some(Running {
            abandon,
            finish,
            work,
        })),
    };
    Ok((log, guards))
}

impl Shared {
    /// Begins to write under an ownership. Must be called in the thread of the log.
    fn owned(self: &Arc<Self>, connector: &Arc<Connector>, me: Uuid, number: i64) {
        let on_failure = self.on_failure.lock();
        let on_failure = on_failure.unwrap_or_else(PoisonError::into_inner).take();
        let on_failure = on_failure.unwrap_or_else(|| Box::new(|_| {}));
        let fence = Arc::new(Fence::new(&self.address, me, number, on_failure));
        let lease = self.fleet.lease().length();
        let link = || Link::new(Arc::clone(connector), Arc::clone(&self.outage)).within(lease);
        let (mut senders, mut writers) = (Vec::new(), Vec::new());
        for number in 0..WRITERS {
            let (sender, queue) = mpsc::channel(QUEUE);
            senders.push(sender);
            let writer = Writer::new(number, link(), Arc::clone(&fence), queue);
            writers.push(tokio::spawn(writer.run()));
        }
        let (lookups, queue) = mpsc::channel(LOOKUPS);
        tokio::spawn(read_all(link(), queue));
        let queues = Queues {
            writers: senders.into(),
            lookups,
        };
        *self.writers.lock().unwrap_or_else(PoisonError::into_inner) = writers;
        // Set before the queues: who finds queues finds the ownership, too.
        let _ = self.ownership.set(fence);
        *self.queues.lock().unwrap_or_else(PoisonError::into_inner) = Some(queues);
    }

    /// Waits until what was requested is written. The queues are closed by then, or the log is lost.
    async fn written(&self) {
        let writers =
            std::mem::take(&mut *self.writers.lock().unwrap_or_else(PoisonError::into_inner));
        join_all(writers).await;
    }
}

impl Work {
    /// Returns when the work has ended.
    pub(super) async fn ended(self) {
        match self {
            Self::Thread(thread) => drop(spawn_blocking(move || thread.join()).await),
            Self::Task(task) => drop(task.await),
        }
    }
}

impl Thread {
    fn run(self, ready: oneshot::Sender<Result<(), LogError>>) {
        let runtime = match Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => {
                let _ = ready.send(Err(unusable(&self.config.address, error.to_string())));
                return;
            }
        };
        runtime.block_on(self.until_abandoned(ready));
    }

    async fn until_abandoned(mut self, ready: oneshot::Sender<Result<(), LogError>>) {
        let mut abandoned = self.abandon.clone();
        tokio::select! {
            biased;
            () = self.work(ready) => {}
            // A sender that is gone means the same.
            _ = abandoned.wait_for(|abandon| *abandon) => {}
        }
    }

    fn link(&self) -> Link {
        Link::new(Arc::clone(&self.connector), Arc::clone(&self.shared.outage))
    }

    fn instance(&self) -> Instance {
        let address = match &self.usage {
            Use::Alone { .. } => None,
            Use::Shared { address } => Some(address.clone()),
        };
        let token = self.shared.fleet.token();
        Instance::new(self.name.clone(), self.config.lease, address, token)
    }

    async fn work(&mut self, ready: oneshot::Sender<Result<(), LogError>>) {
        match &self.usage {
            Use::Alone { patience, accepts } => {
                let (patience, accepts) = (*patience, accepts.clone());
                self.work_alone(ready, patience, accepts.as_deref()).await;
            }
            Use::Shared { .. } => self.work_together(ready).await,
        }
    }

    /// Uses the log as its only gateway.
    async fn work_alone(
        &mut self,
        ready: oneshot::Sender<Result<(), LogError>>,
        patience: std::time::Duration,
        accepts: Option<&str>,
    ) {
        let (mut link, me) = (self.link().within(self.config.lease), self.instance());
        let asked = Instant::now();
        let joined = owner::take_alone(&mut link, &me, &self.config, patience, accepts).await;
        let number = match joined {
            Ok(number) => number,
            Err(error) => {
                let _ = ready.send(Err(error));
                return;
            }
        };
        self.shared.fleet.lease().renew(asked);
        self.shared.owned(&self.connector, me.id, number);
        self.shared.fleet.becomes(Role::Recovering);
        let Some(fence) = self.shared.ownership.get().cloned() else {
            return;
        };
        if ready.send(Ok(())).is_err() {
            // The process ends before it has begun.
            return leave(&mut link, me.id).await;
        }
        let deadline = self.connector.deadline();
        tokio::select! {
            biased;
            () = self.shared.written() => {}
            () = beat(&mut link, &fence, &me, &self.shared.fleet) => {}
            () = fence.is_lost() => {}
            () = end_with_lease(&self.shared.fleet, deadline) => {}
        }
        self.shared.fleet.was_expired();
        leave(&mut link, me.id).await;
    }

    /// Shares the log with other gateways. Joins again, as a new one, when the others took it for dead.
    async fn work_together(&mut self, ready: oneshot::Sender<Result<(), LogError>>) {
        let mut ready = Some(ready);
        let (mut last, mut told) = (None, None);
        let (shared, connector, fleet) = (
            Arc::clone(&self.shared),
            Arc::clone(&self.connector),
            Arc::clone(&self.shared.fleet),
        );
        let mut finish = self.finish.clone();
        let lives = async {
            loop {
                let me = self.instance();
                last = Some(me.id);
                let owned = |me, number| shared.owned(&connector, me, number);
                let mut member = Member {
                    me,
                    fleet: &fleet,
                    link: self.link().within(self.config.lease),
                    ownership: &shared.ownership,
                    owned: &owned,
                    refused: String::new(),
                };
                let heard = Arc::new(Notify::new());
                let outage = Arc::clone(&shared.outage);
                let link = Link::listening(Arc::clone(&connector), outage, Arc::clone(&heard));
                let mut link = link.within(self.config.lease);
                let joined = member.join(&mut link).await;
                if let Some(ready) = ready.take() {
                    let is_ended = joined.is_err();
                    let joined = joined
                        .as_ref()
                        .copied()
                        .map_err(|cause| unusable(&shared.address, cause.clone()));
                    if ready.send(joined).is_err() || is_ended {
                        return;
                    }
                } else if let Err(cause) = joined {
                    if told.as_ref() != Some(&cause) {
                        tracing::error!(
                            cause,
                            "this gateway cannot share the batch log any more, and refuses what batches can change; it tries again every {} seconds",
                            AGAIN.as_secs()
                        );
                        told = Some(cause);
                    }
                    sleep(AGAIN).await;
                    continue;
                }
                told = None;
                let deadline = connector.deadline();
                let requests = &mut self.requests;
                match member.take_part(link, heard, requests, deadline).await {
                    End::Expired => fleet.was_expired(),
                    End::Fenced => {
                        fleet.was_expired();
                        return;
                    }
                }
            }
        };
        tokio::select! {
            biased;
            () = lives => {}
            _ = finish.wait_for(|finish| *finish) => {
                shared.written().await;
            }
        }
        // From here on no claim waits for this gateway.
        fleet.was_expired();
        if let Some(me) = last {
            let mut link = Link::new(Arc::clone(&connector), Arc::clone(&shared.outage));
            if !fleet.all_settled() {
                let left = timeout(CLOSE / 2, guards::leave_strays(&mut link)).await;
                if !matches!(left, Ok(Ok(()))) {
                    // Whoever takes this gateway for dead assumes that its changes may still land.
                    return;
                }
            }
            leave(&mut link, me).await;
        }
    }
}

/// Shows others that this process lives, until another one owns the log.
async fn beat(link: &mut Link, fence: &Fence, me: &Instance, fleet: &Fleet) {
    let mut tick = interval(heartbeat_interval(me.lease));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = Instant::now();
    loop {
        tick.tick().await;
        let asked = Instant::now();
        let beat = link.write("SELECT beat_1($1)", &[&me.id]).await;
        let Ok(rows) = beat else { continue };
        if !rows.first().is_some_and(|row| row.get(0)) {
            let successor = owner::successor(link).await;
            return fence.taken_over(&successor);
        }
        fleet.lease().renew(asked);
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
async fn leave(link: &mut Link, me: Uuid) {
    let left = timeout(CLOSE / 2, link.query("SELECT leave_1($1)", &[&me])).await;
    if !matches!(left, Ok(Ok(_))) {
        tracing::warn!("the batch log could not be given up; the next gateway waits for a lease");
    }
}
