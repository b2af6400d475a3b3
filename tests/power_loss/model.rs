//! The model of a log: its expected content, and the next writes of batches.

use std::collections::BTreeMap;
use std::sync::Arc;

use nsgate::batch::log::{
    Action, BatchId, Intent, IntentEntry, Proof, Record, Resolution, Verdict,
};
use nsgate::batch::step::{Decision, Hazard, Settled};
use nsgate::protocol::identifier::Identifier;

use crate::random::Random;

/// The approximate number of batches that are open at a time.
const OPEN: usize = 12;

/// One write to the log.
#[derive(Clone, Debug)]
pub enum Write {
    Intend(BatchId, Arc<Intent>),
    Decide(BatchId, Verdict),
    Resolve(BatchId, Resolution),
    Note(BatchId, usize, Settled),
    End(BatchId, u64),
    Forget(u64),
}

/// One batch.
#[derive(Clone, Debug, PartialEq)]
struct Batch {
    intent: Arc<Intent>,
    verdict: Option<(Decision, String)>,
    settled: Vec<Option<Settled>>,
    resolutions: Vec<Resolution>,
    ended: Option<u64>,
}

/// The expected content: all batches.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Model(BTreeMap<BatchId, Batch>);

/// The possible contents of a log: the expected one, or that and the writes of a group whose fate is not known.
#[derive(Default)]
pub struct Held {
    model: Model,
    perhaps: Option<Model>,
    made: bool,
}

impl Held {
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Notes that the log was created and given its name.
    pub fn made(&mut self) {
        self.made = true;
    }

    pub fn is_made(&self) -> bool {
        self.made
    }

    /// Notes that a write was acknowledged.
    pub fn holds(&mut self, write: &Write) {
        self.model.apply(write);
    }

    /// Notes that these writes were made together and not acknowledged.
    pub fn may_hold(&mut self, writes: impl Iterator<Item = Write>) {
        let mut perhaps = self.model.clone();
        writes.for_each(|write| {
            perhaps.apply(&write);
        });
        self.perhaps = Some(perhaps);
    }

    /// Checks the content that the log was found to have, and takes it for the expected one.
    pub fn found(&mut self, found: &Model) {
        if let Some(perhaps) = self.perhaps.take()
            && *found == perhaps
        {
            self.model = perhaps;
        }
        assert_eq!(*found, self.model, "found, and what was acknowledged");
    }
}

impl Model {
    /// Applies a write as the log does. Returns the decision that stands, for a decision.
    pub fn apply(&mut self, write: &Write) -> Option<Decision> {
        match write {
            Write::Intend(id, intent) => {
                let batch = Batch {
                    settled: vec![None; intent.entries.len()],
                    intent: Arc::clone(intent),
                    verdict: None,
                    resolutions: Vec::new(),
                    ended: None,
                };
                self.0.insert(*id, batch);
            }
            Write::Decide(id, verdict) => {
                let batch = self.0.get_mut(id).unwrap();
                let standing = batch.verdict.get_or_insert_with(|| told(verdict));
                return Some(standing.0);
            }
            Write::Resolve(id, resolution) => {
                let batch = self.0.get_mut(id).unwrap();
                batch.resolutions.push(resolution.clone());
            }
            Write::Note(id, entry, settled) => {
                self.0.get_mut(id).unwrap().settled[*entry] = Some(*settled);
            }
            Write::End(id, at) => self.0.get_mut(id).unwrap().ended = Some(*at),
            Write::Forget(before) => {
                let stays = |batch: &Batch| batch.ended.is_none_or(|at| at >= *before);
                self.0.retain(|_, batch| stays(batch));
            }
        }
        None
    }

    /// Makes a model of the records that the log was found to hold.
    pub fn of(records: Vec<Record>) -> Self {
        let batch = |record: Record| {
            let batch = Batch {
                verdict: record.verdict.as_ref().map(told),
                intent: Arc::new(record.intent),
                settled: record.settled,
                resolutions: record.resolutions,
                ended: record.ended,
            };
            (record.id, batch)
        };
        Self(records.into_iter().map(batch).collect())
    }

    /// Picks the next write of some batch. `life` and `now` only increase.
    pub fn next(&self, random: &mut Random, life: u64, now: u64) -> Write {
        let open: Vec<_> = self.0.iter().filter(|(_, b)| b.ended.is_none()).collect();
        if open.is_empty() || random.index(OPEN) >= open.len() {
            let id = BatchId::from_u64_pair((life << 32) + now, random.next());
            return Write::Intend(id, intent(random));
        }
        if random.chance(5) {
            return Write::Forget(random.below(now + 1));
        }
        let (id, batch) = open[random.index(open.len())];
        let missing = batch.settled.iter().position(Option::is_none);
        match (&batch.verdict, missing) {
            _ if random.chance(5) => Write::Resolve(*id, resolution(random, now)),
            (None, _) => Write::Decide(*id, verdict(random)),
            // A second decision, as when an answer was late: the first one stands.
            (Some(_), _) if random.chance(20) => Write::Decide(*id, verdict(random)),
            (Some((Decision::Abort, _)), Some(entry)) => Write::Note(*id, entry, settled(random)),
            (Some(_), _) => Write::End(*id, now),
        }
    }
}

fn told(verdict: &Verdict) -> (Decision, String) {
    (verdict.decision(), serde_json::to_string(verdict).unwrap())
}

fn resolution(random: &mut Random, at: u64) -> Resolution {
    Resolution {
        commit: random.chance(50),
        who: "somebody".into(),
        why: words(random),
        at,
        hazards: (0..random.index(3)).collect(),
    }
}

fn settled(random: &mut Random) -> Settled {
    let all = [
        Settled::Gone,
        Settled::Unseen,
        Settled::Contested,
        Settled::Theirs,
        Settled::Kept,
        Settled::Removed,
        Settled::Hazard(Hazard::BuiltOn),
        Settled::Hazard(Hazard::OnlyVersion),
        Settled::Hazard(Hazard::Unproven),
    ];
    all[random.index(all.len())]
}

/// Makes a text, mostly short, and sometimes longer than a page or two.
fn words(random: &mut Random) -> String {
    let len = match random.below(40) {
        0 => 20_000,
        1..4 => 3_000,
        _ => 40,
    };
    "x".repeat(random.index(len) + 1)
}

fn intent(random: &mut Random) -> Arc<Intent> {
    let entry = |_| IntentEntry {
        backend: "lake".into(),
        table: Identifier::from_names(["prod", "t"]).unwrap(),
        branch: None,
        contested: false,
        action: Action::CreateVersion {
            version: 2,
            manifest_size: Some(random.below(1000)),
            e_tag: None,
        },
        catalog: Default::default(),
    };
    let entries = (0..2).map(entry).collect();
    Arc::new(Intent {
        entries,
        idempotency: Some("k".into()),
        fingerprint: words(random),
        context: Vec::new(),
    })
}

fn verdict(random: &mut Random) -> Verdict {
    if random.chance(50) {
        let version = format!("{{\"note\":\"{}\"}}", words(random));
        return Verdict::Commit(vec![
            serde_json::value::RawValue::from_string(version).unwrap(),
        ]);
    }
    let proof = Proof {
        e_tag: Some("e".into()),
        ..Proof::default()
    };
    Verdict::Abort {
        proofs: vec![Some(proof), None],
        reason: words(random),
        answer: None,
    }
}
