//! The functions of the database. Each is carried out at one moment.

use crate::mutants::{Bug, Rules};
use crate::world::{Call, Guard, Ids, Promise, Set, TABLES, TICKETS, World, has};

/// The answer of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The caller does not own the log, or does not get it.
    Null,
    Done,
    /// The number of an ownership, or a ticket.
    Number(u8),
}

/// A record of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    Intent,
    Commit,
    Abort,
    End,
}

impl World {
    /// Carries out a call.
    pub fn carry_out(&mut self, call: Call, rules: &Rules) -> Answer {
        match call {
            Call::Join(me) => {
                self.database.instances |= me;
                Answer::Done
            }
            Call::Leave(me) => {
                if self.database.owner == me {
                    self.database.owner = 0;
                }
                self.remove(me);
                Answer::Done
            }
            Call::Take { me, dead } => self.take(me, dead, rules),
            Call::Expire { me, fence, dead } => {
                if self.owns(me, fence) {
                    self.remove(dead & !me);
                    Answer::Done
                } else {
                    Answer::Null
                }
            }
            Call::Acknowledge { me, ticket } => {
                if rules.has(Bug::AcknowledgesEveryTicket) {
                    self.database.owed.iter_mut().for_each(|owed| *owed &= !me);
                }
                self.database.owed[usize::from(ticket)] &= !me;
                Answer::Done
            }
            Call::Claim {
                me,
                fence,
                tables,
                names,
                among,
            } => {
                if !self.owns(me, fence) {
                    return Answer::Null;
                }
                let names = if names { tables } else { 0 };
                Answer::Number(self.claim(me, tables, names, among))
            }
            Call::Release { me, fence, tables } => {
                if !self.owns(me, fence) {
                    return Answer::Null;
                }
                self.keep(!tables, rules);
                Answer::Done
            }
            Call::Replace {
                me,
                fence,
                tables,
                naming,
            } => {
                if !self.owns(me, fence) {
                    return Answer::Null;
                }
                let instances = self.database.instances;
                let ticket = self.claim(me, tables, naming, instances);
                for owed in &mut self.database.owed[..usize::from(ticket)] {
                    *owed = 0;
                }
                self.keep(tables, rules);
                Answer::Number(ticket)
            }
        }
    }

    fn owns(&self, me: Ids, fence: u8) -> bool {
        self.database.owner == me && self.database.fence == fence
    }

    fn take(&mut self, me: Ids, dead: Ids, rules: &Rules) -> Answer {
        let database = &mut self.database;
        if database.owner == me {
            let fence = database.fence;
            self.counted(me, rules);
            return Answer::Number(fence);
        }
        database.instances &= !dead;
        let clears = |database: &mut super::world::Database| {
            let instances = database.instances;
            database.owed.iter_mut().for_each(|owed| *owed &= instances);
        };
        if !rules.has(Bug::OwedByNobody) {
            clears(database);
        }
        if database.owner & database.instances != 0 {
            return Answer::Null;
        }
        if database.instances & me == 0 && !rules.has(Bug::DeadTakesOver) {
            return Answer::Null;
        }
        database.instances |= me;
        clears(database);
        database.owed.iter_mut().for_each(|owed| *owed &= !me);
        database.owner = me;
        database.fence += 1;
        let fence = database.fence;
        self.counted(me, rules);
        Answer::Number(fence)
    }

    fn claim(&mut self, me: Ids, tables: Set, naming: Set, among: Ids) -> u8 {
        let database = &mut self.database;
        database.ticket += 1;
        let ticket = database.ticket;
        assert!(
            usize::from(ticket) < TICKETS,
            "the bounds allow too many claims"
        );
        for (table, guard) in (0..).zip(&mut database.guards) {
            if has(tables, table) {
                let names = guard.names || has(naming, table);
                *guard = Guard { ticket, names };
            }
        }
        database.owed[usize::from(ticket)] = database.instances & among & !me;
        ticket
    }

    /// Removes the guards of all other tables.
    fn keep(&mut self, tables: Set, rules: &Rules) {
        for table in 0..TABLES {
            if tables & (1 << table) == 0 {
                self.database.guards[table] = Guard::default();
            }
        }
        if rules.has(Bug::ReleaseIsNotCounted) {
            return;
        }
        self.gateways.iter_mut().for_each(|gateway| {
            // The others see it in the count of releases. One that has not read the guards yet reads all of them.
            gateway.is_released = gateway.fence == 0 && gateway.guarded != 0;
        });
    }

    fn remove(&mut self, ids: Ids) {
        let database = &mut self.database;
        database.instances &= !ids;
        database.owed.iter_mut().for_each(|owed| *owed &= !ids);
    }

    /// Counts a heartbeat: who took this gateway for dead finds another count now.
    pub fn counted(&mut self, me: Ids, rules: &Rules) {
        use crate::gateway::Plan;
        let expires = !rules.has(Bug::ExpiryIgnoresHeartbeats);
        let takes = !rules.has(Bug::TakeoverIgnoresHeartbeats);
        for gateway in &mut self.gateways {
            match &mut gateway.plan {
                Plan::Take(dead) if takes => *dead &= !me,
                Plan::Expire(dead) if expires => *dead &= !me,
                _ => {}
            }
        }
        match &mut self.late {
            Some(Call::Take { dead, .. }) if takes => *dead &= !me,
            Some(Call::Expire { dead, .. }) if expires => *dead &= !me,
            _ => {}
        }
    }

    /// Writes a record. Returns false if this gateway does not own the log.
    pub fn write(&mut self, gateway: usize, batch: usize, line: Line, rules: &Rules) -> bool {
        let may = self.may_write(gateway);
        let is_unfenced = match line {
            Line::Intent => rules.has(Bug::IntentWithoutFence),
            Line::Commit | Line::Abort => rules.has(Bug::DecisionWithoutFence),
            Line::End => false,
        };
        if !may && !is_unfenced {
            return false;
        }
        let (database, this) = (&mut self.database, 1 << batch);
        let is_decided = (database.commits | database.aborts) & this != 0;
        let is_new = match line {
            Line::Intent => database.intents & this == 0,
            Line::Commit | Line::Abort => !is_decided,
            Line::End => database.ended & this == 0,
        };
        match line {
            Line::Intent => database.intents |= this,
            Line::Commit if !is_decided => database.commits |= this,
            Line::Abort if !is_decided => database.aborts |= this,
            Line::End => database.ended |= this,
            _ => {}
        }
        if !may && is_new {
            self.breaks(Promise::OneOwner);
        }
        true
    }
}
