//! One gateway at a time: a second one is refused, and one that was silent for too long can write no more.

use std::time::Duration;

use nsgate::batch::log::postgres::{PostgresLog, prepare};
use nsgate::batch::log::{BatchId, Log, LogError};
use nsgate::batch::step::Decision;
use tokio::sync::oneshot;

use crate::cable::Cable;
use crate::house::{LEASE, abort, commit, config, held, installed, intent, open};
use crate::postgres::{PASSWORD, Postgres};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_gateway_is_refused_while_the_first_lives() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let config = installed(&server, "second").await;
    let first = PostgresLog::open(&config, "gateway-one", |error| panic!("{error}")).await;
    let first = first.unwrap();
    let refused = PostgresLog::open(&config, "gateway-two", |_| {}).await;
    let refused = refused.err().unwrap().to_string();
    assert!(
        refused.contains("gateway `gateway-one` uses it"),
        "{refused}"
    );
    let id = BatchId::now_v7();
    first.intend(id, intent(None)).await.unwrap();
    assert_eq!(first.decide(id, commit()).await.unwrap(), Decision::Commit);
    // Given up in order, it is free at once.
    first.close().await.unwrap();
    let second = tokio::time::timeout(LEASE / 2, open(&config)).await;
    assert_eq!(held(&second.unwrap()).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_is_cut_off_can_write_no_more_after_a_takeover() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let socket = installed(&server, "fence").await;
    let cable = Cable::to(server.port).await;
    let (failed, failure) = oneshot::channel();
    let through = config(&server.loopback(cable.port), "fence");
    let old = PostgresLog::open(&through, "old", move |error| failed.send(error).unwrap()).await;
    let old = old.unwrap();
    let [begun, late] = [(); 2].map(|()| BatchId::now_v7());
    old.intend(begun, intent(None)).await.unwrap();
    cable.shut();
    // The connection is still there, and this stands in it.
    let late_write = old.decide(begun, commit());
    let (taken, ()) = tokio::join!(open(&socket), async {
        let waited = tokio::time::timeout(Duration::from_millis(50), late_write).await;
        assert!(waited.is_err());
    });
    assert!(!taken.is_new());
    assert_eq!(taken.decide(begun, abort()).await.unwrap(), Decision::Abort);
    let before = held(&taken).await;
    cable.open();
    let error = tokio::time::timeout(Duration::from_secs(20), failure).await;
    let error = error.unwrap().unwrap();
    assert!(
        matches!(&error, LogError::TakenOver { by, .. } if by == "test"),
        "{error}"
    );
    for refused in [
        old.intend(late, intent(None)).await.err(),
        old.decide(begun, commit()).await.err(),
        old.sending(begun, 0).await.err(),
        old.note(begun, 0, nsgate::batch::step::Settled::Gone)
            .await
            .err(),
        old.end(begun, 1).await.err(),
        old.forget(u64::MAX).await.err(),
    ] {
        assert!(
            matches!(refused, Some(LogError::TakenOver { .. })),
            "{refused:?}"
        );
    }
    assert_eq!(before, held(&taken).await);
    drop(old);
    // The end of the old one does not give up what belongs to the new one.
    let id = BatchId::now_v7();
    taken.intend(id, intent(None)).await.unwrap();
    taken.close().await.unwrap();
}

/// A table of a backup can be put back by itself. The numbers of owners go on above those that were used.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_whose_number_was_used_before_is_given_a_higher_one() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let config = installed(&server, "older").await;
    let first = open(&config).await;
    first.intend(BatchId::now_v7(), intent(None)).await.unwrap();
    first.close().await.unwrap();
    server.sql("UPDATE older.writer SET fence = 40");
    let next = open(&config).await;
    let id = BatchId::now_v7();
    let written = async {
        next.intend(id, intent(None)).await.unwrap();
        next.decide(id, commit()).await.unwrap()
    };
    let decided = tokio::time::timeout(LEASE, written).await;
    assert_eq!(decided.expect("it can write"), Decision::Commit);
    assert_eq!(server.sql("SELECT fence FROM older.log"), "41");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_write_names_its_fence() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let config = installed(&server, "each").await;
    let (failed, failure) = oneshot::channel();
    let log = PostgresLog::open(&config, "old", move |error| failed.send(error).unwrap()).await;
    let log = log.unwrap();
    log.intend(BatchId::now_v7(), intent(None)).await.unwrap();
    // The heartbeat still counts: only the fence tells.
    server.sql("UPDATE each.log SET fence = fence + 1");
    let id = BatchId::now_v7();
    let refused = log.intend(id, intent(None)).await;
    assert!(
        matches!(refused, Err(LogError::TakenOver { .. })),
        "{refused:?}"
    );
    assert!(matches!(failure.await.unwrap(), LogError::TakenOver { .. }));
    assert_eq!(server.sql("SELECT count(*) FROM each.batch"), "1");
}

#[tokio::test]
async fn what_an_operator_has_to_change_is_said() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let said = async |config| {
        let opened = PostgresLog::open(&config, "test", |_| {}).await;
        opened.err().unwrap().to_string()
    };
    let missing = said(config(&server.socket(), "absent")).await;
    assert!(missing.contains("run `nsgate log prepare`"), "{missing}");
    let prepared = installed(&server, "rights").await;
    prepare(&prepared, None).await.unwrap();
    server.sql("CREATE ROLE gateway LOGIN PASSWORD 'g'");
    let gateway = |schema: &str| {
        let address = server.socket().replace("nsgate@", "gateway@");
        config(&address, schema)
    };
    let lacking = said(gateway("rights")).await;
    assert!(lacking.contains("--grant"), "{lacking}");
    prepare(&prepared, Some("gateway")).await.unwrap();
    let log = open(&gateway("rights")).await;
    log.intend(BatchId::now_v7(), intent(None)).await.unwrap();
    log.close().await.unwrap();
    let created = server.sql("SELECT has_schema_privilege('gateway', 'rights', 'CREATE')");
    assert_eq!(created, "f");
    let mut wrong = config(&server.loopback(server.port), "rights");
    wrong.connection.password("wrong");
    let refused = said(wrong).await;
    assert!(refused.contains("batch.log_password"), "{refused}");
    assert!(!refused.contains(PASSWORD), "{refused}");
    server.sql("UPDATE rights.log SET format = 3");
    let newer = said(prepared.clone()).await;
    assert!(newer.contains("format is 3"), "{newer}");
    // The schema is not made good by another row.
    server.sql("TRUNCATE rights.log");
    let empty = said(prepared.clone()).await;
    let refused = prepare(&prepared, None).await.err().unwrap().to_string();
    for said in [empty, refused] {
        assert!(said.contains("`log` is empty"), "{said}");
        assert!(said.contains("from a backup"), "{said}");
    }
    server.sql("DROP SCHEMA rights CASCADE");
    prepare(&prepared, None).await.unwrap();
    open(&prepared).await.close().await.unwrap();
}
