//! Reads of clients.

use serde_json::{Value, json};
use tokio::time::sleep;

use super::Client;
use super::asking::{field, path};
use crate::catalog::Spot;
use crate::front::Reply;
use crate::history::{Read, Saw};

/// The versions in an answer: authors and place.
struct Shown {
    versions: Vec<(u64, String)>,
    place: Option<usize>,
}

impl Client {
    /// Reads several tables, one after the other, some of them again.
    pub(super) async fn look_around(&mut self) {
        let tables: Vec<usize> = (0..self.world.scenario.tables.len()).collect();
        let count = usize::try_from(self.random.between(2, 4)).expect("a small number");
        for table in self.random.some(&tables, count) {
            let branch = self.random.chance(10);
            match self.random.below(7) {
                0 => drop(self.latest(table, branch).await),
                1 => drop(self.describe(table, branch, None).await),
                2 => {
                    let latest = self.latest(table, branch).await;
                    let latest = latest.map_or(1, |(latest, ..)| latest.max(1));
                    let near = latest + self.random.below(2);
                    self.describe(table, branch, Some(near)).await;
                }
                3 | 4 => drop(self.count(table).await),
                5 => drop(self.details(table).await),
                _ => drop(self.list(table, branch).await),
            }
            sleep(self.random.millis(0, 10)).await;
        }
    }

    /// Returns the latest version as clients find it: number, author and place.
    pub async fn latest(
        &mut self,
        table: usize,
        branch: bool,
    ) -> Option<(u64, Option<String>, usize)> {
        let query = if branch {
            "version/list?descending=true&limit=1&branch=b"
        } else {
            "version/list?descending=true&limit=1"
        };
        let read = self.read(table, branch, query, "", top);
        let (saw, spot) = read.await;
        let (version, author) = match saw {
            Saw::Top(version, author) => (version, Some(author)),
            Saw::Nothing => (0, None),
            _ => return None,
        };
        Some((version, author, spot?.place))
    }

    pub async fn list(&mut self, table: usize, branch: bool) -> Saw {
        let all = |versions: &[(u64, String)]| match versions {
            [] => Saw::Nothing,
            _ => Saw::All(versions.iter().cloned().collect()),
        };
        let query = if branch {
            "version/list?branch=b"
        } else {
            "version/list"
        };
        self.read(table, branch, query, "", all).await.0
    }

    pub async fn describe(&mut self, table: usize, branch: bool, version: Option<u64>) -> Saw {
        let mut body = json!({});
        if let Some(version) = version {
            body["version"] = version.into();
        }
        if branch {
            body["branch"] = "b".into();
        }
        let one = move |versions: &[(u64, String)]| match (version, versions.first()) {
            (None, _) => top(versions),
            (Some(version), None) => Saw::One(version, None),
            (Some(version), Some((n, author))) => {
                Saw::One(version, Some(author.clone()).filter(|_| *n == version))
            }
        };
        let body = body.to_string();
        let read = self.read(table, branch, "version/describe", &body, one);
        read.await.0
    }

    /// Reads with `count`, for which the catalog picks its own latest version.
    pub async fn count(&mut self, table: usize) -> Saw {
        self.read(table, false, "count_rows", "{}", top).await.0
    }

    /// Reads with a describe that looks into the latest version.
    async fn details(&mut self, table: usize) -> Saw {
        let tail = "describe?load_detailed_metadata=true";
        self.read(table, false, tail, "{}", top).await.0
    }

    async fn read(
        &mut self,
        table: usize,
        branch: bool,
        tail: &str,
        body: &str,
        saw: impl FnOnce(&[(u64, String)]) -> Saw,
    ) -> (Saw, Option<Spot>) {
        let scenario = &self.world.scenario;
        let catalog = scenario.tables[table].catalog;
        let path = path(&scenario.tables[table].names, tail);
        let (from, before) = {
            let inner = &mut *self.world.lock();
            (inner.tick(), inner.spot(scenario, table, branch))
        };
        let reply = self.post(path, body.to_owned()).await;
        let inner = &mut *self.world.lock();
        let to = inner.tick();
        // An answer that shows no version belongs to the place that the name led to all the time.
        let after = inner.spot(&self.world.scenario, table, branch);
        let known = before.filter(|before| Some(*before) == after);
        let (saw, spot) = match code(&reply) {
            (200, _) => {
                let Shown { versions, place } = shown(&reply);
                let place = place.map(|place| Spot {
                    catalog,
                    place,
                    branch,
                });
                (saw(&versions), place.or(known))
            }
            (404, Some(11)) => (saw(&[]), known),
            (404, Some(4)) => (Saw::NoTable, None),
            (status, _) => (Saw::Failed(status), None),
        };
        self.world.trace(inner, || {
            format!("client: table {table} {tail} {body} shows {saw:?} of {spot:?}")
        });
        inner.history.reads.push(Read {
            table,
            spot,
            from,
            to,
            saw: saw.clone(),
        });
        (saw, spot)
    }
}

fn top(versions: &[(u64, String)]) -> Saw {
    match versions.first() {
        Some((version, author)) => Saw::Top(*version, author.clone()),
        None => Saw::Nothing,
    }
}

/// Returns the status and the contract's code of an answer; 0 if it has none.
fn code(reply: &Reply) -> (u16, Option<u64>) {
    match reply {
        Reply::Answer { status, body } => {
            let code = field(body, "code").and_then(|code| code.parse().ok());
            (*status, code)
        }
        Reply::Error { status, code, .. } => (*status, Some(u64::from(*code))),
        Reply::Broken | Reply::NotSent => (0, None),
    }
}

fn shown(reply: &Reply) -> Shown {
    let Reply::Answer { body, .. } = reply else {
        return Shown {
            versions: Vec::new(),
            place: None,
        };
    };
    let body: Value = serde_json::from_slice(body).expect("a catalog's JSON");
    let shown: Vec<&Value> = match body.get("versions").and_then(Value::as_array) {
        Some(versions) => versions.iter().collect(),
        None => body.get("version").into_iter().collect(),
    };
    let version = |version: &&Value| {
        let author = version["author"].as_str();
        let author = author.expect("every version has an author");
        let number = version["version"].as_u64().expect("a number");
        (number, author.to_owned())
    };
    let place = shown.first().and_then(|first| first["place"].as_u64());
    Shown {
        versions: shown.iter().map(version).collect(),
        place: place.map(|place| usize::try_from(place).expect("an index")),
    }
}
