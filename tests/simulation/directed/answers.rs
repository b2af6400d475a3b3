//! Catalogs that answer otherwise than they act.

use super::*;
use crate::history::Saw;

#[test]
fn a_batch_create_that_is_said_not_to_exist_is_not_believed_to_have_done_nothing() {
    // The refusal differs from seed to seed.
    for seed in 0..20 {
        let all = own(
            Operation::BatchCreateTableVersions,
            1,
            Fault::RefusedAfter,
            0,
        );
        let one = own(Operation::CreateTableVersion, 1, Fault::NotSent, 0);
        let ways = Ways {
            atomic: true,
            ..Ways::default()
        };
        let mut scenario = scenario(ways, vec![all, one]);
        scenario.catalogs[0].told = false;
        scenario.seed = seed;
        plays(scenario, async |mut client| {
            let all = [(T0, false), (T1, false), (OTHER, false)];
            client.batch_over(&all, false).await;
            client.list(T0, false).await;
        });
    }
}

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

/// A batch that declares a table looks whether there is one.
#[test]
fn one_answer_that_is_stale_does_not_hide_a_table_from_everybody() {
    let stale = Planned {
        table: "c0$t1".into(),
        ..own(Operation::DescribeTable, 1, Fault::Stale, 0)
    };
    keeps(
        scenario(Ways::default(), vec![stale]),
        async |mut client| {
            client.declare_in_a_batch_that_aborts(T1, OTHER).await;
            let saw = client.list(T1, false).await;
            assert!(matches!(saw, Saw::All(_)), "{saw:?}");
        },
    );
}

/// One of the looks is that of a count, right after the create has landed.
#[test]
fn one_answer_that_is_stale_does_not_let_a_count_see_what_landed_late() {
    for nth in 1..=60 {
        let mut faults = late_create(90);
        faults.push(own(Operation::DescribeTableVersion, nth, Fault::Stale, 0));
        plays(scenario(Ways::default(), faults), async |mut client| {
            client.batch_over(&BOTH, false).await;
            for _ in 0..40 {
                sleep(seconds(2)).await;
                client.count(T0).await;
            }
        });
    }
}
