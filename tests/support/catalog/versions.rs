//! Creates, shows and deletes versions.

use super::question::{Asked, Question, Range};
use super::{
    Catalog, Change, Onto, Put, Reply, Spot, Tags, Version, exists, latest, missing, refusal,
};

impl Catalog {
    /// The first half of a create: checks it and returns the put that is to follow, or the refusal.
    pub fn look(&self, question: &Question) -> Result<Put, Reply> {
        let asked = question.asked()?;
        self.may_put(&question.table, &asked)
    }

    fn may_put(&self, table: &str, asked: &Asked) -> Result<Put, Reply> {
        let (Some(version), Some(path)) = (asked.version, &asked.manifest_path) else {
            return Err(refusal(
                400,
                13,
                "missing field `version` or `manifest_path`",
            ));
        };
        let (spot, versions) = self.table(table, asked.branch.as_deref())?;
        let staged = self.staged.get(path);
        let staged = staged.filter(|(_, place)| *place == spot.place || self.ways.takes_any_staged);
        if let Some(existing) = versions.get(&version) {
            return Err(match staged {
                Some((staged, _)) if staged.author == existing.author => {
                    self.created(spot, version, existing)
                }
                _ => exists(version),
            });
        }
        let expected = latest(versions) + 1;
        if version < expected || (version > expected && !self.ways.skips) {
            let message = format!("Version CAS failed: requested {version}, expected {expected}");
            return Err(refusal(409, 14, &message));
        }
        let Some((manifest, _)) = staged.cloned() else {
            return Err(refusal(400, 13, "Staging manifest not found"));
        };
        Ok(Put {
            spot,
            version,
            path: path.clone(),
            manifest,
        })
    }

    /// The second half of a create: puts the version if nothing is there.
    pub fn put(&mut self, put: Put) -> Reply {
        let Put { spot, version, .. } = put;
        let below = match self.line(spot) {
            None => return missing("it was dropped"),
            Some(versions) if versions.contains_key(&version) => return exists(version),
            Some(versions) => versions.get(&(version - 1)),
        };
        let below = below.map(|below| below.author.clone());
        if !self.ways.keeps_staged {
            self.staged.remove(&put.path);
        }
        self.write(spot, version, put.manifest, Onto::Manifest { below });
        let versions = self.line(spot).expect("it was written to");
        self.created(spot, version, &versions[&version])
    }

    pub(super) fn write(&mut self, spot: Spot, version: u64, mut manifest: Version, onto: Onto) {
        self.tags += 1;
        let tags = self.ways.tags;
        let keeps = match tags {
            Tags::Kept | Tags::Equal => true,
            Tags::Mixed => self.tags.is_multiple_of(2),
            Tags::Changed | Tags::Hidden => false,
        };
        manifest.tag = if keeps {
            tags.staged(&manifest.author)
        } else {
            format!("t{}", self.tags)
        };
        self.changes.push(Change::Made {
            spot,
            version,
            author: manifest.author.clone(),
            onto,
        });
        let place = self.places[spot.place].as_mut().expect("it is there");
        let versions = if spot.branch {
            place.branch.as_mut().expect("it is there")
        } else {
            &mut place.main
        };
        versions.insert(version, manifest);
    }

    pub(super) fn created(&self, spot: Spot, number: u64, version: &Version) -> Reply {
        let mut body = "{\"version\":".to_owned();
        self.show(&mut body, spot, number, version);
        body.push('}');
        Reply { status: 200, body }
    }

    pub(super) fn describe(&self, question: &Question) -> Result<Reply, Reply> {
        let asked = question.asked()?;
        let (spot, versions) = self.table(&question.table, asked.branch.as_deref())?;
        let found = match asked.version {
            Some(number) => versions.get_key_value(&number),
            None => versions.last_key_value(),
        };
        let (number, version) = found.ok_or_else(|| refusal(404, 11, "no such version"))?;
        Ok(self.created(spot, *number, version))
    }

    pub(super) fn list(&self, question: &Question) -> Result<Reply, Reply> {
        let (spot, versions) = self.table(&question.table, question.parameter("branch"))?;
        let limit = question.parameter("limit");
        let limit = limit.and_then(|limit| limit.parse().ok());
        let mut listed: Vec<_> = versions.iter().collect();
        if question.parameter("descending") == Some("true") {
            listed.reverse();
        }
        let mut body = "{\"versions\":[".to_owned();
        let listed = listed.into_iter().take(limit.unwrap_or(usize::MAX));
        for (place, (number, version)) in listed.enumerate() {
            if place > 0 {
                body.push(',');
            }
            self.show(&mut body, spot, *number, version);
        }
        body.push_str("]}");
        Ok(Reply { status: 200, body })
    }

    /// Deletes whatever is in the ranges. The end of a range is exclusive; a negative end means
    /// that there is none.
    pub(super) fn delete(&mut self, question: &Question) -> Result<Reply, Reply> {
        let asked = question.asked()?;
        let (spot, versions) = self.table(&question.table, asked.branch.as_deref())?;
        let within = |version: u64| {
            let version = i64::try_from(version).unwrap_or(i64::MAX);
            let within = |range: &Range| {
                version >= range.start_version
                    && (range.end_version < 0 || version < range.end_version)
            };
            asked.ranges.iter().any(within)
        };
        let gone: Vec<u64> = versions.keys().copied().filter(|it| within(*it)).collect();
        for version in &gone {
            self.take_away(spot, *version);
        }
        let body = format!("{{\"deleted_count\":{}}}", gone.len());
        Ok(Reply { status: 200, body })
    }

    pub(super) fn take_away(&mut self, spot: Spot, version: u64) {
        let place = self.places[spot.place].as_mut().expect("it is there");
        let versions = if spot.branch {
            place.branch.as_mut().expect("it is there")
        } else {
            &mut place.main
        };
        let Version { author, .. } = versions.remove(&version).expect("it is there");
        self.changes.push(Change::Deleted {
            spot,
            version,
            author,
        });
    }

    /// Creates all of the entries or none.
    pub(super) fn create_all(&mut self, question: &Question) -> Result<Reply, Reply> {
        if !self.ways.atomic {
            let message = "Not supported: batch_create_table_versions not implemented";
            return Err(refusal(500, 18, message));
        }
        let asked = question.asked()?;
        let before = self.clone();
        let mut body = "{\"transaction_id\":\"the-catalogs-own\",\"versions\":[".to_owned();
        for (place, entry) in asked.entries.iter().enumerate() {
            let table = entry.id.as_deref().unwrap_or_default().join("$");
            let answer = self.may_put(&table, entry).map(|put| self.put(put));
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
}
