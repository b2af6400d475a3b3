//! A catalog that ignores `limit` and lists everything: a walk is complete, and a list that is slow, endless or broken is
//! no short page.

use std::fmt::Write as _;

use bytes::Bytes;
use serde_json::json;

use super::page;
use crate::catalog::faults::{Fault, PATIENCE};
use crate::harness::{Setup, World};

const ALL: &str = "list_all_tables";

/// Starts a gateway over the root of `long`, which ignores `limit`, and that of `short`.
async fn world(section: &str) -> World {
    let setup = Setup::new().rerooted("[long]", "long", "[]");
    let setup = setup.rerooted("[short]", "short", "[]").section(section);
    let world = setup.start().await;
    for table in ["s1", "s2", "s3"] {
        world.catalog("short").store().seed(&[table], 1);
    }
    world
}

/// The text of a list of so many names, in an order of its own.
fn list(count: usize) -> String {
    let mut text = "{\"tables\":[".to_owned();
    for number in 0..count {
        let comma = if number == 0 { "" } else { "," };
        // 7919 and the number of names have no common factor, so that all names differ.
        let _ = write!(text, "{comma}\"t{:06}\"", number * 7919 % count);
    }
    text + "]}"
}

#[tokio::test]
async fn a_walk_over_a_catalog_that_lists_everything_has_each_name_once() {
    let world = world("").await;
    for (count, limit) in [(200_000, 45_000), (1_000, 7), (1_000, 250), (4, 4), (4, 5)] {
        let text = list(count);
        world
            .catalog("long")
            .can(ALL, 200, "application/json", text.as_bytes());
        let (mut all, mut token) = (Vec::new(), None);
        loop {
            let page = page(&world.client(), "/v1/table", limit, token.as_deref()).await;
            let names: Vec<String> = serde_json::from_value(page["tables"].clone()).unwrap();
            token = page["page_token"].as_str().map(str::to_owned);
            assert!(names.len() == limit || token.is_none(), "{}", names.len());
            all.extend(names);
            if token.is_none() {
                break;
            }
        }
        let long = (0..count).map(|number| format!("long$t{number:06}"));
        let short = (1..=3).map(|number| format!("short$s{number}"));
        let expected: Vec<String> = long.chain(short).collect();
        if all != expected {
            all.sort();
            assert!(all == expected, "{} of {} names", all.len(), count + 3);
            // A catalog that keeps to the limit has an order of its own.
            assert!(count <= limit, "not in order");
        }
    }
}

#[tokio::test]
async fn a_list_that_breaks_is_an_error_and_no_short_page() {
    let world = world("").await;
    let (long, client) = (world.catalog("long"), world.client());
    let text = list(5_000);
    let cut = &text[..text.len() / 2];
    for target in ["/v1/table", "/v1/table?limit=2", "/v1/table?limit=100000"] {
        for broken in [cut, &format!("{cut}]}}"), &format!("{text},"), "[]"] {
            long.can(ALL, 200, "application/json", broken.as_bytes());
            let reply = client.get(target).await;
            assert_eq!(reply.outcome(), (503, Some(17)), "{target}");
            assert!(reply.json().to_string().contains("`long`"), "{target}");
        }
        long.can(ALL, 200, "application/json", text.as_bytes());
        long.fail(ALL, Fault::HalfAnswer);
        let reply = client.get(target).await;
        assert_eq!(reply.outcome(), (503, Some(17)), "{target}");
        client.get(target).await.ok();
    }
}

/// Other requests of the same client are answered while the catalog sends its list, and the list is given up in time.
#[tokio::test]
async fn a_list_that_trickles_or_never_ends_is_given_up_while_others_are_served() {
    let world = world("limits: { response_timeout: 1s }").await;
    let long = world.catalog("long");
    for target in ["/v1/table", "/v1/table?limit=2"] {
        for is_endless in [false, true] {
            let text = long.list_out(ALL);
            let client = world.client();
            let listing = tokio::spawn(async move { client.get(target).await });
            text.send(Bytes::from_static(b"{\"tables\":[\"t0\""))
                .await
                .unwrap();
            let describe = world.client();
            describe
                .post("/v1/table/short%24s1/describe", &json!({}))
                .await
                .ok();
            let piece = Bytes::from(",\"t1\"".repeat(1000));
            while is_endless && text.send(piece.clone()).await.is_ok() {}
            // The gateway closes the connection.
            tokio::time::timeout(PATIENCE, text.closed()).await.unwrap();
            let reply = listing.await.unwrap();
            assert_eq!(reply.outcome(), (503, Some(17)), "{target}");
            let message = reply.json().to_string();
            // A list without end may also be refused for its size.
            let late = "`long` did not answer in time";
            let is_named = message.contains(late) || is_endless && message.contains("`long`");
            assert!(is_named, "{message}");
        }
    }
}
