//! Several gateways that share one batch log: the role of this one, and the guards that its batches wait for.
//!
//! One of them owns the log: it alone runs batches, and it alone serves requests for the tables that batches are on. Such
//! a table is guarded. A guard is granted when every other gateway has acknowledged that it serves no request for the
//! table any more, or has lost its lease; the batch begins after that. So a request for a table without a guard costs no
//! round trip, and whoever serves it cannot meet a batch.
//!
//! A gateway may serve what batches can change only while its lease lasts. It renews the lease with a heartbeat in the
//! log. No clock is compared with another: the lease begins before the heartbeat is sent, and others count it from when
//! they have read the heartbeat.

mod deadline;
mod guarded;
mod in_flight;
mod lease;
mod log_copy;
mod owned;
mod passage;
mod twins;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use arc_swap::ArcSwap;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, Semaphore};
use uuid::Uuid;

use crate::batch::log::LogError;
use crate::error::Error;
use crate::error::origin::ErrorOrigin;
use crate::error::retry_after::RetryAfter;
use crate::metrics::LogCounts;
pub(in crate::batch) use deadline::Deadline;
use guarded::GuardedTables;
pub(in crate::batch) use guarded::parts_of;
pub use guarded::{Guard, guard_key};
use lease::Lease;
pub use log_copy::LogCopy;
pub(in crate::batch) use owned::RELEASE_EVERY;
pub use owned::{OwnedGuards, Unguarded};
pub use passage::{Passage, StreamPassage, Subject, Unserved};
use twins::Twins;

/// The largest number of requests that wait for an owner of the log. Beyond it they are refused at once. It is a part of
/// `limits.in_flight`, so that requests which need no owner are served meanwhile.
const WAITING: usize = 1024;

/// The answer to a request that batches may concern while this gateway does not know which tables they are on.
const UNKNOWING: &str = "this gateway has lost its contact to the batch log, so it does not know which tables batches are changing; retry later";

/// The part of this gateway in the use of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// Takes no part at the moment, and knows no guards.
    Outside,
    /// Another gateway owns the log; `None` while nobody does.
    Follower(Option<Owner>),
    /// Owns the log, and does not know yet what the log says.
    Recovering,
    /// Owns the log, and runs batches.
    Owner,
}

/// The gateway that owns the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The id of the process.
    pub id: Uuid,
    /// The name that operators know it by.
    pub name: String,
    /// The address at which other gateways reach it, such as `10.0.0.7:8079`.
    pub address: String,
    /// The token that other gateways show to it.
    pub token: String,
}

/// Claims and releases guards in the log, for its owner.
pub trait GuardStore: Send + Sync {
    /// Guards tables, and returns when every other gateway has acknowledged. Returns the keys of the tables for which
    /// another gateway knows a change that had no answer.
    fn claim(&self, guards: Vec<Guard>) -> BoxFuture<'static, Result<Vec<String>, LogError>>;
    /// Makes these the only guards of the catalogs at `addresses`; otherwise as `claim`.
    fn replace(
        &self,
        guards: Vec<Guard>,
        addresses: Vec<String>,
    ) -> BoxFuture<'static, Result<Vec<String>, LogError>>;
    /// Removes guards.
    fn release(&self, keys: Vec<String>) -> BoxFuture<'static, Result<(), LogError>>;
}

/// The tables of this gateway, for guards of other gateways.
pub trait LocalTables: Send + Sync {
    /// Waits until no change of the table is under way here. Returns true if one that had no answer may still land.
    fn settled(&self, key: &str) -> BoxFuture<'static, bool>;
    /// True if no change of any table is under way here, and none that had no answer may still land.
    fn all_settled(&self) -> bool;
    /// Assumes that a change of another gateway may still land on any table.
    fn expect_strays(&self);
}

/// The gateways that share one log. A log that only one gateway can use has none.
pub struct Fleet {
    lease: Lease,
    role: RwLock<Role>,
    /// Told of changes of the role. It wakes in the order of waiting, as a simulation that can be repeated needs it.
    changed: Notify,
    guarded: GuardedTables,
    /// The places for requests that wait for an owner.
    waiting: Semaphore,
    copy: Arc<LogCopy>,
    tables: OnceLock<Arc<dyn LocalTables>>,
    /// True if requests are served without a lease, as `batch.without_log: serve` says.
    serves_without_log: bool,
    /// True if several gateways share the log; false if this one has it for itself.
    is_shared: bool,
    /// The token that other gateways must show to this one.
    token: String,
    /// The number of times that the others took this gateway for dead.
    expiries: AtomicU64,
    /// The gateways that share the log, as this one last saw them.
    members: ArcSwap<Vec<Member>>,
    twins: Twins,
    /// The digest of the routes of this one.
    routes: ArcSwap<String>,
    counts: Counts,
}

/// A gateway that uses the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// The name that operators know it by.
    pub name: String,
    /// The address at which other gateways reach it; `None` if it uses the log alone.
    pub address: Option<String>,
    /// The version of its program.
    pub version: String,
    /// True if it owns the log.
    pub is_owner: bool,
    /// True if it is the gateway that says this.
    pub is_this: bool,
    /// True if it owns the log and has yet to recover its batches. Only known of the gateway that says this.
    #[serde(default)]
    pub recovers: bool,
    /// True if it finds tables elsewhere than the gateway that says this: their mounts, or the addresses of their catalogs,
    /// differ. A batch of one does not guard such a table against the other.
    pub routes_differ: bool,
    /// The time since its heartbeat was last seen to change, in milliseconds.
    pub silent_millis: u64,
    /// The time after which it is taken for dead, in milliseconds.
    pub lease_millis: u64,
}

/// Counts of what has happened to requests and gateways.
#[derive(Default)]
struct Counts {
    answered: AtomicU64,
    unanswered: AtomicU64,
    discarded: AtomicU64,
    expired: AtomicU64,
}

impl Fleet {
    /// Creates the view of a gateway that has not joined yet. `lease` is the time for which a heartbeat counts.
    pub fn new(lease: Duration, serves_without_log: bool, is_shared: bool) -> Arc<Self> {
        Arc::new(Self {
            lease: Lease::new(lease),
            role: RwLock::new(Role::Outside),
            changed: Notify::new(),
            guarded: GuardedTables::default(),
            waiting: Semaphore::new(WAITING),
            tables: OnceLock::new(),
            serves_without_log,
            is_shared,
            token: Uuid::new_v4().to_string(),
            expiries: AtomicU64::new(0),
            members: ArcSwap::default(),
            copy: Arc::default(),
            twins: Twins::default(),
            routes: ArcSwap::default(),
            counts: Counts::default(),
        })
    }

    /// Creates the view of a gateway with this role.
    #[cfg(test)]
    pub(crate) fn with_role(role: Role) -> Arc<Self> {
        let fleet = Self::new(Duration::from_secs(5), false, true);
        fleet.becomes(role);
        fleet.lease.renew(tokio::time::Instant::now());
        fleet
    }

    /// The token that other gateways must show to this one.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The lease of this gateway.
    pub(in crate::batch) fn lease(&self) -> &Lease {
        &self.lease
    }

    /// The copy of the log that this gateway reaches.
    pub fn copy(&self) -> &Arc<LogCopy> {
        &self.copy
    }

    /// The guards, as a gateway that does not own the log knows them.
    pub(in crate::batch) fn guarded(&self) -> &GuardedTables {
        &self.guarded
    }

    /// Sets the tables of this gateway, once, before it serves.
    pub fn serve_from(&self, tables: Arc<dyn LocalTables>) {
        // A second call changes nothing.
        let _ = self.tables.set(tables);
    }

    /// Waits until no request for a guarded table is under way here that came before the guard. Returns true if a change
    /// that had no answer may still land.
    pub(in crate::batch) async fn drain(&self, guard: &Guard) -> bool {
        self.guarded.drain(guard).await;
        match self.tables.get() {
            Some(tables) => tables.settled(&guard.key).await,
            None => false,
        }
    }

    /// True if this gateway leaves no change behind that may still land.
    pub(in crate::batch) fn all_settled(&self) -> bool {
        self.tables.get().is_none_or(|tables| tables.all_settled())
    }

    /// Assumes that a change of a gateway that is gone may still land on any table.
    pub(in crate::batch) fn expect_strays(&self) {
        if let Some(tables) = self.tables.get() {
            tables.expect_strays();
        }
    }

    /// The gateways that share the log, as this one last saw them.
    pub fn members(&self) -> Arc<Vec<Member>> {
        self.members.load_full()
    }

    /// Records the gateways that share the log. Reports those that begin to find tables elsewhere.
    pub(in crate::batch) fn saw(&self, members: Vec<Member>) {
        let before = self.members.load();
        let differed = |name: &str| {
            let mut before = before.iter();
            before.any(|one| one.name == name && one.routes_differ)
        };
        for one in members.iter().filter(|one| one.routes_differ) {
            if !differed(&one.name) {
                tracing::warn!(
                    gateway = one.name,
                    "another gateway has other mounts, or other addresses of catalogs, than this one: batches are not safe on tables that both reach in different ways. Give both the same configuration"
                );
            }
        }
        self.twins.look(&members);
        self.members.store(Arc::new(members));
    }

    /// Sets the digest of the routes of this gateway, which the others compare with theirs.
    pub fn routes_are(&self, digest: String) {
        self.routes.store(Arc::new(digest));
    }

    /// The digest of the routes of this gateway.
    pub(in crate::batch) fn routes(&self) -> Arc<String> {
        self.routes.load_full()
    }

    /// Counts a request that was passed on to the owner of the log.
    pub fn passed_on(&self, is_answered: bool) {
        let counts = &self.counts;
        let counter = if is_answered {
            &counts.answered
        } else {
            &counts.unanswered
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts gateways that were taken for dead.
    pub(in crate::batch) fn expired(&self, gateways: usize) {
        let gateways = u64::try_from(gateways).unwrap_or_default();
        self.counts.expired.fetch_add(gateways, Ordering::Relaxed);
    }

    /// The counts for the metrics, without the tables that this gateway guards itself.
    pub fn counts(&self) -> LogCounts {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        LogCounts {
            lease: Some(self.lease.left()),
            owned: matches!(*self.now(), Role::Owner | Role::Recovering),
            gateways: self.members.load().len().max(1),
            differing: {
                let members = self.members.load();
                members.iter().filter(|one| one.routes_differ).count()
            },
            guarded_tables: self.guarded.len(),
            answered: count(&self.counts.answered),
            unanswered: count(&self.counts.unanswered),
            discarded: count(&self.counts.discarded),
            expired: count(&self.counts.expired),
        }
    }

    /// True if several gateways share the log.
    pub fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// The present role of this gateway.
    pub fn role(&self) -> Role {
        self.now().clone()
    }

    fn now(&self) -> RwLockReadGuard<'_, Role> {
        self.role.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the role is one that `is` accepts, and returns it.
    pub async fn role_when(&self, is: impl Fn(&Role) -> bool) -> Role {
        loop {
            let changed = self.changed.notified();
            {
                let now = self.now();
                if is(&now) {
                    return now.clone();
                }
            }
            changed.await;
        }
    }

    /// Records a change of the role.
    pub(in crate::batch) fn becomes(&self, role: Role) {
        {
            let mut now = self.role.write().unwrap_or_else(PoisonError::into_inner);
            if *now == role {
                return;
            }
            *now = role;
        }
        self.changed.notify_waiters();
    }

    /// Records that this gateway owns the log, and begins to recover what is in it. What it serves at the moment could meet
    /// a batch that is not recovered yet.
    pub(in crate::batch) fn begins_to_recover(&self) {
        self.becomes(Role::Recovering);
        self.guarded.give_up_all();
    }

    /// Records that this gateway was taken for dead: what it serves at the moment may show parts of batches.
    pub(in crate::batch) fn was_expired(&self) {
        self.expiries.fetch_add(1, Ordering::SeqCst);
        self.lease.end();
        // First: a request that comes later is not counted.
        self.becomes(Role::Outside);
        self.guarded.forget_all();
    }

    /// Returns true if this gateway owns the log, and may serve for the others.
    pub fn serves_as_owner(&self) -> bool {
        *self.now() == Role::Owner && (self.serves_without_log || self.lease.is_valid())
    }

    /// True while this gateway knows which tables batches are on.
    pub(crate) fn knows_of_batches(&self) -> bool {
        self.lease.is_valid()
    }

    /// Returns when this gateway may send requests of batches: at once while its lease lasts. Never returns if another
    /// gateway has taken the log over; then this process is about to end.
    pub(in crate::batch) async fn may_send(&self) {
        while !self.lease.may_send() {
            tokio::time::sleep(lease::LOOK_EVERY).await;
        }
    }
}

/// Returns a refusal after which the client may ask again.
fn unavailable(message: &'static str) -> Error {
    Error::unavailable(message).with_retry_after(RetryAfter::SOON)
}

/// Returns the refusal while nothing is known about batches.
fn unknowing() -> Error {
    unavailable(UNKNOWING).of(ErrorOrigin::BatchLog)
}
