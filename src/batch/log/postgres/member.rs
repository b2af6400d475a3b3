//! The life of a gateway that shares the log: it joins, sends heartbeats, and takes the log over when nobody has it.

use std::cell::RefCell;
use std::sync::{Arc, OnceLock};

use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use uuid::Uuid;

use super::contact::Contact;
use super::fence::Fence;
use super::guards::{self, GuardRequests};
use super::keeper::{self, GuardKeeper};
use super::link::Link;
use super::observer::{Observer, heartbeat_interval};
use super::owner::{self, Instance, SeenInstance, Users};
use crate::batch::fleet::{Deadline, Fleet, Owner, Role};
use crate::batch::log::LogError;

/// The end of a membership.
pub(super) enum End {
    /// The other gateways took this one for dead; it can join again.
    Expired,
    /// Another gateway has taken over the log that this one owned.
    Fenced,
}

/// A gateway that shares the log.
pub(super) struct Member<'a> {
    pub(super) me: Instance,
    pub(super) fleet: &'a Arc<Fleet>,
    /// The connection for heartbeats.
    pub(super) link: Link,
    /// The ownership of the log, once this gateway has it.
    pub(super) ownership: &'a OnceLock<Arc<Fence>>,
    /// Called with the number of an ownership.
    pub(super) owned: &'a (dyn Fn(Uuid, i64) + Sync),
    /// Why the log could not be taken over the last time; empty if it could.
    pub(super) refused: String,
}

impl Member<'_> {
    /// Joins the gateways that share the log. Waits while the server does not answer, or not on the connection for `guards`:
    /// every batch would wait for a gateway that has joined and acknowledges nothing.
    ///
    /// # Errors
    /// An operator has to change something: what, in words.
    pub(super) async fn join(&mut self, guards: &mut Link) -> Result<(), String> {
        let (mut observer, mut is_told) = (Observer::default(), false);
        loop {
            let looked = match keeper::try_out(guards).await {
                Ok(()) => owner::look(&mut self.link, None).await,
                Err(trouble) => Err(trouble),
            };
            match looked {
                Ok(Err(wrong)) => return Err(wrong),
                Err(trouble) if trouble.remedy().is_some() => return Err(trouble.explained()),
                Err(_) => {}
                Ok(Ok(users)) => {
                    let dead = observer.dead(&users, self.me.id, self.link.run());
                    let asked = Instant::now();
                    match owner::join(&mut self.link, &self.me, &dead).await {
                        Ok(None) => {
                            self.fleet.lease().renew(asked);
                            return Ok(());
                        }
                        Ok(Some(name)) if !is_told => {
                            tracing::warn!(
                                gateway = name,
                                "another gateway uses the batch log alone; waiting until it ends. Give it `batch.gateways`, too"
                            );
                            is_told = true;
                        }
                        Err(trouble) if trouble.remedy().is_some() => {
                            return Err(trouble.explained());
                        }
                        _ => {}
                    }
                }
            }
            sleep(heartbeat_interval(self.me.lease)).await;
        }
    }

    /// Takes part until others take this gateway for dead, or another one owns the log that this one owned.
    pub(super) async fn take_part(
        &mut self,
        link: Link,
        heard: Arc<Notify>,
        requests: &mut GuardRequests,
        deadline: Deadline,
    ) -> End {
        let (changed, known, contact) = (Notify::new(), Notify::new(), Contact::new());
        let observer = RefCell::default();
        let learned = Arc::clone(&heard);
        let keeper = GuardKeeper {
            link,
            heard,
            me: self.me.id,
            fleet: self.fleet,
            ownership: self.ownership,
            requests,
            changed: &changed,
            known: &known,
            observer: &observer,
            contact: &contact,
            tries: 0,
        };
        tokio::select! {
            biased;
            () = keeper.keep() => End::Expired,
            () = end_with_lease(self.fleet, deadline) => End::Fenced,
            end = async {
                known.notified().await;
                self.live(&changed, &contact, &observer, &learned).await
            } => end,
        }
    }

    /// Shows that this gateway lives, observes the others, and takes the log when nobody has it. A gateway without `contact`
    /// is as good as dead: batches would wait for its acknowledgements, or for it to begin them.
    /// `learned` is told when another gateway is gone.
    async fn live(
        &mut self,
        changed: &Notify,
        contact: &Contact,
        observer: &RefCell<Observer>,
        learned: &Notify,
    ) -> End {
        let every = heartbeat_interval(self.me.lease);
        let mut tick = interval(every);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                _ = tick.tick() => {}
                () = changed.notified() => {}
            }
            if contact.is_lost_for(every + keeper::LOOK_EVERY) {
                continue;
            }
            let asked = Instant::now();
            let routes = self.fleet.routes();
            let Ok(beat) = owner::beat(&mut self.link, self.me.id, &routes).await else {
                continue;
            };
            let Some(users) = beat else {
                return self.is_out().await;
            };
            self.fleet.lease().renew(asked);
            let Ok(users) = users else { continue };
            let run = self.link.run();
            let dead = observer.borrow_mut().dead(&users, self.me.id, run);
            let members = observer.borrow().members(&users, self.me.id, &routes);
            self.fleet.saw(members);
            if let Some(fence) = self.ownership.get() {
                if users.owner != Some(self.me.id) {
                    return self.is_out().await;
                }
                if self.expire(fence, &dead).await {
                    learned.notify_one();
                }
            } else {
                self.follow(&users, &dead).await;
            }
        }
    }

    async fn is_out(&mut self) -> End {
        match self.ownership.get() {
            Some(fence) => {
                let successor = owner::successor(&mut self.link).await;
                fence.taken_over(&successor);
                End::Fenced
            }
            None => {
                tracing::warn!(
                    "this gateway was silent for longer than `batch.lease`, and the others took it for dead; it joins again"
                );
                End::Expired
            }
        }
    }

    /// Removes gateways that are dead, so that batches do not wait for them. Returns true if it has removed any.
    async fn expire(&mut self, fence: &Fence, dead: &[SeenInstance]) -> bool {
        if dead.is_empty() || guards::leave_strays(&mut self.link).await.is_err() {
            return false;
        }
        let gone = owner::expire(&mut self.link, self.me.id, fence.number(), dead).await;
        let names = gone.ok().flatten().unwrap_or_default();
        self.fleet.expired(names.len());
        for name in &names {
            tracing::warn!(
                gateway = name,
                "a gateway is dead or cut off; batches go on without it"
            );
        }
        !names.is_empty()
    }

    /// Follows the owner of the log, or becomes it.
    async fn follow(&mut self, users: &Users, dead: &[SeenInstance]) {
        let owning = users.owning();
        // The answer to an earlier try may be lost: then this gateway owns the log already, and taking it again tells.
        let is_free = owning.is_none_or(|owner| owner.id == self.me.id || dead.contains(owner));
        if is_free {
            self.fleet.becomes(Role::Follower(None));
            if !dead.is_empty() && guards::leave_strays(&mut self.link).await.is_err() {
                return;
            }
            match owner::take(&mut self.link, &self.me, dead).await {
                Ok(Some(number)) => {
                    self.fleet.expired(dead.len());
                    self.refused.clear();
                    (self.owned)(self.me.id, number);
                    self.fleet.begins_to_recover();
                    tracing::info!("this gateway has the batch log now, and recovers its batches");
                }
                Ok(None) => {}
                // It is tried at every look.
                Err(words) if words == self.refused => {}
                Err(words) => {
                    tracing::error!(
                        cause = words,
                        "the batch log cannot be taken over, so no batch begins; this is tried again until it can. Mend the cause in PostgreSQL"
                    );
                    self.refused = words;
                }
            }
            return;
        }
        let owner = owning.and_then(|one| {
            Some(Owner {
                id: one.id,
                name: one.name.clone(),
                address: one.address.clone()?,
                token: one.token.clone()?,
            })
        });
        self.fleet.becomes(Role::Follower(owner));
    }
}

/// Has the kernel end this process when it is stopped for longer than its lease, once it owns the log. While nothing is
/// sent, nothing need end it: the server is away, and this process runs. Never returns.
pub(super) async fn end_with_lease(fleet: &Fleet, mut deadline: Deadline) {
    fleet
        .role_when(|role| matches!(role, Role::Recovering | Role::Owner))
        .await;
    fleet.lease().follow(|left| deadline.set(left)).await;
}

/// Returns the error for a log that this gateway cannot join.
pub(super) fn unusable(address: &str, cause: String) -> LogError {
    LogError::Unusable {
        path: address.to_owned(),
        cause,
    }
}
