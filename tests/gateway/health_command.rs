//! The command `nsgate health`: one line and an exit code for images and load balancers.

use std::net::TcpListener;

use crate::command::{run, run_with};
use crate::harness::{Setup, World};
use crate::tls::{SHOW, TRUST, guarded_admin};

fn url(world: &World) -> String {
    format!("http://{}", world.admin_address())
}

#[tokio::test]
async fn a_gateway_that_serves_is_healthy_without_a_token() {
    let guarded = "admin: { address: 127.0.0.1:0, token: a-secret-of-operators }";
    let mut world = Setup::two().section(guarded).start().await;
    let url = url(&world);
    let (ready, live) = ("ready\n".to_owned(), "live\n".to_owned());
    let none = String::new();
    let said = run(&world, &["health", "--url", &url]).await;
    assert_eq!(said, (Some(0), ready, none.clone()));
    let said = run(&world, &["health", "--live", "--url", &url]).await;
    assert_eq!(said, (Some(0), live, none.clone()));
    // The status of any page, at any address, for `--url` with a path.
    let page = format!("{url}/metrics");
    let said = run(&world, &["health", "--url", &page]).await;
    let expected = format!("healthy: {page} answers 200 OK\n");
    assert_eq!(said, (Some(0), expected, none.clone()));

    world.kill();
    let (code, stdout, stderr) = run(&world, &["health", "--url", &url]).await;
    assert_eq!((code, stdout), (Some(1), none));
    let expected = format!("not healthy: {url} does not answer: Connection refused");
    assert!(stderr.starts_with(&expected), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

#[tokio::test]
async fn a_refused_reload_is_said_and_is_still_healthy() {
    let world = World::two().await;
    let broken = world.configuration().replace("workers: 2", "workers: many");
    assert_eq!(world.reload(&broken).await.status, 422);
    let (code, stdout, _) = run(&world, &["health", "--url", &url(&world)]).await;
    assert_eq!(code, Some(0), "{stdout}");
    assert!(
        stdout.starts_with("ready, with the configuration from before: "),
        "{stdout}"
    );
    assert_eq!(stdout.lines().count(), 1, "{stdout}");
}

#[tokio::test]
async fn an_admin_address_with_tls_is_asked_over_tls() {
    let (world, url) = guarded_admin().await;
    let health = ["health", "--url", &*url];
    let trusting = [&health[..], &TRUST].concat();
    let said = run(&world, &[&trusting[..], &SHOW].concat()).await;
    assert_eq!(said, (Some(0), "ready\n".to_owned(), String::new()));

    // A certificate alone, an authority that is missing, and one for other names.
    let address = format!("https://{}", world.admin_address());
    let by_number = [&["health", "--url", &*address][..], &TRUST].concat();
    for (arguments, words) in [
        (trusting, "it asks for a client certificate"),
        (health.to_vec(), "signed by no authority that is trusted"),
        (by_number, "for other names than the one in its address"),
    ] {
        let (code, _, stderr) = run(&world, &arguments).await;
        assert_eq!(code, Some(1), "{stderr}");
        assert!(stderr.contains(words), "{words}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
}

#[tokio::test]
async fn a_listener_that_does_not_answer_is_given_up() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["health", "--timeout", "200ms", "--url", &url];
    let (code, stdout, stderr) = run_with(folder.path(), &arguments, "").await;
    assert_eq!((code, &*stdout), (Some(1), ""));
    assert_eq!(
        stderr,
        format!("not healthy: {url} does not answer: no answer in 200ms\n")
    );
}

#[tokio::test]
async fn the_admin_address_is_taken_from_a_configuration() {
    let world = World::two().await;
    let port = format!(
        "admin: {{ address: \"0.0.0.0:{}\", token: x-secret }}",
        world.admin_address().port()
    );
    let yaml = world
        .configuration()
        .replace("admin: { address: 127.0.0.1:0 }", &port);
    std::fs::write(world.folder().join("there.yaml"), yaml).unwrap();
    let said = run(&world, &["health", "--config", "there.yaml"]).await;
    assert_eq!(said, (Some(0), "ready\n".to_owned(), String::new()));
    let (code, _, stderr) = run(&world, &["health", "--config", "gateway.yaml"]).await;
    assert_eq!(code, Some(1));
    assert!(stderr.contains("give the address with --url"), "{stderr}");
}
