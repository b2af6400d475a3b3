//! The bugs, each a few words of the source and what stands in their place.

/// One bug.
pub struct Bug {
    /// What it would be called when it is found.
    pub name: &'static str,
    /// Where it is planted.
    pub file: &'static str,
    /// What stands there, once.
    pub right: &'static str,
    /// What is planted.
    pub wrong: &'static str,
    /// Arguments of `cargo test`, target and filter; one of them has to fail, the first one first.
    pub checkers: &'static [&'static [&'static str]],
}

const STEP: &str = "src/batch/step.rs";
const PREPARE: &str = "src/batch/step/prepare.rs";
const SETTLE: &str = "src/batch/step/settle.rs";
const STATE: &str = "src/batch/step/state.rs";
const EFFECTS: &str = "src/batch/coordinator/effects.rs";
const SEEN: &str = "src/batch/coordinator/seen.rs";
const VISIBILITY: &str = "src/batch/visibility.rs";
const DISK: &str = "src/batch/log/disk/writer.rs";

const MODEL: &[&str] = &["--test", "model"];
const WALKS: &[&str] = &["--lib", "batch::step::walk"];
const UNIT: &[&str] = &["--lib", "batch::step::tests"];
const SIMULATION: &[&str] = &["--test", "simulation"];
const GATEWAY: &[&str] = &["--test", "gateway", "batches::"];
const POWER: &[&str] = &["--test", "power"];
const LOG: &[&str] = &["--lib", "batch::log"];
const ANSWERS: &[&str] = &["--lib", "batch::participant"];

pub const BUGS: &[Bug] = &[
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
        wrong: "Created::Unknown => Progress::Ours { lost: true },",
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
        name: "commit with one missing",
        file: PREPARE,
        right: "} else if entries.all(|entry| self.is_ours(entry)) {",
        wrong: "} else if entries.any(|entry| self.is_ours(entry)) {",
        checkers: &[WALKS, MODEL, SIMULATION],
    },
    Bug {
        name: "somebody else's version is taken for ours",
        file: PREPARE,
        right: "            } if lost => Progress::Ours { lost },",
        wrong: "            } => Progress::Ours { lost },",
        checkers: &[WALKS, MODEL, SIMULATION],
    },
    Bug {
        name: "delete without proof",
        file: SETTLE,
        right: "(Likeness::Alike, Belief::Likely)",
        wrong: "(Likeness::Alike | Likeness::Incomparable, _)",
        checkers: &[WALKS, MODEL, GATEWAY],
    },
    Bug {
        name: "delete of what was built on",
        file: SETTLE,
        right: "                    if latest {",
        wrong: "                    if latest || !check.deleted {",
        checkers: &[WALKS, MODEL, GATEWAY],
    },
    Bug {
        name: "unlock before the undo is done",
        file: SETTLE,
        right: "                Progress::Settled(Settled::Hazard(_)) => clean = false,\n",
        wrong: "",
        checkers: &[WALKS, MODEL, GATEWAY],
    },
    Bug {
        name: "undo of the first version before the last",
        file: SETTLE,
        right: "self.shape.shares[share].iter().rev().copied().collect();",
        wrong: "self.shape.shares[share].iter().copied().collect();",
        checkers: &[WALKS, MODEL, GATEWAY],
    },
    Bug {
        name: "no tombstone",
        file: SETTLE,
        right: "            Finding::Absent if check.lost => Settled::Unseen,\n",
        wrong: "",
        checkers: &[WALKS, MODEL, GATEWAY],
    },
    Bug {
        name: "a removal before the commit",
        file: PREPARE,
        right: "        self.is_made(entry)\n            && self.progress",
        wrong: "        self.progress",
        checkers: &[WALKS, MODEL, GATEWAY],
    },
    Bug {
        name: "a removal that is tried once",
        file: STEP,
        right: "                effects.push(Effect::Remove { entry, again: true });",
        wrong: "                self.note(entry, Settled::Removed, effects);",
        checkers: &[WALKS, MODEL, GATEWAY],
    },
    Bug {
        name: "recovery takes what it does not know for never created",
        file: STATE,
        right: "                (None, Some(Decision::Abort)) if made => Progress::Doubtful { lost: true },\n",
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
        name: "reveal after the answer",
        file: SEEN,
        right: "        names.reveal(&self.fate, self.plan.names());\n",
        wrong: "        let (names, fate, plan) = (names.clone(), self.fate.clone(), std::sync::Arc::clone(&self.plan));\n        tokio::spawn(async move {\n            sleep(Duration::from_millis(50)).await;\n            names.reveal(&fate, plan.names());\n        });\n",
        checkers: &[SIMULATION, GATEWAY],
    },
    Bug {
        name: "reveal one by one",
        file: "src/batch/visibility.rs",
        right: "        let fate = fate.clone();\n        let slot = Slot {",
        wrong: "        let fate = match version_is_odd(&versions) {\n            true => fate.clone(),\n            false => {\n                let shown = Fate::default();\n                shown.reveal();\n                shown\n            }\n        };\n        fn version_is_odd(versions: &RangeInclusive<u64>) -> bool {\n            versions.start() % 2 == 1\n        }\n        let slot = Slot {",
        checkers: &[SIMULATION, GATEWAY],
    },
    Bug {
        name: "a name that a batch makes is not hidden",
        file: VISIBILITY,
        right: "                self.names.hide_made(line.table.clone(), fate);\n",
        wrong: "",
        checkers: &[GATEWAY],
    },
    Bug {
        name: "a name that a batch removes is shown until it is gone",
        file: VISIBILITY,
        right: "Action::Deregister => self.names.hide_removed(line.table.clone(), fate),",
        wrong: "Action::Deregister => {}",
        checkers: &[GATEWAY],
    },
    Bug {
        name: "a catalog's word is taken for a deregister",
        file: "src/batch/participant/remove.rs",
        right: "    done(entry, deregister(entry, asker).await)?;\n    is_gone(entry, asker).await\n",
        wrong: "    done(entry, deregister(entry, asker).await)\n",
        checkers: &[GATEWAY],
    },
    Bug {
        name: "catalogs are listed at different moments",
        file: "src/batch/names.rs",
        right: "        if state.since(since)?.any(|change| scope(&change.table)) {\n            return None;\n        }\n",
        wrong: "",
        checkers: &[&["--lib", "listing::"], GATEWAY],
    },
    Bug {
        name: "filter before the read",
        file: "src/batch/reads.rs",
        right: "            let (head, body) = question.with(more, token.clone())?.send(backend).await?;\n            let hidden = visibility.hidden(&line);\n",
        wrong: "            let hidden = visibility.hidden(&line);\n            let (head, body) = question.with(more, token.clone())?.send(backend).await?;\n",
        checkers: &[SIMULATION, GATEWAY],
    },
    Bug {
        name: "batches lock shared",
        file: EFFECTS,
        right: "locks.for_batch(tables, wait).await",
        wrong: "locks.shared_for_batch(tables, wait).await",
        checkers: &[SIMULATION, GATEWAY],
    },
    Bug {
        name: "a freed number does not rest",
        file: "src/batch/visibility.rs",
        right: "            Some((gone, _)) if gone < version => Err(Forbidden::BuiltOnGone { version: gone }),\n",
        wrong: "",
        checkers: &[SIMULATION, GATEWAY],
    },
    Bug {
        name: "undo in the caller's name",
        file: EFFECTS,
        right: "            self.caller = None;\n",
        wrong: "",
        checkers: &[GATEWAY],
    },
    Bug {
        name: "a lost answer is taken for no answer at all",
        file: "src/batch/participant/create.rs",
        right: "        Err(_) => Created::Lost,\n    }\n}\n\n/// Asks for several",
        wrong: "        Err(failure) => Created::Refused(unreachable(backend, &failure)),\n    }\n}\n\n/// Asks for several",
        checkers: &[SIMULATION, GATEWAY],
    },
    Bug {
        name: "any 404 says that nothing is there",
        file: "src/batch/participant/answers.rs",
        right: "            Some(Code::TableVersionNotFound | Code::TableNotFound | Code::NamespaceNotFound)\n",
        wrong: "            Some(_) | None\n",
        checkers: &[ANSWERS],
    },
    Bug {
        name: "a second decision stands",
        file: DISK,
        right: "                return Ok(Some(verdict.decision()));",
        wrong: "                let _ = verdict;",
        checkers: &[LOG, POWER],
    },
];
