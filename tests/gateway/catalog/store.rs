//! The state of a catalog and its decisions, without sockets.
//!
//! The behaviour is that of the directory catalog behind its REST adapter, statuses and codes included.
//!
//! The content of a version is what its staged manifest held. Creating a version consumes the staged manifest.
//!
//! A table is a name for a place in storage. The versions belong to the place, which can be registered under
//! another name.

mod tables;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use serde_json::{Map, Value, json};

/// The names of an identifier, from the root down; empty for the root.
pub type Id = Vec<String>;

/// A refusal in the contract's shape: HTTP status, code and message.
pub type Refusal = (u16, u64, String);

/// The result of an operation: a JSON body, or `None` if the contract has none.
pub type Decision = Result<Option<Value>, Refusal>;

/// The versions of one table.
type Versions = BTreeMap<u64, Version>;

/// The versions in storage, by location.
type Storage = Arc<Mutex<BTreeMap<String, Versions>>>;

/// The whole state of one catalog.
pub struct Store {
    namespaces: BTreeSet<Id>,
    /// The location of each table.
    tables: BTreeMap<Id, String>,
    storage: Storage,
    /// The location below which it keeps tables; it accepts none from elsewhere.
    root: String,
    staged: BTreeMap<String, String>,
    tags: u64,
}

impl Default for Store {
    fn default() -> Self {
        Self {
            namespaces: BTreeSet::new(),
            tables: BTreeMap::new(),
            storage: Arc::default(),
            root: "file:///store".into(),
            staged: BTreeMap::new(),
            tags: 0,
        }
    }
}

/// One version of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// The content of its manifest.
    pub content: String,
    /// The entity tag from the object store, new with every write.
    pub e_tag: String,
}

/// The part of a listing that is requested.
#[derive(Default, Clone)]
pub struct Page {
    pub token: Option<String>,
    pub limit: Option<i64>,
    pub descending: bool,
}

impl Store {
    /// Puts a manifest where writers stage theirs, and returns its path.
    pub fn stage(&mut self, path: &str, content: &str) -> String {
        self.staged.insert(path.to_owned(), content.to_owned());
        path.to_owned()
    }

    pub fn is_staged(&self, path: &str) -> bool {
        self.staged.contains_key(path)
    }

    /// Adds a table with versions `1..=latest`, and the namespaces above it.
    pub fn seed(&mut self, id: &[&str], latest: u64) {
        let id: Id = id.iter().map(ToString::to_string).collect();
        for depth in 1..id.len() {
            self.namespaces.insert(id[..depth].to_vec());
        }
        self.make(&id);
        for version in 1..=latest {
            self.put(&id, version, format!("seed {version}"));
        }
    }

    pub fn seed_namespace(&mut self, id: &[&str]) {
        for depth in 1..=id.len() {
            let names = id[..depth].iter().map(ToString::to_string);
            self.namespaces.insert(names.collect());
        }
    }

    /// Returns the version numbers and contents of a table, oldest first; `None` if there is no such table.
    pub fn contents(&self, id: &[&str]) -> Option<Vec<(u64, String)>> {
        let id: Id = id.iter().map(ToString::to_string).collect();
        let versions = self.versions(&id).ok()?.into_iter();
        Some(versions.map(|(n, v)| (n, v.content)).collect())
    }

    /// Writes a version directly, as a writer does that goes around the gateway.
    pub fn put(&mut self, id: &[String], version: u64, content: String) {
        self.tags += 1;
        let e_tag = format!("\"{:x}\"", self.tags);
        let at = match self.tables.get(id) {
            Some(at) => at.clone(),
            None => self.make(id),
        };
        let mut storage = self.storage.lock().expect("not poisoned");
        let versions = storage.entry(at).or_default();
        versions.insert(version, Version { content, e_tag });
    }

    pub fn create_namespace(&mut self, id: &Id, body: &Map<String, Value>) -> Decision {
        let Some((_, parent)) = id.split_last() else {
            return Err((409, 2, "root namespace".into()));
        };
        if !parent.is_empty() && !self.namespaces.contains(parent) {
            let parent = parent.join("$");
            return Err((404, 1, format!("parent namespace '{parent}'")));
        }
        if !self.namespaces.insert(id.clone()) && body.get("mode") != Some(&json!("exist_ok")) {
            return Err((409, 2, id.join("$")));
        }
        Ok(Some(json!({})))
    }

    pub fn list_namespaces(&self, id: &Id, page: &Page) -> Decision {
        let names = children(self.namespaces.iter(), id);
        Ok(Some(paged("namespaces", names, page)))
    }

    pub fn describe_namespace(&self, id: &Id) -> Decision {
        self.namespace_exists(id)?;
        Ok(Some(if id.is_empty() {
            json!({"properties": {}})
        } else {
            json!({})
        }))
    }

    pub fn namespace_exists(&self, id: &Id) -> Decision {
        if id.is_empty() || self.namespaces.contains(id) {
            return Ok(None);
        }
        Err((404, 1, id.join("$")))
    }

    pub fn drop_namespace(&mut self, id: &Id) -> Decision {
        if id.is_empty() {
            return Err((400, 13, "Root namespace cannot be dropped".into()));
        }
        self.namespace_exists(id)?;
        let below = |other: &&Id| other.len() > id.len() && other.starts_with(id);
        let inside =
            self.namespaces.iter().filter(below).count() + self.tables.keys().filter(below).count();
        if inside > 0 {
            let message = format!("'{}' (contains {inside} child objects)", id.join("$"));
            return Err((409, 3, message));
        }
        self.namespaces.remove(id);
        Ok(Some(json!({})))
    }

    pub fn list_tables(&self, id: &Id, page: &Page) -> Decision {
        let names = children(self.tables.keys(), id);
        Ok(Some(paged("tables", names, page)))
    }

    pub fn list_all_tables(&self, delimiter: &str, page: &Page) -> Decision {
        let names = self.tables.keys().map(|id| id.join(delimiter)).collect();
        Ok(Some(paged("tables", names, page)))
    }

    /// Executes `insert` and similar operations: the catalog itself makes the next version.
    pub fn append(&mut self, id: &Id, content: String) -> Result<u64, Refusal> {
        let next = self.latest(id)? + 1;
        self.put(id, next, content);
        Ok(next)
    }

    /// Returns the latest version, or 0 if there is none yet.
    pub fn latest(&self, id: &Id) -> Result<u64, Refusal> {
        let versions = self.versions(id)?;
        Ok(versions.last_key_value().map_or(0, |(n, _)| *n))
    }

    /// Lists versions. Page tokens are version numbers; a directory catalog has none, others do.
    pub fn list_versions(&self, id: &Id, page: &Page, longest: Option<usize>) -> Decision {
        let (at, versions) = (self.location(id)?, self.versions(id)?);
        let mut numbers: Vec<u64> = versions.keys().copied().collect();
        if page.descending {
            numbers.reverse();
        }
        if let Some(after) = page.token.as_ref().and_then(|t| t.parse::<u64>().ok()) {
            numbers.retain(|&n| {
                if page.descending {
                    n < after
                } else {
                    n > after
                }
            });
        }
        let asked = page.limit.and_then(|limit| usize::try_from(limit).ok());
        let length = longest.into_iter().chain(asked).min();
        let cut = length.is_some_and(|length| length < numbers.len());
        numbers.truncate(length.unwrap_or(usize::MAX));
        let listed = numbers.iter().map(|n| {
            let mut version = shown(at, *n, &versions[n]);
            version["timestamp_millis"] = json!(1_700_000_000_000_u64 + n);
            version
        });
        let mut answer = json!({"versions": listed.collect::<Vec<_>>()});
        if let (true, true, Some(last)) = (cut, longest.is_some(), numbers.last()) {
            answer["page_token"] = json!(last.to_string());
        }
        Ok(Some(answer))
    }

    pub fn describe_version(&self, id: &Id, version: Option<u64>) -> Decision {
        let (at, versions) = (self.location(id)?, self.versions(id)?);
        let found = match version {
            Some(number) => versions.get_key_value(&number),
            None => versions.last_key_value(),
        };
        let Some((number, found)) = found else {
            let which = version.map_or("latest version".into(), |n| format!("version {n}"));
            let message = format!("{which} for table table id '{}'", id.join("$"));
            return Err((404, 11, message));
        };
        Ok(Some(json!({"version": shown(at, *number, found)})))
    }

    /// Creates a version from a staged manifest.
    /// - The version exists with the same content: 200.
    /// - It exists with other content, or nothing is staged any more: 409, code 14.
    /// - It is not latest+1: 409, code 14.
    /// - Nothing is staged: 400.
    /// - Otherwise the staged manifest is moved to its final name.
    pub fn create_version(&mut self, id: &Id, version: u64, staged: &str) -> Decision {
        let (at, versions) = (self.location(id)?.to_owned(), self.versions(id)?);
        if let Some(existing) = versions.get(&version) {
            if self.staged.get(staged) != Some(&existing.content) {
                let message = format!(
                    "Version {version} already exists for table at '{at}' with different content"
                );
                return Err((409, 14, message));
            }
            let answer = json!({"version": shown(&at, version, existing)});
            self.staged.remove(staged);
            return Ok(Some(answer));
        }
        let latest = self.latest(id)?;
        if version != latest + 1 {
            let expected = latest + 1;
            let message = format!(
                "Version CAS failed for table at '{at}': requested {version}, expected {expected} (latest {latest})"
            );
            return Err((409, 14, message));
        }
        let Some(content) = self.staged.remove(staged) else {
            let message = format!(
                "Staging manifest not found at '{staged}' for version {version} of table at '{at}'"
            );
            return Err((400, 13, message));
        };
        self.put(id, version, content);
        let created = shown(&at, version, &self.versions(id)?[&version]);
        Ok(Some(json!({"version": created})))
    }

    /// Deletes whatever is in the ranges. The end of a range is exclusive; a negative end means that there is
    /// none.
    pub fn delete_versions(&mut self, id: &Id, ranges: &[(i64, i64)]) -> Decision {
        let at = self.location(id)?;
        let mut storage = self.storage.lock().expect("not poisoned");
        let versions = storage.entry(at.to_owned()).or_default();
        let before = versions.len();
        versions.retain(|&version, _| {
            let version = i64::try_from(version).unwrap_or(i64::MAX);
            !ranges
                .iter()
                .any(|&(start, end)| version >= start && (end < 0 || version < end))
        });
        Ok(Some(json!({"deleted_count": before - versions.len()})))
    }

    /// Creates all of `entries` or none.
    pub fn create_versions(&mut self, entries: &[(Id, u64, String)]) -> Decision {
        let before = self.storage.lock().expect("not poisoned").clone();
        let staged = self.staged.clone();
        let mut created = Vec::new();
        for (id, version, path) in entries {
            match self.create_version(id, *version, path) {
                Ok(answer) => created.extend(answer.map(|mut answer| answer["version"].take())),
                Err(refusal) => {
                    *self.storage.lock().expect("not poisoned") = before;
                    self.staged = staged;
                    return Err(refusal);
                }
            }
        }
        Ok(Some(
            json!({"transaction_id": "the-catalogs-own", "versions": created}),
        ))
    }

    fn versions(&self, id: &Id) -> Result<Versions, Refusal> {
        let at = self.location(id)?;
        let storage = self.storage.lock().expect("not poisoned");
        Ok(storage.get(at).cloned().unwrap_or_default())
    }
}

fn missing(id: &Id) -> Refusal {
    (404, 4, format!("table id '{}'", id.join("$")))
}

fn shown(at: &str, number: u64, version: &Version) -> Value {
    let at = at.trim_start_matches("file:///");
    json!({
        "version": number,
        "manifest_path": format!("{at}/_versions/{:020}.manifest", u64::MAX - number),
        "manifest_size": version.content.len(),
        "e_tag": version.e_tag,
    })
}

fn children<'a>(all: impl Iterator<Item = &'a Id>, parent: &Id) -> Vec<String> {
    let child = |id: &&Id| id.len() == parent.len() + 1 && id.starts_with(parent);
    all.filter(child)
        .filter_map(|id| id.last().cloned())
        .collect()
}

fn paged(field: &str, mut names: Vec<String>, page: &Page) -> Value {
    names.sort();
    if let Some(after) = &page.token {
        names.retain(|name| name > after);
    }
    let mut answer = json!({});
    if let Some(limit) = page.limit.and_then(|limit| usize::try_from(limit).ok()) {
        if limit < names.len() && limit > 0 {
            answer["page_token"] = json!(names[limit - 1]);
        }
        names.truncate(limit);
    }
    answer[field] = json!(names);
    answer
}
