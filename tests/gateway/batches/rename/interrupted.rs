//! A rename in the middle of which the gateway is killed, or a catalog is away.

use super::*;

#[tokio::test]
async fn killed_before_the_decision_nothing_or_all_of_it_has_happened() {
    // The catalog has not answered yet; it has either not acted or acted.
    for acted in [false, true] {
        let mut world = world().await;
        let gate = Gate::new();
        let fault = if acted {
            Fault::HoldAfter(gate.clone())
        } else {
            Fault::HoldBefore(gate.clone())
        };
        let east = world.catalog("east");
        east.fail_nth("register_table", &["east", "u"], 2, fault);
        let renamed = moved(&world, "east");
        gate.reached(1).await;
        world.kill();
        assert!(renamed.await.is_err());
        world.catalog("east").behave();
        world.restart().await;
        settled(&world).await;
        if acted {
            // The name is registered, so only the record of the decision was missing.
            assert_renamed(&world, "east$u", "registered").await;
        } else {
            assert_unchanged(&world, "not registered").await;
        }
        gate.open();
    }
}

/// The new name was registered at a wrong location. The gateway must remove it, although the location does not
/// show that the registration is its own.
#[tokio::test]
async fn killed_with_a_wrong_registration_it_is_taken_away() {
    let mut world = world().await;
    world.catalog("east").store().set_root("file:///elsewhere");
    let gate = Gate::new();
    let east = world.catalog("east");
    east.fail_nth(
        "register_table",
        &["east", "u"],
        2,
        Fault::HoldAfter(gate.clone()),
    );
    let renamed = moved(&world, "east");
    gate.reached(1).await;
    assert!(names(&world, "east").contains(&"east$u".to_owned()));
    world.kill();
    assert!(renamed.await.is_err());
    world.restart().await;
    assert_unchanged(&world, "wrong").await;
    gate.open();
}

#[tokio::test]
async fn killed_after_the_decision_the_old_name_goes_in_the_end() {
    let mut world = world().await;
    let gate = hold_deregister(&world);
    moved(&world, "east").await.unwrap().ok();
    gate.reached(1).await;
    world.kill();
    assert!(names(&world, "west").contains(&"west$t1".to_owned()));
    world.catalog("west").behave();
    let again = hold_deregister(&world);
    world.restart().await;
    again.reached(1).await;
    assert_seen(&world, "west$t1", false, "started again").await;
    assert_seen(&world, "east$u", true, "started again").await;
    again.open();
    assert_renamed(&world, "east$u", "rolled forward").await;
}

#[tokio::test]
async fn a_catalog_that_is_away_lets_go_of_the_old_name_when_it_is_back() {
    let world = over("lock_timeout: 200ms").await;
    let gate = hold_deregister(&world);
    let renamed = moved(&world, "east");
    gate.reached(1).await;
    let west = world.catalog("west");
    west.stop().await;
    renamed.await.unwrap().ok();
    let described = world
        .client()
        .post(&format!("/v1/table/{OLD}/describe"), &json!({}))
        .await;
    assert_eq!(described.outcome(), (404, Some(4)), "{described:?}");
    // No other table gets the name before it is free.
    let reply = rename(world.client(), "east%24t1", &to("west", "t1")).await;
    assert_eq!(reply.status, 503, "{reply:?}");
    assert_eq!(versions(&world, "east$u").await, [1, 2]);
    west.behave();
    west.resume();
    assert_renamed(&world, "east$u", "back").await;
    // One deregister got no answer. No other table gets the name as long as that request may still take effect.
    let reply = rename(world.client(), "east%24t1", &to("west", "t1")).await;
    assert_eq!(reply.outcome(), (503, Some(17)), "{reply:?}");
    let said = reply.json()["error"].to_string();
    assert!(
        said.contains("of catalog `west` may still reach it"),
        "{said}"
    );
    assert_eq!(versions(&world, "east$u").await, [1, 2]);
}
