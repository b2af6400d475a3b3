//! The rules of a search: the batches, what is assumed of the world, and the planted bugs.

use crate::bounds::Bound;
use crate::world::{BATCHES, Promise, Set};

/// The rules of a search.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// The tables of each batch; none for a batch that does not take part.
    pub tables: [Set; BATCHES],
    /// The batches that give or take names.
    pub naming: Set,
    pub lifted: Option<Assumption>,
    pub bug: Option<Bug>,
}

/// An assumption about the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assumption {
    /// A lease is over for its holder no later than another gateway may count it as over.
    Leases,
    /// A create that was checked reaches its catalog, or never does, before the batch is over.
    Creates,
}

/// A change of the protocol that must break a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    NoWaitForAcknowledgements,
    AcknowledgedBeforeGuard,
    AcknowledgedBeforeDrain,
    LeaseCheckedBeforeAnswer,
    LeaseCountsFromReply,
    RejoinKeepsRequests,
    GuardRemovedByOlderLook,
    ReleaseOfHeldTable,
    IntentWithoutFence,
    DecisionWithoutFence,
    ServesBeforeRecovery,
    NoClaimAnew,
    ClaimMissesNewcomer,
    DoomedWriteIsSent,
    ListingForgetsNames,
    RequestsWithoutLease,
    ExpiryIgnoresHeartbeats,
    TakeoverIgnoresHeartbeats,
    ReleaseStaysGranted,
    JoinsWithoutGuards,
    AcknowledgesEveryTicket,
    NamesAreNotClaimed,
    ReleaseIsNotCounted,
    // What follows are defects that this model has shown in the gateways.
    /// A takeover whose answer was lost is not asked again: the gateway follows itself.
    FollowsItself,
    /// A takeover that fails removes gateways, and not the acknowledgements that they owe.
    OwedByNobody,
    /// A gateway that was taken for dead takes the log over without joining again.
    DeadTakesOver,
    /// A claim is carried out although a later call for guards was made.
    LateClaims,
    /// A release is carried out although a later call for guards was made.
    LateReleases,
    /// A gateway that gives the log up, or leaves, keeps its lease.
    LeavesWithLease,
    /// A request looks for guards first, and at the role of its gateway after that.
    RoleAfterGuards,
    /// A recovered batch that is committed is hidden at first, while the gateway serves already.
    RecoveryHidesCommitted,
}

/// A bug, the promise that it breaks, and the bound within which that is found.
pub struct Planted {
    pub name: &'static str,
    pub bug: Bug,
    pub breaks: Promise,
    pub bound: Bound,
}

impl Rules {
    /// True if this bug is planted.
    pub fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    /// True if this assumption is not made.
    pub fn lifts(&self, assumption: Assumption) -> bool {
        self.lifted == Some(assumption)
    }
}

const fn planted(name: &'static str, bug: Bug, breaks: Promise, bound: Bound) -> Planted {
    Planted {
        name,
        bug,
        breaks,
        bound,
    }
}

/// The planted bugs.
pub const BUGS: &[Planted] = &[
    planted(
        "no wait for acknowledgements",
        Bug::NoWaitForAcknowledgements,
        Promise::OnlyCommitted,
        Bound::one("").pair().narrow().reads(1),
    ),
    planted(
        "an acknowledgement before the guard is recorded",
        Bug::AcknowledgedBeforeGuard,
        Promise::Guarded,
        Bound::one("").pair().narrow().reads(1),
    ),
    planted(
        "an acknowledgement before reads have drained",
        Bug::AcknowledgedBeforeDrain,
        Promise::OnlyCommitted,
        Bound::one("").pair().narrow().reads(1),
    ),
    planted(
        "an acknowledgement before writes have drained",
        Bug::AcknowledgedBeforeDrain,
        Promise::NoWriteBeside,
        Bound::one("").pair().narrow().writes(1),
    ),
    planted(
        "the lease is checked before the catalog's answer, and not after",
        Bug::LeaseCheckedBeforeAnswer,
        Promise::OnlyCommitted,
        Bound::one("").pair().narrow().lapses(1).reads(1),
    ),
    planted(
        "the lease counts from the answer to the heartbeat",
        Bug::LeaseCountsFromReply,
        Promise::Guarded,
        Bound::one("").pair().narrow().lapses(2).reads(1),
    ),
    planted(
        "a gateway that joins again keeps requests from before",
        Bug::RejoinKeepsRequests,
        Promise::OnlyCommitted,
        Bound::one("").pair().narrow().lapses(1).reads(1),
    ),
    planted(
        "a guard is removed by an older look",
        Bug::GuardRemovedByOlderLook,
        Promise::Guarded,
        Bound::two("").pair().narrow().reads(1),
    ),
    planted(
        "a guard is released while a batch holds the table",
        Bug::ReleaseOfHeldTable,
        Promise::Guarded,
        Bound::one("").pair().narrow().reads(1),
    ),
    planted(
        "an INTENT without the fence",
        Bug::IntentWithoutFence,
        Promise::OneOwner,
        Bound::one("").pair().narrow().lapses(1),
    ),
    planted(
        "a decision without the fence",
        Bug::DecisionWithoutFence,
        Promise::OneOwner,
        Bound::one("").pair().narrow().lapses(1),
    ),
    planted(
        "a new owner serves before it has recovered",
        Bug::ServesBeforeRecovery,
        Promise::OnlyCommitted,
        Bound::one("").pair().narrow().crashes(1).reads(1),
    ),
    planted(
        "a new owner does not claim anew",
        Bug::NoClaimAnew,
        Promise::Guarded,
        Bound::one("").narrow().crashes(1).reads(1),
    ),
    planted(
        "a claim does not see a gateway that joins at the same time",
        Bug::ClaimMissesNewcomer,
        Promise::Guarded,
        Bound::one("").pair().narrow().lapses(1).reads(1),
    ),
    planted(
        "a write that was doomed is sent all the same",
        Bug::DoomedWriteIsSent,
        Promise::NoWriteBeside,
        Bound::one("").pair().narrow().writes(1),
    ),
    planted(
        "listings forget that a guard is for names",
        Bug::ListingForgetsNames,
        Promise::Guarded,
        Bound::one("").pair().narrow().naming().reads(1),
    ),
    planted(
        "a batch sends without a lease",
        Bug::RequestsWithoutLease,
        Promise::OneOwner,
        Bound::one("").pair().narrow().lapses(1),
    ),
    planted(
        "an expiry ignores heartbeats since",
        Bug::ExpiryIgnoresHeartbeats,
        Promise::Guarded,
        Bound::one("").pair().narrow().lapses(1).reads(1),
    ),
    planted(
        "a takeover ignores heartbeats since",
        Bug::TakeoverIgnoresHeartbeats,
        Promise::AllOfIt,
        Bound::one("").pair().narrow().lapses(1).reads(2),
    ),
    planted(
        "a guard whose release had no answer counts as granted",
        Bug::ReleaseStaysGranted,
        Promise::Guarded,
        Bound::two("").pair().narrow().lost(1).reads(1),
    ),
    planted(
        "a gateway joins without reading the guards",
        Bug::JoinsWithoutGuards,
        Promise::Guarded,
        Bound::one("").pair().narrow().lapses(1).reads(1),
    ),
    planted(
        "an acknowledgement counts for later claims, too",
        Bug::AcknowledgesEveryTicket,
        Promise::Guarded,
        Bound::two("").pair().narrow().reads(1),
    ),
    planted(
        "a guard of a table counts for its name, too",
        Bug::NamesAreNotClaimed,
        Promise::Guarded,
        Bound::two("").pair().narrow().naming().reads(1),
    ),
    planted(
        "a release is not counted",
        Bug::ReleaseIsNotCounted,
        Promise::ComesToRest,
        Bound::one("").pair().narrow(),
    ),
    planted(
        "a gateway that has the log and does not know it follows itself",
        Bug::FollowsItself,
        Promise::ComesToRest,
        Bound::one("").narrow().crashes(1).lost(1),
    ),
    planted(
        "a takeover that fails leaves acknowledgements that nobody gives",
        Bug::OwedByNobody,
        Promise::ComesToRest,
        Bound::one("").narrow().crashes(2).restarts(1),
    ),
    planted(
        "a gateway that was taken for dead takes the log over",
        Bug::DeadTakesOver,
        Promise::OnlyCommitted,
        Bound::one("").pair().narrow().lapses(1).leaves(1).reads(1),
    ),
    planted(
        "a release arrives after a later claim",
        Bug::LateReleases,
        Promise::Guarded,
        Bound::two("").pair().narrow().late(1).reads(1),
    ),
    planted(
        "a claim arrives after a later claim",
        Bug::LateClaims,
        Promise::Guarded,
        Bound::two("").pair().narrow().late(1).reads(1),
    ),
    planted(
        "a claim arrives after a later release",
        Bug::LateClaims,
        Promise::ComesToRest,
        Bound::one("").pair().narrow().late(1),
    ),
    planted(
        "a gateway leaves, and keeps its lease",
        Bug::LeavesWithLease,
        Promise::OnlyCommitted,
        Bound::one("").pair().narrow().leaves(1).reads(1),
    ),
    planted(
        "a request looks at the role of its gateway after the guards",
        Bug::RoleAfterGuards,
        Promise::OnlyCommitted,
        Bound::one("").pair().narrow().lapses(1).reads(1),
    ),
    planted(
        "a recovered batch that is committed is hidden for a moment",
        Bug::RecoveryHidesCommitted,
        Promise::AllOfIt,
        Bound::one("").pair().narrow().crashes(1).reads(1),
    ),
];
