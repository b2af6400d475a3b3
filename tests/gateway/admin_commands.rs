//! The commands that ask the admin address of a gateway: each takes the same options.

use crate::command::run;
use crate::harness::Setup;
use crate::tls::{SHOW, TRUST, guarded_admin};

#[tokio::test]
async fn every_command_trusts_the_authority_and_shows_the_certificate_that_it_is_given() {
    let (world, url) = guarded_admin().await;
    let id = "0190b0a0-0000-7000-8000-000000000000";
    for (command, code, words) in [
        (&["status", "--admin"][..], 0, "ready"),
        (&["gateways", "--admin"][..], 0, "for itself"),
        (&["reload", "--admin"][..], 0, "nothing has changed"),
        (&["health", "--url"][..], 0, "ready"),
        (&["batches", "list", "--admin"][..], 0, "no open batches"),
        (&["batches", "show", id, "--admin"][..], 1, "no batch"),
        (
            &[
                "batches", "resolve", id, "--abort", "--who", "ann", "--admin",
            ][..],
            1,
            "no batch",
        ),
    ] {
        let asked = [command, &[&*url]].concat();
        let (ended, stdout, stderr) = run(&world, &[&asked[..], &TRUST, &SHOW].concat()).await;
        let said = format!("{stdout}{stderr}");
        assert_eq!(ended, Some(code), "{command:?}: {said}");
        assert!(said.contains(words), "{command:?}: {said}");
        for (options, words) in [
            (&TRUST[..], "it asks for a client certificate"),
            (&[][..], "signed by no authority that is trusted"),
        ] {
            let (ended, _, stderr) = run(&world, &[&asked[..], options].concat()).await;
            assert_eq!(ended, Some(1), "{command:?}: {stderr}");
            assert!(stderr.contains(words), "{command:?}: {stderr}");
        }
    }
}

#[tokio::test]
async fn a_command_that_changes_something_says_that_its_token_may_only_read() {
    let admin = "admin: { address: 127.0.0.1:0, token: everything, read_token: reading }";
    let world = Setup::two().section(admin).start().await;
    let url = format!("http://{}", world.admin_address());
    let id = "0190b0a0-0000-7000-8000-000000000000";
    let options = ["--token", "reading", "--admin", &*url];
    for command in [
        &["reload"][..],
        &["batches", "resolve", id, "--abort", "--who", "ann"],
    ] {
        let (code, _, stderr) = run(&world, &[command, &options].concat()).await;
        assert_eq!(code, Some(1), "{stderr}");
        assert!(stderr.contains("may only read"), "{stderr}");
        assert!(stderr.contains("give `admin.token`"), "{stderr}");
    }
    let (code, stdout, _) = run(&world, &[&["status"][..], &options].concat()).await;
    assert_eq!(code, Some(0), "{stdout}");
}
