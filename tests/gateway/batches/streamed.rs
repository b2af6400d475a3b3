//! Long lists of versions stream, and show nothing of a batch that begins, commits or is undone meanwhile.

use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio::sync::mpsc::Sender;

use super::{BATCH, numbers, pair, prepared, settled, stage, start, stored, until, visible, world};
use crate::catalog::faults::{Fault, PATIENCE};
use crate::client::{Client, empty};
use crate::harness::World;

const LIST: &str = "/v1/table/west%24t1/version/list";

/// A list of versions whose catalog sends it piece by piece, to a client that has its head.
pub struct OpenList {
    pieces: Sender<Bytes>,
    body: Incoming,
}

/// The text of versions in a list, each so long that two of them are not read whole.
fn versions(numbers: &[u64]) -> String {
    let pad = "x".repeat(40_000);
    let one = |number: &u64| format!(r#"{{"version":{number},"odd":1.50e3,"pad":"{pad}"}}"#);
    numbers.iter().map(one).collect::<Vec<_>>().join(" , ")
}

impl OpenList {
    /// Has the catalog `west` send these versions, and waits until the client has the head of the answer.
    pub async fn of(world: &World, client: &Client, target: &str, shown: &[u64]) -> Self {
        let pieces = world.catalog("west").versions_out();
        let first = format!("{{\"versions\": [{}", versions(shown));
        Self::begun(pieces, client, (Method::POST, target), first).await
    }

    /// Has a catalog send the beginning of a list, and waits until the client has the head of the answer.
    pub async fn begun(
        pieces: Sender<Bytes>,
        client: &Client,
        (method, target): (Method, &str),
        first: String,
    ) -> Self {
        let (client, target) = (client.clone(), target.to_owned());
        let asked = tokio::spawn(async move { client.open(method, &target, empty()).await });
        pieces.send(first.into()).await.unwrap();
        let answer = asked.await.unwrap().unwrap();
        assert_eq!(answer.status(), 200);
        let body = answer.into_body();
        Self { pieces, body }
    }

    /// Ends the list with these versions. Returns the text that the client has got.
    pub async fn end(self, shown: &[u64]) -> Result<String, String> {
        let rest = match shown {
            [] => String::new(),
            shown => format!(" , {}", versions(shown)),
        };
        self.end_with(rest).await
    }

    /// Ends the list with this text. Returns the text that the client has got.
    pub async fn end_with(self, rest: String) -> Result<String, String> {
        let Self { pieces, body } = self;
        let sending = async move {
            if !rest.is_empty() {
                // The gateway may have closed the connection.
                let _ = pieces.send(rest.into()).await;
            }
            let _ = pieces.send("],\"page_token\":null}".into()).await;
        };
        let (read, ()) = tokio::join!(tokio::time::timeout(PATIENCE, body.collect()), sending);
        let read = read.expect("an end of the answer");
        let bytes = read.map_err(|error| error.to_string())?.to_bytes();
        Ok(String::from_utf8(bytes.into()).unwrap())
    }
}

pub fn shown(list: Result<String, String>) -> Vec<u64> {
    let list: Value = serde_json::from_str(&list.unwrap()).unwrap();
    numbers(&list)
}

async fn seeded() -> World {
    let world = world("").await;
    for name in ["west", "east"] {
        world.catalog(name).store().seed(&[name, "t1"], 3);
    }
    world
}

#[tokio::test]
async fn a_list_reaches_its_client_before_its_catalog_has_ended_it_and_unchanged() {
    let world = seeded().await;
    for query in ["", "?limit=9", "?descending=true&limit=2"] {
        let target = format!("{LIST}{query}");
        let mut list = OpenList::of(&world, &world.client(), &target, &[1, 2]).await;
        let mut begun = 0;
        while begun < 60_000 {
            let frame = tokio::time::timeout(PATIENCE, list.body.frame()).await;
            begun += frame.unwrap().unwrap().unwrap().data_ref().unwrap().len();
        }
        let rest = list.end(&[3]).await.unwrap();
        let whole = format!(
            "{{\"versions\": [{} , {}],\"page_token\":null}}",
            versions(&[1, 2]),
            versions(&[3])
        );
        assert_eq!(rest, whole[begun..], "{query}");
    }
}

#[tokio::test]
async fn a_batch_that_commits_while_a_list_streams_stays_out_of_it_and_waits_for_nothing() {
    let world = seeded().await;
    let client = world.client();
    let list = OpenList::of(&world, &client, LIST, &[1, 2]).await;
    let entries = [
        stage(&world, "west", 4),
        stage(&world, "west", 5),
        stage(&world, "east", 4),
    ];
    // The client reads nothing meanwhile.
    client
        .post(BATCH, &json!({ "entries": entries }))
        .await
        .ok();
    assert_eq!(shown(list.end(&[3, 4, 5]).await), [1, 2, 3]);
    assert_eq!(visible(&world, "west").await, [1, 2, 3, 4, 5]);
    let list = OpenList::of(&world, &client, LIST, &[1, 2, 3]).await;
    assert_eq!(
        shown(list.end(&[4, 5]).await),
        [1, 2, 3, 4, 5],
        "a later list"
    );
}

#[tokio::test]
async fn a_batch_that_is_undone_while_a_list_streams_was_never_in_it() {
    let world = seeded().await;
    let client = world.client();
    let list = OpenList::of(&world, &client, LIST, &[1, 2]).await;
    let refused = Fault::Instead(400, r#"{"error":"no","code":13}"#);
    world.catalog("east").fail("create_table_version", refused);
    let refused = client.post(BATCH, &pair(&world, 4)).await;
    assert_ne!(refused.status, 200, "{refused:?}");
    until("it is undone", || stored(&world, "west") == [1, 2, 3]).await;
    settled(&world).await;
    // The catalog had read the version before it was deleted.
    assert_eq!(shown(list.end(&[3, 4]).await), [1, 2, 3]);
}

#[tokio::test]
async fn a_list_that_begins_while_a_batch_is_undecided_ends_below_it_however_it_ends() {
    for commits in [true, false] {
        let world = seeded().await;
        let gate = world.catalog("east").hold("create_table_version");
        if !commits {
            let refused = Fault::Instead(400, r#"{"error":"no","code":13}"#);
            world.catalog("east").fail("create_table_version", refused);
        }
        let batch = start(world.client(), pair(&world, 4));
        gate.reached(1).await;
        until("west is prepared", || {
            stored(&world, "west") == [1, 2, 3, 4]
        })
        .await;
        let client = world.client();
        let ascending = OpenList::of(&world, &client, LIST, &[1, 2]).await;
        let descending = OpenList::of(&world, &client, LIST, &[4, 3, 2]).await;
        gate.open();
        assert_eq!(batch.await.unwrap().status == 200, commits);
        settled(&world).await;
        assert_eq!(
            shown(ascending.end(&[3, 4, 5]).await),
            [1, 2, 3],
            "{commits}"
        );
        assert_eq!(shown(descending.end(&[1]).await), [3, 2, 1], "{commits}");
    }
}

/// Some of the versions have gone to the client, and the catalog may list the others no more.
#[tokio::test]
async fn a_list_is_cut_when_a_batch_removes_versions_of_it() {
    let world = seeded().await;
    let client = world.client();
    let list = OpenList::of(&world, &client, LIST, &[1, 2]).await;
    let ranges = [json!({"start_version": 1, "end_version": 3})];
    let remove = json!({"delete_table_versions": {"id": ["west", "t1"], "ranges": ranges}});
    let create = json!({"create_table_version": stage(&world, "east", 4)});
    let operations = json!({"operations": [remove, create]});
    client
        .post("/v1/table/batch-commit", &operations)
        .await
        .ok();
    let cut = list.end(&[3]).await;
    assert!(cut.is_err(), "{:?}", cut.map(|list| list.len()));
    assert_eq!(visible(&world, "west").await, [3]);
    let list = OpenList::of(&world, &client, LIST, &[1, 2, 3]).await;
    assert_eq!(shown(list.end(&[]).await), [3], "the catalog deletes late");
}

#[tokio::test]
async fn a_long_page_with_a_limit_is_filled_up_from_below_what_is_hidden() {
    let world = seeded().await;
    let (gate, batch) = prepared(&world, 4).await;
    let west = world.catalog("west");
    let page = |listed: &[u64]| format!("{{\"versions\":[{}]}}", versions(listed));
    // The page is counted, asked for with a higher limit, counted again, and shown.
    for listed in [&[4, 3][..], &[4, 3, 2], &[4, 3, 2]] {
        west.versions_out().try_send(page(listed).into()).unwrap();
    }
    let target = format!("{LIST}?descending=true&limit=2");
    let listed = world.client().post_nothing(&target).await.ok().json();
    assert_eq!(numbers(&listed), [3, 2]);
    let asked = west.seen_of("list_table_versions");
    let limits = asked.iter().rev().take(3).rev().map(|seen| {
        let (_, limit) = seen.target.split_once("limit=").unwrap();
        limit[..1].to_owned()
    });
    assert_eq!(limits.collect::<Vec<_>>(), ["2", "3", "3"]);
    gate.open();
    batch.await.unwrap().ok();
}
