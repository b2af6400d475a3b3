//! Renames during a watch: the watch belongs to a table, not to its name.

use super::*;

/// Makes this many crashes, a minute apart.
fn crashes_at(crashes: u64) -> Vec<Crash> {
    let crash = |nth| Crash {
        at: At::Time(seconds(60 * nth)),
        keeps: None,
    };
    (1..=crashes).map(crash).collect()
}

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
        // The append is above the number that was freed of the other table.
        let appended = client.append(T0).await;
        assert_eq!(appended, Some(Outcome::Done(None)), "an append");
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
        // A drop of the unwanted name would destroy the table.
        sleep(seconds(310)).await;
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

/// Holds whether or not the gateway that sent the create lives on.
#[test]
fn no_other_table_gets_a_name_while_a_create_of_what_is_committed_may_act() {
    for (renames, crashes) in [(false, 0), (true, 0), (false, 2), (true, 2)] {
        let ways = Ways {
            renames,
            keeps_staged: true,
            takes_any_staged: true,
            ..Ways::default()
        };
        let late = own(Operation::CreateTableVersion, 1, Fault::Late, 300);
        let mut scenario = scenario(ways, vec![late]);
        scenario.crashes = crashes_at(crashes);
        keeps(scenario, async |mut client| {
            client.batch_over(&BOTH, false).await;
            for _ in 0..100 {
                sleep(seconds(3)).await;
                client.rename(T0, SPARE).await;
                client.rename(T1, T0).await;
            }
        });
    }
}

#[test]
fn a_committed_rename_is_not_repeated_once_its_name_was_given_away() {
    for crashes in [0, 2] {
        let register = Planned {
            table: "c0$t2".into(),
            ..own(Operation::RegisterTable, 1, Fault::Late, 300)
        };
        let mut scenario = scenario(Ways::default(), vec![register]);
        scenario.crashes = crashes_at(crashes);
        keeps(scenario, async |mut client| {
            client.rename(T0, SPARE).await;
            for _ in 0..100 {
                sleep(seconds(3)).await;
                client.rename(SPARE, T0).await;
            }
        });
    }
}

/// A second name that was given before the batch is another table to the gateway: it cannot know better.
#[test]
fn no_table_gets_a_second_name_while_something_of_it_is_hidden() {
    let slow = own(Operation::CreateTableVersion, 1, Fault::SlowAnswer, 10);
    keeps(scenario(Ways::default(), vec![slow]), async |mut client| {
        let mut other = client.another(1);
        let reads = async move {
            sleep(seconds(1)).await;
            other.register(T0, SPARE).await;
            for _ in 0..5 {
                other.list(SPARE, false).await;
                other.count(SPARE).await;
                sleep(seconds(1)).await;
            }
        };
        tokio::join!(client.batch_over(&BOTH, true), reads);
    });
}

/// Renames a table and creates a version of another one, in one batch; checks that both happen or neither.
async fn rename_and_append(mut client: Client, aborts: bool) {
    let found = seen(&mut client, OTHER).await;
    let (latest, base, place) = found.expect("a table that can be read");
    let next = Wanted {
        table: OTHER,
        branch: false,
        version: latest + 1,
        base,
        place,
    };
    let renames = [(T1, SPARE)];
    client.commit_renames(&renames, &[next], true, aborts).await;
    sleep(seconds(60)).await;
    let found = seen(&mut client, OTHER).await;
    let made = found.is_some_and(|(now, ..)| now > latest);
    let old = seen(&mut client, T1).await.is_some();
    let new = seen(&mut client, SPARE).await.is_some();
    assert_eq!((old, new), (!made, made), "made: {made}");
}

/// Reads the latest version of a table, and again if the gateway crashes.
async fn seen(client: &mut Client, table: usize) -> Option<(u64, Option<String>, usize)> {
    for _ in 0..5 {
        if let Some(found) = client.latest(table, false).await {
            return Some(found);
        }
        sleep(seconds(1)).await;
    }
    None
}

#[test]
fn a_batch_with_a_rename_may_crash_anywhere() {
    for aborts in [false, true] {
        let play = |crash: Option<u64>| {
            let mut scenario = scenario(Ways::default(), Vec::new());
            scenario.crashes.extend(crash.map(|at| Crash {
                at: At::Point(at),
                keeps: None,
            }));
            plays(scenario, move |client| rename_and_append(client, aborts))
        };
        let calm = play(None);
        let outcome = if aborts {
            "batches aborted"
        } else {
            "batches committed"
        };
        assert_eq!(calm.counts.get(outcome), 1);
        assert!(calm.points > 20, "{}", calm.points);
        for point in 1..=calm.points {
            assert_eq!(play(Some(point)).lost.len(), 1, "{point}");
        }
    }
}
