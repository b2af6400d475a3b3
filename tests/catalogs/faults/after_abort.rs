//! How soon a table is itself again after a batch that was undone cleanly.

use std::time::{Duration, Instant};

use std::thread;

use serde_json::json;

use super::{CREATE, Scene, T, done, is_done};

/// Milliseconds that a write may take to succeed, at its first try, from the abort's answer on.
const AT_ONCE: u128 = 1000;

/// The default cool-down; the batch was undone, and every question of it was answered.
fn aborted() -> Option<(Scene, Instant)> {
    let scene = Scene::with(&json!({"batch": {"slot_cooldown": "60s"}}))?;
    let entries = scene.doomed(1);
    // The first client of a process takes longer than the others.
    done(&scene.through("look", T, &[]));
    let reply = scene.batch(&entries);
    let answered = Instant::now();
    assert_eq!(reply.status, 400, "{reply:?}");
    Some((scene, answered))
}

fn first_write_works(first: &str, second: &str) {
    let Some((scene, answered)) = aborted() else {
        return;
    };
    let told = scene.through(first, T, &[json!(7), json!(3)]);
    let took = answered.elapsed().as_millis();
    println!("after a clean abort: the first {first} was over after {took} ms: {told}");
    assert_eq!(done(&told)["version"], 2, "{told}");
    assert!(took <= AT_ONCE, "{took} ms");
    let listed = scene.through("look", T, &[]);
    assert_eq!(done(&listed)["versions"], json!([1, 2]), "{listed}");
    assert_eq!(listed["rows"], json!({"0": 1, "7": 3}), "{listed}");

    let told = scene.through(second, T, &[json!(8), json!(1)]);
    println!("after a clean abort: then the {second}: {told}");
    assert_eq!(done(&told)["version"], 3, "{told}");
    let listed = scene.through("look", T, &[]);
    assert_eq!(done(&listed)["versions"], json!([1, 2, 3]), "{listed}");
    assert_eq!(listed["rows"], json!({"0": 1, "7": 3, "8": 1}), "{listed}");
}

#[test]
fn an_append_works_at_once_after_a_clean_abort() {
    first_write_works("append", "append");
}

#[test]
fn an_insert_works_at_once_after_a_clean_abort() {
    first_write_works("insert", "append");
}

#[test]
fn an_insert_works_at_once_after_an_append_after_a_clean_abort() {
    first_write_works("append", "insert");
}

/// And so does the same batch, once it can be made.
#[test]
fn a_batch_works_at_once_after_a_clean_abort() {
    let Some((scene, answered)) = aborted() else {
        return;
    };
    let entries = scene.entries(2);
    let reply = scene.batch(&entries);
    println!(
        "after a clean abort: the next batch was over after {} ms",
        answered.elapsed().as_millis()
    );
    assert_eq!(reply.status, 200, "{reply:?}");
    let shown = scene.through("look", T, &[]);
    assert_eq!(done(&shown)["rows"], json!({"0": 1, "2": 2}), "{shown}");
}

/// A writer has found the undecided version in storage, built on it and asked for its own: it is refused when that one is
/// undone, and what somebody else then makes in its place stays.
fn built_on_an_undone_version(meanwhile: &str) {
    let Some(scene) = Scene::with(&json!({"batch": {"slot_cooldown": "60s"}})) else {
        return;
    };
    let entries = scene.entries(1);
    let other = scene.other.catch(CREATE);
    let late = thread::scope(|threads| {
        let (reply, late) = scene.meanwhile(&entries, || {
            other.wait();
            scene.settles(T, &json!([1, 2]));
            let built = scene.staged(T, 9, 1);
            println!(
                "a writer found version 2, and asks for {}",
                built["version"]
            );
            let gateway = &scene.gateway;
            let late = threads.spawn(move || {
                gateway.post("/v1/table/lab%24t/version/create?delimiter=%24", &built)
            });
            other.refuse(400);
            late
        });
        assert!(reply.status >= 400, "{reply:?}");
        late.join().unwrap()
    });
    scene.undone();
    let told = scene.through(meanwhile, T, &[json!(7), json!(3)]);
    println!("then an {meanwhile}: {told}");
    println!("what was built on version 2: {}", late.status);
    assert_eq!(late.status, 409, "{late:?}");
    scene.kept(&told, T, 7, 3);
    scene.hides(T, 1, if is_done(&told) { 4 } else { 1 });
}

#[test]
fn what_was_built_on_an_undone_version_takes_no_append() {
    built_on_an_undone_version("append");
}

#[test]
fn what_was_built_on_an_undone_version_takes_no_insert() {
    built_on_an_undone_version("insert");
}

/// The same writer is slower: it asks when the batch is undone, and another one waits to make that number again. That one
/// waits for a moment longer, which is all that the first one has.
fn built_on_a_version_undone_before(meanwhile: &str) {
    let cooldown = json!({"batch": {"slot_cooldown": "60s", "undone_rest": "5s"}});
    let Some(scene) = Scene::with(&cooldown) else {
        return;
    };
    let entries = scene.entries(1);
    let other = scene.other.catch(CREATE);
    let (reply, built) = scene.meanwhile(&entries, || {
        other.wait();
        scene.settles(T, &json!([1, 2]));
        let built = scene.staged(T, 9, 1);
        println!("a writer found version 2, and builds {}", built["version"]);
        other.refuse(400);
        built
    });
    assert!(reply.status >= 400, "{reply:?}");
    let (told, late) = thread::scope(|threads| {
        let other = threads.spawn(|| scene.through(meanwhile, T, &[json!(7), json!(3)]));
        // It is at the gateway by then, or comes later yet.
        thread::sleep(Duration::from_millis(500));
        let gateway = &scene.gateway;
        let late = gateway.post("/v1/table/lab%24t/version/create?delimiter=%24", &built);
        (other.join().unwrap(), late)
    });
    println!("an {meanwhile} meanwhile: {told}");
    println!("what was built on version 2: {}", late.status);
    assert_eq!(late.status, 409, "{late:?}");
    assert_eq!(done(&told)["version"], 2, "{told}");
    scene.kept(&told, T, 7, 3);
    scene.hides(T, 1, 4);
}

#[test]
fn an_append_waits_for_what_was_built_on_the_version_that_it_makes_again() {
    built_on_a_version_undone_before("append");
}

#[test]
fn an_insert_waits_for_what_was_built_on_the_version_that_it_makes_again() {
    built_on_a_version_undone_before("insert");
}
