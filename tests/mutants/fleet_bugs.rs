//! The bugs of gateways that share a batch log, in the code itself; `fleet_model/mutants.rs` has those of its model.

use super::batch_bugs::Bug;

const FLEET: &[&str] = &["--test", "gateway", "fleet::"];
const AWAY: &[&str] = &["--test", "gateway", "in_postgres::"];

const OWNED: &[&str] = &["--lib", "owne"];

pub const FLEET_BUGS: &[Bug] = &[
    Bug {
        name: "a guarded table is served by any gateway",
        file: "src/batch/fleet/guarded.rs",
        right: "        (!is_guarded).then_some(place)",
        wrong: "        (!is_guarded || self.len() > 0).then_some(place)",
        checkers: &[FLEET],
    },
    Bug {
        name: "a list streams on while another gateway runs a batch on its table",
        file: "src/batch/fleet/in_flight.rs",
        right: "bucket.end_streams(|streaming| streaming.hash == hash);",
        wrong: "bucket.end_streams(|streaming| streaming.hash != hash);",
        checkers: &[&["--lib", "batch::fleet::in_flight"], FLEET],
    },
    Bug {
        name: "the lease is not looked at once the catalog has answered",
        file: "src/layer/share.rs",
        right: "                passage.check_change()?;",
        wrong: "                let _ = passage.check_change();",
        checkers: &[FLEET],
    },
    Bug {
        name: "a lease has no end",
        file: "src/batch/fleet/lease.rs",
        right: "        self.began.elapsed() < Duration::from_nanos(end)",
        wrong: "        end > 0",
        checkers: &[AWAY],
    },
    Bug {
        name: "the answer of another process at the owner's address is the owner's",
        file: "src/layer/share/entrance.rs",
        right: "            mark(&mut response);\n            return Err(Box::new(response));\n        }\n        let client",
        wrong: "            return Err(Box::new(response));\n        }\n        let client",
        checkers: &[FLEET],
    },
    Bug {
        name: "a process that was stopped beyond its lease goes on",
        file: "src/batch/log/postgres/member.rs",
        right: "        deadline.set(left);",
        wrong: "        let _ = (deadline, left);",
        checkers: &[FLEET],
    },
    Bug {
        name: "a batch that is passed on has no key",
        file: "src/layer/share/pass_on.rs",
        right: "    if is_batch && !request.headers().contains_key(IDEMPOTENCY_KEY) {",
        wrong: "    if is_batch && request.headers().len() > 1000 {",
        checkers: &[FLEET],
    },
    Bug {
        name: "operators see the batches of their own gateway only",
        file: "src/admin/gateways.rs",
        right: "    let peers = Arc::clone(peers);\n    Some(Elsewhere { owner, peers })",
        wrong: "    let _ = (owner, peers);\n    None",
        checkers: &[FLEET],
    },
    Bug {
        name: "a guard is released although a batch waits for it",
        file: "src/batch/fleet/owned.rs",
        right: "                Some(known) if known.claims == 0 => {",
        wrong: "                Some(known) if known.claims < 9 => {",
        checkers: &[OWNED],
    },
    Bug {
        name: "a guard is claimed while it is being released",
        file: "src/batch/fleet/owned.rs",
        right: "            owned.get(table).is_some_and(|known| known.is_released)",
        wrong: "            owned.get(table).is_some_and(|known| known.is_released && known.claims > 9)",
        checkers: &[OWNED],
    },
    Bug {
        name: "a time in which nobody reached the server makes the others dead",
        file: "src/batch/log/postgres/owner.rs",
        right: "            *silent += since.min(interval.saturating_mul(2));",
        wrong: "            *silent += since;",
        checkers: &[OWNED],
    },
];
