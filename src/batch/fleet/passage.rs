//! Decides whether this gateway may serve a request: before it is sent, and again after the catalog has answered.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::timeout;

use super::in_flight::{Place, StreamNote};
use super::{Fleet, Owner, Role, unavailable, unknowing};
use crate::error::Error;
use crate::error::facts::ErrorFacts;

/// The part of a request that batches may concern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject<'a> {
    /// No part: no batch can change what the request is about.
    Nothing,
    /// One table; see [`guard_key`](super::guard_key).
    Table(&'a str),
    /// The names of tables.
    Names,
    /// The knowledge of the owner of the log: batches, transactions, and requests that give or take names.
    Owner,
}

/// The right of a request to be served here. Kept until its answer is there.
pub struct Passage {
    fleet: Arc<Fleet>,
    /// The place among the requests that guards wait for; `None` at the owner, where batches wait by themselves.
    place: Option<Place>,
    /// The number of times that others had taken this gateway for dead when the request came.
    expiries: u64,
    /// True once the request has held the lock of its table while no batch was on it: batches of other gateways wait for
    /// that lock.
    is_locked: AtomicBool,
}

/// The right of an answer to stream on after its head. A batch that begins on the table ends it, and waits for nothing.
pub struct StreamPassage {
    fleet: Arc<Fleet>,
    note: Option<StreamNote>,
    expiries: u64,
}

/// The error of a wait for an owner of the log.
#[derive(Debug)]
pub struct Unserved;

impl fmt::Debug for Passage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Passage")
    }
}

impl Fleet {
    /// Returns the right to serve a request here; `Ok(None)` if only the owner of the log can serve it.
    ///
    /// # Errors
    /// 503 if this gateway does not know what batches do.
    pub fn admit(self: &Arc<Self>, subject: Subject<'_>) -> Result<Option<Passage>, Error> {
        // Held until the request is counted: an expiry waits for it, and then gives up all that are counted.
        let role = self.now();
        // Counted before the guards are looked at: one that is added after this waits for the request.
        let place = match subject {
            Subject::Table(key) => self.guarded.enter(key),
            Subject::Names => self.guarded.enter_listing(),
            Subject::Nothing | Subject::Owner => None,
        };
        let passage = |place| Passage {
            fleet: Arc::clone(self),
            place,
            expiries: self.expiries.load(Ordering::SeqCst),
            is_locked: AtomicBool::new(false),
        };
        match &*role {
            Role::Owner if !self.is_in_contact(subject) => Err(unknowing()),
            Role::Owner => Ok(Some(passage(None))),
            Role::Outside if self.serves_without_log && place.is_some() => {
                Ok(place.map(|place| passage(Some(place))))
            }
            Role::Outside => Err(unknowing()),
            // Tables appear and disappear while the log is read.
            Role::Recovering => Ok(None),
            Role::Follower(_) => match place {
                None => Ok(None),
                Some(place) => self.alive().map(|()| Some(passage(Some(place)))),
            },
        }
    }

    /// Waits until there is an owner that serves `subject`, for up to `wait`. `None` means that this gateway is it.
    ///
    /// # Errors
    /// There is none by then, or too many requests wait already.
    pub async fn owner(
        &self,
        subject: Subject<'_>,
        wait: Duration,
    ) -> Result<Option<Owner>, Unserved> {
        if let Some(owner) = self.owner_now(subject) {
            return Ok(owner);
        }
        let _place = self.waiting.try_acquire().map_err(|_| Unserved)?;
        let owner = async {
            loop {
                let (changed, renewed) = (self.changed.notified(), self.lease.renewed());
                if let Some(owner) = self.owner_now(subject) {
                    return owner;
                }
                tokio::select! {
                    biased;
                    () = changed => {}
                    () = renewed => {}
                }
            }
        };
        timeout(wait, owner).await.map_err(|_| Unserved)
    }

    /// The owner that serves `subject` now, as [`owner`](Self::owner) returns it; `None` if there is none.
    fn owner_now(&self, subject: Subject<'_>) -> Option<Option<Owner>> {
        match &*self.now() {
            Role::Follower(Some(owner)) => Some(Some(owner.clone())),
            Role::Owner if self.is_in_contact(subject) => Some(None),
            _ => None,
        }
    }

    fn discarded(&self) {
        self.counts.discarded.fetch_add(1, Ordering::Relaxed);
    }

    /// True if the contact to the log is enough for a request about `subject`. A batch needs the log, whatever is served
    /// without it.
    pub(super) fn is_in_contact(&self, subject: Subject<'_>) -> bool {
        self.lease.is_valid() || (self.serves_without_log && subject != Subject::Owner)
    }

    fn alive(&self) -> Result<(), Error> {
        if self.serves_without_log || self.lease.is_valid() {
            Ok(())
        } else {
            Err(unknowing())
        }
    }
}

impl Passage {
    /// Returns an error if the answer that a catalog gave to a read must not be shown: a batch on the table may have
    /// begun.
    ///
    /// # Errors
    /// 503.
    pub fn check_read(&self) -> Result<(), Error> {
        if !self.is_locked.load(Ordering::SeqCst) {
            return self.check();
        }
        let is_same = self.fleet.expiries.load(Ordering::SeqCst) == self.expiries;
        if is_same && self.fleet.alive().is_ok() {
            return Ok(());
        }
        self.fleet.discarded();
        Err(unknowing())
    }

    /// Returns an error if a request that holds its locks must not be sent: a batch on the table may have begun since it
    /// came. Batches that begin later wait for the locks.
    ///
    /// # Errors
    /// 503.
    pub fn check_locked(&self) -> Result<(), Error> {
        self.check()?;
        self.is_locked.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// Returns the right of the answer to stream on. Check the passage afterwards; it can be dropped then.
    pub fn stream(&self) -> StreamPassage {
        StreamPassage {
            fleet: Arc::clone(&self.fleet),
            note: self.place.as_ref().map(Place::stream),
            expiries: self.expiries,
        }
    }

    fn check(&self) -> Result<(), Error> {
        if self.place.as_ref().is_some_and(Place::is_doomed) {
            self.fleet.discarded();
            return Err(unavailable(
                "a batch may have begun on the table before its catalog answered; retry later",
            ));
        }
        self.fleet.alive().inspect_err(|_| self.fleet.discarded())
    }

    /// Returns an error if a change that a catalog has carried out must not be reported as done: since this gateway lost
    /// its lease, a batch may have begun on the table, and may have taken the change for its own.
    ///
    /// # Errors
    /// 503.
    pub fn check_change(&self) -> Result<(), Error> {
        let is_same = self.fleet.expiries.load(Ordering::SeqCst) == self.expiries;
        if is_same && self.fleet.alive().is_ok() {
            return Ok(());
        }
        self.fleet.discarded();
        // Without `Retry-After`: it is not safe to repeat it at once.
        Err(Error::unavailable(
            "this gateway lost its contact to the batch log while the change was carried out. It may have been carried out: look before you repeat it",
        )
        .with_facts(ErrorFacts {
            undecided: true,
            ..ErrorFacts::default()
        }))
    }
}

impl StreamPassage {
    /// Returns an error if what has arrived of the answer must not be shown: a batch on the table may have begun.
    ///
    /// # Errors
    /// 503.
    pub fn check(&self) -> Result<(), Error> {
        let is_ended = self.note.as_ref().is_some_and(StreamNote::is_ended);
        let is_same = self.fleet.expiries.load(Ordering::SeqCst) == self.expiries;
        if !is_ended && is_same && self.fleet.alive().is_ok() {
            return Ok(());
        }
        self.fleet.discarded();
        Err(unavailable(
            "a batch began on the table while its answer was read, or this gateway lost its contact to the batch log; retry later",
        ))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::join_all;

    use super::*;
    use crate::batch::fleet::WAITING;

    const WAIT: Duration = Duration::from_secs(20);

    fn owner() -> Owner {
        Owner {
            id: uuid::Uuid::nil(),
            name: "a".to_owned(),
            address: "127.0.0.1:1".to_owned(),
            token: String::new(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn so_many_requests_wait_for_an_owner_and_no_more() {
        let fleet = Fleet::new(Duration::from_secs(5), false, true);
        let waiting = (0..WAITING).map(|_| fleet.owner(Subject::Owner, WAIT));
        let one_more = async {
            tokio::task::yield_now().await;
            let begun = tokio::time::Instant::now();
            assert!(fleet.owner(Subject::Owner, WAIT).await.is_err());
            assert!(begun.elapsed().is_zero(), "it does not wait");
            fleet.becomes(Role::Follower(Some(owner())));
        };
        let (found, ()) = tokio::join!(join_all(waiting), one_more);
        assert!(found.iter().all(|found| matches!(found, Ok(Some(_)))));
    }

    #[tokio::test(start_paused = true)]
    async fn an_owner_without_a_lease_is_waited_for_until_it_has_one() {
        let fleet = Fleet::new(Duration::from_secs(5), false, true);
        fleet.becomes(Role::Owner);
        let renewed = async {
            tokio::time::sleep(Duration::from_secs(3)).await;
            fleet.lease().renew(tokio::time::Instant::now());
        };
        let begun = tokio::time::Instant::now();
        let (found, ()) = tokio::join!(fleet.owner(Subject::Owner, WAIT), renewed);
        assert!(matches!(found, Ok(None)), "{found:?}");
        assert_eq!(begun.elapsed().as_secs(), 3);
        tokio::time::sleep(Duration::from_secs(9)).await;
        assert!(fleet.owner(Subject::Owner, WAIT).await.is_err());
        assert_eq!(begun.elapsed().as_secs(), 3 + 9 + 20);
    }
}
