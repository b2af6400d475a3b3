//! Removals by the gateway (delete, deregister) that get no answer and arrive when something new is in that place.

use serde_json::{Value, json};

use super::{COMMIT, DELETE, Scene, T, done, is_done, rested};
use crate::harness::Caught;

const DEREGISTER_T: &str = "%24t/deregister";
const DEREGISTER_NEW: &str = "%24new/deregister";

/// Aborts a batch. The first delete of its undo is still on its way; a second one has worked.
fn undone_with_a_delete_on_its_way(scene: &Scene) -> Caught {
    let entries = scene.doomed(1);
    let delete = scene.relay.catch(DELETE);
    let (reply, ()) = scene.meanwhile(&entries, || {
        delete.wait().cut();
    });
    assert_eq!(reply.status, 400, "{reply:?}");
    scene.settles(T, &json!([1]));
    scene.undone();
    delete
}

/// Writes write 7 while the delete is on its way. Checks that what the writer was told is still true after the delete.
fn written_meanwhile(scene: &Scene, action: &str, delete: &Caught) -> Value {
    let told = scene.through(action, T, &[json!(7), json!(3)]);
    assert_eq!(delete.deliver().status(), 200);
    scene.kept(&told, T, 7, 3);
    told
}

#[test]
fn a_late_delete_takes_no_append() {
    let Some(scene) = Scene::set() else { return };
    let delete = undone_with_a_delete_on_its_way(&scene);
    rested();
    let told = written_meanwhile(&scene, "append", &delete);
    println!("an append while a delete is on its way: {told}");
}

#[test]
fn a_late_delete_takes_no_insert() {
    let Some(scene) = Scene::set() else { return };
    let delete = undone_with_a_delete_on_its_way(&scene);
    let told = written_meanwhile(&scene, "insert", &delete);
    println!("an insert while a delete is on its way: {told}");
}

#[test]
fn a_late_delete_takes_no_batch() {
    let Some(scene) = Scene::set() else { return };
    let delete = undone_with_a_delete_on_its_way(&scene);
    rested();
    let reply = scene.batch(&scene.entries(2));
    assert_eq!(delete.deliver().status(), 200);
    if reply.status == 200 {
        scene.kept(&json!({}), T, 2, 2);
    }
}

/// A killed gateway must not forget that it sent a delete.
#[test]
fn a_late_delete_takes_no_append_after_a_restart() {
    let Some(mut scene) = Scene::set() else {
        return;
    };
    let delete = undone_with_a_delete_on_its_way(&scene);
    rested();
    scene.gateway.kill();
    scene.gateway.again();
    written_meanwhile(&scene, "append", &delete);
}

/// A proxy between gateway and catalog answers 503 for the catalog, and sends the delete on later.
#[test]
fn a_late_delete_that_was_refused_takes_no_append() {
    let Some(scene) = Scene::set() else { return };
    let entries = scene.doomed(1);
    let delete = scene.relay.catch(DELETE);
    let (reply, _) = scene.meanwhile(&entries, || delete.wait().refuse(503));
    assert_eq!(reply.status, 400, "{reply:?}");
    scene.settles(T, &json!([1]));
    scene.undone();
    rested();
    written_meanwhile(&scene, "append", &delete);
}

/// A proxy between gateway and catalog answers that the delete was done, and sends it on later.
#[test]
fn a_late_delete_that_was_confirmed_takes_no_append() {
    let Some(scene) = Scene::set() else { return };
    let entries = scene.doomed(1);
    let delete = scene.relay.catch(DELETE);
    let (reply, _) = scene.meanwhile(&entries, || delete.wait().refuse(200));
    assert_eq!(reply.status, 400, "{reply:?}");
    scene.settles(T, &json!([1]));
    scene.undone();
    rested();
    written_meanwhile(&scene, "append", &delete);
}

/// Creates a new table under a name while a deregister is on its way. The table must be there afterwards.
fn made_meanwhile(scene: &Scene, name: &str, deregister: &Caught) {
    let told = scene.through("create", name, &[json!(7), json!(3)]);
    println!("a new table while a deregister is on its way: {told}");
    let status = deregister.deliver().status();
    assert!(matches!(status, 200 | 404), "{status}");
    scene.kept(&told, name, 7, 3);
    if !is_done(&told) {
        // The table was declared and not filled, so it need not be there.
        return;
    }
    let there = scene.through("exists", name, &[]);
    assert_eq!(done(&there)["exists"], true, "{there}");
}

#[test]
fn a_late_deregister_of_an_undo_takes_no_new_table() {
    let Some(scene) = Scene::set() else { return };
    let mut version = scene.staged(super::O, 1, 1);
    let path = version["manifest_path"].as_str().unwrap();
    version["manifest_path"] = json!(format!("{path}-that-is-not-there"));
    let operations = json!([
        {"declare_table": {"id": ["lab", "new"]}},
        {"create_table_version": version},
    ]);
    let deregister = scene.relay.catch(DEREGISTER_NEW);
    let reply = std::thread::scope(|threads| {
        let commit = threads.spawn(|| scene.commit(&operations));
        deregister.wait().cut();
        super::joined(commit)
    });
    assert_eq!(reply.status, 400, "{COMMIT}: {reply:?}");
    is_gone(&scene, "lab$new");
    made_meanwhile(&scene, "lab$new", &deregister);
}

#[test]
fn a_late_deregister_of_a_commit_takes_no_new_table() {
    let Some(scene) = Scene::set() else { return };
    let operations = json!([
        {"deregister_table": {"id": ["lab", "t"]}},
        {"create_table_version": scene.staged(super::O, 1, 1)},
    ]);
    let deregister = scene.relay.catch(DEREGISTER_T);
    let reply = std::thread::scope(|threads| {
        let commit = threads.spawn(|| scene.commit(&operations));
        deregister.wait().cut();
        super::joined(commit)
    });
    assert_eq!(reply.status, 200, "{COMMIT}: {reply:?}");
    is_gone(&scene, T);
    made_meanwhile(&scene, T, &deregister);
}

#[test]
fn a_late_deregister_of_a_rename_takes_no_new_table() {
    let Some(scene) = Scene::set() else { return };
    let deregister = scene.relay.catch(DEREGISTER_T);
    let told = std::thread::scope(|threads| {
        let rename = threads.spawn(|| scene.through("rename", T, &[json!("lab$other")]));
        deregister.wait().cut();
        super::joined(rename)
    });
    done(&told);
    is_gone(&scene, T);
    made_meanwhile(&scene, T, &deregister);
    let told = scene.through("look", "lab$other", &[]);
    assert_eq!(done(&told)["rows"], json!({"0": 1}), "{told}");
}

/// Waits until the catalog has no table of this name.
fn is_gone(scene: &Scene, name: &str) {
    crate::harness::eventually(&format!("{name} to be gone"), || {
        let there = scene.at_lake("exists", name, &[]);
        (done(&there)["exists"] == false).then_some(())
    });
    scene.undone();
}
