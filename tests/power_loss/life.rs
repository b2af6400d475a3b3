//! One life of a log: it is opened, checked, written to by many batches at a time, and ended.
//!
//! The disk stops at each sync until it is told to proceed. Meanwhile the writes of the next group are queued. So the
//! seed, not the scheduler, decides which writes share a group.

use std::sync::mpsc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use nsgate::batch::log::disk::DiskLog;
use nsgate::batch::log::{Log, LogError, all};
use nsgate::batch::step::Decision;
use redb::Database;

use crate::disk::{Disk, Trouble};
use crate::model::{Held, Model, Write};
use crate::random::Random;

/// The maximum number of groups of writes in one life.
const GROUPS: u64 = 12;
/// The maximum number of writes in one group.
const GROUP: u64 = 8;
/// The approximate number of operations in which a log is created.
const MAKING: u64 = 15;

/// The end of a life.
#[derive(Clone, Copy, Debug)]
pub enum Ended {
    /// The gateway stopped normally.
    Stopped,
    LostPowerMaking,
    LostPowerOpening,
    LostPowerWriting,
    LostPowerStopping,
    FailedSync,
    FailedWrite,
}

impl Ended {
    pub const ALL: [Self; 7] = [
        Self::Stopped,
        Self::LostPowerMaking,
        Self::LostPowerOpening,
        Self::LostPowerWriting,
        Self::LostPowerStopping,
        Self::FailedSync,
        Self::FailedWrite,
    ];

    fn by(trouble: Trouble, power: Self) -> Self {
        match trouble {
            Trouble::PowerLoss => power,
            Trouble::FailedSync => Self::FailedSync,
            Trouble::FailedWrite => Self::FailedWrite,
        }
    }
}

type Answer = Result<Option<Decision>, LogError>;

/// A write that waits to be acknowledged.
struct Waiting<'l> {
    write: Write,
    /// The answer that a decision must get.
    stands: Option<Decision>,
    asked: BoxFuture<'l, Answer>,
    answer: Option<Answer>,
}

/// The writes that one transaction makes durable.
type Group<'l> = Vec<Waiting<'l>>;

/// A guard that opens the gate of a disk when a test fails, so that the log can be closed.
struct Gate<'d>(&'d Disk);

impl Drop for Gate<'_> {
    fn drop(&mut self) {
        self.0.gate(false);
    }
}

/// Lives until the trouble that `random` plans, or until it has written enough. Returns the number of acknowledged
/// writes, too.
pub fn live(disk: &Disk, held: &mut Held, random: &mut Random, life: u64) -> (Ended, u64) {
    let trouble = match random.below(10) {
        0..7 => Trouble::PowerLoss,
        7..9 => Trouble::FailedSync,
        _ => Trouble::FailedWrite,
    };
    let bound = [20, 60, 120, 400][random.index(4)];
    let was_made = held.is_made();
    // The trouble comes seldom while a log is being created.
    let first = if was_made || random.chance(20) {
        0
    } else {
        MAKING
    };
    disk.plan(first + random.below(bound), trouble);
    let (failed, failure) = mpsc::channel();
    let log = match open(disk, held, failed) {
        Ok(log) => log,
        Err(error) => {
            assert!(disk.struck(), "it does not open: {error}");
            let opening = if was_made {
                Ended::LostPowerOpening
            } else {
                Ended::LostPowerMaking
            };
            return (Ended::by(trouble, opening), 0);
        }
    };
    held.found(&read(&log));
    let (acknowledged, refused) = write(&log, disk, held, random, life);
    assert_eq!(
        failure.try_recv().is_ok(),
        refused,
        "on_failure is told of what is not acknowledged, and of nothing else"
    );
    let writing = disk.struck();
    drop(log);
    let ended = match (writing, disk.struck()) {
        (_, false) => Ended::Stopped,
        (true, true) => Ended::by(trouble, Ended::LostPowerWriting),
        (false, true) => Ended::by(trouble, Ended::LostPowerStopping),
    };
    (ended, acknowledged)
}

/// Opens the log once more and checks it.
pub fn check(disk: &Disk, held: &mut Held) {
    let (failed, _) = mpsc::channel();
    let log = open(disk, held, failed).unwrap_or_else(|error| panic!("it does not open: {error}"));
    held.found(&read(&log));
}

fn open(
    disk: &Disk,
    held: &mut Held,
    failed: mpsc::Sender<LogError>,
) -> Result<DiskLog, redb::Error> {
    let database = Database::builder().create_with_backend(disk.clone())?;
    held.made();
    let gives_up = disk.clone();
    DiskLog::over(database, move |error| {
        let _ = failed.send(error);
        gives_up.give_up();
    })
}

fn read(log: &DiskLog) -> Model {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let records = runtime.unwrap().block_on(all(log));
    Model::of(records.unwrap_or_else(|error| panic!("it cannot be read: {error}")))
}

/// Writes from many batches. Returns the number of acknowledged writes, and whether any was refused.
fn write(
    log: &DiskLog,
    disk: &Disk,
    held: &mut Held,
    random: &mut Random,
    life: u64,
) -> (u64, bool) {
    let mut submitted = held.model().clone();
    let mut now = 0;
    let mut acknowledged = 0;
    let mut submit = |number: u64, random: &mut Random| -> Group<'_> {
        let one = |_| {
            now += 1;
            let write = submitted.next(random, life, now);
            let stands = submitted.apply(&write);
            let mut asked = ask(log, write.clone());
            // One poll puts the write into the queue.
            let answer = (&mut asked).now_or_never();
            Waiting {
                write,
                stands,
                asked,
                answer,
            }
        };
        (0..number).map(one).collect()
    };
    disk.gate(true);
    let gate = Gate(disk);
    // The writer is idle: of several writes it would take as many as it happens to see.
    let mut flying = submit(1, random);
    let mut queued = Group::new();
    for _ in 0..random.below(GROUPS) {
        if !disk.wait() {
            break;
        }
        if flying.iter_mut().all(Waiting::is_answered) {
            acknowledged += acknowledge(held, &mut flying, &mut queued);
        }
        // The writer must always have something to go on with.
        queued.extend(submit(1 + random.below(GROUP), random));
        disk.proceed();
    }
    drop(gate);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    for waiting in flying.iter_mut().chain(&mut queued) {
        if waiting.answer.is_none() {
            waiting.answer = Some(runtime.block_on(&mut waiting.asked));
        }
    }
    while !flying.is_empty()
        && flying
            .iter()
            .all(|waiting| matches!(waiting.answer, Some(Ok(_))))
    {
        acknowledged += acknowledge(held, &mut flying, &mut queued);
    }
    let refused = |waiting: &Waiting<'_>| matches!(waiting.answer, Some(Err(_)));
    let left = flying.len();
    assert!(
        flying.iter().chain(&queued).all(refused),
        "after a failure nothing is acknowledged, and a group is acknowledged whole"
    );
    held.may_hold(flying.into_iter().map(|waiting| waiting.write));
    if left > 0 {
        let late = runtime.block_on(ask(log, Write::Forget(0)));
        assert!(late.is_err(), "after a failure nothing is acknowledged");
    }
    (acknowledged, left > 0)
}

impl Waiting<'_> {
    fn is_answered(&mut self) -> bool {
        if self.answer.is_none() {
            self.answer = (&mut self.asked).now_or_never();
        }
        matches!(self.answer, Some(Ok(_)))
    }
}

/// Acknowledges a group: it is durable, and the writer has gone on with the queued writes.
fn acknowledge<'l>(held: &mut Held, flying: &mut Group<'l>, queued: &mut Group<'l>) -> u64 {
    let group = std::mem::replace(flying, std::mem::take(queued));
    let number = group.len() as u64;
    for waiting in group {
        let Some(Ok(answer)) = waiting.answer else {
            panic!("a group is acknowledged whole");
        };
        assert_eq!(answer, waiting.stands, "{:?}", waiting.write);
        held.holds(&waiting.write);
    }
    number
}

/// Sends a write as the log's caller does. A decision is answered with the one that stands.
fn ask(log: &DiskLog, write: Write) -> BoxFuture<'_, Answer> {
    Box::pin(async move {
        match write {
            Write::Intend(id, intent) => log.intend(id, intent).await?,
            Write::Decide(id, verdict) => return log.decide(id, verdict).await.map(Some),
            Write::Resolve(id, resolution) => log.resolve(id, resolution).await?,
            Write::Note(id, entry, settled) => log.note(id, entry, settled).await?,
            Write::End(id, at) => log.end(id, at).await?,
            Write::Forget(before) => log.forget(before).await?,
        }
        Ok(None)
    })
}
