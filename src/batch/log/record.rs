//! The lines of the log and their form in bytes, and the record of a batch that they add up to.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{BatchId, Intent, Resolution, Verdict};
use crate::batch::step::{Hazard, Settled};

/// All log entries of one batch, combined.
#[derive(Clone, Debug)]
pub struct Record {
    /// The id of the batch.
    pub id: BatchId,
    /// The plan of the batch.
    pub intent: Intent,
    /// The decision; `None` while the batch is undecided.
    pub verdict: Option<Verdict>,
    /// The final state of each entry; `None` where it is not settled.
    pub settled: Vec<Option<Settled>>,
    /// The decisions of operators.
    pub resolutions: Vec<Resolution>,
    /// The time when the batch ended, in milliseconds since the epoch; `None` while it is unfinished.
    pub ended: Option<u64>,
}

/// One line of the log.
#[derive(Serialize, Deserialize)]
pub(super) enum Line {
    Intent(Arc<Intent>),
    Verdict(Verdict),
    Resolve(Resolution),
    Note(usize, Word),
    End(u64),
}

impl Line {
    /// Returns the line as JSON, the form in which every log keeps it.
    pub(super) fn to_bytes(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(self)
    }

    /// Parses a line of any log.
    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(bytes)
    }
}

/// The spelling of [`Settled`] in the log.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) enum Word {
    Gone,
    Unseen,
    Contested,
    Leaving,
    LeavingContested,
    Theirs,
    Kept,
    Removed,
    BuiltOn,
    OnlyVersion,
    Unproven,
}

impl From<Settled> for Word {
    fn from(settled: Settled) -> Self {
        match settled {
            Settled::Gone => Self::Gone,
            Settled::Unseen => Self::Unseen,
            Settled::Contested => Self::Contested,
            Settled::Leaving => Self::Leaving,
            Settled::LeavingContested => Self::LeavingContested,
            Settled::Theirs => Self::Theirs,
            Settled::Kept => Self::Kept,
            Settled::Removed => Self::Removed,
            Settled::Hazard(Hazard::BuiltOn) => Self::BuiltOn,
            Settled::Hazard(Hazard::OnlyVersion) => Self::OnlyVersion,
            Settled::Hazard(Hazard::Unproven) => Self::Unproven,
        }
    }
}

impl From<Word> for Settled {
    fn from(word: Word) -> Self {
        match word {
            Word::Gone => Self::Gone,
            Word::Unseen => Self::Unseen,
            Word::Contested => Self::Contested,
            Word::Leaving => Self::Leaving,
            Word::LeavingContested => Self::LeavingContested,
            Word::Theirs => Self::Theirs,
            Word::Kept => Self::Kept,
            Word::Removed => Self::Removed,
            Word::BuiltOn => Self::Hazard(Hazard::BuiltOn),
            Word::OnlyVersion => Self::Hazard(Hazard::OnlyVersion),
            Word::Unproven => Self::Hazard(Hazard::Unproven),
        }
    }
}

/// Builds the record of one batch from its lines in order. Lines that cannot follow each other are an error.
pub(super) fn replay(id: BatchId, lines: impl IntoIterator<Item = Line>) -> Result<Record, String> {
    let mut lines = lines.into_iter();
    let Some(Line::Intent(intent)) = lines.next() else {
        return Err(format!("batch {id} does not begin with its intent"));
    };
    let mut record = Record {
        id,
        settled: vec![None; intent.entries.len()],
        intent: Arc::unwrap_or_clone(intent),
        verdict: None,
        resolutions: Vec::new(),
        ended: None,
    };
    for line in lines {
        if record.ended.is_some() {
            return Err(format!("batch {id} goes on after its end"));
        }
        match line {
            Line::Verdict(verdict) if record.verdict.is_none() => record.verdict = Some(verdict),
            Line::Note(entry, word) if entry < record.settled.len() && record.verdict.is_some() => {
                record.settled[entry] = Some(word.into());
            }
            Line::Resolve(resolution) => record.resolutions.push(resolution),
            Line::End(at) if record.verdict.is_some() => record.ended = Some(at),
            Line::Intent(_) | Line::Verdict(_) | Line::Note(..) | Line::End(_) => {
                return Err(format!(
                    "batch {id} has a line that cannot follow the one before"
                ));
            }
        }
    }
    Ok(record)
}

/// Explains a line that is complete, but holds words that this version does not know.
pub(super) fn cause_of_unread(id: BatchId, error: &serde_json::Error) -> String {
    format!(
        "batch {id}: {error}. A newer gateway wrote it: start that version again, or a later one"
    )
}

/// Parses the lines of one batch and writes them again, for tests of their format.
///
/// # Errors
/// Fails if a line cannot be parsed, or if the lines cannot follow each other.
#[doc(hidden)]
pub fn reread(lines: &[&[u8]]) -> Result<(Record, Vec<Vec<u8>>), String> {
    let read = lines.iter().map(|line| Line::from_bytes(line));
    let read: Vec<Line> = read
        .collect::<Result<_, _>>()
        .map_err(|error| error.to_string())?;
    let written = read.iter().map(Line::to_bytes);
    let written = written.collect::<Result<_, _>>();
    let written = written.map_err(|error| error.to_string())?;
    Ok((replay(Uuid::nil(), read)?, written))
}
