//! The faults of messages.

use std::time::Duration;

use nsgate::protocol::operation::{Access, Operation};

use crate::catalog::Question;
use crate::environment::{Inner, World};
use crate::scenario::Faults;

/// The fate of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The request never arrives, and the sender is not told.
    RequestLost,
    /// The request is acted on. The answer never arrives, and the sender is not told.
    AnswerLost,
    /// The request arrives late, perhaps after the caller has stopped waiting.
    Late,
    /// The request is acted on. The answer arrives late.
    SlowAnswer,
    /// The catalog does not act, and answers with an error.
    ErrorBefore,
    /// The catalog acts, and answers with an error.
    ErrorAfter,
    /// The catalog does not act, and answers as if another client had been first.
    Conflict,
    /// The request arrives twice. The first answer arrives when both copies are done.
    Duplicated,
    /// The request arrives twice. Only the second answer arrives.
    Retried,
    /// The connection cannot be made.
    NotSent,
    /// The connection breaks before the request has arrived.
    ResetBefore,
    /// The connection breaks after the request was acted on.
    ResetAfter,
    /// The catalog looks in time, and writes long after.
    LatePut,
    /// The catalog acts, and refuses in words that sound as if it had not.
    RefusedAfter,
    /// A removal is answered with 200, and is never done; so is a create, if that is planned.
    Idle,
    /// A removal is answered with 200 at once, and is done later; so is a create, if that is planned.
    ActsLater,
    /// The catalog says that a version or a table does not exist, although it does.
    Stale,
    /// The catalog lists the versions without the latest one. Only planned.
    StaleList,
    /// The connection breaks before the request has arrived, and it arrives late all the same. Only planned.
    ResetLate,
    /// The catalog refuses at once, and acts later. Only planned.
    RefusedFirst,
    /// The catalog acts, and says that it has not processed the request. Only planned.
    Unprocessed,
    /// The catalog sends the head of its answer, and reads later. Only planned.
    HeadFirst,
}

impl Fault {
    /// The faults that random messages meet.
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
            Self::StaleList => "fault: stale list",
            Self::ResetLate => "fault: reset, done late",
            Self::RefusedFirst => "fault: refused, done late",
            Self::Unprocessed => "fault: not processed, done",
            Self::HeadFirst => "fault: head first, read later",
        }
    }

    /// Returns true if the fault makes sense for some messages only.
    pub fn is_particular(self) -> bool {
        matches!(
            self,
            Self::RefusedAfter | Self::Idle | Self::ActsLater | Self::Stale
        )
    }

    /// Returns true if something of the message may come late.
    pub fn may_be_late(self) -> bool {
        matches!(
            self,
            Self::Late
                | Self::SlowAnswer
                | Self::Duplicated
                | Self::Retried
                | Self::LatePut
                | Self::ActsLater
                | Self::ResetLate
                | Self::RefusedFirst
                | Self::HeadFirst
        )
    }

    /// Returns true if the fault can happen to this message.
    pub fn fits(self, question: &Question) -> bool {
        match self {
            Self::Conflict | Self::LatePut => question.creates().is_some(),
            // A client that removes something itself is told what its catalog says, so only the gateway's removals
            // qualify.
            Self::Idle | Self::ActsLater => question.own && question.removes(),
            Self::Stale => question.looks(),
            Self::StaleList => question.operation == Operation::ListTableVersions,
            Self::RefusedAfter => question.operation.access() == Access::Write,
            _ => true,
        }
    }
}

/// The refusals of catalogs and proxies. They say nothing about what was done.
pub const REFUSALS: [(u16, u64, &str); 6] = [
    (400, 13, "this makes no sense"),
    (403, 15, "not you"),
    (405, 0, "no such method"),
    (429, 21, "not so often"),
    (501, 0, "not here"),
    (500, 18, "Not supported: something is not implemented"),
];

impl World {
    /// Returns the fault that a message meets, and its delay if that was planned; `None` for no fault.
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
