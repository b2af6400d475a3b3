//! What catalogs say.

use super::*;

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
