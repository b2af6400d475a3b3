//! The simulated catalog answers as a real one does: the same requests, statuses, codes and versions.

#[path = "../support/catalog.rs"]
mod catalog;

use std::path::{Path, PathBuf};

use bytes::Bytes;
use nsgate::protocol::operation::Operation;
use serde_json::{Value, json};

use crate::client::{Client, Reply, full};
use crate::harness::{Catalog as Real, Python, block_on};
use catalog::{Catalog, Question, Version, Ways};

const T1: &str = "prod$t1";
const ROWS: &[u8] = include_bytes!("../embedded/three-rows.arrow");

/// A real catalog and a simulated one, each with the table `prod$t1` of one version.
struct Both {
    real: Client,
    _process: Real,
    /// The folder of the table's manifests, and its name in the object store.
    versions: PathBuf,
    name: String,
    simulated: Catalog,
}

/// The parts of an answer that are compared.
#[derive(Debug, PartialEq)]
struct Said {
    status: u16,
    code: Option<u64>,
    versions: Vec<u64>,
}

impl Both {
    async fn new(process: Real) -> Self {
        let address = format!("127.0.0.1:{}", process.port());
        let real = Client::new(address.parse().unwrap());
        real.post("/v1/namespace/prod/create", &json!({}))
            .await
            .ok();
        let rows = full(Bytes::from_static(ROWS));
        real.post_rows("/v1/table/prod%24t1/create", rows)
            .await
            .ok();
        let described = real.post("/v1/table/prod%24t1/describe", &json!({})).await;
        let described = described.ok().json();
        let location = described["location"].as_str().unwrap();
        let versions = PathBuf::from(location.trim_start_matches("file://")).join("_versions");
        let name = versions
            .to_str()
            .unwrap()
            .trim_start_matches('/')
            .to_owned();
        let mut simulated = Catalog::with(0, Ways::default());
        simulated.seed(T1, 1);
        Self {
            real,
            _process: process,
            versions,
            name,
            simulated,
        }
    }

    /// Stages a manifest at both catalogs: that of the first version, or another one.
    fn stage(&mut self, path: &str, content: &str) {
        let first = std::fs::read_dir(&self.versions)
            .unwrap()
            .map(|file| file.unwrap().path());
        let first = first.filter(|path| path.extension().is_some_and(|it| it == "manifest"));
        let mut bytes = std::fs::read(first.max().unwrap()).unwrap();
        bytes.extend_from_slice(content.as_bytes());
        std::fs::write(self.versions.join(path), bytes).unwrap();
        self.simulated.stage(path, 0, Version::staged(content, 100));
    }

    /// Sends a request to both catalogs. `$STAGED` in the body stands for the real one's manifests.
    async fn ask(
        &mut self,
        operation: Operation,
        table: &str,
        query: &str,
        body: &Value,
    ) -> (Said, Said) {
        let (_, tail) = operation.route().unwrap();
        let target = format!(
            "/v1/table/{}/{tail}?delimiter=%24{query}",
            table.replace('$', "%24")
        );
        // A table's place is registered relative to the root.
        let place = self.versions.parent().and_then(Path::file_name).unwrap();
        let sent = body.to_string().replace("$STAGED", &self.name);
        let sent = sent.replace("$PLACE", place.to_str().unwrap());
        let real = match body {
            Value::Null => self.real.post_nothing(&target).await,
            _ => self.real.post_bytes(&target, sent).await,
        };
        let simulated = self.simulated.answer(&Question {
            operation,
            table: table.to_owned(),
            query: query.trim_start_matches('&').to_owned(),
            body: match body {
                Value::Null => Vec::new(),
                _ => {
                    let body = body.to_string().replace("$STAGED/", "");
                    body.replace("$PLACE", "p0").into_bytes()
                }
            },
            own: true,
        });
        let simulated = Reply {
            status: simulated.status,
            headers: http::HeaderMap::new(),
            body: simulated.body.into(),
        };
        (said(&real), said(&simulated))
    }
}

fn said(reply: &Reply) -> Said {
    let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    let listed = body["versions"].as_array().cloned();
    let listed = listed.unwrap_or_else(|| vec![body["version"].clone()]);
    let numbers = listed
        .iter()
        .filter_map(|version| version["version"].as_u64());
    Said {
        status: reply.status,
        code: body["code"].as_u64(),
        versions: numbers.collect(),
    }
}

fn create(version: u64, path: &str) -> Value {
    json!({"version": version, "manifest_path": format!("$STAGED/{path}")})
}

fn delete(from: i64, to: i64) -> Value {
    json!({"ranges": [{"start_version": from, "end_version": to}]})
}

#[test]
fn a_simulated_catalog_answers_as_a_real_one() {
    use Operation::{
        BatchDeleteTableVersions as Delete, CountTableRows as Count, CreateTableVersion as Create,
        DeregisterTable as Deregister, DescribeTable as DescribeName,
        DescribeTableVersion as Describe, ListTableVersions as List, RegisterTable as Register,
        RenameTable as Rename, TableExists as Exists,
    };
    let Some(python) = Python::ready() else {
        return;
    };
    let process = Real::start(python);
    let descending = "&descending=true&limit=1";
    let none = || json!({});
    let steps = [
        (List, T1, "", Value::Null, 200),
        (Describe, T1, "", none(), 200),
        (Describe, T1, "", json!({"version": 1}), 200),
        (Describe, T1, "", json!({"version": 9}), 404),
        (
            Describe,
            T1,
            "",
            json!({"id": ["prod", "t1"], "version": 1}),
            200,
        ),
        (
            Describe,
            T1,
            "",
            json!({"id": ["prod", "t2"], "version": 1}),
            400,
        ),
        (Create, T1, "", create(3, "one"), 409),
        (Create, T1, "", create(2, "missing"), 400),
        (Create, T1, "", json!({"version": 2}), 400),
        (Create, T1, "", create(2, "one"), 200),
        // The manifest is consumed. A repeated request for it is another client's.
        (Create, T1, "", create(2, "one"), 409),
        (Create, T1, "", create(2, "other"), 409),
        (List, T1, descending, Value::Null, 200),
        (Create, T1, "", create(3, "other"), 200),
        (List, T1, "", Value::Null, 200),
        (Describe, T1, "", none(), 200),
        // The end of the range is not included.
        (Delete, T1, "", delete(3, 4), 200),
        (Describe, T1, "", json!({"version": 3}), 404),
        (Delete, T1, "", delete(3, 4), 200),
        (List, T1, descending, Value::Null, 200),
        // A freed number may be used again.
        (Create, T1, "", create(3, "third"), 200),
        (Describe, T1, "", json!({"version": 3}), 200),
        (Delete, T1, "", delete(2, -1), 200),
        (List, T1, "", Value::Null, 200),
        (List, "prod$none", "", Value::Null, 404),
        (Describe, "prod$none", "", none(), 404),
        (Create, "prod$none", "", create(1, "fourth"), 404),
        (Delete, "prod$none", "", delete(1, 2), 404),
        // Names and places.
        (Exists, T1, "", none(), 200),
        (Exists, "prod$none", "", none(), 404),
        (Count, T1, "", none(), 200),
        (Count, "prod$none", "", none(), 404),
        (DescribeName, T1, "", none(), 200),
        (DescribeName, "prod$none", "", none(), 404),
        (Rename, T1, "", json!({"new_table_name": "t2"}), 500),
        (Register, T1, "", json!({"location": "$PLACE"}), 409),
        (Register, "prod$t2", "", json!({"location": "$PLACE"}), 200),
        (List, "prod$t2", "", Value::Null, 200),
        (Deregister, "prod$none", "", none(), 404),
        (Deregister, T1, "", none(), 200),
        (DescribeName, T1, "", none(), 404),
        (List, T1, "", Value::Null, 404),
        (List, "prod$t2", "", Value::Null, 200),
    ];
    block_on(async {
        let mut both = Both::new(process).await;
        for (path, content) in [
            ("one", "a"),
            ("other", "b"),
            ("third", "c"),
            ("fourth", "d"),
        ] {
            both.stage(path, content);
        }
        for (operation, table, query, body, status) in steps {
            let (real, mut simulated) = both.ask(operation, table, query, &body).await;
            if operation == Count {
                // The simulated catalog shows the version that it counts, which a real one does not.
                simulated.versions.clear();
            }
            let what = format!("{} {table} {query} {body}", operation.name());
            assert_eq!(real, simulated, "{what}");
            assert_eq!(real.status, status, "{what}");
        }
    });
}
