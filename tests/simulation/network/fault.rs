//! What becomes of messages.

use std::time::Duration;

use nsgate::protocol::operation::{Access, Operation};

use crate::catalog::Question;
use crate::environment::{Inner, World};
use crate::scenario::Faults;

/// What becomes of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// It never arrives, and nobody says so.
    RequestLost,
    /// It is done; the answer never arrives, and nobody says so.
    AnswerLost,
    /// It arrives late: perhaps after the caller gave up.
    Late,
    /// It is done; the answer arrives late.
    SlowAnswer,
    /// An error instead of what was asked for.
    ErrorBefore,
    /// It is done, and an error is answered.
    ErrorAfter,
    /// It is not done, and answered as if somebody else had been first.
    Conflict,
    /// It arrives twice, and the first answer arrives when both copies are done.
    Duplicated,
    /// It arrives twice; only the second answer arrives.
    Retried,
    /// No connection.
    NotSent,
    /// The connection breaks before the request has arrived.
    ResetBefore,
    /// The connection breaks when it is done.
    ResetAfter,
    /// The catalog looks in time, and puts long after.
    LatePut,
    /// It is done, and refused in words that sound as if it had not been.
    RefusedAfter,
    /// A removal that is answered with 200 and not done.
    Idle,
    /// A removal that is answered with 200 at once and done later.
    ActsLater,
    /// A version that is there is said not to be.
    Stale,
}

impl Fault {
    pub const ALL: [Self; 17] = [
        Self::RequestLost,
        Self::AnswerLost,
        Self::Late,
        Self::SlowAnswer,
        Self::ErrorBefore,
        Self::ErrorAfter,
        Self::Conflict,
        Self::Duplicated,
        Self::Retried,
        Self::NotSent,
        Self::ResetBefore,
        Self::ResetAfter,
        Self::LatePut,
        Self::RefusedAfter,
        Self::Idle,
        Self::ActsLater,
        Self::Stale,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::RequestLost => "fault: request lost",
            Self::AnswerLost => "fault: answer lost",
            Self::Late => "fault: request late",
            Self::SlowAnswer => "fault: answer late",
            Self::ErrorBefore => "fault: error, not done",
            Self::ErrorAfter => "fault: error, done",
            Self::Conflict => "fault: conflict, not done",
            Self::Duplicated => "fault: duplicated",
            Self::Retried => "fault: duplicated, second answer",
            Self::NotSent => "fault: no connection",
            Self::ResetBefore => "fault: reset, not done",
            Self::ResetAfter => "fault: reset, done",
            Self::LatePut => "fault: late put",
            Self::RefusedAfter => "fault: refused, done",
            Self::Idle => "fault: removal answered, not done",
            Self::ActsLater => "fault: removal answered, done later",
            Self::Stale => "fault: stale describe",
        }
    }

    /// Whether it makes sense of some messages only.
    pub fn is_particular(self) -> bool {
        matches!(
            self,
            Self::RefusedAfter | Self::Idle | Self::ActsLater | Self::Stale
        )
    }

    /// Whether it can happen to this message.
    pub fn fits(self, question: &Question) -> bool {
        match self {
            Self::Conflict | Self::LatePut => question.creates().is_some(),
            // A client that removes something itself is told what its catalog says.
            Self::Idle | Self::ActsLater => question.own && question.removes(),
            Self::Stale => question.own && question.operation == Operation::DescribeTableVersion,
            Self::RefusedAfter => question.operation.access() == Access::Write,
            _ => true,
        }
    }
}

/// What catalogs and proxies say when they refuse, whatever they have done.
pub const REFUSALS: [(u16, u64, &str); 6] = [
    (400, 13, "this makes no sense"),
    (403, 15, "not you"),
    (405, 0, "no such method"),
    (429, 21, "not so often"),
    (501, 0, "not here"),
    (500, 18, "Not supported: something is not implemented"),
];

impl World {
    /// The fault that a message meets, and how late it is, where that was planned.
    pub(super) fn fault(
        &self,
        inner: &mut Inner,
        number: u64,
        question: &Question,
        catalog: usize,
    ) -> Option<(Fault, Option<Duration>)> {
        let is_change = question.operation.access() == Access::Write;
        let fault = match &self.scenario.faults {
            Faults::One {
                message,
                fault,
                far,
            } => {
                let fits = !fault.is_particular() || fault.fits(question);
                return (*message == number && fits).then_some((*fault, Some(*far)));
            }
            Faults::Planned(planned) => {
                inner.network.met.resize(planned.len(), 0);
                let mut due = None;
                for (one, met) in planned.iter().zip(&mut inner.network.met) {
                    if one.catalog == catalog && one.is_about(question) {
                        *met += 1;
                        due = due.or((*met == one.nth).then_some((one.fault, Some(one.far))));
                    }
                }
                return due;
            }
            Faults::Random {
                percent,
                kinds,
                changes_only,
                removals,
            } => {
                let percent = if question.own && question.matters() {
                    percent.max(removals)
                } else {
                    percent
                };
                if !self.is_rough() || !inner.random.chance(*percent) || kinds.is_empty() {
                    return None;
                }
                let fault = *inner.random.pick(kinds);
                (is_change || !changes_only).then_some(fault)?
            }
        };
        if !fault.fits(question) {
            return None;
        }
        if matches!(fault, Fault::Idle | Fault::ActsLater | Fault::Stale) {
            let network = &mut inner.network;
            let subject = (catalog, question.subject());
            let lie = (catalog, question.table.clone(), fault);
            if network.lying.contains(&subject) || !network.lied.insert(lie) {
                return None;
            }
            network.lying.insert(subject);
        }
        Some((fault, None))
    }
}
