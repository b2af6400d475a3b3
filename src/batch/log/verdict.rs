//! The decision about a batch in the log, with the data that answers and undo need, and decisions of operators.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::batch::step::{Decision, Refusal};
use crate::error::code::Code;
use crate::error::origin::ErrorOrigin;

/// The decision as it is written to the log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Verdict {
    /// COMMIT, with the catalogs' answers in request order, which become the answer to the caller.
    Commit(Vec<Box<RawValue>>),
    /// ABORT, with the proofs that undo may need, and the error for callers who ask later.
    Abort {
        /// The answer to the create of each entry; `None` where there was none.
        proofs: Vec<Option<Proof>>,
        /// The reason, as the caller was told.
        reason: String,
        /// The status and code of the answer to the caller; `None` in logs of older versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answer: Option<AbortAnswer>,
    },
}

/// The status and the code of an aborted batch's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AbortAnswer {
    /// The HTTP status.
    pub status: u16,
    /// The contract's code.
    pub code: u8,
    /// The latest version of the entry's table, if that is the reason; `None` in logs of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<u64>,
}

/// The answer to a create, which identifies the object in the catalog.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    /// The path of the manifest that the catalog wrote.
    pub manifest_path: Option<String>,
    /// The size of that manifest in bytes.
    pub manifest_size: Option<u64>,
    /// The entity tag of that manifest.
    pub e_tag: Option<String>,
    /// The location of a table, if the batch created one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
}

/// An operator's decision about a batch that was stuck.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resolution {
    /// True for COMMIT, false for ABORT.
    pub commit: bool,
    /// The operator who decided.
    pub who: String,
    /// The operator's reason.
    pub why: String,
    /// The time of the decision, in milliseconds since the epoch.
    pub at: u64,
    /// The entries of an aborted batch that waited for the decision: whoever goes on with the batch carries it out for
    /// these. Empty in logs from before they were recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hazards: Vec<usize>,
}

impl Resolution {
    /// Returns the decision.
    pub fn decision(&self) -> Decision {
        if self.commit {
            Decision::Commit
        } else {
            Decision::Abort
        }
    }
}

impl Verdict {
    /// Returns an ABORT because of `refusal`, which is `None` if the reason is not known.
    pub fn abort(proofs: Vec<Option<Proof>>, refusal: Option<&Refusal>) -> Self {
        Self::Abort {
            proofs,
            reason: refusal.map_or_else(String::new, spelled),
            answer: refusal.map(|refusal| AbortAnswer {
                status: refusal.status,
                code: refusal.code.number(),
                found: refusal.found,
            }),
        }
    }

    /// Returns the answer to the caller of an aborted batch; `None` if it was committed. If the log does not hold the
    /// status, it is a conflict.
    pub fn refusal(&self) -> Option<Refusal> {
        let Self::Abort { reason, answer, .. } = self else {
            return None;
        };
        let code = answer.and_then(|answer| Code::from_number(answer.code.into()));
        let (entry, message) = unspelled(reason);
        let refusal = Refusal {
            entry,
            found: answer.and_then(|answer| answer.found),
            // The log does not say whose words these are.
            origin: ErrorOrigin::Catalog,
            ..Refusal::new(code.unwrap_or(Code::ConcurrentModification), message)
        };
        let status = answer.map_or(refusal.status, |answer| answer.status);
        Some(Refusal { status, ..refusal })
    }

    /// Returns the decision without its data.
    pub fn decision(&self) -> Decision {
        match self {
            Self::Commit(_) => Decision::Commit,
            Self::Abort { .. } => Decision::Abort,
        }
    }
}

/// Returns the spelling of a refusal in the log, e.g. `entries[2]: table t is busy`.
fn spelled(refusal: &Refusal) -> String {
    let message = &refusal.message;
    match refusal.entry {
        Some(entry) => format!("entries[{entry}]: {message}"),
        None => message.clone(),
    }
}

/// Returns the entry and the message of a refusal in the log.
fn unspelled(reason: &str) -> (Option<usize>, &str) {
    let numbered = reason.strip_prefix("entries[");
    let numbered = numbered.and_then(|rest| rest.split_once("]: "));
    match numbered.and_then(|(entry, message)| Some((entry.parse().ok()?, message))) {
        Some((entry, message)) => (Some(entry), message),
        None => (None, reason),
    }
}
