//! Bugs of batches around what may still arrive: late creates, lost removals, and the names of tables that are dropped.

use crate::bug::Bug;

const WATCHED: &str = "src/batch/run/watch.rs";

const SIMULATION: &[&str] = &["--test", "simulation"];
const GATEWAY: &[&str] = &["--test", "gateway", "batches::"];
const VISIBLE: &[&str] = &["--lib", "batch::visibility"];
const WATCH: &[&str] = &["--lib", "batch::run::watch"];

pub const REMOVAL_BUGS: &[Bug] = &[
    Bug {
        name: "a watch ends although its catalog cannot be asked",
        file: WATCHED,
        right: "                        if began >= over {\n                            let mut words",
        wrong: "                        if began >= over {\n                            break;\n                            #[allow(unreachable_code)]\n                            let mut words",
        checkers: &[WATCH],
    },
    Bug {
        name: "one look from an old copy ends a watch",
        file: WATCHED,
        right: "while absent < LOOKS_FOR_ABSENCE {",
        wrong: "while absent + 1 < LOOKS_FOR_ABSENCE {",
        checkers: &[WATCH],
    },
    Bug {
        name: "a version that a lost delete may hit is deleted and made again",
        file: "src/gateway/needed_locks.rs",
        right: "        | Operation::DeleteTableBranch => batches.hold_to_delete(key(backend, there)).await,",
        wrong: "        | Operation::DeleteTableBranch => batches.hold_for_change(key(backend, there)).await,",
        checkers: &[GATEWAY],
    },
    Bug {
        name: "what a version was built on is told by when it was last tried",
        file: "src/batch/visibility/claims.rs",
        right: "                    | HideReason::Retaken { .. }\n            );\n            is_free",
        wrong: "            );\n            is_free",
        checkers: &[VISIBLE],
    },
    Bug {
        name: "what was deleted in a table stays hidden in the next one",
        file: "src/gateway/detached_change.rs",
        right: "if self.renumbers && (succeeded || is_unclear) {",
        wrong: "if self.renumbers && succeeded && is_unclear {",
        checkers: &[GATEWAY],
    },
    Bug {
        name: "a deleted number that is made again stays hidden",
        file: "src/batch/visibility/claims.rs",
        right: "        self.reused(line, version);\n",
        wrong: "",
        checkers: &[VISIBLE],
    },
    Bug {
        name: "a table is dropped while its old name is being removed",
        file: "src/batch/api/second_name.rs",
        right: "        names.find(|name| coordinator.locks.holder(name).is_some())\n",
        wrong: "        names.find(|name| false && coordinator.locks.holder(name).is_some())\n",
        checkers: &[GATEWAY, SIMULATION],
    },
    Bug {
        name: "one answer that there is nothing is believed",
        file: "src/batch/participant.rs",
        right: "    for _ in 1..LOOKS_FOR_ABSENCE {\n",
        wrong: "    for _ in 2..LOOKS_FOR_ABSENCE {\n",
        checkers: &[SIMULATION],
    },
];
