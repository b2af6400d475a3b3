//! The gateway itself over two directories, without any other service.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::catalog::THREE_ROWS;

/// A running gateway with the directories `left` and `right`; killed when dropped.
struct Gateway {
    process: Child,
    address: String,
    admin: String,
}

impl Gateway {
    fn start(folder: &Path) -> Self {
        let directory = |name| json!({ "implementation": "dir", "properties": { "root": name } });
        let mount = |name| json!({ "namespace": [name], "backend": name, "backend_namespace": [] });
        let config = json!({
            "listen": { "address": "127.0.0.1:0" },
            "admin": { "address": "127.0.0.1:0" },
            "auth": { "anonymous": true },
            "backends": { "left": directory("left"), "right": directory("right") },
            "mounts": [mount("left"), mount("right")],
            "batch": { "log": "batches.redb", "slot_cooldown": "0s" },
        });
        let file = folder.join("nsgate.yaml");
        std::fs::write(&file, config.to_string()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_nsgate"));
        command.arg("serve").arg("--config").arg(file);
        let mut process = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let mut after = |what: &str| {
            let said = lines.find_map(|line| {
                let line = line.unwrap();
                Some(
                    line.split_once(what)?
                        .1
                        .trim()
                        .split('"')
                        .next()
                        .unwrap()
                        .to_owned(),
                )
            });
            said.expect("it says where it listens before it ends")
        };
        let admin = after("nsgate admin on http://");
        let address = after("nsgate listening on http://");
        // The rest of the log must be read, so that the gateway does not block when it writes.
        std::thread::spawn(move || lines.for_each(drop));
        Self {
            process,
            address,
            admin,
        }
    }

    fn post(&self, path: &str, body: &[u8]) -> (u16, Value) {
        self.post_typed(path, "application/json", body)
    }

    fn post_typed(&self, path: &str, content_type: &str, body: &[u8]) -> (u16, Value) {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: {content_type}\r\n\
             content-length: {}\r\n\r\n",
            body.len()
        );
        Self::ask(&self.address, &[head.as_bytes(), body].concat())
    }

    /// Waits until every batch has ended.
    fn settle(&self) {
        let get = b"GET /batches HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            let (status, open) = Self::ask(&self.admin, get);
            assert_eq!(status, 200, "{open}");
            if open["batches"] == json!([]) {
                return;
            }
            assert!(Instant::now() < until, "{open}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn ask(address: &str, request: &[u8]) -> (u16, Value) {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap_or_default())
    }

    fn ok(&self, path: &str, body: &Value) -> Value {
        let (status, answer) = self.post(path, body.to_string().as_bytes());
        assert_eq!(status, 200, "{path} {body}: {answer}");
        answer
    }

    fn make(&self, table: &str) {
        let path = format!("/v1/table/{table}/create");
        let rows = "application/vnd.apache.arrow.stream";
        let (status, answer) = self.post_typed(&path, rows, THREE_ROWS);
        assert_eq!(status, 200, "{answer}");
    }

    /// Stages a copy of the table's first version, and returns the entry of a batch that creates it
    /// as `version`.
    fn stage(&self, table: &str, version: u64) -> Value {
        let first = self.ok(
            &format!("/v1/table/{table}/version/describe"),
            &json!({ "version": 1 }),
        );
        let first = first["version"]["manifest_path"].as_str().unwrap();
        let staged = format!("{first}-{version}");
        let path = |name: &str| Path::new("/").join(name);
        std::fs::copy(path(first), path(&staged)).unwrap();
        let id: Vec<_> = table.split("%24").collect();
        json!({ "id": id, "version": version, "manifest_path": staged })
    }

    fn versions(&self, table: &str) -> Vec<u64> {
        let listed = self.ok(&format!("/v1/table/{table}/version/list"), &json!({}));
        let versions = listed["versions"].as_array().unwrap().iter();
        versions
            .map(|version| version["version"].as_u64().unwrap())
            .collect()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

#[test]
fn a_batch_over_two_directories_is_all_or_nothing() {
    const TABLES: [&str; 2] = ["left%24t", "right%24t"];
    const BATCH: &str = "/v1/table/version/batch-create";
    let folder = TempDir::new().unwrap();
    let mut gateway = Gateway::start(folder.path());
    for table in TABLES {
        gateway.make(table);
    }
    let stage = |gateway: &Gateway, version| TABLES.map(|table| gateway.stage(table, version));
    let versions = |gateway: &Gateway| TABLES.map(|table| gateway.versions(table));

    let committed = gateway.ok(BATCH, &json!({ "entries": stage(&gateway, 2) }));
    assert_eq!(committed["versions"].as_array().unwrap().len(), 2);
    assert_eq!(versions(&gateway), [[1, 2], [1, 2]]);

    let mut entries = stage(&gateway, 3);
    entries[1]["manifest_path"] = json!("no/such/manifest");
    let (status, refused) =
        gateway.post(BATCH, json!({ "entries": entries }).to_string().as_bytes());
    assert_eq!((status, &refused["code"]), (400, &json!(13)), "{refused}");
    assert_eq!(versions(&gateway), [[1, 2], [1, 2]]);

    // A gateway that is killed during a rollback does not know which of its requests may still
    // arrive.
    gateway.settle();
    drop(gateway);
    gateway = Gateway::start(folder.path());
    assert_eq!(versions(&gateway), [[1, 2], [1, 2]]);
    let again = stage(&gateway, 3);
    gateway.ok(BATCH, &json!({ "entries": again }));
    assert_eq!(versions(&gateway), [[1, 2, 3], [1, 2, 3]]);
}
