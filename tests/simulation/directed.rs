//! What once went wrong, step by step, and must not go wrong again: each test is named for the promise that it is about.
//!
//! Chance comes upon most of it, too, but seldom upon all of it in one run.

use std::sync::Arc;
use std::time::Duration;

use nsgate::metrics::Metrics;
use nsgate::protocol::operation::Operation;
use tokio::time::sleep;

use crate::catalog::Ways;
use crate::clients::{Change, Client, Wanted};
use crate::history::Outcome;
use crate::network::Fault;
use crate::run::{Ended, Script, simulate_with, watch_panics};
use crate::scenario::{Faults, Planned, Scenario};

/// The tables of all of them: two of the first catalog with two versions each, one of the second one, and a name of
/// the first one that leads nowhere.
const T0: usize = 0;
const T1: usize = 1;
const OTHER: usize = 2;
const SPARE: usize = 3;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The gateway's `nth` message of this kind about `c0$t0`.
fn own(operation: Operation, nth: u64, fault: Fault, late: u64) -> Planned {
    Planned {
        catalog: 0,
        table: "c0$t0".into(),
        operation,
        own: true,
        nth,
        fault,
        far: seconds(late),
    }
}

/// A create of a batch that comes late, and all that it is repeated with is lost: the batch gives it up after 20 s.
fn late_create(late: u64) -> Vec<Planned> {
    let create = Operation::CreateTableVersion;
    vec![
        own(create, 1, Fault::Late, late),
        own(create, 2, Fault::RequestLost, 0),
        own(create, 3, Fault::RequestLost, 0),
    ]
}

/// A create of a batch that never arrives, however often it is repeated.
fn lost_create() -> Vec<Planned> {
    let creates = (1..=3).map(|nth| own(Operation::CreateTableVersion, nth, Fault::RequestLost, 0));
    creates.collect()
}

/// The `nth` message of this kind that the gateway passes on.
fn passed_on(operation: Operation, nth: u64, fault: Fault, late: u64) -> Planned {
    Planned {
        own: false,
        ..own(operation, nth, fault, late)
    }
}

fn scenario(ways: Ways, faults: Vec<Planned>) -> Scenario {
    let ways = Ways { told: true, ..ways };
    Scenario {
        faults: Faults::Planned(faults),
        clients: Vec::new(),
        ..Scenario::reference(ways, false, false)
    }
}

/// Plays the script and fails with its trace if a promise is broken.
fn keeps<F>(scenario: Scenario, script: impl FnOnce(Client) -> F + Send + 'static)
where
    F: Future<Output = ()> + Send + 'static,
{
    let faults = match &scenario.faults {
        Faults::Planned(planned) => planned.len(),
        _ => 0,
    };
    let ended = plays(scenario, script);
    let met = ended
        .trace
        .iter()
        .filter(|line| line.contains("** "))
        .count();
    assert!(met >= faults, "not every planned fault was met");
}

/// The same, whether or not it meets every planned fault.
fn plays<F>(scenario: Scenario, script: impl FnOnce(Client) -> F + Send + 'static) -> Ended
where
    F: Future<Output = ()> + Send + 'static,
{
    watch_panics();
    let script: Script = Box::new(move |client| Box::pin(script(client)));
    let metrics = Arc::new(Metrics::new());
    let ended = simulate_with(scenario, &metrics, true, Some(script));
    println!("{}", ended.trace.join("\n"));
    assert!(ended.wrong.is_empty(), "{}", ended.wrong.join("\n"));
    ended
}

impl Client {
    /// A batch over these tables; `aborts`: the manifest of its last entry is not there. Answers with its number.
    async fn batch_over(&mut self, tables: &[(usize, bool)], aborts: bool) -> usize {
        let mut wanted = Vec::new();
        for (table, branch) in tables {
            wanted.push(self.wants(*table, *branch).await);
        }
        let op = self.plan(&wanted, true);
        if aborts {
            self.lose_last_manifest(op);
        }
        self.send_once(op).await;
        op
    }

    /// The version that comes next.
    async fn wants(&mut self, table: usize, branch: bool) -> Wanted {
        let found = self.latest(table, branch).await;
        let (latest, base, place) = found.expect("a table that can be read");
        Wanted {
            table,
            branch,
            version: latest + 1,
            base,
            place,
        }
    }

    /// One version as its own writer writes it; what it came to.
    async fn append(&mut self, table: usize) -> Option<Outcome> {
        let (latest, base, place) = self.latest(table, false).await?;
        let wanted = Wanted {
            table,
            branch: false,
            version: latest + 1,
            base,
            place,
        };
        let op = self.plan(&[wanted], false);
        self.send(op, false).await;
        self.outcome(op)
    }
}

const BOTH: [(usize, bool); 2] = [(T0, false), (OTHER, false)];

// Removals that are late.

#[test]
fn a_late_delete_never_hits_a_version_that_was_made_after_it() {
    let late = own(Operation::BatchDeleteTableVersions, 1, Fault::Late, 120);
    keeps(scenario(Ways::default(), vec![late]), async |mut client| {
        client.batch_over(&BOTH, true).await;
        for _ in 0..20 {
            sleep(seconds(8)).await;
            client.append(T0).await;
            client.write(T0, Change::Insert, false).await;
        }
    });
}

#[test]
fn a_delete_that_was_answered_and_comes_later_hits_nothing_else() {
    let later = own(
        Operation::BatchDeleteTableVersions,
        1,
        Fault::ActsLater,
        600,
    );
    keeps(
        scenario(Ways::default(), vec![later]),
        async |mut client| {
            client.batch_over(&BOTH, true).await;
            for _ in 0..20 {
                sleep(seconds(50)).await;
                client.append(T0).await;
                client.write(T0, Change::Insert, false).await;
            }
        },
    );
}

#[test]
fn a_late_deregister_of_a_rename_never_takes_a_new_tables_name() {
    let late = own(Operation::DeregisterTable, 1, Fault::Late, 60);
    keeps(scenario(Ways::default(), vec![late]), async |mut client| {
        client.rename(T0, SPARE).await;
        for _ in 0..15 {
            sleep(seconds(5)).await;
            client.create(T0).await;
            client.rename(T1, T0).await;
        }
    });
}

#[test]
fn a_late_deregister_of_an_undo_never_takes_a_new_tables_name() {
    let late = Planned {
        table: "c0$t2".into(),
        ..own(Operation::DeregisterTable, 1, Fault::Late, 60)
    };
    keeps(scenario(Ways::default(), vec![late]), async |mut client| {
        client.declare_in_a_batch_that_aborts(SPARE, OTHER).await;
        for _ in 0..15 {
            sleep(seconds(5)).await;
            client.create(SPARE).await;
        }
    });
}

// What is watched belongs to a table.

#[test]
fn what_is_watched_is_not_looked_for_in_another_table_of_its_name() {
    for renames in [false, true] {
        let ways = Ways {
            renames,
            ..Ways::default()
        };
        keeps(scenario(ways, lost_create()), async |mut client| {
            // The other table has a version of the same number and size.
            client.append(T1).await;
            client.batch_over(&BOTH, false).await;
            for _ in 0..100 {
                sleep(seconds(1)).await;
                client.rename(T0, SPARE).await;
                client.rename(T1, T0).await;
            }
        });
    }
}

#[test]
fn a_number_that_rests_does_not_rest_in_another_table_of_its_name() {
    let ways = Ways {
        renames: true,
        ..Ways::default()
    };
    keeps(scenario(ways, Vec::new()), async |mut client| {
        client.append(T1).await;
        client.batch_over(&BOTH, true).await;
        client.rename(T0, SPARE).await;
        client.rename(T1, T0).await;
        for _ in 0..10 {
            client.list(T0, false).await;
            client.count(T0).await;
            sleep(seconds(1)).await;
        }
    });
}

#[test]
fn a_rename_that_was_refused_leaves_one_name() {
    let register = |nth, fault| Planned {
        table: "c0$t2".into(),
        ..own(Operation::RegisterTable, nth, fault, 300)
    };
    let faults = vec![
        register(1, Fault::Late),
        register(2, Fault::RequestLost),
        register(3, Fault::RequestLost),
    ];
    keeps(scenario(Ways::default(), faults), async |mut client| {
        let rename = client.rename(T0, SPARE).await;
        let outcome = client.outcome(rename);
        assert!(!matches!(outcome, Some(Outcome::Done(_))), "{outcome:?}");
        sleep(seconds(310)).await;
        // Who drops the name that was not wanted destroys the table.
        client.about(SPARE, "drop", "").await;
    });
}

#[test]
fn an_insert_into_a_branch_stays() {
    keeps(
        scenario(Ways::default(), lost_create()),
        async |mut client| {
            client
                .batch_over(&[(T0, true), (OTHER, false)], false)
                .await;
            for _ in 0..10 {
                client.write(T0, Change::Insert, true).await;
                sleep(seconds(20)).await;
            }
            client.list(T0, true).await;
        },
    );
}

#[test]
fn what_lands_late_is_hidden_under_every_name() {
    for renames in [false, true] {
        let ways = Ways {
            renames,
            ..Ways::default()
        };
        let mut faults = late_create(100);
        // The catalog has found its place by then.
        faults[0].fault = Fault::LatePut;
        keeps(scenario(ways, faults), async |mut client| {
            client.batch_over(&BOTH, false).await;
            client.rename(T0, SPARE).await;
            for _ in 0..12 {
                sleep(seconds(15)).await;
                client.list(SPARE, false).await;
                client.count(SPARE).await;
            }
        });
    }
}

#[test]
fn a_second_name_shows_nothing_that_the_first_one_hides() {
    let slow = own(Operation::CreateTableVersion, 1, Fault::SlowAnswer, 10);
    keeps(scenario(Ways::default(), vec![slow]), async |mut client| {
        client.register(T0, SPARE).await;
        let mut other = client.another(1);
        let reads = async move {
            for _ in 0..10 {
                sleep(seconds(1)).await;
                other.list(SPARE, false).await;
                other.count(SPARE).await;
            }
        };
        tokio::join!(client.batch_over(&BOTH, true), reads);
    });
}

// Whose version it is.

#[test]
fn a_late_create_of_one_batch_is_not_taken_for_anothers() {
    let mut faults = late_create(90);
    faults.push(own(Operation::CreateTableVersion, 4, Fault::RequestLost, 0));
    keeps(scenario(Ways::default(), faults), async |mut client| {
        client.batch_over(&BOTH, false).await;
        sleep(seconds(65)).await;
        client.batch_over(&BOTH, false).await;
        client.list(T0, false).await;
    });
}

#[test]
fn a_writers_late_create_is_not_taken_for_a_batchs() {
    // The writer is told 503 after 60 s.
    let late = passed_on(Operation::CreateTableVersion, 1, Fault::Late, 83);
    let lost = own(Operation::CreateTableVersion, 1, Fault::RequestLost, 0);
    keeps(
        scenario(Ways::default(), vec![late, lost]),
        async |mut client| {
            client.append(T0).await;
            sleep(seconds(20)).await;
            client.batch_over(&BOTH, false).await;
            client.list(T0, false).await;
        },
    );
}

#[test]
fn a_create_that_was_answered_is_not_sent_again() {
    let ways = Ways {
        keeps_staged: true,
        ..Ways::default()
    };
    let create = Operation::CreateTableVersion;
    let of = |catalog: usize, table: &str, nth, fault, late| Planned {
        catalog,
        table: table.into(),
        ..own(create, nth, fault, late)
    };
    // The other table's is repeated, and the first one's with it.
    let lost = of(0, "c0$t1", 1, Fault::RequestLost, 0);
    let late = of(0, "c0$t0", 2, Fault::Late, 200);
    let slow = of(1, "t0", 1, Fault::SlowAnswer, 12);
    let mut scenario = scenario(ways, vec![lost, late, slow]);
    scenario.catalogs[0].told = false;
    let script = async |mut client: Client| {
        let all = [(T0, false), (T1, false), (OTHER, false)];
        client.batch_over(&all, true).await;
        for _ in 0..30 {
            sleep(seconds(10)).await;
            client.list(T0, false).await;
            client.count(T0).await;
        }
    };
    // The fault that a repetition would meet is met by nothing where there is none.
    plays(scenario, script);
}

// What is seen of a batch.

#[test]
fn a_create_that_lands_late_is_never_counted() {
    keeps(
        scenario(Ways::default(), late_create(50)),
        async |mut client| {
            client.batch_over(&BOTH, false).await;
            for _ in 0..300 {
                client.count(T0).await;
                sleep(Duration::from_millis(200)).await;
            }
        },
    );
}

#[test]
fn nothing_is_built_on_a_create_that_lands_late() {
    keeps(
        scenario(Ways::default(), late_create(50)),
        async |mut client| {
            client.batch_over(&BOTH, false).await;
            sleep(seconds(29)).await;
            for _ in 0..100 {
                client.write(T0, Change::Insert, false).await;
                sleep(Duration::from_millis(300)).await;
            }
            client.list(T0, false).await;
        },
    );
}

#[test]
fn an_insert_whose_client_has_left_holds_its_table() {
    let late = passed_on(Operation::InsertIntoTable, 1, Fault::Late, 5);
    let slow = Planned {
        catalog: 1,
        table: "t0".into(),
        ..own(Operation::CreateTableVersion, 1, Fault::SlowAnswer, 12)
    };
    let faults = vec![late, slow];
    keeps(scenario(Ways::default(), faults), async |mut client| {
        let mut other = client.another(1);
        other.leaves = Some(Duration::from_millis(100));
        other.write(T0, Change::Insert, false).await;
        let reads = async {
            for _ in 0..20 {
                sleep(seconds(1)).await;
                let mut reader = other.another(2);
                reader.list(T0, false).await;
                reader.count(T0).await;
            }
        };
        tokio::join!(client.batch_over(&BOTH, true), reads);
    });
}

#[test]
fn a_batch_of_one_whose_client_has_left_holds_its_table() {
    let late = own(Operation::CreateTableVersion, 1, Fault::Late, 5);
    let lost = own(Operation::CreateTableVersion, 2, Fault::RequestLost, 0);
    let faults = vec![late, lost];
    keeps(scenario(Ways::default(), faults), async |mut client| {
        let mut other = client.another(1);
        other.leaves = Some(Duration::from_millis(100));
        let wanted = other.wants(T0, false).await;
        other.leaves = Some(Duration::from_millis(100));
        let op = other.plan(&[wanted], false);
        other.send_once(op).await;
        client.batch_over(&BOTH, false).await;
        client.list(T0, false).await;
    });
}

// What catalogs say.

#[test]
fn a_refusal_is_not_believed_of_what_was_done() {
    for seed in 1..=12 {
        let refused = own(Operation::CreateTableVersion, 1, Fault::RefusedAfter, 0);
        let mut scenario = scenario(Ways::default(), vec![refused]);
        scenario.seed = seed;
        keeps(scenario, async |mut client| {
            client.batch_over(&BOTH, false).await;
            client.list(T0, false).await;
            client.append(T0).await;
        });
    }
}

#[test]
fn a_removal_is_not_believed_on_its_200() {
    let idle = own(Operation::BatchDeleteTableVersions, 1, Fault::Idle, 0);
    keeps(scenario(Ways::default(), vec![idle]), async |mut client| {
        client.batch_over(&BOTH, true).await;
        client.list(T0, false).await;
    });
}

#[test]
fn one_answer_that_is_stale_does_not_settle_what_was_made() {
    let stale = own(Operation::DescribeTableVersion, 1, Fault::Stale, 0);
    keeps(
        scenario(Ways::default(), vec![stale]),
        async |mut client| {
            client.batch_over(&BOTH, true).await;
            client.list(T0, false).await;
        },
    );
}

// After a clean abort.

#[test]
fn a_clean_abort_frees_its_numbers_within_a_second() {
    keeps(scenario(Ways::default(), Vec::new()), async |mut client| {
        client.batch_over(&BOTH, true).await;
        sleep(seconds(1)).await;
        let appended = client.append(T0).await;
        assert_eq!(appended, Some(Outcome::Done(None)), "an append");
        let insert = client.write(OTHER, Change::Insert, false).await;
        assert_eq!(
            client.outcome(insert),
            Some(Outcome::Done(None)),
            "an insert"
        );
        client.list(OTHER, false).await;
        let appended = client.append(OTHER).await;
        assert_eq!(
            appended,
            Some(Outcome::Done(None)),
            "an append after an insert"
        );
        client.batch_over(&BOTH, false).await;
    });
}
