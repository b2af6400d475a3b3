//! The functions of the schema, each as `schema.sql` has it.

use uuid::Uuid;

use super::database::{Batch, Database, Entry, Instance};

/// A function that raised an error, whose transaction was rolled back: the SQLSTATE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raised(pub &'static str);

/// The error of a call that arrives after a later one.
const LATE: Raised = Raised("40001");
/// The number under which calls about guards are counted.
const GUARDS: i32 = -1;

/// A gateway that takes the log, or joins.
pub(super) struct Caller {
    pub(super) id: Uuid,
    pub(super) name: String,
    pub(super) version: String,
    pub(super) lease_millis: i64,
    pub(super) address: Option<String>,
    pub(super) token: Option<String>,
    pub(super) dead: Vec<(Uuid, i64)>,
}

/// One write of a group.
pub(super) struct Write {
    pub(super) kind: String,
    pub(super) id: Uuid,
    pub(super) number: Option<i64>,
    pub(super) line: Option<Vec<u8>>,
    pub(super) key: Option<String>,
}

impl Caller {
    fn instance(&self) -> Instance {
        Instance {
            id: self.id,
            name: self.name.clone(),
            version: self.version.clone(),
            lease_millis: self.lease_millis,
            beat: 0,
            address: self.address.clone(),
            token: self.token.clone(),
            routes: None,
        }
    }

    fn is_dead(&self, one: &Instance) -> bool {
        self.dead.contains(&(one.id, one.beat))
    }
}

impl Database {
    pub(super) fn take(&mut self, me: &Caller) -> Option<i64> {
        if self.owner == Some(me.id) {
            if let Some(known) = self.instance(me.id) {
                known.beat += 1;
            }
            return Some(self.fence);
        }
        self.instances.retain(|one| !me.is_dead(one));
        let there: Vec<Uuid> = self.instances.iter().map(|one| one.id).collect();
        self.owed.retain(|(_, member)| there.contains(member));
        if self.owner.is_some_and(|owner| there.contains(&owner)) {
            return None;
        }
        if me.address.is_some() && !there.contains(&me.id) {
            return None;
        }
        let is_alone = |one: &Instance| me.address.is_none() || one.address.is_none();
        if self
            .instances
            .iter()
            .any(|one| one.id != me.id && is_alone(one))
        {
            return None;
        }
        self.owed.retain(|(_, member)| *member != me.id);
        match self.instance(me.id) {
            Some(known) => known.beat += 1,
            None => self.instances.push(me.instance()),
        }
        (self.owner, self.notifies) = (Some(me.id), true);
        self.fence += 1;
        Some(self.fence)
    }

    pub(super) fn join(&mut self, me: &Caller) -> Option<String> {
        self.instances
            .retain(|one| !me.is_dead(one) || one.address.is_some());
        let mut alone = self.instances.iter().filter(|one| one.address.is_none());
        let alone = alone.next().map(|one| one.name.clone());
        if alone.is_none() && self.instance(me.id).is_none() {
            self.instances.push(me.instance());
        }
        alone
    }

    pub(super) fn beat(&mut self, me: Uuid, routes: Option<String>) -> bool {
        let Some(known) = self.instance(me) else {
            return false;
        };
        known.beat += 1;
        if routes.is_some() {
            known.routes = routes;
        }
        true
    }

    pub(super) fn leave(&mut self, me: Uuid) {
        self.owner = self.owner.filter(|owner| *owner != me);
        self.instances.retain(|one| one.id != me);
        self.owed.retain(|(_, member)| *member != me);
        self.notifies = true;
    }

    /// Notes a call that may only come after all calls with a lower number.
    fn number(&mut self, writer: i32, fence: i64, tried: i64) -> Result<(), Raised> {
        let known = self.writers.get(&writer);
        if known.is_some_and(|known| *known >= (fence, tried)) {
            return Err(LATE);
        }
        self.writers.insert(writer, (fence, tried));
        Ok(())
    }

    pub(super) fn claim(
        &mut self,
        (me, fence, tried): (Uuid, i64, i64),
        guards: Vec<(String, bool)>,
    ) -> Result<Option<i64>, Raised> {
        if !self.is_owner(me, fence) {
            return Ok(None);
        }
        self.number(GUARDS, fence, tried)?;
        self.ticket += 1;
        let ticket = self.ticket;
        for (key, names) in guards {
            let known = self.guards.entry(key).or_insert((ticket, false));
            *known = (ticket, known.1 || names);
        }
        let others = self.instances.iter().filter(|one| one.id != me);
        self.owed.extend(others.map(|one| (ticket, one.id)));
        self.notifies = true;
        Ok(Some(ticket))
    }

    pub(super) fn claim_apart(
        &mut self,
        (me, fence, tried): (Uuid, i64, i64),
        guards: Vec<(String, bool)>,
        places: &[i64],
    ) -> Result<Option<i64>, Raised> {
        if !self.is_owner(me, fence) {
            return Ok(None);
        }
        self.number(GUARDS, fence, tried)?;
        let first = self.ticket;
        self.ticket += places.iter().max().copied().unwrap_or_default();
        for ((key, names), place) in guards.into_iter().zip(places) {
            let ticket = first + place;
            let known = self.guards.entry(key).or_insert((ticket, false));
            *known = (ticket, known.1 || names);
        }
        let others = self.instances.iter().filter(|one| one.id != me);
        let owed = others.flat_map(|one| (first + 1..=self.ticket).map(|own| (own, one.id)));
        self.owed.extend(owed);
        self.notifies = true;
        Ok(Some(self.ticket))
    }

    pub(super) fn replace(
        &mut self,
        by: (Uuid, i64, i64),
        guards: Vec<(String, bool)>,
        addresses: &[String],
    ) -> Result<Option<i64>, Raised> {
        let claimed = self.claim(by, guards)?;
        if let Some(claimed) = claimed {
            self.guards.retain(|key, (ticket, _)| {
                let address = key.split('\u{1f}').next().unwrap_or_default();
                *ticket >= claimed || !addresses.iter().any(|one| one == address)
            });
            self.owed.retain(|(ticket, _)| *ticket >= claimed);
            self.released += 1;
        }
        Ok(claimed)
    }

    pub(super) fn release(
        &mut self,
        (me, fence, tried): (Uuid, i64, i64),
        keys: &[String],
    ) -> Result<bool, Raised> {
        if !self.is_owner(me, fence) {
            return Ok(false);
        }
        self.number(GUARDS, fence, tried)?;
        self.released += 1;
        self.guards.retain(|key, _| !keys.contains(key));
        Ok(true)
    }

    pub(super) fn acknowledge(&mut self, me: Uuid, tickets: &[i64], strays: Vec<String>) {
        self.strays.extend(strays);
        self.owed
            .retain(|(ticket, member)| *member != me || !tickets.contains(ticket));
        self.notifies = true;
    }

    pub(super) fn expire(
        &mut self,
        me: Uuid,
        fence: i64,
        dead: &[(Uuid, i64)],
    ) -> Option<Vec<Uuid>> {
        if !self.is_owner(me, fence) {
            return None;
        }
        let mut gone = Vec::new();
        self.instances.retain(|one| {
            let is_gone = one.id != me && dead.contains(&(one.id, one.beat));
            if is_gone {
                gone.push(one.id);
            }
            !is_gone
        });
        self.owed.retain(|(_, member)| !gone.contains(member));
        Some(gone)
    }

    pub(super) fn write(
        &mut self,
        (me, fence): (Uuid, i64),
        (writer, tried): (i32, i64),
        writes: Vec<Write>,
    ) -> Result<Option<String>, Raised> {
        if !self.is_owner(me, fence) {
            return Ok(None);
        }
        self.number(writer, fence, tried)?;
        let answers = writes.into_iter().map(|write| self.write_one(write, fence));
        Ok(Some(answers.collect()))
    }

    fn write_one(&mut self, write: Write, fence: i64) -> char {
        let Write {
            kind,
            id,
            number,
            line,
            key,
        } = write;
        self.changed.push(id);
        let nth = number.and_then(|number| i32::try_from(number).ok());
        let is_open = self
            .batches
            .get(&id)
            .is_some_and(|batch| batch.ended.is_none());
        match &*kind {
            "i" => {
                self.batches.entry(id).or_insert(Batch {
                    intent: line.expect("an intent"),
                    key,
                    verdict: None,
                    body: None,
                    ended: None,
                });
            }
            "c" | "a" => {
                let Some(batch) = self.batches.get_mut(&id) else {
                    return '?';
                };
                if batch.verdict.is_none() {
                    (batch.verdict, batch.body) = (Some(kind.as_bytes()[0]), line);
                }
                return batch.verdict.map_or('?', char::from);
            }
            "n" if is_open => {
                let nth = nth.expect("an entry");
                self.entries.entry((id, nth)).or_default().settled = line;
            }
            "s" => {
                let entry: &mut Entry = self
                    .entries
                    .entry((id, nth.expect("an entry")))
                    .or_default();
                entry.sent = Some(fence);
            }
            "r" if is_open => {
                let said = self.resolutions.entry(id).or_default();
                let line = line.expect("a resolution");
                if !said.contains(&line) {
                    said.push(line);
                }
            }
            "e" => {
                if let Some(batch) = self.batches.get_mut(&id) {
                    batch.ended = batch.ended.or(number);
                }
            }
            "w" => {
                let is_undecided = |batch: &Batch| batch.verdict.is_none();
                if self.batches.get(&id).is_some_and(is_undecided) {
                    self.batches.remove(&id);
                }
            }
            "n" | "r" => {}
            other => panic!("{other} is no kind of write"),
        }
        '-'
    }

    pub(super) fn forget(&mut self, me: Uuid, fence: i64, before: i64, most: i64) -> Option<bool> {
        if !self.is_owner(me, fence) {
            return None;
        }
        let mut old: Vec<(i64, Uuid)> = self
            .batches
            .iter()
            .filter_map(|(id, batch)| Some((batch.ended.filter(|at| *at < before)?, *id)))
            .collect();
        old.sort_unstable();
        old.truncate(usize::try_from(most).expect("a count"));
        for (_, id) in &old {
            self.batches.remove(id);
            self.resolutions.remove(id);
            self.entries.retain(|(batch, _), _| batch != id);
        }
        Some(old.len() == usize::try_from(most).expect("a count"))
    }
}
