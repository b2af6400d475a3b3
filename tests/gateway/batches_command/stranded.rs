//! Batches whose backend is not configured any more, and the end that an operator gives them.

use super::{admin, built_on, complained, first, over, printed};
use crate::batches::{BATCH, pair, start, stored, until, visible, world};
use crate::harness::World;

/// Starts the gateway again with another catalog in the place of `west`. Returns the configuration of before.
async fn without_west(world: &mut World) -> String {
    let file = world.folder().join("gateway.yaml");
    let yaml = std::fs::read_to_string(&file).unwrap();
    let replaced = yaml
        .replace("  west:", "  lake:")
        .replace("backend: west", "backend: lake")
        .replace(&world.catalog("west").uri(), "http://127.0.0.1:1");
    std::fs::write(&file, replaced).unwrap();
    world.restart().await;
    yaml
}

#[tokio::test]
async fn a_batch_whose_backend_is_gone_from_the_configuration_is_told_and_let_be() {
    let mut world = world("lock_timeout: 200ms").await;
    let id = built_on(&world).await;
    world.kill();
    without_west(&mut world).await;
    let said = printed(&world, &["list"]).await;
    for words in ["stranded", "west", "configured"] {
        assert!(said.contains(words), "`{words}` is not in\n{said}");
    }
    assert_eq!(
        world
            .metric("nsgate_batches_open{state=\"stranded\"}")
            .await
            .to_string(),
        "1"
    );
    let refused = complained(&admin(&world), &["resolve", &id, "--abort"]).await;
    assert!(refused.contains("configure it again"), "{refused}");
    let said = printed(&world, &["resolve", &id, "--commit", "--why", "moved"]).await;
    assert!(said.starts_with("decision carried out"), "{said}");
    assert_eq!(
        world
            .metric("nsgate_batches_open{state=\"stranded\"}")
            .await
            .to_string(),
        "0"
    );
    world.restart().await;
    over(&world).await;
}

/// Leaves what was made of it, so its client must not take the refusal for one after which nothing is there.
#[tokio::test]
async fn a_batch_that_is_ended_as_it_was_says_to_look_at_its_tables() {
    let mut world = world("").await;
    let gate = world.catalog("east").hold_answer("create_table_version");
    let body = pair(&world, 2);
    let keyed = |world: &World| world.client().header("idempotency-key", "k1");
    let batch = start(keyed(&world), body.clone());
    gate.reached(1).await;
    until("both are made", || {
        ["west", "east"]
            .iter()
            .all(|name| stored(&world, name) == [1, 2])
    })
    .await;
    world.kill();
    drop(batch);
    world.catalog("east").behave();
    let yaml = without_west(&mut world).await;
    let id = first(&world, |batch| batch["state"] == "stranded").await;
    let id = id["id"].as_str().unwrap().to_owned();
    let said = printed(&world, &["resolve", &id, "--commit", "--why", "moved"]).await;
    let words = "is finished, as it was";
    assert!(said.contains(words), "{said}");
    std::fs::write(world.folder().join("gateway.yaml"), yaml).unwrap();
    world.restart().await;
    let told = keyed(&world).post(BATCH, &body).await;
    assert_eq!(told.outcome(), (409, Some(19)), "{told:?}");
    assert!(told.words().contains("Look at its tables"), "{told:?}");
    for name in ["west", "east"] {
        assert_eq!(visible(&world, name).await, [1, 2], "{name}");
    }
}
