//! Assumptions about the world: each holds in one run, which breaks no promise, and not in another, which shows the damage.
//!
//! The assumptions and the damage are those of `deploy/batches.md`, "What is assumed of the world".

use super::*;
use crate::catalog::Tags;

/// Runs the script in a world with the assumption and in one without it. Checks that no promise is broken in the
/// first, and that each of these is found to be broken in the second.
fn is_needed<F>(
    [with, without]: [Scenario; 2],
    script: impl FnOnce(Client) -> F + Copy + Send + 'static,
    damage: &[&str],
) where
    F: Future<Output = ()> + Send + 'static,
{
    keeps(with, script);
    breaks(without, script, damage);
}

/// Runs the script in a world without the assumption, and checks that each of these promises is found to be broken.
fn breaks<F>(without: Scenario, script: impl FnOnce(Client) -> F + Send + 'static, damage: &[&str])
where
    F: Future<Output = ()> + Send + 'static,
{
    let wrong = ends(without, script).wrong;
    println!("without the assumption:\n{}", wrong.join("\n"));
    for damage in damage {
        let is_found = wrong.iter().any(|wrong| wrong.contains(damage));
        assert!(is_found, "{damage}: not among {wrong:#?}");
    }
}

/// Makes a fault of the first create that the gateway sends to the first table.
fn create(fault: Fault, late: u64) -> Planned {
    own(Operation::CreateTableVersion, 1, fault, late)
}

fn plain(faults: impl Into<Vec<Planned>>) -> Scenario {
    scenario(Ways::default(), faults.into())
}

/// Sends a batch, and reads its first table at once and later.
async fn commit_and_read(mut client: Client) {
    client.batch_over(&BOTH, false).await;
    client.list(T0, false).await;
    sleep(seconds(60)).await;
    client.list(T0, false).await;
}

#[test]
fn a_catalog_that_answers_a_create_with_success_has_done_it() {
    is_needed(
        [Fault::SlowAnswer, Fault::Idle].map(|fault| plain([create(fault, 5)])),
        commit_and_read,
        &["w0 was answered 200, but w0.0 is not there"],
    );
    is_needed(
        [Fault::SlowAnswer, Fault::ActsLater].map(|fault| plain([create(fault, 5)])),
        commit_and_read,
        &["of table 0 did not show version 2 by w0.0, known since"],
    );
}

/// A batch that aborts looks for what its catalog has said that it made.
#[test]
fn what_is_made_after_its_answer_is_undone_with_an_aborted_batch() {
    keeps(plain([create(Fault::ActsLater, 30)]), async |mut client| {
        client.batch_over(&BOTH, true).await;
        for _ in 0..60 {
            sleep(seconds(1)).await;
            client.list(T0, false).await;
        }
    });
}

#[test]
fn a_catalog_that_refuses_a_create_does_not_do_it_later() {
    is_needed(
        [Fault::RefusedAfter, Fault::RefusedFirst].map(|fault| plain([create(fault, 30)])),
        commit_and_read,
        &[
            "of table 0 showed version 2 by w0.0, which was not committed",
            "w0 was answered 400 (code 13), but w0.0 is there",
        ],
    );
}

#[test]
fn equal_entity_tags_belong_to_one_manifest() {
    // The writer is told 503 after 60 s.
    let late = || passed_on(Operation::CreateTableVersion, 1, Fault::Late, 83);
    let worlds = |fault: fn() -> Planned| {
        [Tags::Kept, Tags::Equal].map(|tags| {
            let ways = Ways {
                tags,
                ..Ways::default()
            };
            scenario(ways, vec![late(), fault()])
        })
    };
    is_needed(
        worlds(|| create(Fault::RequestLost, 0)),
        async |mut client: Client| {
            client.append(T0).await;
            sleep(seconds(20)).await;
            client.batch_over(&BOTH, false).await;
            client.list(T0, false).await;
        },
        &["tx0 committed {0, 1}, 2 versions: somebody else's"],
    );
    is_needed(
        worlds(|| own(Operation::BatchDeleteTableVersions, 1, Fault::AnswerLost, 0)),
        async |mut client: Client| {
            client.append(T0).await;
            client.batch_over(&BOTH, true).await;
            client.list(T0, false).await;
        },
        &["by w0.0 was deleted by the gateway"],
    );
}

/// A describe that is out of date is asked again; a list is believed.
#[test]
fn a_list_of_versions_shows_all_of_them() {
    let script = async |mut client: Client| {
        let next = client.wants(T0, false).await;
        // Another writer makes the version that the batch wants.
        client.append(T0).await;
        let op = client.plan(&[next], true);
        client.send_once(op).await;
        client.list(T0, false).await;
    };
    let [with, without] = [Fault::SlowAnswer, Fault::StaleList].map(|fault| {
        let list = own(Operation::ListTableVersions, 1, fault, 0);
        plain([list, create(Fault::RequestLost, 0)])
    });
    plays(with, script);
    breaks(
        without,
        script,
        &["w1 was answered 200, but w1.0 is not there"],
    );
}

/// The second name is given before the batch. During the batch it is refused.
#[test]
fn a_table_has_one_name() {
    let read = async |client: &mut Client| {
        for _ in 0..5 {
            client.list(SPARE, false).await;
            client.count(SPARE).await;
            sleep(seconds(1)).await;
        }
    };
    let play = move |gives_first: bool| {
        move |mut client: Client| async move {
            let mut other = client.another(1);
            if gives_first {
                other.register(T0, SPARE).await;
            }
            let reads = async move {
                sleep(seconds(1)).await;
                if !gives_first {
                    other.register(T0, SPARE).await;
                }
                read(&mut other).await;
            };
            tokio::join!(client.batch_over(&BOTH, true), reads);
        }
    };
    let world = || plain([create(Fault::SlowAnswer, 10)]);
    keeps(world(), play(false));
    let damage = "of table 3 showed version 2 by w1.0, which was not committed";
    breaks(world(), play(true), &[damage]);
}

#[test]
fn a_clients_removal_that_got_no_answer_never_arrives() {
    let worlds = |operation| {
        [Fault::RequestLost, Fault::Late].map(|fault| plain([passed_on(operation, 1, fault, 83)]))
    };
    is_needed(
        worlds(Operation::DropTable),
        async |mut client: Client| {
            client.checks_strictly();
            client.about(T0, "drop", "").await;
            commit_and_read(client).await;
        },
        &["w1.0 was committed and is gone"],
    );
    is_needed(
        worlds(Operation::BatchDeleteTableVersions),
        async |mut client: Client| {
            client.checks_strictly();
            let ranges = r#"{"ranges":[{"start_version":2,"end_version":3}]}"#;
            client.about(T0, "version/delete", ranges).await;
            commit_and_read(client).await;
        },
        &["w1.0 was committed and is gone"],
    );
}

#[test]
fn a_clients_rename_that_got_no_answer_never_arrives() {
    let worlds = [Fault::RequestLost, Fault::Late].map(|fault| {
        let ways = Ways {
            renames: true,
            ..Ways::default()
        };
        let slow = Planned {
            catalog: 1,
            table: "t0".into(),
            ..create(Fault::SlowAnswer, 15)
        };
        scenario(
            ways,
            vec![passed_on(Operation::RenameTable, 1, fault, 68), slow],
        )
    });
    is_needed(
        worlds,
        async |mut client: Client| {
            client.checks_strictly();
            client.rename(T0, SPARE).await;
            let mut other = client.another(1);
            let reads = async move {
                // The batch is decided after 15 s.
                sleep(seconds(10)).await;
                other.list(SPARE, false).await;
                sleep(seconds(20)).await;
                other.list(SPARE, false).await;
            };
            tokio::join!(client.batch_over(&BOTH, true), reads);
        },
        &[
            "of table 3 showed version 2 by w1.0, which was not committed",
            "w1.0 is there, and was never committed",
        ],
    );
}

/// The gateway refuses what was built on an undone version for as long as it remembers that version, whatever the
/// catalog would do.
#[test]
fn a_catalog_makes_only_the_next_version() {
    let play = |pause: u64| {
        move |mut client: Client| async move {
            client.batch_over(&BOTH, true).await;
            sleep(seconds(pause)).await;
            let next = client.wants(T0, false).await;
            let above = Wanted {
                version: next.version + 1,
                base: Some("w0.0".to_owned()),
                ..next
            };
            let op = client.plan(&[above], false);
            client.send(op, false).await;
            client.list(T0, false).await;
        }
    };
    let world = |skips| {
        let ways = Ways {
            skips,
            ..Ways::default()
        };
        scenario(ways, Vec::new())
    };
    let remembers = world(false).settings.slot_cooldown.as_secs();
    keeps(world(true), play(remembers - 10));
    is_needed(
        [false, true].map(world),
        play(remembers + 10),
        &[
            "w1.0 was built on Some(\"w0.0\") and stands on None",
            "of table 0 showed rows of [\"w0.0\"] in version 3 by w1.0, which were not committed",
            "a read of table 0 showed a gap",
        ],
    );
}

/// A list or a describe of versions does not need this: what it shows is filtered.
#[test]
fn a_catalog_chooses_the_version_that_it_reads_before_it_answers() {
    let worlds = |operation| {
        [Fault::SlowAnswer, Fault::HeadFirst].map(|fault| {
            let read = passed_on(operation, 1, fault, 5);
            plain([read, create(Fault::SlowAnswer, 10)])
        })
    };
    is_needed(
        worlds(Operation::CountTableRows),
        async |mut client: Client| {
            let mut other = client.another(1);
            let batch = async move {
                sleep(seconds(1)).await;
                client.batch_over(&BOTH, true).await;
            };
            tokio::join!(other.count(T0), batch);
        },
        &["of table 0 showed version 2 by w0.0, which was not committed"],
    );
    let filtered = [
        Operation::ListTableVersions,
        Operation::DescribeTableVersion,
    ];
    for (operation, world) in filtered
        .map(|it| worlds(it).map(|world| (it, world)))
        .into_iter()
        .flatten()
    {
        keeps(world, async move |mut client| {
            let mut other = client.another(1);
            let read = async move {
                match operation {
                    Operation::ListTableVersions => other.list(T0, false).await,
                    _ => other.describe(T0, false, None).await,
                }
            };
            let batch = async move {
                sleep(seconds(1)).await;
                client.batch_over(&BOTH, true).await;
            };
            tokio::join!(read, batch);
        });
    }
}

/// One message stands for all tries of a request: the gateway makes three.
#[test]
fn a_stream_that_was_not_processed_has_done_nothing() {
    is_needed(
        [Fault::NotSent, Fault::Unprocessed].map(|fault| plain([create(fault, 0)])),
        commit_and_read,
        &[
            "of table 0 showed version 2 by w0.0, which was not committed",
            "w0 was answered 503 (code 17), but w0.0 is there",
        ],
    );
}
