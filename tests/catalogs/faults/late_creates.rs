//! Creates without an answer that arrive late: the number is another's by then, or the table is read or written.

use serde_json::json;

use super::{CREATE, O, Scene, T, done, is_done, is_refused, rested};
use crate::harness::Caught;

/// Makes a batch fail whose create of `lab$t` is still on its way.
fn refused_with_a_create_on_its_way(scene: &Scene) -> Caught {
    let entries = scene.entries(1);
    let create = scene.relay.catch_only(CREATE, 1);
    let reply = scene.batch(&entries);
    assert_eq!(reply.status, 503, "{reply:?}");
    assert!(create.has_come(), "{scene}");
    scene.relay.pass();
    scene.undone();
    create
}

/// Sends a batch for the same number. Its own create is lost, and the earlier, late one arrives instead.
fn asked_for_again(scene: &Scene, late: &Caught) {
    let size = &late.body()["manifest_size"];
    let entries = json!([scene.staged_alike(T, 2, 2, size), scene.staged(O, 2, 1)]);
    let lost = scene.relay.catch(CREATE);
    let (reply, ()) = scene.meanwhile(&entries, || {
        // The gateway may refuse the batch before it sends anything to the catalog.
        let start = std::time::Instant::now();
        while !lost.has_come() && start.elapsed() < super::PREPARE {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        late.deliver();
        if lost.has_come() {
            lost.cut();
        }
    });
    println!("the second batch: {} {:?}", reply.status, reply.body);
    let shown = scene.through("look", T, &[]);
    if reply.status == 200 {
        assert_eq!(done(&shown)["rows"], json!({"0": 1, "2": 2}), "{shown}");
    } else {
        assert!(is_refused(&reply), "{reply:?}");
        scene.hides(T, 2, 1);
        let other = scene.through("look", O, &[]);
        assert!(other["rows"]["2"].is_null(), "{other}");
    }
}

#[test]
fn a_batch_does_not_take_anothers_late_version_for_its_own() {
    let Some(scene) = Scene::set() else { return };
    let late = refused_with_a_create_on_its_way(&scene);
    rested();
    asked_for_again(&scene, &late);
    scene.hides(T, 1, 1);
}

/// The late create is that of a writer without a batch, who got no answer.
#[test]
fn a_batch_does_not_take_a_writers_late_version_for_its_own() {
    let Some(scene) = Scene::with(&json!({"limits": {"response_timeout": "1s"}})) else {
        return;
    };
    let late = scene.relay.catch(CREATE);
    let told = scene.through("append", T, &[json!(7), json!(2)]);
    assert!(!is_done(&told), "{told}");
    assert!(late.has_come(), "{scene}");
    asked_for_again(&scene, &late);
}

/// The catalog has the late version. No read through the gateway may show it.
#[test]
fn a_late_version_is_shown_by_nothing() {
    let Some(scene) = Scene::set() else { return };
    let late = refused_with_a_create_on_its_way(&scene);
    assert_eq!(late.deliver().status(), 200);
    let detail = scene.through("detail", T, &[]);
    assert!(detail["version"] != 2, "{detail}");
    scene.hides(T, 1, 1);
    scene.settles(T, &json!([1]));
    scene.hides(T, 1, 1);
}

/// The catalog has the late version, and appends a client's insert above it.
#[test]
fn an_insert_makes_no_late_version_visible() {
    let Some(scene) = Scene::set() else { return };
    let late = refused_with_a_create_on_its_way(&scene);
    assert_eq!(late.deliver().status(), 200);
    let told = scene.through("insert", T, &[json!(7), json!(3)]);
    println!("an insert when a create was late: {told}");
    let shown = scene.through("look", T, &[]);
    assert!(shown["rows"]["1"].is_null(), "{shown}");
    if is_done(&told) {
        assert_eq!(shown["rows"]["7"], 3, "{shown}");
    }
}

/// A create on its way must not block writers who name the version that they create.
#[test]
fn appends_go_on_while_a_create_is_on_its_way() {
    let Some(scene) = Scene::set() else { return };
    let late = refused_with_a_create_on_its_way(&scene);
    rested();
    for number in [7, 8] {
        let told = scene.through("append", T, &[json!(number), json!(1)]);
        println!("an append while a create is on its way: {told}");
        done(&told);
    }
    assert_ne!(late.deliver().status(), 200, "the number is taken");
    let all = json!({"0": 1, "7": 1, "8": 1});
    assert_eq!(done(&scene.through("look", T, &[]))["rows"], all);
    scene.settles(T, &json!([1, 2, 3]));
    assert_eq!(done(&scene.at_lake("look", T, &[]))["rows"], all);
}

/// The append was built on the table without the late version, so it is refused or kept.
#[test]
fn an_append_after_a_late_version_is_kept_or_refused() {
    let Some(scene) = Scene::set() else { return };
    let late = refused_with_a_create_on_its_way(&scene);
    assert_eq!(late.deliver().status(), 200);
    let told = scene.through("append", T, &[json!(7), json!(3)]);
    println!("an append when a create was late: {told}");
    scene.hides(T, 1, if is_done(&told) { 4 } else { 1 });
    let settled = if is_done(&told) {
        json!([1, 2])
    } else {
        json!([1])
    };
    scene.settles(T, &settled);
    scene.kept(&told, T, 7, 3);
}
