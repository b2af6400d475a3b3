//! After a clean abort.

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
