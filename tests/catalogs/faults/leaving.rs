//! Clients that leave, and a gateway that stops waiting, while the catalog is still to insert the client's rows.

use std::io::Write;
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{CREATE, Scene, T, done, is_done, joined};
use crate::harness::Caught;

const INSERT: &str = "/insert";

/// Delivers an insert from before the batch, while the batch is undecided. No reader may see anything of the batch.
/// With `refuses` the other catalog refuses its part, and the batch is aborted.
fn lands_in_a_batch(scene: &Scene, entries: &Value, insert: &Caught, refuses: bool) {
    let other = scene.other.catch(CREATE);
    let (reply, ()) = scene.meanwhile(entries, || {
        // The batch may wait for the insert, and then its lock is not free in time.
        let start = Instant::now();
        while !other.has_come() && start.elapsed() < Duration::from_millis(700) {
            thread::sleep(Duration::from_millis(10));
        }
        insert.pass();
        if other.has_come() {
            let looked = scene.through("look", T, &[]);
            assert!(looked["rows"]["1"].is_null(), "not decided yet: {looked}");
            scene.hides(T, 1, 1);
            if refuses {
                other.refuse(400);
            } else {
                other.pass();
            }
        }
    });
    println!("the batch: {} {:?}", reply.status, reply.body);
    let shown = scene.through("look", T, &[]);
    let rows = &shown["rows"]["1"];
    if reply.status == 200 {
        assert_eq!(*rows, 2, "{shown}");
    } else {
        assert!(rows.is_null(), "{shown}");
    }
}

#[test]
fn a_client_that_leaves_its_insert_lets_nobody_see_half_of_a_batch() {
    let Some(scene) = Scene::set() else { return };
    let entries = scene.entries(1);
    let insert = scene.relay.catch(INSERT);
    let leaves = super::clients();
    let order = json!([
        scene.gateway.token(),
        "insert",
        scene.gateway.uri(),
        T,
        7,
        3
    ]);
    let told = leaves.begin(&order);
    insert.wait();
    drop(told);
    // The kill (kill -9) closes the client's connection in the middle of the request.
    drop(leaves);
    lands_in_a_batch(&scene, &entries, &insert, false);
}

#[test]
fn an_insert_that_times_out_lets_nobody_see_half_of_a_batch() {
    timed_out(false);
}

#[test]
fn an_insert_that_times_out_lets_nobody_see_an_aborted_batch() {
    timed_out(true);
}

fn timed_out(refuses: bool) {
    let Some(scene) = Scene::with(
        &json!({"limits": {"data_timeout": "1s"}, "batch": {"prepare_timeout": "60s"}}),
    ) else {
        return;
    };
    let entries = scene.entries(1);
    let insert = scene.relay.catch(INSERT);
    let told = scene.through("insert", T, &[json!(7), json!(3)]);
    assert!(!is_done(&told), "{told}");
    lands_in_a_batch(&scene, &entries, &insert, refuses);
}

/// The client sends 1000 of 100000 bytes and leaves. The insert never reaches the catalog, so it changes nothing.
#[test]
fn a_client_that_leaves_in_the_middle_of_its_rows_changes_nothing() {
    let Some(scene) = Scene::set() else { return };
    let head = format!(
        "POST /v1/table/lab%24t/insert?mode=append HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\n\
         content-type: application/vnd.apache.arrow.stream\r\ncontent-length: 100000\r\n\r\n",
        scene.gateway.address(),
        scene.gateway.token()
    );
    let mut leaves = TcpStream::connect(scene.gateway.address()).unwrap();
    leaves.write_all(head.as_bytes()).unwrap();
    leaves.write_all(&[0; 1000]).unwrap();
    drop(leaves);
    let reply = scene.batch(&scene.entries(1));
    assert_eq!(reply.status, 200, "{reply:?}");
    let shown = scene.through("look", T, &[]);
    assert_eq!(done(&shown)["rows"], json!({"0": 1, "1": 2}), "{shown}");
}

/// The create of a batch of one outlives its client. It keeps the table locked for as long as it may still arrive.
#[test]
fn a_client_that_leaves_its_batch_of_one_lets_nobody_see_half_of_another() {
    let Some(scene) = Scene::set() else { return };
    let single = json!({ "entries": [scene.staged(T, 3, 1)] }).to_string();
    let entries = scene.entries(1);
    let late = scene.relay.catch(CREATE);
    let head = format!(
        "POST {} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{single}",
        super::BATCH,
        scene.gateway.address(),
        scene.gateway.token(),
        single.len()
    );
    let mut leaves = TcpStream::connect(scene.gateway.address()).unwrap();
    leaves.write_all(head.as_bytes()).unwrap();
    late.wait();
    drop(leaves);
    let lost = scene.relay.catch(CREATE);
    let reply = thread::scope(|threads| {
        let batch = threads.spawn(|| scene.batch(&entries));
        let start = Instant::now();
        while !lost.has_come() && start.elapsed() < Duration::from_millis(700) {
            thread::sleep(Duration::from_millis(10));
        }
        late.pass();
        if lost.has_come() {
            lost.cut();
        }
        joined(batch)
    });
    println!("the batch: {} {:?}", reply.status, reply.body);
    let shown = scene.through("look", T, &[]);
    let rows = &shown["rows"]["1"];
    if reply.status == 200 {
        assert_eq!(*rows, 2, "{shown}");
    } else {
        assert!(rows.is_null(), "{shown}");
    }
}
