//! Mixed requests of many callers: every acknowledged change is in the audit log exactly once.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{lines, setup};
use crate::batches::BATCH;
use crate::client::{Client, full};
use crate::harness::World;

/// The callers. Each has tables of its own for versions, and shares others with all.
const CALLERS: usize = 50;

/// The requests of a run, if `NSGATE_AUDIT_REQUESTS` does not say otherwise.
const REQUESTS: usize = 3000;

const RULES: &str = "authorization:
  - { namespace: [west], read: { scope: read }, write: { scope: write } }
  - { namespace: [east], read: { scope: read }, write: { scope: write } }";

/// A request as its client saw it.
struct Sent {
    id: String,
    caller: String,
    kind: &'static str,
    status: u16,
    /// The tables and versions that it changes.
    tables: Vec<(String, Option<u64>)>,
    transaction: Option<String>,
}

fn requests() -> usize {
    let wanted = std::env::var("NSGATE_AUDIT_REQUESTS").ok();
    wanted.map_or(REQUESTS, |text| text.parse().unwrap())
}

/// A caller that sends its requests one after the other.
struct Caller {
    name: String,
    client: Client,
    reader: Client,
    world: Arc<World>,
    /// The latest version of its own tables.
    version: u64,
    sent: Vec<Sent>,
}

impl Caller {
    fn new(world: &Arc<World>, number: usize) -> Self {
        let name = format!("caller-{number}");
        let claims = |scope: &str| json!({"sub": name, "scope": scope});
        Self {
            client: world.client_with(&claims("read write")),
            reader: world.client_with(&claims("read")),
            world: Arc::clone(world),
            version: 1,
            sent: Vec::new(),
            name,
        }
    }

    fn stage(&self, version: u64) -> [String; 2] {
        ["west", "east"].map(|name| {
            let path = format!("{}-{name}-{version}", self.name);
            self.world.catalog(name).store().stage(&path, "rows")
        })
    }

    async fn send(&mut self, number: usize) {
        let id = format!("{}-{number}", self.name);
        let with = |client: &Client| client.header("x-request-id", &id);
        let own = format!("{}-t", self.name);
        let (next, mine) = (self.version + 1, format!("west${own}"));
        let theirs = format!("east${own}");
        let target =
            |name: &str, rest: &str| format!("/v1/table/{}/{rest}", name.replace('$', "%24"));
        let paths = self.stage(next);
        let entry = |place: usize, name: &str| json!({"id": [name, own], "version": next, "manifest_path": paths[place], "manifest_size": 4});
        let client = with(&self.client);
        let shared = "west$t1".to_owned();
        let (kind, tables, reply) = match number % 10 {
            0 | 1 => {
                let reply = client
                    .post_rows(&target(&shared, "insert"), full("rows"))
                    .await;
                ("insert_into_table", vec![(shared, None)], reply)
            }
            2 => {
                let body = json!({"entries": [entry(0, "west"), entry(1, "east")]});
                let reply = client.post(BATCH, &body).await;
                let both = vec![(mine, Some(next)), (theirs, Some(next))];
                ("batch_create_table_versions", both, reply)
            }
            3 => {
                let reply = client
                    .post(&target(&shared, "restore"), &json!({"version": 1}))
                    .await;
                ("restore_table", vec![(shared, Some(1))], reply)
            }
            4 => {
                let reply = with(&self.reader)
                    .post_rows(&target(&shared, "insert"), full("rows"))
                    .await;
                ("refusal", vec![(shared, None)], reply)
            }
            5 => {
                let reply = client.post(&target("north$t", "restore"), &json!({})).await;
                ("refusal", vec![("north$t".to_owned(), None)], reply)
            }
            6 => {
                // The version exists: a conflict.
                let old = json!({"version": 1, "manifest_path": paths[0], "manifest_size": 4});
                let reply = client.post(&target(&mine, "version/create"), &old).await;
                ("create_table_version", vec![(mine, Some(1))], reply)
            }
            _ => {
                let reply = client.post(&target(&mine, "exists"), &json!({})).await;
                ("read", Vec::new(), reply)
            }
        };
        if number % 10 == 2 && reply.status == 200 {
            self.version = next;
        }
        let transaction = (reply.status == 200 && number % 10 == 2)
            .then(|| reply.json()["transaction_id"].as_str().unwrap().to_owned());
        self.sent.push(Sent {
            id,
            caller: self.name.clone(),
            kind,
            status: reply.status,
            tables,
            transaction,
        });
    }
}

/// Sends all requests, and returns them.
async fn load(world: &Arc<World>) -> Vec<Sent> {
    let each = requests().div_ceil(CALLERS);
    let mut callers = JoinSet::new();
    for number in 0..CALLERS {
        let mut caller = Caller::new(world, number);
        for name in ["west", "east"] {
            let table = format!("{}-t", caller.name);
            world.catalog(name).store().seed(&[name, &table], 1);
        }
        callers.spawn(async move {
            for number in 0..each {
                caller.send(number).await;
            }
            caller.sent
        });
    }
    callers.join_all().await.into_iter().flatten().collect()
}

fn tables_of(line: &Value) -> Vec<(String, Option<u64>)> {
    let tables = line["tables"].as_array().unwrap().iter();
    let table = |table: &Value| {
        (
            table["table"].as_str().unwrap().to_owned(),
            table["version"].as_u64(),
        )
    };
    tables.map(table).collect()
}

/// Checks every line against what the clients saw.
fn check(sent: &[Sent], lines: &[Value]) {
    let mut by_request: HashMap<&str, Vec<&Value>> = HashMap::new();
    let mut decided: HashMap<&str, Vec<&Value>> = HashMap::new();
    for line in lines {
        match line["event"].as_str().unwrap() {
            "batch" => decided
                .entry(line["transaction"].as_str().unwrap())
                .or_default()
                .push(line),
            _ => by_request
                .entry(line["request"].as_str().unwrap())
                .or_default()
                .push(line),
        }
    }
    for request in sent {
        let Some(found) = by_request.remove(&*request.id) else {
            assert_eq!(request.kind, "read", "{} has no line", request.id);
            continue;
        };
        let [line] = found[..] else {
            panic!("{}: {found:?}", request.id);
        };
        assert_eq!(line["status"], request.status, "{line}");
        assert_eq!(line["subject"], *request.caller, "{line}");
        assert_eq!(tables_of(line), request.tables, "{line}");
        let outcome = match (request.kind, request.status) {
            ("refusal", _) => "denied",
            (_, 200) => "done",
            _ => "refused",
        };
        assert_eq!(line["outcome"], outcome, "{line}");
        if outcome != "denied" {
            assert_eq!(
                (&line["operation"], &line["event"]),
                (&json!(request.kind), &json!("change"))
            );
        }
        if let Some(transaction) = &request.transaction {
            assert_eq!(line["transaction"], **transaction);
            let batch = decided.remove(&**transaction).unwrap();
            assert_eq!(batch.len(), 1, "{batch:?}");
            assert_eq!(
                (&batch[0]["outcome"], &batch[0]["subject"]),
                (&json!("committed"), &json!(request.caller))
            );
        }
    }
    assert!(
        by_request.is_empty() && decided.is_empty(),
        "{by_request:?} {decided:?}"
    );
}

async fn run(more: &str) {
    let world = Arc::new(setup(more).section(RULES).start().await.seeded());
    let sent = load(&world).await;
    let mut world = Arc::into_inner(world).expect("its callers are done");
    world.terminate();
    assert_eq!(world.ended().await, Some(0));
    let all = lines(&world);
    check(&sent, &all);
    let done = all.iter().filter(|line| line["outcome"] == "done").count();
    let acknowledged = sent
        .iter()
        .filter(|sent| sent.kind != "read" && sent.status == 200);
    assert_eq!(done, acknowledged.count());
    // The load is what it says: changes, batches, refusals and reads.
    for kind in [
        "insert_into_table",
        "batch_create_table_versions",
        "restore_table",
    ] {
        assert!(
            sent.iter()
                .any(|sent| sent.kind == kind && sent.status == 200),
            "{kind}"
        );
    }
    eprintln!(
        "{} requests, {} lines, {done} acknowledged changes",
        sent.len(),
        all.len()
    );
}

#[tokio::test]
async fn every_acknowledged_change_is_written_once_with_its_caller_and_tables() {
    run("audit_required: false").await;
}

#[tokio::test]
async fn so_it_is_when_the_audit_log_is_required() {
    run("audit_required: true").await;
}
