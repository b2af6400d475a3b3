//! The effects of an operator's decisions with `nsgate batches resolve`.

use serde_json::{Value, json};

use super::{DELETE, admin, built_on, complained, first, hazard, nsgate, over, printed, shows};
use crate::batches::{BATCH, leave_alone, pair, start, stored, visible, world};
use crate::catalog::faults::{BROKEN, Fault};
use crate::client::Reply;
use crate::harness::World;

const REFUSED: Fault = Fault::Instead(400, r#"{"error":"no","code":13}"#);

/// Aborts a batch whose version 2 in `east` may be another writer's; returns the batch's id.
async fn unproven(world: &World) -> String {
    let gate = world.catalog("east").hold("create_table_version");
    let batch = start(world.client(), pair(world, 2));
    gate.reached(1).await;
    // It has the same size as the staged version, so nothing distinguishes the two.
    let id = ["east".to_owned(), "t1".to_owned()];
    world.catalog("east").store().put(&id, 2, "EAST 2".into());
    gate.open();
    assert_eq!(batch.await.unwrap().status, 409);
    let id = hazard(world).await;
    shows(world, &id, "gone").await;
    id
}

/// The status that a writer gets; a table that is locked by a batch refuses the write.
async fn write(world: &World, name: &str) -> u16 {
    written(world, name).await.status
}

async fn written(world: &World, name: &str) -> Reply {
    let target = format!("/v1/table/{name}%24t1/create_index");
    world.client().post(&target, &json!({})).await
}

/// Checks that nothing waits any more: in the command's output, in the metrics and for writers. A batch that was
/// rolled back after a restart stays open for a while, because requests from before the restart may still take
/// effect.
async fn assert_over(world: &World, id: &str, case: &str) {
    let undone = |batch: &Value| batch.is_null() || batch["state"] == "watching";
    let watched = first(world, undone).await.is_object();
    let said = printed(world, &["list"]).await;
    assert_eq!(
        said.starts_with("no open batches"),
        !watched,
        "{case}: {said}"
    );
    assert!(!said.contains("an operator"), "{case}: {said}");
    for sample in [
        "nsgate_batch_hazards",
        "nsgate_batches_open{state=\"hazard\"}",
    ] {
        assert_eq!(
            world.metric(sample).await.to_string(),
            "0",
            "{case}: {sample}"
        );
    }
    for name in ["west", "east"] {
        let reply = written(world, name).await;
        // The table is not locked any more, but its version number rests as long as an earlier request may still
        // arrive.
        let rests = || {
            watched
                && reply.json()["error"]
                    .to_string()
                    .contains("may still reach")
        };
        assert!(
            reply.status == 200 || rests(),
            "{case}: {name} is locked: {reply:?}"
        );
    }
    let said = complained(&admin(world), &["resolve", id, "--abort"]).await;
    let over = if watched {
        "is finished and its tables are unlocked".to_owned()
    } else {
        format!("batch {id} is finished: it was aborted")
    };
    assert!(said.contains(&over), "{case}: {said}");
}

#[tokio::test]
async fn a_hazard_that_is_kept_becomes_visible_and_its_table_free() {
    for restarted in [false, true] {
        let mut world = world("lock_timeout: 200ms").await;
        let id = built_on(&world).await;
        if restarted {
            world.restart().await;
            hazard(&world).await;
        }
        assert_eq!(write(&world, "west").await, 503);
        let why = "a backfill of ours built on it";
        let said = printed(&world, &["resolve", &id, "--commit", "--why", why]).await;
        assert!(said.starts_with("decision carried out"), "{said}");
        for holds in [
            "west$t1 in west: version 2 is kept, and readers see it",
            "east$t1 in east: version 2 is rolled back",
            "its tables are unlocked",
        ] {
            assert!(said.contains(holds), "`{holds}` is not in\n{said}");
        }
        assert_over(&world, &id, "kept").await;
        assert_eq!(visible(&world, "west").await, [1, 2, 3]);
        assert_eq!(visible(&world, "east").await, [1]);
        assert!(world.catalog("west").seen_of(DELETE).is_empty());
        for words in [&*id, "ada", why, "batch resolved by an operator"] {
            assert!(world.log().contains(words), "`{words}` is not in the log");
        }
        world.restart().await;
        assert_over(&world, &id, "kept, started once more").await;
        assert_eq!(visible(&world, "west").await, [1, 2, 3]);
    }
}

#[tokio::test]
async fn a_hazard_is_deleted_on_a_persons_word() {
    for restarted in [false, true] {
        let mut world = world("lock_timeout: 200ms").await;
        let id = unproven(&world).await;
        if restarted {
            world.restart().await;
            hazard(&world).await;
        }
        let arguments = [
            "resolve", &id, "--abort", "--who", "grace", "--why", "nobody's",
        ];
        let said = printed(&world, &arguments).await;
        assert!(said.starts_with("decision carried out"), "{said}");
        assert_eq!(stored(&world, "east"), [1]);
        assert_over(&world, &id, "deleted").await;
        assert!(world.log().contains("grace"));
    }
}

/// Otherwise the first one would be told what did not happen.
#[tokio::test]
async fn a_decision_is_carried_out_before_the_opposite_one_is_taken() {
    let world = world("lock_timeout: 200ms").await;
    let id = unproven(&world).await;
    // It looks at the version again before it deletes it.
    let gate = world.catalog("east").hold("describe_table_version");
    let aborts = ["resolve", &id, "--abort", "--who", "grace"];
    let (first, second) = tokio::join!(printed(&world, &aborts), async {
        gate.reached(1).await;
        let said = complained(&admin(&world), &["resolve", &id, "--commit"]).await;
        gate.open();
        said
    });
    let words = "cannot be resolved with commit now: grace has just decided on abort";
    assert!(second.contains(words), "{second}");
    let words = "east$t1 in east: version 2 is deleted";
    assert!(first.contains(words), "{first}");
    assert_eq!(stored(&world, "east"), [1]);
}

/// The version may be another one by the time of the next life: whoever decided has not seen that one.
#[tokio::test]
async fn a_decision_to_delete_is_made_again_in_the_next_life() {
    let mut world = world("lock_timeout: 200ms").await;
    let id = unproven(&world).await;
    let gate = world.catalog("east").hold("describe_table_version");
    let decision = json!({"decision": "abort", "who": "grace", "why": "nobody's"});
    let target = format!("/batches/{id}/resolve");
    world.admin().post(&target, &decision).await.ok();
    gate.reached(1).await;
    world.kill();
    assert_eq!(stored(&world, "east"), [1, 2]);
    gate.open();
    world.restart().await;
    assert_eq!(hazard(&world).await, id);
    let printed = printed(&world, &["resolve", &id, "--abort"]).await;
    assert!(printed.starts_with("decision carried out"), "{printed}");
    assert_eq!(stored(&world, "east"), [1]);
}

#[tokio::test]
async fn what_was_built_on_is_not_deleted_even_on_a_persons_word() {
    let world = world("lock_timeout: 200ms").await;
    let id = built_on(&world).await;
    let said = printed(&world, &["resolve", &id, "--abort"]).await;
    assert!(
        said.starts_with("decision recorded, but not carried out yet"),
        "{said}"
    );
    assert!(said.contains("a later version was built on it"), "{said}");
    assert_eq!(stored(&world, "west"), [1, 2, 3]);
    // Once no version stands on it, it is deleted.
    let table = vec!["west".to_owned(), "t1".to_owned()];
    let _ = world
        .catalog("west")
        .store()
        .delete_versions(&table, &[(3, 4)]);
    let said = printed(&world, &["resolve", &id, "--abort"]).await;
    assert!(said.starts_with("decision carried out"), "{said}");
    assert_eq!(stored(&world, "west"), [1]);
    assert_over(&world, &id, "deleted").await;
}

#[tokio::test]
async fn all_that_a_table_has_left_is_not_deleted_even_on_a_persons_word() {
    let world = world("lock_timeout: 200ms").await;
    leave_alone(&world).await;
    let id = hazard(&world).await;
    let shown = printed(&world, &["show", &id]).await;
    let words = "first bring back an older version in the catalog, or drop the table there";
    assert!(shown.contains(words), "{shown}");
    let said = printed(&world, &["resolve", &id, "--abort"]).await;
    let recorded = "decision recorded, but not carried out yet";
    assert!(said.starts_with(recorded), "{said}");
    assert!(said.contains("no other version any more"), "{said}");
    assert_eq!(stored(&world, "west"), [2]);
    // Once the table has another version, it is deleted.
    let table = ["west".to_owned(), "t1".to_owned()];
    let west = world.catalog("west");
    west.store().put(&table, 1, "from a backup".into());
    let said = printed(&world, &["resolve", &id, "--abort"]).await;
    assert!(said.starts_with("decision carried out"), "{said}");
    assert_eq!(stored(&world, "west"), [1]);
    assert_over(&world, &id, "deleted").await;
}

/// A version cannot be kept as long as a lost delete may still arrive. It can be deleted at any time.
#[tokio::test]
async fn what_a_lost_delete_may_still_take_away_cannot_be_kept() {
    let world = world("lock_timeout: 200ms").await;
    let west = world.catalog("west");
    let gate = west.hold(DELETE);
    west.fail(DELETE, Fault::Instead(500, BROKEN));
    world.catalog("east").fail("create_table_version", REFUSED);
    let batch = start(world.client(), pair(&world, 2));
    gate.reached(1).await;
    let table = vec!["west".to_owned(), "t1".to_owned()];
    west.store().put(&table, 3, "built on it".into());
    gate.open();
    assert_eq!(batch.await.unwrap().status, 400);
    let id = hazard(&world).await;
    let said = complained(&admin(&world), &["resolve", &id, "--commit"]).await;
    assert!(
        said.contains("may still reach the catalog and remove what you keep; decide again in"),
        "{said}"
    );
    let _ = west.store().delete_versions(&table, &[(3, 4)]);
    let said = printed(&world, &["resolve", &id, "--abort"]).await;
    assert!(said.starts_with("decision carried out"), "{said}");
    assert_eq!(stored(&world, "west"), [1]);
}

#[tokio::test]
async fn an_undecided_batch_is_given_up() {
    let world = world("").await;
    let gate = world.catalog("east").hold("create_table_version");
    let batch = start(world.client(), pair(&world, 2));
    gate.reached(1).await;
    let id = first(&world, Value::is_object).await["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let refused = complained(&admin(&world), &["resolve", &id, "--commit"]).await;
    assert!(refused.contains("proven to be created"), "{refused}");
    printed(
        &world,
        &["resolve", &id, "--abort", "--why", "too slow", "--json"],
    )
    .await;
    let reply = batch.await.unwrap();
    assert_eq!(reply.outcome(), (409, Some(14)), "{reply:?}");
    assert!(reply.words().contains("by an operator"), "{reply:?}");
    let refused = complained(&admin(&world), &["resolve", &id, "--abort"]).await;
    assert!(
        refused.contains("nothing to decide: the batch is decided"),
        "{refused}"
    );
    gate.open();
    assert_over(&world, &id, "given up").await;
    assert_eq!(
        (stored(&world, "west"), stored(&world, "east")),
        (vec![1], vec![1])
    );
}

/// Aborts a batch, and waits until the rollback of its version 2 in `west` fails with `words`; returns the batch's
/// id.
async fn stuck(world: &World, words: &str) -> String {
    world.catalog("east").fail("create_table_version", REFUSED);
    let reply = world.client().post(BATCH, &pair(world, 2)).await;
    assert_eq!(reply.status, 400, "{reply:?}");
    let met = |batch: &Value| {
        batch["error"]
            .as_str()
            .is_some_and(|error| error.contains(words))
    };
    let batch = first(world, met).await;
    batch["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn an_undo_that_a_catalog_forbids_is_shown_with_its_words() {
    let world = world("lock_timeout: 200ms").await;
    let forbidden = Fault::Instead(403, r#"{"error":"nsgate may not delete","code":15}"#);
    world.catalog("west").fail_always(DELETE, forbidden);
    let id = stuck(&world, "may not delete").await;
    let said = "backend `west` answered 403: nsgate may not delete";
    let listed = printed(&world, &["list"]).await;
    assert!(
        listed.contains("undoing") && listed.contains(said),
        "{listed}"
    );
    let shown = printed(&world, &["show", &id]).await;
    assert!(shown.contains(&format!("last error  {said}")), "{shown}");
    // A delete was sent and may still take effect, so its version cannot be kept, and the command does not offer
    // that.
    assert!(!shown.contains("ways out"), "{shown}");
    let refused = complained(&admin(&world), &["resolve", &id, "--commit"]).await;
    assert!(refused.contains("are being deleted already"), "{refused}");
    assert_eq!(
        world
            .metric("nsgate_batches_open{state=\"undoing\"}")
            .await
            .to_string(),
        "1"
    );
    world.catalog("west").behave();
    over(&world).await;
    assert_eq!(stored(&world, "west"), [1]);
    let refused = complained(&admin(&world), &["resolve", &id, "--commit"]).await;
    let words = "had been aborted already, and this decision commits nothing";
    assert!(refused.contains(words), "{refused}");
}

#[tokio::test]
async fn an_undo_in_a_catalog_that_does_not_come_back_is_given_up() {
    let world = world("lock_timeout: 200ms").await;
    let gone = Fault::Instead(503, r#"{"error":"moved away","code":17}"#);
    world
        .catalog("west")
        .fail_always("describe_table_version", gone);
    let id = stuck(&world, "moved away").await;
    let shown = printed(&world, &["show", &id]).await;
    assert!(
        shown.contains("stop the rollback") && shown.contains("--commit"),
        "{shown}"
    );
    assert!(!shown.contains("--abort"), "{shown}");
    let arguments = [
        "resolve",
        &id,
        "--commit",
        "--why",
        "that catalog is no more",
    ];
    let said = printed(&world, &arguments).await;
    assert!(said.starts_with("decision carried out"), "{said}");
    let words = "had been aborted already and was not committed";
    assert!(said.contains(words), "{said}");
    world.catalog("west").behave();
    assert_over(&world, &id, "given up").await;
    assert_eq!(visible(&world, "west").await, [1, 2]);
    assert_eq!(visible(&world, "east").await, [1]);
}

#[tokio::test]
async fn a_decision_about_no_batch_changes_nothing() {
    let world = world("").await;
    let address = admin(&world);
    let unknown = "0190b0a0-0000-7000-8000-000000000000";
    for way in ["--commit", "--abort"] {
        let said = complained(&address, &["resolve", unknown, way]).await;
        assert!(said.contains("is no longer remembered"), "{said}");
    }
    for arguments in [
        &["resolve", unknown][..],
        &["resolve", unknown, "--commit", "--abort"],
        &["resolve", "--abort"],
        &["resolve", unknown, "--abort", "--why"],
    ] {
        let (code, _, said) = nsgate(&address, arguments).await;
        assert_eq!(code, Some(2), "{arguments:?}: {said}");
    }
    let long = "x".repeat(3000);
    let said = complained(&address, &["resolve", unknown, "--abort", "--why", &long]).await;
    assert!(said.contains("`why` is longer than"), "{said}");
}

#[tokio::test]
async fn nobody_decides_without_a_name() {
    let world = World::two().await;
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_nsgate"));
    let id = "01a1fe32-b018-7749-b091-c787866bc41d";
    command.args([
        "batches",
        "--admin",
        &admin(&world),
        "resolve",
        id,
        "--abort",
    ]);
    let output = command.env_clear().output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        !output.status.success() && said.contains("--who NAME"),
        "{said}"
    );
}
