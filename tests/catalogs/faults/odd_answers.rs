//! Answers that are not the catalog's: something between gateway and catalog answers, repeats a request, or loses one.

use serde_json::{Value, json};

use super::{CREATE, DELETE, O, Scene, done, is_refused};
use crate::client::Reply;
use crate::harness::Fault;

/// Sends a batch over a new table of this name and `prod$o`, with a fault in one request.
fn batch(scene: &Scene, table: &str, suffix: &str, fault: Fault, doomed: bool) -> Reply {
    done(&scene.at_lake("make", table, &[]));
    let mut entries = json!([scene.staged(table, 1, 2), scene.staged(O, 1, 1)]);
    if doomed {
        let path = entries[1]["manifest_path"].as_str().unwrap();
        entries[1]["manifest_path"] = json!(format!("{path}-that-is-not-there"));
    }
    scene.relay.fault_once(suffix, 1, fault);
    let reply = scene.batch(&entries);
    scene.relay.pass();
    scene.undone();
    reply
}

/// Checks that both tables show the batch, or neither does, and that what the batch's client was told is true.
fn all_or_nothing(scene: &Scene, table: &str, reply: &Reply) {
    let before = others_version(scene);
    if reply.status == 200 {
        let shown = scene.through("look", table, &[]);
        assert_eq!(done(&shown)["rows"], json!({"0": 1, "1": 2}), "{shown}");
        scene.settles(table, &json!([1, 2]));
    } else {
        scene.hides(table, 1, 1);
        scene.settles(table, &json!([1]));
        let told = scene.through("append", table, &[json!(7), json!(3)]);
        println!("then an append: {told}");
        scene.kept(&told, table, 7, 3);
    }
    assert_eq!(before, others_version(scene));
}

fn others_version(scene: &Scene) -> Value {
    let shown = scene.through("look", O, &[]);
    let stored = scene.order("look", &scene.warehouse.uri(), O, &[]);
    assert_eq!(done(&shown)["versions"], done(&stored)["versions"]);
    shown["versions"].clone()
}

#[test]
fn a_create_whose_answer_is_not_the_catalogs_is_all_or_nothing() {
    let Some(scene) = Scene::set() else { return };
    let faults = [
        Fault::Drop,
        Fault::LoseAnswer,
        Fault::Twice,
        Fault::Refuse(500),
        Fault::Refuse(503),
        Fault::ActAndRefuse(400),
        Fault::ActAndRefuse(404),
        Fault::ActAndRefuse(405),
        Fault::ActAndRefuse(409),
        Fault::ActAndRefuse(500),
        Fault::ActAndRefuse(501),
        Fault::ActAndRefuse(503),
    ];
    for (index, fault) in faults.into_iter().enumerate() {
        let table = format!("lab$created{index}");
        let what = format!("{fault:?}");
        let reply = batch(&scene, &table, CREATE, fault, false);
        println!("{what}: {}", reply.status);
        // A definite refusal is passed on as it is, after undo has checked what it left behind.
        let definite = reply.status < 500 || reply.status == 501;
        let known = is_refused(&reply) || definite;
        assert!(known, "{what}: {reply:?}");
        all_or_nothing(&scene, &table, &reply);
    }
}

#[test]
fn a_delete_whose_answer_is_not_the_catalogs_is_done_in_the_end() {
    let Some(scene) = Scene::set() else { return };
    let faults = [
        Fault::Drop,
        Fault::LoseAnswer,
        Fault::Twice,
        Fault::Refuse(200),
        Fault::Refuse(404),
        Fault::Refuse(500),
        Fault::ActAndRefuse(405),
        Fault::ActAndRefuse(500),
        Fault::ActAndRefuse(503),
    ];
    for (index, fault) in faults.into_iter().enumerate() {
        let table = format!("lab$deleted{index}");
        let what = format!("{fault:?}");
        let reply = batch(&scene, &table, DELETE, fault, true);
        println!("{what}: {}", reply.status);
        assert_eq!(reply.status, 400, "{what}: {reply:?}");
        all_or_nothing(&scene, &table, &reply);
    }
}
