//! The set-up that the tests of the audit log share; they are in the files of its folder.

mod bounds;
mod fleet;
mod lines;
mod load;
pub mod outage;

use std::path::PathBuf;

use serde_json::Value;

use crate::batches::until;
use crate::harness::{Setup, World};

const INSERT: &str = "/v1/table/west%24t1/insert";

/// Starts two catalogs, and a gateway with an audit log; `more` are further keys of `telemetry`.
pub async fn world(more: &str) -> World {
    setup(more).start().await.seeded()
}

pub fn setup(more: &str) -> Setup {
    Setup::two().section(&format!("telemetry: {{ audit: audit.log, {more} }}"))
}

pub fn path(world: &World) -> PathBuf {
    world.folder().join("audit.log")
}

/// The whole lines of the audit log so far: each is an object.
pub fn lines(world: &World) -> Vec<Value> {
    let text = std::fs::read_to_string(path(world)).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let line =
        |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    whole.lines().map(line).collect()
}

/// Waits for the line of a request, and returns it: there is only one.
async fn line_of(world: &World, request: &str) -> Value {
    let of = |line: &Value| line["request"] == request && line["event"] != "batch";
    let mut found = waited(world, request, 1, of).await;
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

/// Waits until at least `count` lines have this value at `key`, and returns all that have it.
pub async fn matching(world: &World, key: &str, value: &str, count: usize) -> Vec<Value> {
    waited(world, value, count, |line| line[key] == value).await
}

async fn waited(
    world: &World,
    what: &str,
    count: usize,
    is_one: impl Fn(&Value) -> bool,
) -> Vec<Value> {
    let find = || {
        let mut all = lines(world);
        all.retain(|line| is_one(line));
        all
    };
    until(&format!("{count} lines about {what}"), || {
        find().len() >= count
    })
    .await;
    find()
}
