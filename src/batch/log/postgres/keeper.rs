//! The keeper of the guards: it claims and releases them in the database for the gateway that owns the log, and
//! acknowledges them for the others.

use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::cause::Trouble;
use super::claims::{ClaimColumns, ClaimGroup, Claimed};
use super::contact::Contact;
use super::fence::Fence;
use super::guards::{ANY_TABLE, GuardRequests, Request};
use super::link::Link;
use super::observer::Observer;
use crate::batch::fleet::{Fleet, Guard};

/// The number of claims that share one statement.
const GROUP: usize = 256;
/// The pause after a request that failed.
const PAUSE: Duration = Duration::from_millis(100);
/// The interval at which a gateway looks whether others have acknowledged, if no notification tells it.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Claims for several batches. Claims nothing, and needs no ownership, if it is given no tables.
const CLAIM: &str = "SELECT claim_3($1, $2, $3, $4, $5, $6)";
/// One statement, because each gateway asks it at every look.
const STATE: &str = "SELECT owner, ticket, released,
    ARRAY(SELECT ticket FROM owed WHERE member = $1 ORDER BY ticket),
    ARRAY(SELECT id FROM instance ORDER BY id), ARRAY(SELECT beat FROM instance ORDER BY id), id FROM log";
const GUARDS_AFTER: &str = "SELECT key, names, ticket FROM guard WHERE ticket > $1";
const KEYS: &str = "SELECT key FROM guard";
const OWED: &str = "SELECT DISTINCT ticket FROM owed WHERE ticket = ANY ($1)";
const STRAYS: &str = "DELETE FROM stray WHERE key = ANY ($1) RETURNING key";
// No crash of the server can undo what an acknowledgement allows: it only has to be given again.
const ACKNOWLEDGE: &str =
    "SELECT set_config('synchronous_commit', 'off', true), acknowledge_2($1, $2, $3)";

/// The guards, as one gateway claims or acknowledges them while it takes part.
pub(super) struct GuardKeeper<'a> {
    pub(super) link: Link,
    pub(super) heard: Arc<Notify>,
    pub(super) me: Uuid,
    pub(super) fleet: &'a Arc<Fleet>,
    pub(super) ownership: &'a OnceLock<Arc<Fence>>,
    pub(super) requests: &'a mut GuardRequests,
    /// Told when the owner of the log is another one, or when a gateway is dead.
    pub(super) changed: &'a Notify,
    /// Told once the guards are known.
    pub(super) known: &'a Notify,
    /// Told of the heartbeats of the others, more often than they come.
    pub(super) observer: &'a RefCell<Observer>,
    /// Told whether the log was reached.
    pub(super) contact: &'a Contact,
    /// The number of calls about guards so far.
    pub(super) tries: i64,
}

/// The state of the log, as a keeper has seen it so far.
#[derive(Default)]
struct Known {
    owner: Option<Option<Uuid>>,
    ticket: i64,
    released: Option<i64>,
    /// The tickets that are being acknowledged.
    draining: HashSet<i64>,
}

/// Tries a connection for guards: whether it is answered, and whether the schema has what this program calls.
pub(super) async fn try_out(link: &mut Link) -> Result<(), Trouble> {
    let (none, zero) = (Uuid::nil(), 0_i64);
    let (keys, names, places) = (Vec::<&str>::new(), Vec::<bool>::new(), Vec::<i64>::new());
    let given: [&(dyn ToSql + Sync); 6] = [&none, &zero, &zero, &keys, &names, &places];
    link.query(CLAIM, &given).await.map(drop)
}

impl GuardKeeper<'_> {
    /// Claims, releases and acknowledges guards, until it is dropped.
    pub(super) async fn keep(mut self) {
        let mut known = Known::default();
        let mut claims: Vec<Claimed> = Vec::new();
        let mut drains = FuturesUnordered::new();
        let mut tick = interval(LOOK_EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let mut acknowledged = Vec::new();
            let mut requests = Vec::new();
            let heard = Arc::clone(&self.heard);
            let next_death = self.observer.borrow().next_death();
            tokio::select! {
                biased;
                () = heard.notified() => {}
                _ = tick.tick() => {}
                // Batches wait for the end of a silent gateway.
                () = sleep_until(next_death.unwrap_or_else(Instant::now)), if next_death.is_some() => {}
                request = self.requests.0.recv() => match request {
                    Some(request) => requests.push(request),
                    // The log is closed; the thread ends soon.
                    None => sleep(PAUSE).await,
                },
                Some(drained) = drains.next() => acknowledged.push(drained),
            }
            while requests.len() < GROUP
                && let Ok(request) = self.requests.0.try_recv()
            {
                requests.push(request);
            }
            while let Some(Some(drained)) = drains.next().now_or_never() {
                acknowledged.push(drained);
            }
            let done = async {
                self.acknowledge(&acknowledged).await?;
                for (ticket, _) in &acknowledged {
                    known.draining.remove(ticket);
                }
                self.carry_out(requests, &mut claims).await?;
                self.answer(&mut claims).await?;
                self.refresh(&mut known).await
            };
            match done.await {
                Ok(owed) => {
                    self.contact.made();
                    for (ticket, guards) in owed {
                        let fleet = Arc::clone(self.fleet);
                        drains.push(async move {
                            // All at once: what is served of one table must not delay the others.
                            let drains = guards.iter().map(|guard| fleet.drain(guard));
                            let drained = join_all(drains).await;
                            let strays = guards.into_iter().zip(drained);
                            let strays = strays.filter(|(_, may_land)| *may_land);
                            (ticket, strays.map(|(guard, _)| guard.key).collect())
                        });
                    }
                }
                Err(trouble) => {
                    self.contact.failed(trouble.words);
                    // What was drained is drained again: the acknowledgement may be lost.
                    known.draining.clear();
                    sleep(PAUSE).await;
                }
            }
        }
    }

    /// Tells the owner that no request for these guards is served here any more.
    async fn acknowledge(&mut self, drained: &[(i64, Vec<String>)]) -> Result<(), Trouble> {
        if drained.is_empty() {
            return Ok(());
        }
        let tickets: Vec<i64> = drained.iter().map(|(ticket, _)| *ticket).collect();
        let strays = drained.iter().flat_map(|(_, strays)| strays);
        let strays: Vec<&str> = strays.map(String::as_str).collect();
        let parameters: [&(dyn ToSql + Sync); 3] = [&self.me, &tickets, &strays];
        self.link.query(ACKNOWLEDGE, &parameters).await.map(drop)
    }

    /// Carries out requests of the owner. Those that fail are answered so: their batches are refused.
    async fn carry_out(
        &mut self,
        requests: Vec<Request>,
        claims: &mut Vec<Claimed>,
    ) -> Result<(), Trouble> {
        let Some(fence) = self.ownership.get().cloned() else {
            // Without an answer, the channels say that there is none.
            return Ok(());
        };
        let me = self.me;
        let mut group = ClaimGroup::default();
        for request in requests {
            match request {
                Request::Claim {
                    guards,
                    replaces: None,
                    done,
                } => group.add(guards, done),
                Request::Claim {
                    guards,
                    replaces: Some(addresses),
                    done,
                } => {
                    let mut alone = ClaimGroup::default();
                    alone.add(guards, done);
                    self.claim(&fence, alone, Some(addresses), claims).await?;
                }
                Request::Release { keys, done } => {
                    self.tries += 1;
                    let (number, tries) = (fence.number(), self.tries);
                    let released = self
                        .link
                        .write(
                            "SELECT release_2($1, $2, $3, $4)",
                            &[&me, &number, &tries, &keys],
                        )
                        .await;
                    let _ = done.send(match &released {
                        Ok(rows) if rows.first().is_some_and(|row| row.get(0)) => Ok(()),
                        Ok(_) => Err(fence.to_error()),
                        Err(trouble) => Err(fence.away(&trouble.words)),
                    });
                    released?;
                }
            }
        }
        if group.is_empty() {
            return Ok(());
        }
        self.claim(&fence, group, None, claims).await
    }

    /// Makes claims with one statement. Adds them to `claims`, or answers that they were not made.
    async fn claim(
        &mut self,
        fence: &Fence,
        group: ClaimGroup,
        replaces: Option<Vec<String>>,
        claims: &mut Vec<Claimed>,
    ) -> Result<(), Trouble> {
        let ClaimColumns {
            keys,
            names,
            places,
        } = group.columns();
        self.tries += 1;
        let (me, number, tries) = (self.me, fence.number(), self.tries);
        let rows = match replaces {
            None => {
                let given: [&(dyn ToSql + Sync); 6] =
                    [&me, &number, &tries, &keys, &names, &places];
                self.link.write(CLAIM, &given).await
            }
            Some(addresses) => {
                let sql = "SELECT replace_2($1, $2, $3, $4, $5, $6)";
                let given: [&(dyn ToSql + Sync); 6] =
                    [&me, &number, &tries, &keys, &names, &addresses];
                self.link.write(sql, &given).await
            }
        };
        match rows {
            Ok(rows) => {
                match rows.first().and_then(|row| row.get(0)) {
                    Some(last) => {
                        let claimed = group.claimed(last);
                        claims.iter_mut().for_each(|claim| claim.follow(&claimed));
                        claims.extend(claimed);
                    }
                    None => group.fail(claims, || fence.to_error()),
                }
                Ok(())
            }
            Err(trouble) => {
                group.fail(claims, || fence.away(&trouble.words));
                Err(trouble)
            }
        }
    }

    /// Answers the claims that every other gateway has acknowledged.
    async fn answer(&mut self, claims: &mut Vec<Claimed>) -> Result<(), Trouble> {
        claims.retain(|claim| !claim.done.is_closed());
        if claims.is_empty() {
            return Ok(());
        }
        let tickets = claims.iter().flat_map(|claim| &claim.tickets);
        let tickets: Vec<i64> = tickets.copied().collect();
        let rows = self.link.query(OWED, &[&tickets]).await?;
        let owed: HashSet<i64> = rows.iter().map(|row| row.get(0)).collect();
        let waits = |claim: &Claimed| claim.tickets.iter().any(|ticket| owed.contains(ticket));
        if claims.iter().all(waits) {
            return Ok(());
        }
        let granted = claims.extract_if(.., |claim| !waits(claim));
        let granted: Vec<Claimed> = granted.collect();
        let keys = granted.iter().flat_map(|claim| &claim.keys);
        let keys = keys.map(String::as_str).chain([ANY_TABLE]);
        let keys: Vec<&str> = keys.collect();
        let rows = self.link.query(STRAYS, &[&keys]).await;
        // If the answer is lost, what it says may be removed already, and the claims that come again do not find it.
        let rows = rows.inspect_err(|_| self.fleet.expect_strays())?;
        let strays: HashSet<String> = rows.iter().map(|row| row.get(0)).collect();
        if strays.contains(ANY_TABLE) {
            self.fleet.expect_strays();
        }
        for claim in granted {
            let found = claim.keys.into_iter().filter(|key| strays.contains(key));
            let _ = claim.done.send(Ok(found.collect()));
        }
        Ok(())
    }

    /// Learns the guards of the owner, if that is another gateway. Returns the tickets that are owed, and their guards.
    async fn refresh(&mut self, known: &mut Known) -> Result<Vec<(i64, Vec<Guard>)>, Trouble> {
        let rows = self.link.query(STATE, &[&self.me]).await?;
        let Some(row) = rows.first() else {
            return Ok(Vec::new());
        };
        let (owner, ticket, released): (Option<Uuid>, i64, i64) =
            (row.get(0), row.get(1), row.get(2));
        // Not younger than the look at the guards below, which therefore shows those of every ticket that is owed.
        let owed: Vec<i64> = row.get(3);
        self.fleet.copy().is_of(row.get(6));
        let (ids, beats): (Vec<Uuid>, Vec<i64>) = (row.get(4), row.get(5));
        let (run, beats) = (self.link.run(), ids.into_iter().zip(beats));
        let is_one_dead = self.observer.borrow_mut().beats(beats, run);
        if known.owner != Some(owner) || is_one_dead {
            known.owner = Some(owner);
            self.changed.notify_one();
        }
        if self.ownership.get().is_some() {
            self.known.notify_one();
            return Ok(Vec::new());
        }
        let mut fresh = Vec::new();
        if ticket > known.ticket {
            let rows = self.link.query(GUARDS_AFTER, &[&known.ticket]).await?;
            for row in &rows {
                let (key, names, ticket): (String, bool, i64) =
                    (row.get(0), row.get(1), row.get(2));
                known.ticket = known.ticket.max(ticket);
                fresh.push((ticket, Guard { key, names }));
            }
            let guarded = self.fleet.guarded();
            guarded.add(fresh.iter().map(|(_, guard)| guard.clone()));
        }
        if known.released != Some(released) {
            // A look that is not older than the one that added guards.
            let rows = self.link.query(KEYS, &[]).await?;
            let keys = rows.iter().map(|row| row.get(0)).collect();
            self.fleet.guarded().retain(&keys);
            known.released = Some(released);
        }
        self.known.notify_one();
        let mut drains = Vec::new();
        for ticket in owed {
            if !known.draining.insert(ticket) {
                continue;
            }
            let mut guards: Vec<Guard> = fresh
                .iter()
                .filter(|(of, _)| *of == ticket)
                .map(|(_, guard)| guard.clone())
                .collect();
            if guards.is_empty() {
                // It was seen before, and the acknowledgement was lost or is owed anew; or a later claim has its tables.
                let sql = "SELECT key, names FROM guard WHERE ticket >= $1";
                let rows = self.link.query(sql, &[&ticket]).await?;
                let again = rows.iter().map(|row| Guard {
                    key: row.get(0),
                    names: row.get(1),
                });
                guards = again.collect();
                self.fleet.guarded().add(guards.iter().cloned());
            }
            drains.push((ticket, guards));
        }
        Ok(drains)
    }
}
