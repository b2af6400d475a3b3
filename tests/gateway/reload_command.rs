//! The command `nsgate reload`: what changed, what waits for a restart, and every problem with its place.

use serde_json::Value;

use crate::command::{Ended, run};
use crate::harness::{Setup, World};

/// Replaces the configuration file, and runs `nsgate reload` with these further arguments.
///
/// The gateway reads a changed file again by itself after a second. What is checked here is the same either way.
async fn reload(world: &World, old: &str, new: &str, arguments: &[&str]) -> Ended {
    let yaml = world.configuration();
    assert!(yaml.contains(old), "{old} is not in\n{yaml}");
    world.configure(&yaml.replace(old, new));
    let admin = format!("http://{}", world.admin_address());
    let ended = run(world, &[&["reload", "--admin", &admin], arguments].concat()).await;
    world.configure(&yaml);
    ended
}

#[tokio::test]
async fn a_refused_reload_lists_every_problem_with_its_place() {
    let world = World::two().await;
    let broken = ("workers: 2", "workers: many\n  wrokers: 2");
    let (code, stdout, stderr) = reload(&world, broken.0, broken.1, &[]).await;
    assert_eq!((code, &*stdout), (Some(1), ""), "{stderr}");
    let lines: Vec<&str> = stderr.lines().collect();
    assert_eq!(lines.len(), 3, "{stderr}");
    assert!(
        lines[0].starts_with("gateway.yaml:3:12: listen.workers: "),
        "{stderr}"
    );
    assert!(
        lines[1].starts_with("gateway.yaml:4:3: listen.wrokers: "),
        "{stderr}"
    );
    let last = "not reloaded, 2 problems: the configuration from before stays active";
    assert_eq!(lines[2], last);

    // A program gets the same as JSON on stdout, with the same exit code.
    let (code, stdout, stderr) = reload(&world, broken.0, broken.1, &["--json"]).await;
    assert_eq!((code, &*stderr), (Some(1), ""));
    let said: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(said["problems"].as_array().unwrap().len(), 2, "{said}");
}

#[tokio::test]
async fn a_reload_says_what_waits_for_a_restart() {
    let world = World::two().await;
    let (code, stdout, stderr) = reload(&world, "workers: 2", "workers: 3", &[]).await;
    assert_eq!((code, &*stderr), (Some(0), ""));
    let expected = "reloaded: nothing has changed that is active without a restart
only a restart makes these active; until then the value from before stays:
  listen.workers: 2 now, 3 after a restart
";
    assert_eq!(stdout, expected);
    let (code, stdout, _) = reload(&world, "workers: 2", "workers: 3", &["--json"]).await;
    let said: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((code, &said["reloaded"]), (Some(0), &true.into()));
}

#[tokio::test]
async fn a_reload_needs_the_admin_token() {
    let guarded = "admin: { address: 127.0.0.1:0, token: a-secret-of-operators }";
    let world = Setup::two().section(guarded).start().await;
    let same = ("workers: 2", "workers: 2");
    let (code, _, stderr) = reload(&world, same.0, same.1, &[]).await;
    assert_eq!(code, Some(1));
    assert!(stderr.contains("NSGATE_ADMIN_TOKEN"), "{stderr}");
    let token = ["--token", "a-secret-of-operators"];
    let said = reload(&world, same.0, same.1, &token).await;
    let expected = "reloaded: nothing has changed\n".to_owned();
    assert_eq!(said, (Some(0), expected, String::new()));
}
