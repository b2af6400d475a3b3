//! Proof of authorship: a version in the place of a batch's is not always the batch's.

use nsgate::batch::step::Settled;

use super::*;

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
fn a_writers_late_create_is_not_taken_for_what_a_batch_has_deleted() {
    let late = passed_on(Operation::CreateTableVersion, 1, Fault::Late, 83);
    let lost = own(Operation::BatchDeleteTableVersions, 1, Fault::AnswerLost, 0);
    keeps(
        scenario(Ways::default(), vec![late, lost]),
        async |mut client| {
            client.append(T0).await;
            client.batch_over(&BOTH, true).await;
            client.list(T0, false).await;
        },
    );
}

#[test]
fn a_batch_that_never_began_has_no_say_in_whose_a_late_create_is() {
    let script = async |mut client: Client| {
        client.batch_over(&BOTH, false).await;
        let other = client.wants(OTHER, false).await;
        let version = other.version + 5;
        let wanted = [client.wants(T0, false).await, Wanted { version, ..other }];
        let op = client.plan(&wanted, true);
        client.send_once(op).await;
        assert_eq!(client.outcome(op), Some(Outcome::Definite(409, 14)));
        assert_eq!(client.settled(0, 0), Some(Settled::Unseen));
    };
    let ended = plays(scenario(Ways::default(), late_create(90)), script);
    assert_eq!(ended.counts.get("batches that wait for a person"), 0);
}

#[test]
fn a_batch_that_began_has_a_say_in_it_after_a_crash() {
    let mut faults = late_create(90);
    faults.push(own(Operation::CreateTableVersion, 4, Fault::Late, 100));
    plays(scenario(Ways::default(), faults), async |mut client| {
        client.batch_over(&BOTH, false).await;
        client.batch_over(&BOTH, false).await;
        assert_eq!(client.settled(0, 0), Some(Settled::Contested));
    });
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
    // The other table's create is repeated, and the first table's with it.
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
    // If no create is repeated, the planned fault of the repetition is not met.
    plays(scenario, script);
}
