//! Bugs of the batch protocol, which is pure.

use crate::bug::Bug;

const STEP: &str = "src/batch/step.rs";
const PREPARE: &str = "src/batch/step/prepare.rs";
const SETTLE: &str = "src/batch/step/settle.rs";
const UNDO: &str = "src/batch/step/undo.rs";
const STATE: &str = "src/batch/step/state.rs";

const MODEL: &[&str] = &["--test", "model"];
const WALKS: &[&str] = &["--lib", "batch::step::random_test"];
const UNIT: &[&str] = &["--lib", "batch::step::tests"];
const SIMULATION: &[&str] = &["--test", "simulation"];
const GATEWAY: &[&str] = &["--test", "gateway", "batches::"];

pub const PROTOCOL_BUGS: &[Bug] = &[
    Bug {
        name: "no settle: a conflict after a lost answer is taken for a refusal",
        file: PREPARE,
        right: "Created::No(refusal) if !lost => {",
        wrong: "Created::No(refusal) | Created::Conflict(refusal) => {",
        checkers: &[WALKS, MODEL, SIMULATION],
    },
    Bug {
        name: "no settle: a lost answer is taken for a success",
        file: PREPARE,
        right: "Created::Unknown => sought(true, None),",
        wrong: "Created::Unknown => EntryState::Created { lost: true },",
        checkers: &[WALKS, MODEL, SIMULATION],
    },
    Bug {
        name: "answer before the log",
        file: STEP,
        right: "        self.phase = Phase::Deciding(decision);\n",
        wrong: "        self.phase = Phase::Deciding(decision);\n        if decision == Decision::Commit {\n            effects.push(Effect::Answer(Answer::Committed));\n        }\n",
        checkers: &[WALKS, MODEL, SIMULATION],
    },
    Bug {
        name: "create before the intent is durable",
        file: STEP,
        right: "            self.phase = Phase::Intending;\n            effects.push(Effect::LogIntent);",
        wrong: "            self.phase = Phase::Preparing;\n            effects.push(Effect::LogIntent);\n            self.advance(effects);",
        checkers: &[WALKS, MODEL, SIMULATION],
    },
    Bug {
        name: "INTENT before the catalogs have validated",
        file: STEP,
        right: "                effects.extend(shares.map(Effect::Validate));",
        wrong: "                effects.push(Effect::LogIntent);\n                effects.extend(shares.map(Effect::Validate));",
        checkers: &[MODEL, WALKS],
    },
    Bug {
        name: "commit with one missing",
        file: PREPARE,
        right: "} else if entries.all(|entry| self.is_ours(entry)) {",
        wrong: "} else if entries.any(|entry| self.is_ours(entry)) {",
        checkers: &[WALKS, MODEL, SIMULATION],
    },
    Bug {
        name: "somebody else's version is taken for ours",
        file: PREPARE,
        right: "            } if lost => EntryState::Created { lost },",
        wrong: "            } => EntryState::Created { lost },",
        checkers: &[WALKS, MODEL, SIMULATION],
    },
    Bug {
        name: "delete without proof",
        file: UNDO,
        right: "(Match::Alike, DeleteEvidence::MatchSuffices)",
        wrong: "(Match::Alike | Match::Incomparable, _)",
        checkers: &[WALKS, MODEL, GATEWAY],
    },
    Bug {
        name: "delete of what was built on",
        file: UNDO,
        right: "                None => UndoStep::Delete(likeness),",
        wrong: "                None => UndoStep::Delete(likeness),\n                Some(Hazard::BuiltOn) if !check.deleted => UndoStep::Delete(likeness),",
        checkers: &[WALKS, MODEL, GATEWAY],
    },
    Bug {
        name: "delete of all that a table has left",
        file: UNDO,
        right: "                None => UndoStep::Delete(likeness),",
        wrong: "                None | Some(Hazard::OnlyVersion) => UndoStep::Delete(likeness),",
        checkers: &[UNIT, WALKS, MODEL, SIMULATION, GATEWAY],
    },
    Bug {
        name: "the only version of a table passes for one of several",
        file: "src/batch/participant.rs",
        right: "        _ => is_alone.then_some(Hazard::OnlyVersion),",
        wrong: "        _ => None,",
        checkers: &[SIMULATION, GATEWAY],
    },
    Bug {
        name: "the first version of a new table is not undone",
        file: "src/batch/participant.rs",
        right: "        1 => None,\n",
        wrong: "",
        checkers: &[SIMULATION, GATEWAY],
    },
    Bug {
        name: "unlock before the undo is done",
        file: UNDO,
        right: "                EntryState::Settled(Settled::Hazard(_)) => clean = false,\n",
        wrong: "",
        checkers: &[WALKS, MODEL, GATEWAY],
    },
    Bug {
        name: "undo of the first version before the last",
        file: UNDO,
        right: "self.shape.shares[share].iter().rev().copied().collect();",
        wrong: "self.shape.shares[share].iter().copied().collect();",
        checkers: &[WALKS, MODEL, GATEWAY],
    },
    Bug {
        name: "no tombstone",
        file: UNDO,
        right: "        } else if lost {\n            Some(Settled::Unseen)",
        wrong: "        } else if lost {\n            Some(Settled::Theirs)",
        checkers: &[WALKS, MODEL, GATEWAY],
    },
    Bug {
        name: "what lands late is deleted before the log says so",
        file: UNDO,
        right: "if self.may_only_land[entry] {",
        wrong: "if false && self.may_only_land[entry] {",
        checkers: &[WALKS, MODEL],
    },
    Bug {
        name: "a removal before the commit",
        file: PREPARE,
        right: "        if !self.is_made(entry) || !matches!(",
        wrong: "        if !matches!(",
        checkers: &[WALKS, MODEL, GATEWAY],
    },
    Bug {
        name: "a removal that is tried once",
        file: SETTLE,
        right: "                self.leaving[entry] = LateRemoval::Yes;\n                effects.push(Effect::Remove { entry, again: true });",
        wrong: "                self.removed(entry, effects);",
        checkers: &[WALKS, MODEL, GATEWAY],
    },
    Bug {
        name: "recovery takes what it does not know for never created",
        file: STATE,
        right: "                (None, Some(Decision::Abort)) if made => EntryState::Uncertain { lost: true },\n",
        wrong: "",
        checkers: &[WALKS, MODEL, SIMULATION],
    },
    Bug {
        name: "recovery creates again",
        file: STATE,
        right: "        state.may_create = false;\n",
        wrong: "",
        checkers: &[UNIT],
    },
    Bug {
        name: "what is prepared is not hidden",
        file: STEP,
        right: "                effects.extend([Effect::Hide, Effect::StartClock]);",
        wrong: "                effects.extend([Effect::StartClock]);",
        checkers: &[MODEL, SIMULATION, GATEWAY],
    },
    Bug {
        name: "what is seen beside a question that is not answered is forgotten",
        file: UNDO,
        right: "            self.is_there(entry, check);\n            let missed = false;\n",
        wrong: "            let missed = check.missed;\n",
        checkers: &[UNIT, WALKS, SIMULATION],
    },
    Bug {
        name: "what is committed keeps its name for one life of the gateway",
        file: STATE,
        right: "(None, Some(Decision::Commit)) if made => EntryState::Created { lost: true },",
        wrong: "(None, Some(Decision::Commit)) if made => EntryState::Created { lost: false },",
        checkers: &[UNIT, MODEL, SIMULATION],
    },
    Bug {
        name: "a refusal is believed without a look",
        file: PREPARE,
        right: "                self.failure.get_or_insert(refusal);\n                EntryState::Refused",
        wrong: "                self.failure.get_or_insert(refusal);\n                EntryState::Pending",
        checkers: &[WALKS, MODEL, SIMULATION],
    },
    Bug {
        name: "one stale answer settles what was made",
        file: UNDO,
        right: "        } else if !missed {\n            None\n        } else if made || deleted {",
        wrong: "        } else if false {\n            None\n        } else if false {",
        checkers: &[UNIT, WALKS, MODEL, SIMULATION],
    },
];
