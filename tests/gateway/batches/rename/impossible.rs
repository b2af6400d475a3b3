//! A rename that one of the catalogs cannot take part in is refused, and changes nothing.

use super::*;

#[tokio::test]
async fn a_rename_that_a_catalog_cannot_take_part_in_leaves_no_trace() {
    type Lack = fn(&World);
    let cases: [(&str, &str, Lack); 6] = [
        ("`east` does not support register", "east", |world| {
            world
                .catalog("east")
                .can("register_table", 500, "application/json", NO.as_bytes());
        }),
        ("`east` does not support deregister", "east", |world| {
            world
                .catalog("east")
                .can("deregister_table", 501, "application/json", b"");
        }),
        ("`west` does not support deregister", "east", |world| {
            world
                .catalog("west")
                .can("deregister_table", 406, "application/json", b"");
        }),
        ("`east` would put the table elsewhere", "east", |world| {
            world.catalog("east").store().set_root("file:///elsewhere");
        }),
        (
            "`east` does not accept the location of the table",
            "east",
            |world| {
                let no = br#"{"error":"not here","code":13}"#;
                world
                    .catalog("east")
                    .can("register_table", 400, "application/json", no);
            },
        ),
        ("`west` does not tell the location", "west", |world| {
            let nowhere = br#"{"table":"t1","namespace":["west"]}"#;
            world
                .catalog("west")
                .can("describe_table", 200, "application/json", nowhere);
        }),
    ];
    for (words, namespace, lack) in cases {
        let world = world().await;
        lack(&world);
        let reply = moved(&world, namespace).await.unwrap();
        assert_eq!(reply.outcome(), (406, Some(0)), "{words}: {reply:?}");
        let message = reply.json()["error"].as_str().unwrap().to_owned();
        assert!(message.contains(words), "{words}: {message}");
        assert_unchanged(&world, words).await;
    }
}

/// A catalog that registers a name and lists no versions of it has lost them, whether its answer arrives or not.
#[tokio::test]
async fn a_table_that_would_lose_its_versions_is_not_renamed() {
    for (lost, words) in [
        (false, "`east` does not have the table's versions"),
        (true, "does not say whether it created"),
    ] {
        let world = world().await;
        let east = world.catalog("east");
        east.can(
            "list_table_versions",
            200,
            "application/json",
            br#"{"versions":[]}"#,
        );
        if lost {
            east.fail_nth("register_table", &["east", "u"], 2, Fault::ResetAfter);
        }
        let reply = moved(&world, "east").await.unwrap();
        let message = reply.json()["error"].as_str().unwrap().to_owned();
        assert!(message.contains(words), "{lost}: {reply:?}");
        assert_unchanged(&world, words).await;
    }
}

/// A catalog that does not let the caller list the versions of the old name says nothing about them.
#[tokio::test]
async fn a_table_whose_versions_are_not_told_is_not_renamed() {
    let world = world().await;
    let refused = Fault::Instead(403, r#"{"error":"no list for you","code":15}"#);
    let west = world.catalog("west");
    west.fail_nth("list_table_versions", &["west", "t1"], 1, refused);
    let reply = moved(&world, "east").await.unwrap();
    assert_eq!(reply.status, 403, "{reply:?}");
    assert!(reply.json().to_string().contains("no list for you"));
    assert_unchanged(&world, "not told").await;
}

/// Directory catalogs find tables at their root by listing it, so a deregistered name would come back.
#[tokio::test]
async fn a_table_that_would_keep_its_name_is_not_renamed() {
    let setup = Setup::two().rerooted("[lake]", "west", "[]");
    let world = setup.start().await.seeded();
    let west = world.catalog("west");
    without_rename(west);
    let at = br#"{"table":"t","namespace":[],"location":"/store/t.lance"}"#;
    west.can("describe_table", 200, "application/json", at);
    let reply = rename(world.client(), "lake%24t", &to("west", "u")).await;
    assert_eq!(reply.outcome(), (406, Some(0)), "{reply:?}");
    assert!(reply.json().to_string().contains("name of its directory"));
    assert!(west.seen_of("register_table").is_empty());
}
