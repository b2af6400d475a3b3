//! Visibility of a batch to readers.

use super::*;

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
    // The batch finds the insert there, and sends nothing.
    plays(
        scenario(Ways::default(), faults),
        async |mut client: Client| {
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
        },
    );
}

#[test]
fn a_batch_of_one_whose_client_has_left_holds_its_table() {
    let late = own(Operation::CreateTableVersion, 1, Fault::Late, 5);
    let lost = own(Operation::CreateTableVersion, 2, Fault::RequestLost, 0);
    let faults = vec![late, lost];
    plays(
        scenario(Ways::default(), faults),
        async |mut client: Client| {
            let mut other = client.another(1);
            other.leaves = Some(Duration::from_millis(100));
            let wanted = other.wants(T0, false).await;
            other.leaves = Some(Duration::from_millis(100));
            let op = other.plan(&[wanted], false);
            other.send_once(op).await;
            client.batch_over(&BOTH, false).await;
            client.list(T0, false).await;
        },
    );
}
