//! A catalog as real ones are, without a socket: what it holds, and what it answers at one instant.
//!
//! Every version shows its `author`, which no real catalog does: it is how a reader of the simulation knows whose
//! version it was shown. A test among those with real catalogs holds it to a real one's statuses and codes.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use nsgate::protocol::operation::Operation;
use serde::Deserialize;

/// How this catalog differs from others.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ways {
    /// A create looks first and puts later, if nothing is there then.
    pub puts_later: bool,
    /// A version keeps the entity tag of its staged manifest.
    pub keeps_tags: bool,
    /// Versions have entity tags at all.
    pub hides_tags: bool,
    /// It has an atomic batch-create of its own.
    pub atomic: bool,
    /// The gateway's configuration says which it is.
    pub told: bool,
}

/// One catalog.
#[derive(Clone, Default)]
pub struct Catalog {
    pub ways: Ways,
    /// By the identifier, its names joined by `$`.
    tables: BTreeMap<String, BTreeMap<u64, Version>>,
    /// What writers have staged, by path.
    staged: BTreeMap<String, Version>,
    tags: u64,
}

/// One version of a table, or a manifest that is to become one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    pub author: String,
    pub size: u64,
    pub tag: String,
}

/// One request.
#[derive(Clone, Debug)]
pub struct Question {
    pub operation: Operation,
    /// The identifier, its names joined by `$`.
    pub table: String,
    pub query: String,
    pub body: Vec<u8>,
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub status: u16,
    pub body: String,
}

/// A create that has looked and is going to put.
#[derive(Clone, Debug)]
pub struct Put {
    table: String,
    version: u64,
    path: String,
    manifest: Version,
}

/// The fields of all bodies.
#[derive(Deserialize, Default)]
struct Asked {
    id: Option<Vec<String>>,
    version: Option<u64>,
    manifest_path: Option<String>,
    #[serde(default)]
    ranges: Vec<Range>,
    #[serde(default)]
    entries: Vec<Asked>,
}

#[derive(Deserialize)]
struct Range {
    start_version: i64,
    end_version: i64,
}

impl Question {
    /// What a create would create.
    pub fn creates(&self) -> Option<u64> {
        let creates = self.operation == Operation::CreateTableVersion;
        creates.then(|| self.asked().ok()?.version).flatten()
    }

    /// Whose staged manifests it names.
    pub fn authors(&self) -> Vec<String> {
        let asked = self.asked().unwrap_or_default();
        let entries = asked.entries.into_iter().map(|entry| entry.manifest_path);
        entries.chain([asked.manifest_path]).flatten().collect()
    }

    fn asked(&self) -> Result<Asked, Reply> {
        if self.body.is_empty() {
            return Ok(Asked::default());
        }
        let asked: Result<Asked, _> = serde_json::from_slice(&self.body);
        let asked = asked.map_err(|error| refusal(400, 13, &error.to_string()))?;
        match &asked.id {
            Some(id) if id.join("$") != self.table => Err(refusal(
                400,
                13,
                "the body names another table than the route",
            )),
            _ => Ok(asked),
        }
    }
}

impl Catalog {
    pub fn with(ways: Ways) -> Self {
        Self {
            ways,
            ..Self::default()
        }
    }

    /// A table with versions `1..=latest`.
    pub fn seed(&mut self, table: &str, latest: u64) {
        self.tables.insert(table.to_owned(), BTreeMap::new());
        for version in 1..=latest {
            let author = format!("seed{version}");
            self.write(table, version, Version::staged(&author, 100));
        }
    }

    /// Puts a manifest where writers put theirs.
    pub fn stage(&mut self, path: &str, manifest: Version) {
        self.staged.insert(path.to_owned(), manifest);
    }

    /// Takes a manifest away again.
    pub fn unstage(&mut self, path: &str) {
        self.staged.remove(path);
    }

    pub fn staged_size(&self, path: &str) -> Option<u64> {
        self.staged.get(path).map(|manifest| manifest.size)
    }

    pub fn versions(&self, table: &str) -> BTreeMap<u64, String> {
        let versions = self.tables.get(table).into_iter().flatten();
        versions
            .map(|(number, version)| (*number, version.author.clone()))
            .collect()
    }

    /// Acts and answers, all at one instant.
    pub fn answer(&mut self, question: &Question) -> Reply {
        let answered = match question.operation {
            Operation::CreateTableVersion => self.look(question).map(|put| self.put(put)),
            Operation::DescribeTableVersion => self.describe(question),
            Operation::ListTableVersions => self.list(question),
            Operation::BatchDeleteTableVersions => self.delete(question),
            Operation::BatchCreateTableVersions => self.create_all(question),
            _ => Err(refusal(406, 0, "Not supported")),
        };
        answered.unwrap_or_else(|refused| refused)
    }

    /// The first half of a create: refused, or about to put.
    pub fn look(&self, question: &Question) -> Result<Put, Reply> {
        let asked = question.asked()?;
        let table = question.table.clone();
        self.may_put(table, &asked)
    }

    fn may_put(&self, table: String, asked: &Asked) -> Result<Put, Reply> {
        let (Some(version), Some(path)) = (asked.version, &asked.manifest_path) else {
            return Err(refusal(
                400,
                13,
                "missing field `version` or `manifest_path`",
            ));
        };
        let versions = self.table(&table)?;
        let staged = self.staged.get(path);
        if let Some(existing) = versions.get(&version) {
            return Err(match staged {
                Some(staged) if staged.author == existing.author => self.created(version, existing),
                _ => exists(version),
            });
        }
        let expected = latest(versions) + 1;
        if version != expected {
            let message = format!("Version CAS failed: requested {version}, expected {expected}");
            return Err(refusal(409, 14, &message));
        }
        let Some(manifest) = staged.cloned() else {
            return Err(refusal(400, 13, "Staging manifest not found"));
        };
        Ok(Put {
            table,
            version,
            path: path.clone(),
            manifest,
        })
    }

    /// The second half of a create: put if nothing is there.
    pub fn put(&mut self, put: Put) -> Reply {
        match self.tables.get(&put.table) {
            None => return missing(&put.table),
            Some(versions) if versions.contains_key(&put.version) => return exists(put.version),
            Some(_) => {}
        }
        self.staged.remove(&put.path);
        self.write(&put.table, put.version, put.manifest);
        self.created(put.version, &self.tables[&put.table][&put.version])
    }

    fn write(&mut self, table: &str, version: u64, mut manifest: Version) {
        self.tags += 1;
        if !self.ways.keeps_tags {
            manifest.tag = format!("t{}", self.tags);
        }
        let versions = self.tables.entry(table.to_owned()).or_default();
        versions.insert(version, manifest);
    }

    fn created(&self, number: u64, version: &Version) -> Reply {
        let mut body = "{\"version\":".to_owned();
        self.show(&mut body, number, version);
        body.push('}');
        Reply { status: 200, body }
    }

    fn describe(&self, question: &Question) -> Result<Reply, Reply> {
        let asked = question.asked()?;
        let versions = self.table(&question.table)?;
        let found = match asked.version {
            Some(number) => versions.get_key_value(&number),
            None => versions.last_key_value(),
        };
        let (number, version) = found.ok_or_else(|| refusal(404, 11, "no such version"))?;
        Ok(self.created(*number, version))
    }

    fn list(&self, question: &Question) -> Result<Reply, Reply> {
        let versions = self.table(&question.table)?;
        let has = |wanted: &str| question.query.split('&').any(|pair| pair == wanted);
        let limit = question
            .query
            .split('&')
            .find_map(|pair| pair.strip_prefix("limit="));
        let limit = limit
            .and_then(|limit| limit.parse().ok())
            .unwrap_or(usize::MAX);
        let mut listed: Vec<_> = versions.iter().collect();
        if has("descending=true") {
            listed.reverse();
        }
        let mut body = "{\"versions\":[".to_owned();
        for (place, (number, version)) in listed.into_iter().take(limit).enumerate() {
            if place > 0 {
                body.push(',');
            }
            self.show(&mut body, *number, version);
        }
        body.push_str("]}");
        Ok(Reply { status: 200, body })
    }

    /// End exclusive; a negative end is no end. Deletes whatever is there.
    fn delete(&mut self, question: &Question) -> Result<Reply, Reply> {
        let asked = question.asked()?;
        self.table(&question.table)?;
        let versions = self.tables.entry(question.table.clone()).or_default();
        let before = versions.len();
        versions.retain(|&version, _| {
            let version = i64::try_from(version).unwrap_or(i64::MAX);
            let within = |range: &Range| {
                version >= range.start_version
                    && (range.end_version < 0 || version < range.end_version)
            };
            !asked.ranges.iter().any(within)
        });
        let body = format!("{{\"deleted_count\":{}}}", before - versions.len());
        Ok(Reply { status: 200, body })
    }

    /// All of the entries or none.
    fn create_all(&mut self, question: &Question) -> Result<Reply, Reply> {
        if !self.ways.atomic {
            let message = "Not supported: batch_create_table_versions not implemented";
            return Err(refusal(500, 18, message));
        }
        let asked = question.asked()?;
        let before = self.clone();
        let mut body = "{\"transaction_id\":\"the-catalogs-own\",\"versions\":[".to_owned();
        for (place, entry) in asked.entries.iter().enumerate() {
            let table = entry.id.as_deref().unwrap_or_default().join("$");
            let answer = self.may_put(table, entry).map(|put| self.put(put));
            let answer = answer.unwrap_or_else(|refused| refused);
            if answer.status != 200 {
                *self = before;
                return Err(answer);
            }
            if place > 0 {
                body.push(',');
            }
            let shown = answer.body.strip_prefix("{\"version\":");
            let shown = shown.and_then(|shown| shown.strip_suffix('}'));
            body.push_str(shown.expect("an answer to a create"));
        }
        body.push_str("]}");
        Ok(Reply { status: 200, body })
    }

    fn table(&self, table: &str) -> Result<&BTreeMap<u64, Version>, Reply> {
        self.tables.get(table).ok_or_else(|| missing(table))
    }

    fn show(&self, to: &mut String, number: u64, version: &Version) {
        let Version { author, size, tag } = version;
        write!(
            to,
            "{{\"version\":{number},\"manifest_path\":\"v/{number}\",\"manifest_size\":{size},\"author\":\"{author}\""
        )
        .expect("a string takes everything");
        match self.ways.hides_tags {
            true => to.push('}'),
            false => write!(to, ",\"e_tag\":\"{tag}\"}}").expect("a string takes everything"),
        }
    }
}

impl Version {
    /// A manifest that a writer has staged; its tag is its author's alone.
    pub fn staged(author: &str, size: u64) -> Self {
        Self {
            author: author.to_owned(),
            size,
            tag: format!("s-{author}"),
        }
    }
}

pub fn refusal(status: u16, code: u64, message: &str) -> Reply {
    let body = serde_json::json!({"error": message, "code": code}).to_string();
    Reply { status, body }
}

fn latest(versions: &BTreeMap<u64, Version>) -> u64 {
    versions.last_key_value().map_or(0, |(number, _)| *number)
}

fn exists(version: u64) -> Reply {
    refusal(
        409,
        14,
        &format!("Version {version} already exists with different content"),
    )
}

fn missing(table: &str) -> Reply {
    refusal(404, 4, &format!("table id '{table}'"))
}
