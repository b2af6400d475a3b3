//! A rename that its client repeats with the same key.

use super::*;

#[tokio::test]
async fn a_repeated_rename_joins_the_first() {
    let mut world = world().await;
    let keyed = |world: &World| world.client().header("idempotency-key", "once");
    let gate = world.catalog("east").hold("register_table");
    let client = keyed(&world);
    let first = tokio::spawn(async move { rename(client, OLD, &to("east", "u")).await });
    gate.reached(1).await;
    let client = keyed(&world);
    let second = tokio::spawn(async move { rename(client, OLD, &to("east", "u")).await });
    gate.open();
    let first = first.await.unwrap().ok().json();
    assert_eq!(second.await.unwrap().ok().json(), first);
    for _ in 0..2 {
        let again = rename(keyed(&world), OLD, &to("east", "u")).await;
        assert_eq!(again.ok().json(), first);
        world.restart().await;
    }
    let other = rename(keyed(&world), OLD, &to("east", "v")).await;
    assert_eq!(other.status, 422, "{other:?}");
    // The gateway tries one register for each way of writing a location.
    assert_eq!(world.catalog("east").seen_of("register_table").len(), 2);
    assert_renamed(&world, "east$u", "once").await;
}

/// The gateway is killed once the rename is committed, before or after the catalog has removed the old name
/// without an answer.
#[tokio::test]
async fn a_rename_is_repeated_from_memory_although_its_names_are_watched() {
    for fault in [
        Fault::HoldBefore(Gate::new()),
        Fault::HoldAfter(Gate::new()),
    ] {
        let (Fault::HoldBefore(gate) | Fault::HoldAfter(gate)) = &fault else {
            continue;
        };
        let mut world = over("lock_timeout: 200ms").await;
        let west = world.catalog("west");
        west.fail_nth("deregister_table", &["west", "t1"], 1, fault.clone());
        let keyed = |world: &World| world.client().header("idempotency-key", "once");
        let to = json!({"new_table_name": "u"});
        let first = rename(keyed(&world), OLD, &to).await.ok().json();
        gate.reached(1).await;
        world.kill();
        // By now the catalog supports renames.
        west_renames(&world);
        world.restart().await;
        let asked = world.catalog("west").seen_of("rename_table").len();
        let again = rename(keyed(&world), OLD, &to).await;
        assert_eq!(again.ok().json(), first, "{fault:?}");
        let other = json!({"new_table_name": "v"});
        let other = rename(keyed(&world), OLD, &other).await;
        assert_eq!(other.status, 422, "{other:?}");
        let asked_since = world.catalog("west").seen_of("rename_table").len() - asked;
        assert_eq!(asked_since, 0, "{fault:?}");
        gate.open();
    }
}

fn west_renames(world: &World) {
    let west = world.catalog("west");
    west.can("rename_table", 200, "application/json", b"{}");
}

/// The gateway is killed before the decision, and the catalog is down when the gateway is back.
#[tokio::test]
async fn a_rename_that_is_not_over_is_waited_for_by_its_repetition() {
    let mut world = over("lock_timeout: 200ms").await;
    let gate = Gate::new();
    let fault = Fault::HoldAfter(gate.clone());
    let west = world.catalog("west");
    // The gateway tries one register for each way of writing a location.
    west.fail_nth("register_table", &["west", "u"], 2, fault);
    let keyed = |world: &World| world.client().header("idempotency-key", "once");
    let to = json!({"new_table_name": "u"});
    let (client, body) = (keyed(&world), to.clone());
    let first = tokio::spawn(async move {
        let target = format!("/v1/table/{OLD}/rename");
        let body = crate::client::full(body.to_string());
        let client = client.header("content-type", "application/json");
        client.send(Method::POST, &target, body).await
    });
    gate.reached(1).await;
    world.kill();
    assert!(first.await.unwrap().is_err());
    let west = world.catalog("west");
    let lost = Gate::new();
    let unheard = Fault::HoldBefore(lost.clone());
    west.fail_always("describe_table", unheard);
    west_renames(&world);
    world.restart().await;
    lost.reached(1).await;
    let asked = world.catalog("west").seen_of("rename_table").len();
    let client = keyed(&world);
    let again = tokio::spawn(async move { rename(client, OLD, &to).await });
    world.catalog("west").behave();
    lost.open();
    let transaction = again.await.unwrap().ok().json()["transaction_id"].clone();
    assert_eq!(told(&world, &transaction).await, "Succeeded");
    assert_eq!(world.catalog("west").seen_of("rename_table").len(), asked);
    assert_renamed(&world, "west$u", "waited for").await;
    gate.open();
}
