//! A catalog that answers at once, with a thread for each connection, so that only the gateway does other work
//! meanwhile.

use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

use crate::message::{Connection, Message};

/// The table for which the create of a version is never answered.
pub const STUCK: &str = "stuck";
/// The table that has ten versions at the start; the others have one.
pub const TEN: &str = "ten";

/// The latest versions, by the table's segment in the path.
type Latest = Arc<Mutex<HashMap<String, u64>>>;

/// Serves for as long as the process lives.
pub fn serve() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let latest = Latest::default();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut connection = Connection::over(stream.unwrap());
            let latest = Arc::clone(&latest);
            thread::spawn(move || {
                while let Some(request) = connection.receive() {
                    let (status, body) = answer(&request, &latest);
                    connection.send(
                        format!(
                            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                            body.len()
                        )
                        .as_bytes(),
                    );
                }
            });
        }
    });
    address
}

fn answer(request: &Message, latest: &Latest) -> (&'static str, String) {
    let target = request.first.split(' ').nth(1).unwrap();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let named = path
        .strip_prefix("/v1/table/")
        .and_then(|rest| rest.split_once('/'));
    let Some((table, what)) = named else {
        return (
            "404 Not Found",
            json!({"error": "no such route"}).to_string(),
        );
    };
    // Clients may encode the delimiter or not.
    let table = table.replace("%24", "$");
    while what == "version/create" && table.ends_with(STUCK) {
        thread::park();
    }
    let mut latest = latest.lock().unwrap();
    let first = if table.ends_with(TEN) { 10 } else { 1 };
    let latest = latest.entry(table.clone()).or_insert(first);
    let asked = || -> u64 {
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        body["version"].as_u64().unwrap()
    };
    let body = match what {
        "describe" => json!({
            "table": table, "namespace": ["prod"], "location": "s3://bucket/prod/t1.lance", "version": latest,
            "storage_options": {"region": "eu-central-1", "endpoint": "https://storage.test"},
            "managed_versioning": true,
        }),
        "insert" => json!({"version": latest}),
        "version/list" if query.contains("limit=1") => json!({"versions": [version(*latest)]}),
        "version/list" => {
            json!({"versions": (1..=*latest).rev().map(version).collect::<Vec<_>>()})
        }
        "version/describe" => json!({"version": version(asked())}),
        "version/create" => {
            *latest = asked();
            json!({"version": version(*latest)})
        }
        _ => panic!("{target} is asked for by no case"),
    };
    ("200 OK", body.to_string())
}

/// Returns one version as real catalogs write it.
fn version(number: u64) -> Value {
    json!({
        "version": number,
        "manifest_path": format!("warehouse/events.lance/_versions/{:020}.manifest", u64::MAX - number),
        "manifest_size": 1000 + number, "e_tag": "\"5d41402abc4b2a76b9719d911017c592\"",
        "timestamp_millis": 1_763_700_000_000_u64, "metadata": {},
    })
}
