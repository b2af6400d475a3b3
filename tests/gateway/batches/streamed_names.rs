//! Long listings of the tables of one catalog stream, and show the names as they were when they began.

use http::Method;
use serde_json::{Value, json};

use super::streamed::OpenList;
use super::world;
use crate::client::{Client, Reply};
use crate::harness::World;

const COMMIT: &str = "/v1/table/batch-commit";
const LIST: &str = "/v1/namespace/west/table/list";
/// The number of tables at the beginning of a listing, so many that it is not read whole.
const MANY: usize = 10_000;

/// Has the catalog `west` begin a listing.
pub async fn begun(world: &World, client: &Client) -> OpenList {
    let names = (0..MANY).map(|number| format!("\"a{number:05}\""));
    let first = format!("{{\"tables\":[{}", names.collect::<Vec<_>>().join(" , "));
    let pieces = world.catalog("west").list_out("list_tables");
    OpenList::begun(pieces, client, (Method::GET, LIST), first).await
}

/// Returns the names after those with which the listing began.
fn rest(listed: Result<String, String>) -> Value {
    let listed: Value = serde_json::from_str(&listed.unwrap()).unwrap();
    let tables = listed["tables"].as_array().unwrap();
    assert!(
        tables[..MANY]
            .iter()
            .all(|name| name.as_str().unwrap().starts_with('a'))
    );
    json!(tables[MANY..])
}

pub async fn commit(client: &Client, operations: &[Value]) -> Reply {
    let body = json!({ "operations": operations });
    client.post(COMMIT, &body).await
}

/// Returns operations that declare a table in each catalog.
pub fn declares(name: &str) -> [Value; 2] {
    ["west", "east"].map(|catalog| json!({"declare_table": {"id": [catalog, name]}}))
}

async fn seeded() -> World {
    let world = world("").await;
    for name in ["west", "east"] {
        world.catalog(name).store().seed(&[name, "old"], 1);
    }
    world
}

#[tokio::test]
async fn tables_that_a_batch_makes_while_a_listing_streams_stay_out_of_it() {
    let world = seeded().await;
    let client = world.client();
    let list = begun(&world, &client).await;
    // The client reads nothing meanwhile.
    commit(&client, &declares("new")).await.ok();
    let listed = list.end_with(", \"new\" ,\"old\"".to_owned()).await;
    assert_eq!(rest(listed), json!(["old"]));
    let later = client.get(LIST).await.ok().json();
    assert_eq!(later["tables"], json!(["new", "old", "t1"]));
    let list = begun(&world, &client).await;
    let listed = list.end_with(",\"new\",\"old\"".to_owned()).await;
    assert_eq!(rest(listed), json!(["new", "old"]));
}

/// The catalog may list the name no more, and what has it now is not in the listing.
#[tokio::test]
async fn a_listing_is_cut_when_a_batch_removes_a_table_of_it() {
    let world = seeded().await;
    let client = world.client();
    let list = begun(&world, &client).await;
    let removes = json!({"deregister_table": {"id": ["west", "old"]}});
    let [_, elsewhere] = declares("new");
    commit(&client, &[removes, elsewhere]).await.ok();
    let cut = list.end_with(",\"z\"".to_owned()).await;
    assert!(cut.is_err(), "{:?}", cut.map(|list| list.len()));
    let list = begun(&world, &client).await;
    let listed = list.end_with(",\"z\"".to_owned()).await;
    assert_eq!(rest(listed), json!(["z"]));
}
