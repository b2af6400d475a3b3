//! How a client asks, and how it takes what it is answered.

use nsgate::batch::log::BatchId;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::Client;
use crate::catalog::Version;
use crate::front::{Call, Reply};
use crate::history::{Asked, Attempt, Entry, Kind, Op, Outcome, Read, Saw};
use crate::scenario::Staging;

impl Client {
    pub async fn transaction(&mut self, id: BatchId) {
        let from = self.world.lock().tick();
        let reply = self
            .post(format!("/v1/transaction/{id}/describe"), "{}".into())
            .await;
        let (status, said) = match reply {
            Reply::Answer { status, body } => (status, field(&body, "status")),
            Reply::Error { status, .. } => (status, None),
            Reply::Broken | Reply::NotSent => return,
        };
        let inner = &mut *self.world.lock();
        let to = inner.tick();
        let said = said.unwrap_or_default();
        let name = inner.ledger.name(id);
        self.world
            .trace(inner, || format!("client: {name} is {status} {said}"));
        inner.history.counts.add("transactions asked for", 1);
        inner.history.transactions.push(Asked {
            id,
            from,
            to,
            status,
            said,
        });
    }

    /// Stages manifests and writes down what is going to be asked for.
    pub fn plan(&mut self, wanted: &[(usize, u64, Option<String>)], keyed: bool) -> usize {
        let scenario = &self.world.scenario;
        let inner = &mut *self.world.lock();
        let op = inner.history.ops.len();
        let catalogs = wanted
            .iter()
            .map(|(table, ..)| scenario.tables[*table].catalog);
        let mut catalogs: Vec<usize> = catalogs.collect();
        catalogs.sort_unstable();
        catalogs.dedup();
        let kind = match (wanted.len(), &catalogs[..]) {
            // What a key promises, the gateway keeps by itself.
            _ if keyed => Kind::Coordinated,
            (1, _) => Kind::Single,
            (_, [one]) if scenario.catalogs[*one].atomic => Kind::Passed,
            _ => Kind::Coordinated,
        };
        let author = |place: usize| format!("w{op}.{place}");
        let mut entries: Vec<Entry> = Vec::new();
        for (place, (table, version, base)) in wanted.iter().enumerate() {
            let size = match scenario.staging.sizes_vary {
                true => 100 + self.random.below(4),
                false => 100,
            };
            let depot = &mut inner.catalogs[scenario.tables[*table].catalog];
            let manifest = Version::staged(&author(place), size);
            depot.catalog.stage(&author(place), manifest);
            inner.history.authors.insert(author(place), (op, place));
            // In a chain the version below is the batch's own.
            let own = wanted
                .iter()
                .position(|(t, v, _)| t == table && v + 1 == *version);
            entries.push(Entry {
                table: *table,
                version: *version,
                author: author(place),
                size,
                base: own.map(author).or_else(|| base.clone()),
            });
        }
        inner.history.ops.push(Op {
            kind,
            entries,
            keyed,
            attempts: Vec::new(),
        });
        op
    }

    /// Asks the gateway for it, again if it has a key and no answer came.
    pub async fn send(&mut self, op: usize, as_batch: bool) {
        // A batch of one entry is coordinated like any other.
        if as_batch {
            let kind = &mut self.world.lock().history.ops[op].kind;
            if *kind == Kind::Single {
                *kind = Kind::Coordinated;
            }
        }
        let (call, keyed, single) = self.request(op, as_batch);
        let patience = self.random.millis(1, 3_000);
        let patience = (self.random.chance(10) && self.world.is_rough()).then_some(patience);
        let tries = if keyed { 4 } else { self.random.between(1, 2) };
        for attempt in 0..tries {
            let mut call = call.clone();
            call.patience = patience.filter(|_| attempt == 0);
            let reply = self.front.ask_somebody(call, &mut self.random).await;
            let outcome = outcome(&reply, single);
            let open = outcome == Outcome::Unknown;
            self.attempted(op, outcome, &reply);
            // A single version is not asked for again: real clients look whether it is there.
            if !open || single {
                return;
            }
            sleep(self.random.millis(10, 2_000)).await;
        }
    }

    fn attempted(&self, op: usize, outcome: Outcome, reply: &Reply) {
        let inner = &mut *self.world.lock();
        let to = inner.tick();
        self.world.trace(inner, || {
            let reply = match reply {
                Reply::Answer { status, body } => {
                    format!("{status} {}", String::from_utf8_lossy(body))
                }
                Reply::Error {
                    status, message, ..
                } => format!("{status} {message}"),
                Reply::Broken => "broken".into(),
                Reply::NotSent => "not sent".into(),
            };
            // Names of transactions differ from run to run.
            let reply = reply
                .split("\"transaction_id\"")
                .next()
                .unwrap_or_default()
                .to_owned();
            format!("client: w{op}: {reply}")
        });
        inner.history.counts.add(
            match outcome {
                Outcome::Done(_) => "writes answered 200",
                Outcome::Definite(..) => "writes answered with a definite error",
                Outcome::Unknown => "writes without a definite answer",
            },
            1,
        );
        inner.history.ops[op].attempts.push(Attempt { to, outcome });
    }

    fn request(&self, op: usize, as_batch: bool) -> (Call, bool, bool) {
        let scenario = &self.world.scenario;
        let inner = self.world.lock();
        let Op {
            kind,
            entries,
            keyed,
            ..
        } = &inner.history.ops[op];
        let names = |entry: &Entry| scenario.tables[entry.table].names.clone();
        let staging = Some(scenario.staging);
        let inner_sizes = |entry: &Entry| {
            let table = &scenario.tables[entry.table];
            inner.catalogs[table.catalog]
                .catalog
                .staged_size(&entry.author)
        };
        let bodies: Vec<Value> = entries
            .iter()
            .map(|entry| {
                let names = names(entry);
                let mut told = body(names.iter().map(String::as_str), entry, staging);
                if let (true, Some(size)) = (scenario.staging.tells_size, inner_sizes(entry)) {
                    told["manifest_size"] = json!(size);
                }
                told
            })
            .collect();
        let single = *kind != Kind::Coordinated;
        let call = match as_batch {
            true => Call {
                path: "/v1/table/version/batch-create".into(),
                body: json!({ "entries": bodies }).to_string(),
                key: keyed.then(|| format!("key-{op}")),
                patience: None,
            },
            false => Call {
                path: path(&names(&entries[0]), "version/create"),
                body: bodies[0].to_string(),
                ..Call::default()
            },
        };
        (call, *keyed && !single, single)
    }

    /// The latest version, as clients find it; a guess where no answer comes.
    pub async fn latest(&mut self, table: usize) -> (u64, Option<String>) {
        let query = "version/list?descending=true&limit=1";
        let saw = self.read(table, query, "", |versions| match versions.first() {
            Some((version, author)) => Saw::Top(*version, author.clone()),
            None => Saw::Nothing,
        });
        match saw.await {
            Saw::Top(version, author) => (version, Some(author)),
            Saw::Nothing => (0, None),
            _ => (self.world.scenario.tables[table].latest, None),
        }
    }

    pub async fn list(&mut self, table: usize) -> Saw {
        let all = |versions: &[(u64, String)]| match versions {
            [] => Saw::Nothing,
            _ => Saw::All(versions.iter().cloned().collect()),
        };
        self.read(table, "version/list", "", all).await
    }

    pub async fn describe(&mut self, table: usize, version: Option<u64>) -> Saw {
        let body = version.map_or("{}".into(), |version| {
            json!({ "version": version }).to_string()
        });
        let one = move |versions: &[(u64, String)]| match (version, versions.first()) {
            (None, Some((n, author))) => Saw::Top(*n, author.clone()),
            (None, None) => Saw::Nothing,
            (Some(version), None) => Saw::One(version, None),
            (Some(version), Some((n, author))) => {
                Saw::One(version, Some(author.clone()).filter(|_| *n == version))
            }
        };
        self.read(table, "version/describe", &body, one).await
    }

    async fn read(
        &mut self,
        table: usize,
        tail: &str,
        body: &str,
        saw: impl FnOnce(&[(u64, String)]) -> Saw,
    ) -> Saw {
        let path = path(&self.world.scenario.tables[table].names, tail);
        let from = self.world.lock().tick();
        let reply = self.post(path, body.to_owned()).await;
        let saw = match reply {
            Reply::Answer { status: 200, body } => saw(&versions(&body)),
            Reply::Answer { status: 404, body }
                if field(&body, "code").as_deref() == Some("11") =>
            {
                saw(&[])
            }
            Reply::Error {
                status: 404,
                code: 11,
                ..
            } => saw(&[]),
            Reply::Answer { status, .. } | Reply::Error { status, .. } => Saw::Failed(status),
            Reply::Broken | Reply::NotSent => Saw::Failed(0),
        };
        let inner = &mut *self.world.lock();
        let to = inner.tick();
        self.world.trace(inner, || {
            format!("client: table {table} {tail} {body} shows {saw:?}")
        });
        inner.history.reads.push(Read {
            table,
            from,
            to,
            saw: saw.clone(),
        });
        saw
    }

    async fn post(&mut self, path: String, body: String) -> Reply {
        let call = Call {
            path,
            body,
            ..Call::default()
        };
        self.front.ask_somebody(call, &mut self.random).await
    }
}

fn path(names: &[String], tail: &str) -> String {
    format!("/v1/table/{}/{tail}", names.join("%24"))
}

pub(super) fn body<'a>(
    names: impl Iterator<Item = &'a str>,
    entry: &Entry,
    staging: Option<Staging>,
) -> Value {
    let names: Vec<&str> = names.collect();
    let mut body = json!({"id": names, "version": entry.version, "manifest_path": entry.author});
    if staging.is_some_and(|staging| staging.tells_tag) {
        body["e_tag"] = json!(format!("s-{}", entry.author));
    }
    body
}

/// The versions of an answer, with their authors.
fn versions(body: &[u8]) -> Vec<(u64, String)> {
    let body: Value = serde_json::from_slice(body).expect("a catalog's JSON");
    let version = |version: &Value| {
        let author = version["author"]
            .as_str()
            .expect("every version has an author");
        (
            version["version"].as_u64().expect("a number"),
            author.to_owned(),
        )
    };
    match body.get("versions").and_then(Value::as_array) {
        Some(versions) => versions.iter().map(version).collect(),
        None => vec![version(&body["version"])],
    }
}

fn field(body: &[u8], name: &str) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let field = body.get(name)?;
    Some(
        field
            .as_str()
            .map_or_else(|| field.to_string(), str::to_owned),
    )
}

/// What an answer means. Of a single create the gateway passes on what the catalog says, and knows no more.
fn outcome(reply: &Reply, single: bool) -> Outcome {
    match reply {
        Reply::Answer { status: 200, body } => Outcome::Done(field(body, "transaction_id")),
        Reply::Answer { status, body } if !single || (400..500).contains(status) => {
            let code = field(body, "code").and_then(|code| code.parse().ok());
            Outcome::Definite(*status, code.unwrap_or_default())
        }
        Reply::Error {
            status,
            code,
            transaction: None,
            ..
        } if !single || (400..500).contains(status) => Outcome::Definite(*status, u64::from(*code)),
        Reply::NotSent => Outcome::Definite(0, 0),
        Reply::Answer { .. } | Reply::Error { .. } | Reply::Broken => Outcome::Unknown,
    }
}
