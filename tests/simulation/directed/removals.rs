//! Removals that arrive late.

use super::*;

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
fn a_delete_that_comes_later_hits_nothing_in_a_chain_of_another_batch() {
    let later = own(
        Operation::BatchDeleteTableVersions,
        1,
        Fault::ActsLater,
        600,
    );
    keeps(
        scenario(Ways::default(), vec![later]),
        async |mut client| {
            client.chain_on(T0, 3, true).await;
            for _ in 0..20 {
                sleep(seconds(50)).await;
                client.chain_on(T0, 2, false).await;
            }
        },
    );
}

/// The job has taken the version of the batch for the latest one.
#[test]
fn an_undo_leaves_what_a_cleanup_has_left_of_a_table() {
    let slow = Planned {
        catalog: 1,
        table: "t0".into(),
        ..own(Operation::CreateTableVersion, 1, Fault::SlowAnswer, 10)
    };
    keeps(scenario(Ways::default(), vec![slow]), async |mut client| {
        let mut job = client.another(1);
        let cleanup = async move {
            sleep(seconds(5)).await;
            job.clean_up(T0);
        };
        tokio::join!(client.batch_over(&BOTH, true), cleanup);
        sleep(seconds(60)).await;
    });
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

#[test]
fn a_deregister_of_a_rename_that_was_answered_and_comes_later_never_takes_a_new_tables_name() {
    let later = own(Operation::DeregisterTable, 1, Fault::ActsLater, 60);
    // The look at the old name after the deregister.
    let look = own(Operation::DescribeTable, 5, Fault::Late, 1);
    let faults = vec![later, look];
    keeps(scenario(Ways::default(), faults), async |mut client| {
        client.rename(T0, SPARE).await;
        client.about(SPARE, "drop", "").await;
        client.about(T0, "drop", "").await;
        for _ in 0..15 {
            sleep(seconds(5)).await;
            client.create(T0).await;
        }
    });
}
