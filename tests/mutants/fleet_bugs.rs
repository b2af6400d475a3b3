//! The bugs of gateways that share a batch log, in the code itself; `fleet_model/mutants.rs` has those of its model.

use super::bug::Bug;

const FLEET: &[&str] = &["--test", "gateway", "fleet::"];
const AWAY: &[&str] = &["--test", "gateway", "in_postgres::"];

const SIMULATED: &[&str] = &[
    "--test",
    "simulation",
    "every_seed_of_three_gateways_keeps_the_promises",
];
const OWNED: &[&str] = &["--lib", "batch::fleet::owned"];
const SILENCE: &[&str] = &["--lib", "postgres::observer"];

pub const FLEET_BUGS: &[Bug] = &[
    Bug {
        name: "removals that were refused are carried out by the next owner",
        file: "src/batch/step/state.rs",
        right: "state.failure = Some(State::left_behind());",
        wrong: "let _ = State::left_behind();",
        checkers: &[&["--lib", "batch::step"], AWAY],
    },
    Bug {
        name: "a recorded decision is forgotten by the next owner",
        file: "src/batch/run/recovery.rs",
        right: "is_some_and(|last| !last.commit)",
        wrong: "is_some_and(|last| !last.commit && last.at == 0)",
        checkers: &[AWAY],
    },
    Bug {
        name: "a batch is taken over without the tables that are in use",
        file: "src/batch/locks.rs",
        right: "            hold.add(key, taken.unwrap_or_else(|lock| mode.queue(lock)));",
        wrong: "            taken.map(|lock| hold.add(key, lock)).unwrap_or_default();",
        checkers: &[
            &["--lib", "batch::locks"],
            &["--lib", "batch::run::recovery"],
        ],
    },
    Bug {
        name: "a claim does not follow its tables to the tickets of later claims",
        file: "src/batch/log/postgres/claims.rs",
        right: "            self.tickets.extend(&claim.tickets);",
        wrong: "            let _ = &claim.tickets;",
        checkers: &[&["--lib", "postgres::claims"]],
    },
    Bug {
        name: "a guarded table is served by any gateway",
        file: "src/batch/fleet/guarded.rs",
        right: "        (!is_guarded).then_some(place)",
        wrong: "        (!is_guarded || self.len() > 0).then_some(place)",
        checkers: &[SIMULATED, FLEET],
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
        checkers: &[SIMULATED, AWAY],
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
        right: "follow(|left| deadline.set(left))",
        wrong: "follow(|left| drop((&mut deadline, left)))",
        checkers: &[SIMULATED, FLEET],
    },
    Bug {
        name: "a gateway that learns of no batches shows that it lives",
        file: "src/batch/log/postgres/member.rs",
        right: "            if contact.is_lost_for(every + keeper::LOOK_EVERY) {",
        wrong: "            if contact.is_lost_for(every * 9999 + keeper::LOOK_EVERY) {",
        checkers: &[&["--test", "gateway", "half_reached"]],
    },
    Bug {
        name: "a batch that is passed on has no key",
        file: "src/layer/share/pass_on.rs",
        right: "    if is_batch && !request.headers().contains_key(IDEMPOTENCY_KEY) {",
        wrong: "    if is_batch && request.headers().len() > 1000 {",
        checkers: &[SIMULATED, FLEET],
    },
    Bug {
        name: "operators see the batches of their own gateway only",
        file: "src/admin/gateways.rs",
        right: "    Some(Elsewhere { owner, peers })",
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
        file: "src/batch/log/postgres/observer.rs",
        right: "            seen.silent += since.min(heartbeat_interval(seen.lease).saturating_mul(2));",
        wrong: "            seen.silent += since;",
        checkers: &[SILENCE],
    },
    Bug {
        name: "a guard is acknowledged while requests that came before it are under way",
        file: "src/batch/log/postgres/keeper.rs",
        right: "                            let drains = guards.iter().map(|guard| fleet.drain(guard));",
        wrong: "                            let drains = guards.iter().filter(|_| fleet.guarded().len() > 9999).map(|guard| fleet.drain(guard));",
        checkers: &[SIMULATED],
    },
    Bug {
        name: "the owner serves before it has recovered the batches of the last one",
        file: "src/batch/fleet.rs",
        right: "        self.becomes(Role::Recovering);",
        wrong: "        self.becomes(Role::Owner);",
        checkers: &[SIMULATED],
    },
    Bug {
        name: "the tables of recovered batches are not guarded",
        file: "src/batch/run/guarding.rs",
        right: "            let strays = guards.replace(tables.collect(), &known).await?;",
        wrong: "            let strays = guards.replace(tables.take(0).collect(), &known).await?;",
        checkers: &[SIMULATED],
    },
    Bug {
        name: "a batch begins before its tables are guarded",
        file: "src/batch/fleet/owned.rs",
        right: "            if claim.missing.is_empty() {",
        wrong: "            if claim.missing.len() < 9999 {",
        checkers: &[SIMULATED],
    },
    Bug {
        name: "a gateway that was taken for dead shows what it was reading",
        file: "src/batch/fleet/passage.rs",
        right: "        if is_same && self.fleet.alive().is_ok() {\n            return Ok(());\n        }\n        self.fleet.discarded();\n        Err(unknowing())",
        wrong: "        if is_same || self.fleet.alive().is_ok() {\n            return Ok(());\n        }\n        self.fleet.discarded();\n        Err(unknowing())",
        checkers: &[SIMULATED],
    },
    Bug {
        name: "a read that a guard gave up is shown",
        file: "src/batch/fleet/passage.rs",
        right: "        if self.place.as_ref().is_some_and(Place::is_doomed) {",
        wrong: "        if self.place.as_ref().is_some_and(|place| place.is_doomed() && false) {",
        checkers: &[SIMULATED],
    },
    Bug {
        name: "the owner sends requests of batches after its lease",
        file: "src/batch/fleet.rs",
        right: "        while !self.lease.may_send() {",
        wrong: "        while !self.lease.may_send() && false {",
        checkers: &[SIMULATED],
    },
    Bug {
        name: "a change without an answer is not told with the acknowledgement",
        file: "src/batch/run/guarding.rs",
        right: "                    return coordinator.visibility.has_strays(&table);",
        wrong: "                    return coordinator.visibility.has_strays(&table) && false;",
        checkers: &[SIMULATED],
    },
    Bug {
        name: "a write that is tried again has the number of the try before",
        file: "src/batch/log/postgres/writer.rs",
        right: "        self.tries += 1;",
        wrong: "        self.tries = self.tries.max(1);",
        checkers: &[SIMULATED],
    },
    Bug {
        name: "a request that may have been carried out is passed on again whatever it is",
        file: "src/layer/share/pass_on.rs",
        right: "(kept.is_some() && repeats, UNANSWERED, words)",
        wrong: "(kept.is_some() && (repeats || operation.is_some()), UNANSWERED, words)",
        checkers: &[SIMULATED],
    },
    Bug {
        name: "the refusal of a batch that was sent again reads as its end",
        file: "src/layer/share/doubt.rs",
        right: "        if !self.is_sent || is_about_batch || origin == Some(ErrorOrigin::Takeover) {",
        wrong: "        if !self.is_sent || is_about_batch || status.is_server_error() {",
        checkers: &[&["--lib", "share::doubt"], SIMULATED],
    },
    Bug {
        name: "whoever repeats a batch with its key is refused as if it had never been sent",
        file: "src/layer/share/doubt.rs",
        right: "            Some(key) if self.is_repeat =>",
        wrong: "            Some(key) if self.is_repeat && key.is_empty() =>",
        checkers: &[&["--lib", "share::doubt"], SIMULATED],
    },
    Bug {
        name: "the changes that a dead gateway had under way are forgotten",
        file: "src/batch/log/postgres/guards.rs",
        right: "    link.query(sql, &[&ANY_TABLE]).await.map(drop)",
        wrong: "    let _ = (link, sql);\n    Ok(())",
        checkers: &[&["--test", "gateway", "fleet::strays"]],
    },
];
