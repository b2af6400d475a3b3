//! Grouped creates: entries that one catalog makes all or nothing are sent in one request, and each entry gets its own
//! result.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures_util::future::{BoxFuture, Shared};
use futures_util::{FutureExt, StreamExt, stream};

use super::calls::CreatePermission;
use super::requests::unsent;
use crate::batch::participant::{self, CallerContext, CreateOutcome};
use crate::batch::plan::Plan;
use crate::batch::step::Refusal;

/// The requests that were sent for groups. The retry of an entry joins the next request of its group, or sends it.
pub(super) struct GroupedCreates {
    sent: HashMap<(usize, u32), Shared<BoxFuture<'static, Arc<Outcome>>>>,
    attempts: Vec<u32>,
    /// The groups whose catalog turned out to have no batch-create.
    apart: HashSet<usize>,
}

struct Outcome {
    /// The results by entry of the group.
    created: HashMap<usize, CreateOutcome>,
    /// True if the catalog has a batch-create; `None` if no request was sent.
    supported: Option<bool>,
}

impl GroupedCreates {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            sent: HashMap::new(),
            attempts: vec![0; plan.entries.len()],
            apart: HashSet::new(),
        }
    }

    /// Records that the group's catalog has no batch-create. From now on each entry is sent by itself, because the
    /// others may have been answered.
    pub(super) fn fall_apart(&mut self, group: usize) {
        self.apart.insert(group);
    }

    /// True if the entries of the group are sent in one request.
    pub(super) fn is_one(&self, group: usize) -> bool {
        !self.apart.contains(&group)
    }

    /// Creates an entry of a group. Also returns whether the catalog has a batch-create; `None` if no request was sent.
    ///
    /// The permission is looked at once for the whole group: the request that one entry sends is also that of the entries
    /// whose turn comes after the batch was given up. If the catalog has no batch-create, at most `most` requests are
    /// sent at a time, and the permission is looked at for each.
    pub(super) fn create(
        &mut self,
        plan: &Arc<Plan>,
        entry: usize,
        group: usize,
        (caller, most): (CallerContext, usize),
        permission: CreatePermission,
    ) -> impl Future<Output = (CreateOutcome, Option<bool>)> + Send + 'static {
        let attempt = self.attempts[entry];
        self.attempts[entry] += 1;
        let sent = self.sent.entry((group, attempt)).or_insert_with(|| {
            let plan = Arc::clone(plan);
            let outcome = async move {
                Arc::new(if permission.is_given().await {
                    all(&plan, group, &caller, most, &permission).await
                } else {
                    none(&plan, group)
                })
            };
            outcome.boxed().shared()
        });
        let outcome = sent.clone();
        async move {
            let outcome = outcome.await;
            let created = outcome.created.get(&entry).cloned();
            (
                created.unwrap_or(CreateOutcome::Lost(None)),
                outcome.supported,
            )
        }
    }
}

/// The entries of a group.
fn members(plan: &Plan, group: usize) -> Vec<usize> {
    let groups = plan.shape.groups.iter().enumerate();
    let members = groups.filter(|(_, of)| **of == Some(group));
    members.map(|(entry, _)| entry).collect()
}

/// The results of a group whose request was not sent.
fn none(plan: &Plan, group: usize) -> Outcome {
    let members = members(plan, group).into_iter();
    Outcome {
        created: members
            .map(|entry| (entry, CreateOutcome::Unsent(unsent())))
            .collect(),
        supported: None,
    }
}

async fn all(
    plan: &Plan,
    group: usize,
    caller: &CallerContext,
    most: usize,
    permission: &CreatePermission,
) -> Outcome {
    let members = members(plan, group);
    let entries: Vec<_> = members.iter().map(|entry| &plan.entries[*entry]).collect();
    let together = participant::create_together(&entries, caller).await;
    let supported = Some(together.is_some());
    let created = match together {
        Some(created) => {
            let created = members.into_iter().zip(created);
            created
                .map(|(entry, created)| (entry, created.at(entry)))
                .collect()
        }
        // Some catalogs act and then refuse, so a version may exist although its own create was not sent.
        None => {
            let created = singly(plan, &members, caller, most, permission)
                .await
                .into_iter();
            created
                .map(|(entry, created)| match created {
                    CreateOutcome::Unsent(refusal) => (entry, CreateOutcome::Refused(refusal)),
                    created => (entry, created),
                })
                .collect()
        }
    };
    Outcome { created, supported }
}

/// Sends the creates one after the other to a catalog without batch-create, in each share up to the first failure.
/// Sends those of `most` shares at a time.
async fn singly(
    plan: &Plan,
    members: &[usize],
    caller: &CallerContext,
    most: usize,
    permission: &CreatePermission,
) -> HashMap<usize, CreateOutcome> {
    let lines = plan.shape.shares.iter().map(|share| {
        let share = share.iter().filter(|entry| members.contains(*entry));
        async move {
            let mut created = Vec::new();
            let mut failed = None;
            for &entry in share {
                let outcome = match failed.clone() {
                    Some(refusal) => CreateOutcome::Unsent(refusal),
                    None if !permission.is_given().await => CreateOutcome::Unsent(unsent()),
                    None => {
                        let created = participant::create(&plan.entries[entry], caller).await;
                        created.at(entry)
                    }
                };
                failed = failed.or_else(|| not_sent(&outcome));
                created.push((entry, outcome));
            }
            created
        }
    });
    let lines: Vec<_> = lines.collect();
    let lines = stream::iter(lines).buffer_unordered(most.max(1));
    let lines: Vec<Vec<_>> = lines.collect().await;
    lines.into_iter().flatten().collect()
}

/// The refusal for the later entries of the share, which are not sent; `None` if the create succeeded.
fn not_sent(outcome: &CreateOutcome) -> Option<Refusal> {
    match outcome {
        CreateOutcome::Yes(_) => None,
        CreateOutcome::Unsent(refusal)
        | CreateOutcome::Refused(refusal)
        | CreateOutcome::Spoiled(refusal, _)
        | CreateOutcome::Strange(refusal)
        | CreateOutcome::Conflicted(refusal) => Some(refusal.clone()),
        CreateOutcome::Lost(_) => Some(Refusal::unavailable(
            "the version before it got no clear answer",
        )),
    }
}
