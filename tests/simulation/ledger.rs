//! The batch log on a simulated disk. Every write takes its time, in order. A crash keeps some of those under way and
//! loses the others.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use nsgate::batch::log::{
    Action, BatchId, Intent, IntentEntry, Log, LogError, Logged, Record, Resolution, Verdict,
};
use nsgate::batch::step::{Decision, Settled};
use tokio::time::{Instant, sleep_until};

use crate::environment::{Inner, World};

/// The content of the disk, and the writes on their way there.
#[derive(Default)]
pub struct Ledger {
    records: Vec<Record>,
    /// The names of batches in traces, in the order of their begin.
    names: BTreeMap<BatchId, usize>,
    /// The decision of each batch, and its place in the order of all events.
    pub decided: BTreeMap<BatchId, (Decision, u64)>,
    queue: VecDeque<Write>,
    /// The answers to writes that became durable with a later one.
    answers: BTreeMap<u64, Option<Decision>>,
    free_at: Option<Instant>,
    tickets: u64,
}

struct Write {
    ticket: u64,
    id: BatchId,
    line: Line,
}

enum Line {
    Intent(Arc<Intent>),
    Verdict(Verdict),
    Resolve(Resolution),
    Note(usize, Settled),
    End(u64),
}

/// The log as the gateway of one generation has it.
pub struct Disk {
    pub world: Arc<World>,
    pub generation: u64,
}

impl Ledger {
    /// Crashes the disk: of the writes under way the first `keep` survive. Returns the batches that they decide.
    pub fn crash(&mut self, keep: usize) -> Vec<BatchId> {
        let mut decides = Vec::new();
        for write in std::mem::take(&mut self.queue).into_iter().take(keep) {
            decides.extend(self.apply(write));
        }
        self.answers.clear();
        self.free_at = None;
        decides
    }

    pub fn under_way(&self) -> usize {
        self.queue.len()
    }

    pub fn records(&self) -> &[Record] {
        &self.records
    }

    pub fn name(&self, id: BatchId) -> String {
        self.names
            .get(&id)
            .map_or("?".into(), |name| format!("tx{name}"))
    }

    /// Learns what the shared log holds of a batch now; `None` if that is nothing. Returns true if the batch is decided
    /// by this.
    pub fn learn(&mut self, id: BatchId, record: Option<Record>) -> bool {
        let place = self.records.iter().position(|known| known.id == id);
        let Some(record) = record else {
            if let Some(place) = place {
                self.records.remove(place);
            }
            return false;
        };
        let is_decided = record.verdict.is_some();
        match place {
            Some(place) => {
                let before = std::mem::replace(&mut self.records[place], record);
                is_decided && before.verdict.is_none()
            }
            None => {
                let name = self.names.len();
                self.names.entry(id).or_insert(name);
                self.records.push(record);
                is_decided
            }
        }
    }

    /// Applies a write; the first decision wins. Returns the batch if this write decides it.
    fn apply(&mut self, write: Write) -> Option<BatchId> {
        let Write { ticket, id, line } = write;
        let known = self.records.iter_mut().find(|record| record.id == id);
        let mut decides = None;
        let answer = match (line, known) {
            (Line::Intent(intent), None) => {
                self.names.insert(id, self.records.len());
                self.records.push(Record {
                    id,
                    settled: vec![None; intent.entries.len()],
                    intent: Arc::unwrap_or_clone(intent),
                    verdict: None,
                    resolutions: Vec::new(),
                    ended: None,
                });
                None
            }
            (Line::Verdict(verdict), Some(record)) => {
                if record.verdict.is_none() {
                    decides = Some(id);
                }
                Some(record.verdict.get_or_insert(verdict).decision())
            }
            (Line::Resolve(resolution), Some(record)) => {
                record.resolutions.push(resolution);
                None
            }
            (Line::Note(entry, settled), Some(record)) => {
                record.settled[entry] = Some(settled);
                None
            }
            (Line::End(at), Some(record)) => {
                record.ended = Some(at);
                None
            }
            (Line::Intent(_), Some(_)) | (_, None) => {
                panic!("a line that makes no sense in the log")
            }
        };
        self.answers.insert(ticket, answer);
        decides
    }
}

impl Inner {
    /// Notes that a decision is durable.
    pub fn durable(&mut self, id: BatchId) {
        let at = self.tick();
        let record = self.ledger.records.iter().find(|record| record.id == id);
        let verdict = record.and_then(|record| record.verdict.clone());
        let verdict = verdict.expect("a decided batch");
        self.ledger.decided.insert(id, (verdict.decision(), at));
        if let (Verdict::Commit(versions), Some(record)) = (&verdict, record) {
            let entries = record.intent.entries.iter();
            let is_create =
                |entry: &&IntentEntry| matches!(entry.action, Action::CreateVersion { .. });
            let creates = entries.filter(is_create).count();
            self.committed(id, versions, at, creates);
        }
    }
}

impl Disk {
    async fn write(&self, id: BatchId, line: Line) -> Result<Option<Decision>, LogError> {
        let Self { world, generation } = self;
        world.if_alive(*generation).await;
        let (ticket, due) = {
            let inner = &mut *world.lock();
            let takes = world.scenario.write_time(&mut inner.random);
            let ledger = &mut inner.ledger;
            ledger.tickets += 1;
            let ticket = ledger.tickets;
            let due = ledger
                .free_at
                .unwrap_or_else(Instant::now)
                .max(Instant::now())
                + takes;
            ledger.free_at = Some(due);
            ledger.queue.push_back(Write { ticket, id, line });
            (ticket, due)
        };
        world.point(*generation, "a write to the log is under way");
        sleep_until(due).await;
        world.if_alive(*generation).await;
        {
            let inner = &mut *world.lock();
            while let Some(write) = inner.ledger.queue.pop_front() {
                let last = write.ticket == ticket;
                if let Some(decided) = inner.ledger.apply(write) {
                    inner.durable(decided);
                }
                if last {
                    break;
                }
            }
        }
        world.point(*generation, "a write to the log is durable");
        world.if_alive(*generation).await;
        Ok(world.lock().ledger.answers.remove(&ticket).flatten())
    }
}

impl Disk {
    /// Returns the latest record that matches.
    async fn first(&self, is: impl Fn(&Record) -> bool + Send) -> Result<Option<Record>, LogError> {
        self.world.if_alive(self.generation).await;
        let records = &self.world.lock().ledger.records;
        Ok(records.iter().rev().find(|record| is(record)).cloned())
    }
}

impl Log for Disk {
    fn is_new(&self) -> bool {
        self.generation == 1
    }

    fn intend(&self, id: BatchId, intent: Arc<Intent>) -> Logged<'_, ()> {
        Box::pin(async move { self.write(id, Line::Intent(intent)).await.map(drop) })
    }

    fn decide(&self, id: BatchId, verdict: Verdict) -> Logged<'_, Decision> {
        Box::pin(async move {
            let stands = self.write(id, Line::Verdict(verdict)).await?;
            Ok(stands.expect("a decision is answered with a decision"))
        })
    }

    fn resolve(&self, id: BatchId, resolution: Resolution) -> Logged<'_, ()> {
        let line = Line::Resolve(resolution);
        Box::pin(async move { self.write(id, line).await.map(drop) })
    }

    fn note(&self, id: BatchId, entry: usize, settled: Settled) -> Logged<'_, ()> {
        Box::pin(async move { self.write(id, Line::Note(entry, settled)).await.map(drop) })
    }

    fn end(&self, id: BatchId, now: u64) -> Logged<'_, ()> {
        Box::pin(async move { self.write(id, Line::End(now)).await.map(drop) })
    }

    fn forget(&self, _: u64) -> Logged<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn find(&self, id: BatchId) -> Logged<'_, Option<Record>> {
        Box::pin(self.first(move |record| record.id == id))
    }

    fn find_by_key<'a>(&'a self, key: &'a str) -> Logged<'a, Option<Record>> {
        Box::pin(self.first(move |record| record.intent.idempotency.as_deref() == Some(key)))
    }

    fn scan<'a>(&'a self, each: &'a mut (dyn FnMut(Record) + Send)) -> Logged<'a, ()> {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(5)).await;
            self.world.if_alive(self.generation).await;
            self.world.point(self.generation, "the log was read");
            self.world.if_alive(self.generation).await;
            let records = self.world.lock().ledger.records.clone();
            records.into_iter().for_each(each);
            Ok(())
        })
    }
}
