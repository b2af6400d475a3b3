//! Renames during a watch or a cool-down: both belong to a table, not to its name.

use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};

use super::{CREATE, O, Scene, T, done, is_done};
use crate::harness::Fault;

const U: &str = "lab$u";
const AWAY: &str = "lab$away";

/// Makes another table with a second version of two rows: the same number and size as a batch's version of `lab$t`.
fn another_table(scene: &Scene) {
    done(&scene.at_lake("make", U, &[]));
    done(&scene.at_lake("append", U, &[json!(5), json!(2)]));
}

/// Renames a table. Returns false if the rename was refused.
fn renamed(scene: &Scene, old: &str, new: &str) -> bool {
    let told = scene.through("rename", old, &[json!(new)]);
    println!("the rename of {old} to {new}: {told}");
    is_done(&told)
}

/// Checks that the other table has all of its rows under its present name.
fn has_its_rows(scene: &Scene, name: &str) {
    let all = json!({"0": 1, "5": 2});
    for seen in [
        scene.at_lake("look", name, &[]),
        scene.through("look", name, &[]),
    ] {
        assert_eq!(seen["rows"], all, "{name}: {seen}; {scene}");
    }
}

/// Sends a batch whose create of `lab$t` never arrives.
fn lost(scene: &Scene, entries: &Value) {
    scene.relay.fault(CREATE, Fault::Drop);
    let reply = scene.batch(entries);
    assert_eq!(reply.status, 503, "{reply:?}");
    scene.relay.pass();
    scene.undone();
}

#[test]
fn a_table_that_takes_a_name_keeps_its_versions() {
    let Some(scene) = Scene::set() else { return };
    another_table(&scene);
    let other = scene.at_lake("sizes", U, &[]);
    let size = &done(&other)["sizes"][1];
    let entries = json!([scene.staged_alike(T, 1, 2, size), scene.staged(O, 1, 1)]);
    lost(&scene, &entries);
    let moved = renamed(&scene, T, AWAY) && renamed(&scene, U, T);
    // The watch looks once a second at first.
    sleep(Duration::from_secs(4));
    let name = if moved { T } else { U };
    has_its_rows(&scene, name);
}

#[test]
fn a_table_that_takes_a_name_shows_its_versions_after_a_clean_abort() {
    let Some(scene) = Scene::with(&json!({"batch": {"slot_cooldown": "60s"}})) else {
        return;
    };
    another_table(&scene);
    let reply = scene.batch(&scene.doomed(1));
    assert_eq!(reply.status, 400, "{reply:?}");
    scene.settles(T, &json!([1]));
    let moved = renamed(&scene, T, AWAY) && renamed(&scene, U, T);
    has_its_rows(&scene, if moved { T } else { U });
}

/// The late create arrives, and the table is renamed before the gateway has looked.
#[test]
fn a_table_that_is_renamed_takes_no_late_version_along() {
    let Some(scene) = Scene::set() else { return };
    let entries = scene.entries(1);
    let create = scene.relay.catch_only(CREATE, 1);
    let reply = scene.batch(&entries);
    assert_eq!(reply.status, 503, "{reply:?}");
    scene.relay.pass();
    scene.undone();
    assert_eq!(create.deliver().status(), 200);
    let moved = renamed(&scene, T, AWAY);
    scene.hides(if moved { AWAY } else { T }, 1, 1);
    scene.settles(if moved { AWAY } else { T }, &json!([1]));
}

/// A second name would show the undecided version, so the gateway refuses it until the batch is decided.
#[test]
fn a_table_gets_no_second_name_while_a_batch_is_on_it() {
    let Some(scene) = Scene::set() else { return };
    let location = scene.at_lake("describe", T, &[])["location"].clone();
    let place = location.as_str().unwrap().rsplit('/').next().unwrap();
    let entries = scene.entries(1);
    let other = scene.other.catch(CREATE);
    scene.meanwhile(&entries, || {
        other.wait();
        scene.settles(T, &json!([1, 2]));
        for place in [place, location.as_str().unwrap()] {
            let target = "/v1/table/lab%24twin/register?delimiter=%24";
            let refused = scene.gateway.post(target, &json!({ "location": place }));
            assert_eq!(refused.status, 503, "{refused:?}");
        }
        other.pass();
    });
}
