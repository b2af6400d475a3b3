//! A registration of the gateway's own gets no answer, and arrives when nobody waits for it.

use serde_json::json;

use super::{Scene, T, done, is_done};
use crate::harness::eventually;

/// The catalog refuses the first one, of another spelling of the place.
const REGISTER: (&str, usize) = ("/register", 2);

/// A rename is refused because nobody knows what became of its registration, which then comes: one table, one name.
#[test]
fn a_late_registration_leaves_a_table_one_name() {
    let Some(scene) = Scene::set() else { return };
    let register = scene.relay.catch_only(REGISTER.0, REGISTER.1);
    let told = scene.through("rename", T, &[json!("lab$other")]);
    scene.relay.pass();
    assert!(!is_done(&told), "{told}");
    assert!(register.has_come(), "{scene}");
    scene.undone();
    let status = register.deliver().status();
    assert_eq!(status, 200, "the registration that was late");
    let shown = scene.through("exists", "lab$other", &[]);
    assert!(
        shown["exists"] != true,
        "a name that was refused is shown: {shown}"
    );
    one_name(&scene, T, "lab$other");
}

/// The same where the gateway heard at once that there is no answer.
#[test]
fn a_lost_registration_that_comes_late_leaves_a_table_one_name() {
    let Some(scene) = Scene::set() else { return };
    let register = scene.relay.catch_only(REGISTER.0, REGISTER.1);
    let told = std::thread::scope(|threads| {
        let rename = threads.spawn(|| scene.through("rename", T, &[json!("lab$other")]));
        register.wait().cut();
        super::joined(rename)
    });
    scene.relay.pass();
    assert!(!is_done(&told), "{told}");
    scene.undone();
    assert_eq!(register.deliver().status(), 200);
    one_name(&scene, T, "lab$other");
}

/// In the end a table has its `name`, with all of its rows, and not the `other` one.
fn one_name(scene: &Scene, name: &str, other: &str) {
    eventually("the late name to be taken back", || {
        let there = scene.at_lake("exists", other, &[]);
        (done(&there)["exists"] == false).then_some(())
    });
    for table in [
        scene.through("look", name, &[]),
        scene.at_lake("look", name, &[]),
    ] {
        assert_eq!(done(&table)["rows"], json!({"0": 1}), "{table}");
    }
}
