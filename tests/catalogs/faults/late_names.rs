//! Registrations by the gateway that get no answer and arrive late.

use serde_json::json;

use super::{Scene, T, done, is_done};
use crate::harness::eventually;

/// The second request to register. The catalog refuses the first, which spells the place in another way.
const REGISTER: (&str, usize) = ("/register", 2);

/// The rename is refused because the result of its registration is unknown. The registration then arrives. The table
/// must have one name in the end.
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

/// The gateway is cut off at once, so it knows that no answer comes. The rename is refused, and the registration
/// arrives later, as above.
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

/// Waits until the name `other` is gone. Checks that the table has `name`, with all of its rows.
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
