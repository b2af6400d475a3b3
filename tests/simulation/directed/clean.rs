//! Tables after a batch that was undone cleanly: they work again at once.

use super::*;

#[test]
fn a_clean_abort_frees_its_numbers_within_a_second() {
    keeps(scenario(Ways::default(), Vec::new()), async |mut client| {
        client.batch_over(&BOTH, true).await;
        sleep(seconds(1)).await;
        let appended = client.append(T0).await;
        assert_eq!(appended, Some(Outcome::Done(None)), "an append");
        let insert = client.write(OTHER, Change::Insert, false).await;
        let inserted = client.outcome(insert);
        assert!(matches!(inserted, Some(Outcome::Done(_))), "an insert");
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

#[test]
fn what_a_catalogs_own_batch_made_without_an_answer_can_be_built_on() {
    let ways = Ways {
        atomic: true,
        ..Ways::default()
    };
    let create = Operation::BatchCreateTableVersions;
    for fault in [Fault::ErrorAfter, Fault::ResetAfter] {
        let fault = own(create, 1, fault, 0);
        keeps(scenario(ways, vec![fault]), async |mut client| {
            client.batch_over(&BOTH, true).await;
            sleep(seconds(1)).await;
            let wanted = [client.wants(T0, false).await, client.wants(T1, false).await];
            let op = client.plan(&wanted, false);
            client.send_once(op).await;
            let outcome = client.outcome(op);
            assert!(matches!(outcome, Some(Outcome::Done(_))), "{outcome:?}");
            let latest = client.latest(T0, false).await.map(|latest| latest.0);
            assert_eq!(latest, Some(wanted[0].version), "it is there");
            let appended = client.append(T0).await;
            assert_eq!(appended, Some(Outcome::Done(None)), "an append");
        });
    }
}
