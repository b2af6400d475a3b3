//! Listings without the tables that are being written.

use serde_json::json;

use super::{ORDERS, seeded};
use crate::batches::rename::versions;

/// Tables that are being written are in no listing, but whoever knows the name can use them.
#[tokio::test]
async fn a_listing_has_no_table_that_is_being_written() {
    let world = seeded("").await;
    let client = world.client();
    for name in ["__nsgate_new_3", "__nsgate_new_4", "zebra"] {
        world.catalog("west").store().seed(&["west", name], 1);
    }
    let cases = [
        ("/v1/namespace/west/table/list", json!(["t1", "zebra"])),
        ("/v1/namespace/mirror/table/list", json!(["t1", "zebra"])),
        ("/v1/namespace/east/table/list", json!(["t1"])),
        (
            "/v1/table",
            json!([
                "east$t1",
                "mirror$t1",
                "mirror$zebra",
                "west$t1",
                "west$zebra"
            ]),
        ),
        // The first pages of the catalog have nothing to show; an empty page would look like the end.
        ("/v1/namespace/west/table/list?limit=1", json!(["t1"])),
        ("/v1/namespace/west/table/list?limit=2", json!(["t1"])),
        ("/v1/table?limit=1", json!(["east$t1"])),
    ];
    for (target, expected) in cases {
        let listed = client.get(target).await.ok().json();
        assert_eq!(listed["tables"], expected, "{target}: {listed}");
        let has_token = listed["page_token"].is_string();
        assert_eq!(has_token, target.contains("limit"), "{target}: {listed}");
    }
    let (mut all, mut token) = (Vec::new(), String::new());
    loop {
        let target = format!("/v1/namespace/west/table/list?limit=1{token}");
        let page = client.get(&target).await.ok().json();
        all.extend(page["tables"].as_array().unwrap().clone());
        match page["page_token"].as_str() {
            Some(next) => token = format!("&page_token={next}"),
            None => break,
        }
    }
    assert_eq!(json!(all), json!(["t1", "zebra"]));
    assert_eq!(versions(&world, ORDERS).await, [1]);
    let dropped = client
        .post("/v1/table/west%24__nsgate_new_3/drop", &json!({}))
        .await;
    dropped.ok();
}
