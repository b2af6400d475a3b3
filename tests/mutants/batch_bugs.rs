//! The bugs: each is a piece of source text and its wrong replacement.

/// One bug.
pub struct Bug {
    /// The name, as a report of the bug would have it.
    pub name: &'static str,
    /// The file that the bug is planted in.
    pub file: &'static str,
    /// The right text, which occurs once in the file.
    pub right: &'static str,
    /// The wrong text that replaces it.
    pub wrong: &'static str,
    /// The tests that may catch it: arguments of `cargo test`, target and filter. They are run in order until one
    /// fails.
    pub checkers: &'static [&'static [&'static str]],
}

const STEP: &str = "src/batch/step.rs";
const PREPARE: &str = "src/batch/step/prepare.rs";
const SETTLE: &str = "src/batch/step/settle.rs";
const STATE: &str = "src/batch/step/state.rs";
const EFFECTS: &str = "src/batch/run/effects.rs";
const REQUESTS: &str = "src/batch/run/requests.rs";
const SEEN: &str = "src/batch/run/visible.rs";
const VISIBILITY: &str = "src/batch/visibility.rs";
const RUN: &str = "src/batch/run.rs";
const COORDINATOR: &str = "src/batch/run/coordinator.rs";
const DISK: &str = "src/batch/log/disk/writer.rs";

const MODEL: &[&str] = &["--test", "model"];
const WALKS: &[&str] = &["--lib", "batch::step::random_test"];
const UNIT: &[&str] = &["--lib", "batch::step::tests"];
const SIMULATION: &[&str] = &["--test", "simulation"];
const GATEWAY: &[&str] = &["--test", "gateway", "batches::"];
const SNAPSHOT: &[&str] = &["--test", "gateway", "snapshot::"];
const VISIBLE: &[&str] = &["--lib", "batch::visibility"];
const POWER: &[&str] = &["--test", "power_loss"];
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
        file: SETTLE,
        right: "(Match::Alike, DeleteEvidence::MatchSuffices)",
        wrong: "(Match::Alike | Match::Incomparable, _)",
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
        right: "                EntryState::Settled(Settled::Hazard(_)) => clean = false,\n",
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
        right: "        } else if lost {\n            Some(Settled::Unseen)",
        wrong: "        } else if lost {\n            Some(Settled::Theirs)",
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
        name: "reveal after the answer",
        file: SEEN,
        right: "        names.reveal(&self.commit_flag, self.plan.names());\n",
        wrong: "        let (names, commit_flag, plan) = (names.clone(), self.commit_flag.clone(), std::sync::Arc::clone(&self.plan));\n        tokio::spawn(async move {\n            sleep(Duration::from_millis(50)).await;\n            names.reveal(&commit_flag, plan.names());\n        });\n",
        checkers: &[SIMULATION, GATEWAY],
    },
    Bug {
        name: "reveal one by one",
        file: "src/batch/visibility.rs",
        right: "            subject: Subject::Versions { branch, range },\n            commit_flag: commit_flag.clone(),\n",
        wrong: "            commit_flag: match range.start() % 2 {\n                1 => commit_flag.clone(),\n                _ => {\n                    let shown = CommitFlag::default();\n                    shown.reveal();\n                    shown\n                }\n            },\n            subject: Subject::Versions { branch, range },\n",
        checkers: &[SIMULATION, GATEWAY],
    },
    Bug {
        name: "a name that a batch makes is not hidden",
        file: VISIBILITY,
        right: "            Action::Declare { .. } => self.names.hide_made(line.table.clone(), commit_flag),",
        wrong: "            Action::Declare { .. } => {}",
        checkers: &[GATEWAY],
    },
    Bug {
        name: "a name that a batch removes is shown until it is gone",
        file: VISIBILITY,
        right: "Action::Deregister => self.names.hide_removed(line.table.clone(), commit_flag),",
        wrong: "Action::Deregister => {}",
        checkers: &[GATEWAY],
    },
    Bug {
        name: "a catalog's word is taken for a deregister",
        file: "src/batch/participant/remove.rs",
        right: "        ControlFlow::Break(()) => lacks_table(entry, caller).await,",
        wrong: "        ControlFlow::Break(()) => Ok(()),",
        checkers: &[GATEWAY],
    },
    Bug {
        name: "catalogs are listed at different moments",
        file: "src/batch/visibility/names.rs",
        right: "        if state.since(since)?.any(|change| scope(&change.table)) {\n            return None;\n        }\n",
        wrong: "",
        checkers: &[&["--lib", "listing::"], GATEWAY],
    },
    Bug {
        name: "filter before the read",
        file: "src/batch/visibility/reads/listed.rs",
        right: "        let (head, body) = question.open(backend).await?;\n        if head.status.is_success() && head.headers.contains_key(CONTENT_ENCODING) {\n            return Err(Error::unavailable(unreadable(backend)));\n        }\n        let lost = |error| Error::unavailable(unreadable(backend)).with_cause(error);\n        let (first, rest) = match Beginning::read(body, self.longest_held_list).await {\n            Err(error) => return Err(lost(error)),\n            Ok(Beginning::Whole(body)) => {\n                let hidden = visibility.hidden(&list.line);\n",
        wrong: "        let hidden = visibility.hidden(&list.line);\n        let (head, body) = question.open(backend).await?;\n        if head.status.is_success() && head.headers.contains_key(CONTENT_ENCODING) {\n            return Err(Error::unavailable(unreadable(backend)));\n        }\n        let lost = |error| Error::unavailable(unreadable(backend)).with_cause(error);\n        let (first, rest) = match Beginning::read(body, self.longest_held_list).await {\n            Err(error) => return Err(lost(error)),\n            Ok(Beginning::Whole(body)) => {\n",
        checkers: &[SIMULATION, GATEWAY],
    },
    Bug {
        name: "batches lock shared",
        file: "src/batch/run/cool_down.rs",
        right: "self.locks.for_batch(plan.tables(), wait)",
        wrong: "self.locks.all_shared(plan.tables(), wait)",
        checkers: &[SIMULATION, GATEWAY],
    },
    Bug {
        name: "what was built on an undone version passes",
        file: "src/batch/visibility/gates.rs",
        right: "                HideReason::Freed { until, .. } if gone < version && now < until => {\n                    Some(Forbidden::BuiltOnGone { version: gone })",
        wrong: "                HideReason::Freed { until, .. } if gone < version && now < until => {\n                    None",
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
        right: "        Err(_) => CreateOutcome::Lost,\n    }\n}\n\n/// Sends the creates of several entries",
        wrong: "        Err(failure) => CreateOutcome::Refused(unreachable(backend, &failure)),\n    }\n}\n\n/// Sends the creates of several entries",
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
    Bug {
        name: "a delete without an answer is taken for one that was answered",
        file: REQUESTS,
        right: "                Removal::Refused(refusal) => Event::NotDeleted(entry).but(entry, refusal),\n                Removal::Lost(refusal) => Event::RemovalLost(entry)",
        wrong: "                Removal::Refused(refusal) => Event::NotDeleted(entry).but(entry, refusal),\n                Removal::Lost(refusal) => Event::Deleted(entry)",
        checkers: &[SIMULATION],
    },
    Bug {
        name: "a removal without an answer is forgotten",
        file: REQUESTS,
        right: "                    Event::NotRemoved(entry).but(entry, refusal)\n                }\n                Removal::Lost(refusal) => Event::RemovalLost(entry)",
        wrong: "                    Event::NotRemoved(entry).but(entry, refusal)\n                }\n                Removal::Lost(refusal) => Event::NotRemoved(entry)",
        checkers: &[SIMULATION, GATEWAY],
    },
    Bug {
        name: "what stands on a hidden version is shown",
        file: "src/batch/visibility/hidden_range.rs",
        right: "            HideReason::Made => (!self.commit_flag.is_revealed()).then_some(with_all_above),",
        wrong: "            HideReason::Made => (!self.commit_flag.is_revealed()).then(|| range.clone()),",
        checkers: &[VISIBLE, SIMULATION],
    },
    Bug {
        name: "a number that a removal may still hit is free",
        file: SEEN,
        right: "            (true, _) => Release::Leaving(WATCH),",
        wrong: "            (true, _) => Release::Clean(self.coordinator.pause()),",
        checkers: &[SIMULATION, GATEWAY],
    },
    Bug {
        name: "a number that a create may still make is free",
        file: SEEN,
        right: "            (false, true) => Release::Landing(WATCH),",
        wrong: "            (false, true) => Release::Clean(self.coordinator.pause()),",
        checkers: &[SIMULATION, GATEWAY],
    },
    Bug {
        name: "a catalog chooses a version where a create may still land",
        file: "src/batch/api/table_lock.rs",
        right: "        let allowed = self.coordinator.visibility.may_change(&table);\n        allowed.map_err(|forbidden| forbidden.unchangeable(&table))?;\n",
        wrong: "",
        checkers: &[GATEWAY, SIMULATION],
    },
    Bug {
        name: "a table is renamed while a create may still land",
        file: "src/batch/api/table_lock.rs",
        right: "        let allowed = self.coordinator.visibility.may_rename(&table);\n        allowed.map_err(|forbidden| forbidden.unchangeable(&table))?;\n",
        wrong: "",
        checkers: &[GATEWAY, SIMULATION],
    },
    Bug {
        name: "the latest version is read without a look at what landed late",
        file: "src/gateway/forward.rs",
        right: "        batches.check_latest(self.backend, &key).await?;\n",
        wrong: "        let _ = (batches, key);\n",
        checkers: &[GATEWAY, SIMULATION],
    },
    Bug {
        name: "a size is an identity beside a rival",
        file: REQUESTS,
        right: "let has_rival = self.intent.entries[entry].contested && !known.is_held;",
        wrong: "let has_rival = false;",
        checkers: &[SIMULATION],
    },
    Bug {
        name: "a batch-create that is said not to exist has done nothing",
        file: "src/batch/run/grouped_create.rs",
        right: "CreateOutcome::Unsent(refusal) => (entry, CreateOutcome::Refused(refusal)),",
        wrong: "CreateOutcome::Unsent(refusal) => (entry, CreateOutcome::Unsent(refusal)),",
        checkers: &[SIMULATION],
    },
    Bug {
        name: "a size is an identity of what was deleted",
        file: REQUESTS,
        right: ".contested && !known.is_held;",
        wrong: ".contested && known.proof.is_none();",
        checkers: &[SIMULATION],
    },
    Bug {
        name: "a chain goes where a delete may hit",
        file: "src/batch/visibility/gates.rs",
        right: "            removal && slot.subject.start(on) == Some(version)\n",
        wrong: "            removal && slot.subject.start(on) == Some(version) && false\n",
        checkers: &[VISIBLE, SIMULATION],
    },
    Bug {
        name: "what is seen beside a question that is not answered is forgotten",
        file: SETTLE,
        right: "        self.is_there(entry, check);\n        let missed = false;\n",
        wrong: "        let missed = check.missed;\n",
        checkers: &[UNIT, WALKS, SIMULATION],
    },
    Bug {
        name: "what is made again is shown before the log knows",
        file: COORDINATOR,
        right: "        if self.disclaim(claims).await.is_ok() {\n            let rest = self.settings().slot_cooldown;\n            self.visibility.taken(line, version, rest);\n",
        wrong: "        let rest = self.settings().slot_cooldown;\n        self.visibility.taken(line, version, rest);\n        if self.disclaim(claims).await.is_ok() {\n",
        checkers: &[&["--lib", "batch::run"], SIMULATION],
    },
    Bug {
        name: "a number is not contested by a batch that begins",
        file: EFFECTS,
        right: "                    coordinator.contest(&entry.line, version).await?;\n",
        wrong: "                    let _ = (&coordinator, version);\n",
        checkers: &[SIMULATION],
    },
    Bug {
        name: "a writer's create without an answer is forgotten",
        file: COORDINATOR,
        right: "        self.visibility.add_stray(table, version, STRAYS);",
        wrong: "        let _ = (table, version);",
        checkers: &[SIMULATION],
    },
    Bug {
        name: "a lock goes with its client",
        file: "src/gateway/detached_change.rs",
        right: "            runtime.spawn(sending);",
        wrong: "            drop((sending, runtime));",
        checkers: &[GATEWAY, SIMULATION],
    },
    Bug {
        name: "a late registration is not looked for",
        file: "src/batch/run/watch.rs",
        right: "self.plan.entries[entry].action.kind() == Kind::Removed {",
        wrong: "self.plan.entries[entry].version().is_none() {",
        checkers: &[SIMULATION],
    },
    Bug {
        name: "what is committed keeps its name for one life of the gateway",
        file: STATE,
        right: "(None, Some(Decision::Commit)) if made => EntryState::Created { lost: true },",
        wrong: "(None, Some(Decision::Commit)) if made => EntryState::Created { lost: false },",
        checkers: &[UNIT, MODEL, SIMULATION],
    },
    Bug {
        name: "the name of what is committed is given away",
        file: SEEN,
        right: "            if state.is_kept(entry) {",
        wrong: "            if state.is_kept(entry) && self.id.is_nil() {",
        checkers: &[SIMULATION],
    },
    Bug {
        name: "a version of another size is taken for the one that was made",
        file: "src/batch/participant/create.rs",
        right: ".filter(|shown| *shown != staged)",
        wrong: ".filter(|shown| *shown < staged)",
        checkers: &[GATEWAY],
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
        file: SETTLE,
        right: "        } else if !missed {\n            None\n        } else if made || deleted {",
        wrong: "        } else if false {\n            None\n        } else if false {",
        checkers: &[UNIT, WALKS, MODEL, SIMULATION],
    },
    Bug {
        name: "what was freed of one table is freed of the next of its name",
        file: "src/batch/api/table_lock.rs",
        right: "            self.coordinator.renamed(&table).await;\n",
        wrong: "",
        checkers: &[SIMULATION],
    },
    Bug {
        name: "what was made again is refused what stands on it",
        file: "src/gateway/detached_change.rs",
        right: "                None => self.batches.attempted(table, version).await,",
        wrong: "                None => {}",
        checkers: &[GATEWAY, SIMULATION],
    },
    Bug {
        name: "a group is asked for again as a whole",
        file: RUN,
        right: "            self.together.fall_apart(group);",
        wrong: "            let _ = group;",
        checkers: &[SIMULATION],
    },
    Bug {
        name: "a refusal that passes keeps its key",
        file: "src/batch/api/outcomes/outcome.rs",
        right: "    matches!(status, 408 | 425 | 429 | 500..)",
        wrong: "    status == 0",
        checkers: &[GATEWAY],
    },
    Bug {
        name: "a table gets a second name while a batch is on it",
        file: "src/gateway/forward.rs",
        right: "            if second_name::is_given_by(operation) {",
        wrong: "            if false && second_name::is_given_by(operation) {",
        checkers: &[GATEWAY, SIMULATION],
    },
    Bug {
        name: "what stands beyond a gap is shown",
        file: "src/batch/visibility/json_splice.rs",
        right: "is_none_or(|number| number > start)",
        wrong: "is_none_or(|number| number == start + 1)",
        checkers: &[VISIBLE],
    },
    Bug {
        name: "a list that streams knows only of batches that are undecided at its end",
        file: "src/batch/visibility/list_watch.rs",
        right: "            Some(range) => self.lists.hide(table, branch.as_deref(), *range.start()),",
        wrong: "            Some(range) => drop(range),",
        checkers: &[GATEWAY, VISIBLE],
    },
    Bug {
        name: "a list that streams shows what was hidden when it began and is not any more",
        file: "src/batch/visibility/list_watch.rs",
        right: "            watched.end.fetch_min(*range.start(), Ordering::SeqCst);\n        }\n        ListWatch {",
        wrong: "            watched.end.fetch_min(range.start() + 1, Ordering::SeqCst);\n        }\n        ListWatch {",
        checkers: &[GATEWAY, VISIBLE],
    },
    Bug {
        name: "a list that streams goes on after some of its versions were removed",
        file: SEEN,
        right: "self.plan.entries.iter().filter(removes) {",
        wrong: "self.plan.entries.iter().filter(removes).take(0) {",
        checkers: &[GATEWAY],
    },
    Bug {
        name: "the number of an undone version is made again at once",
        file: "src/batch/visibility/gates.rs",
        right: "rests.max().filter(|rests| *rests > Instant::now())",
        wrong: "rests.max().filter(|rests| *rests < Instant::now())",
        checkers: &[VISIBLE, SIMULATION],
    },
    Bug {
        name: "a table that a batch renames is compared with another one",
        file: "src/batch/plan/rename.rs",
        right: "(registers && removes).then_some(entry + 1)",
        wrong: "(registers && removes).then_some(2)",
        checkers: &[GATEWAY],
    },
    Bug {
        name: "an error names the entry of the log, and not the operation of the request",
        file: "src/batch/api.rs",
        right: "        entry < entries\n",
        wrong: "        entry < entries && false\n",
        checkers: &[GATEWAY],
    },
    Bug {
        name: "a batch creates versions of a table that it renames",
        file: "src/batch/plan/conflicts.rs",
        right: "renamed.find(|index| is_of_rename(entries, *index))",
        wrong: "renamed.find(|index| is_of_rename(entries, *index) && false)",
        checkers: &[GATEWAY],
    },
    Bug {
        name: "a batch makes the number of an undone version again at once",
        file: "src/batch/run/cool_down.rs",
        right: "self.lock_at_rest(lock, || self.rests(plan)).await",
        wrong: "self.lock_at_rest(lock, || self.rests(plan).and(None)).await",
        checkers: &[&["--lib", "batch::run::begin"]],
    },
    Bug {
        name: "a snapshot shows versions that were never the latest together",
        file: "src/gateway/snapshot.rs",
        right: "if self.tables.len() == 1 ||",
        wrong: "if round == 1 ||",
        checkers: &[SNAPSHOT],
    },
    Bug {
        name: "a snapshot reads tables that it has given free",
        file: "src/gateway/snapshot.rs",
        right: "let _held = held.map_err(|error| self.with_table(error))?;",
        wrong: "drop(held.map_err(|error| self.with_table(error))?);",
        checkers: &[SNAPSHOT],
    },
];
