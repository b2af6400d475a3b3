//! Tables after a batch that was undone cleanly: how soon they work again.

use std::time::{Duration, Instant};

use std::thread;

use serde_json::json;

use super::{CREATE, Scene, T, done, is_done};

/// The time in milliseconds, from the abort's answer on, in which the first write must succeed at its first try.
const AT_ONCE: u128 = 1000;

/// Aborts a batch with the default cool-down of 60 s. The undo is complete and every request was answered.
fn aborted() -> Option<(Scene, Instant)> {
    let scene = Scene::with(&json!({"batch": {"slot_cooldown": "60s"}}))?;
    let entries = scene.doomed(1);
    // The first client of a process needs longer than the others.
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

/// Sends the batch again, with a manifest that exists: it must commit at once.
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

/// Lets a writer build on an undecided version that it found in storage. The writer's create is refused when that
/// version is undone, and what another client then creates in its place stays.
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

/// Lets a writer build on an undecided version as above, but the writer sends its create after the undo, while another
/// client waits to create that number again. That client waits for a moment longer, so the writer has only that long.
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
    // A client that comes before finds version 2 in storage, too.
    scene.settles(T, &json!([1]));
    let (told, late) = thread::scope(|threads| {
        let other = threads.spawn(|| scene.through(meanwhile, T, &[json!(7), json!(3)]));
        // The writer's create has reached the gateway by then, or comes later.
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
