//! Which gateway owns the log: one at a time, with a number that fences off the ones before.
//!
//! No clock is compared with another. An owner counts its heartbeat up; an observer that sees the count stand still for
//! longer than the owner's lease, on the observer's own clock, takes the log over.

use std::time::{Duration, Instant};

use tokio::time::sleep;
use uuid::Uuid;

use super::cause::Trouble;
use super::connect::Link;
use crate::batch::log::LogError;
use crate::config::PostgresLogConfig;

/// The format of the schema that this version reads and writes.
pub(super) const FORMAT: i32 = 1;
/// The oldest server that has all that the schema uses.
pub(super) const OLDEST_SERVER: i32 = 130_000;

const STATE: &str =
    "SELECT l.format, l.moved, l.owner, i.name, coalesce(i.beat, 0), coalesce(i.lease_ms, 0),
    current_setting('server_version_num')::integer,
    current_setting('fsync') = 'on' AND current_setting('full_page_writes') = 'on'
    FROM log l LEFT JOIN instance i ON i.id = l.owner";

/// This process, as the log knows it.
#[derive(Clone)]
pub(super) struct Instance {
    pub(super) id: Uuid,
    pub(super) name: String,
    pub(super) lease: Duration,
}

/// The owner of the log, as another process sees it.
#[derive(Clone, PartialEq)]
pub(super) struct Owner {
    pub(super) id: Uuid,
    pub(super) name: String,
    pub(super) beat: i64,
    pub(super) lease: Duration,
}

impl Instance {
    pub(super) fn new(name: String, lease: Duration) -> Self {
        Self {
            id: Uuid::new_v4(),
            name,
            lease,
        }
    }
}

/// Returns the owner of the log; an error if no gateway of this version may use it.
pub(super) async fn look(link: &mut Link) -> Result<Result<Option<Owner>, String>, Trouble> {
    let rows = link.query(STATE, &[]).await?;
    let Some(row) = rows.first() else {
        let words = "its table `log` is empty. Restore it from a backup, or install a new schema with `nsgate log prepare`";
        return Ok(Err(words.to_owned()));
    };
    let (format, moved): (i32, Option<String>) = (row.get(0), row.get(1));
    let (server, is_safe): (i32, bool) = (row.get(6), row.get(7));
    if server < OLDEST_SERVER {
        return Ok(Err(format!(
            "the server is PostgreSQL {}, and version 13 is the oldest that works",
            server / 10_000
        )));
    }
    if !is_safe {
        return Ok(Err("the server runs without `fsync` or without `full_page_writes`, so that a crash may lose what was acknowledged. Switch both on".to_owned()));
    }
    if format != FORMAT {
        return Ok(Err(format!(
            "its format is {format}, and this version knows format {FORMAT}: start the version that made it, or a later one"
        )));
    }
    if let Some(moved) = moved {
        return Ok(Err(moved));
    }
    let owner: Option<Uuid> = row.get(2);
    Ok(Ok(owner.map(|id| Owner {
        id,
        name: row.get::<_, Option<String>>(3).unwrap_or_default(),
        beat: row.get(4),
        lease: Duration::from_millis(row.get::<_, i64>(5).unsigned_abs()),
    })))
}

/// Becomes the owner of the log, and returns the number of this ownership. Waits up to `patience` while another process
/// owns it.
pub(super) async fn join(
    link: &mut Link,
    me: &Instance,
    log: &PostgresLogConfig,
    patience: Duration,
) -> Result<i64, LogError> {
    let unusable = |cause: String| LogError::Unusable {
        path: log.address.clone(),
        cause,
    };
    let began = Instant::now();
    let mut seen: Option<(Owner, Instant)> = None;
    loop {
        let refused = match look(link).await {
            Ok(Err(wrong)) => return Err(unusable(wrong)),
            Err(trouble) if trouble.remedy().is_some() => {
                return Err(unusable(trouble.explained()));
            }
            Err(trouble) => trouble.words,
            Ok(Ok(owner)) => {
                if is_free(&owner, &mut seen, me)
                    && let Some(fence) = take(link, me, owner.as_ref()).await.map_err(unusable)?
                {
                    return Ok(fence);
                }
                let name = owner.map_or_else(String::new, |owner| owner.name);
                format!(
                    "gateway `{name}` uses it, and its heartbeat goes on. Stop that gateway first, or give this one another `batch.schema`"
                )
            }
        };
        let silent = seen
            .as_ref()
            .map_or(Duration::ZERO, |(owner, _)| owner.lease.saturating_mul(2));
        if began.elapsed() > patience.max(silent) {
            return Err(unusable(refused));
        }
        sleep(pause(me.lease)).await;
    }
}

/// True if nobody owns the log any more: it was given up, or its owner was silent for longer than its lease.
fn is_free(owner: &Option<Owner>, seen: &mut Option<(Owner, Instant)>, me: &Instance) -> bool {
    let Some(owner) = owner else { return true };
    match seen {
        _ if owner.id == me.id => true,
        Some((before, since)) if before == owner => {
            since.elapsed() > owner.lease + pause(owner.lease)
        }
        _ => {
            if seen.is_none() {
                tracing::warn!(
                    gateway = owner.name,
                    "another gateway has the batch log; waiting until it ends, or is silent for longer than its lease"
                );
            }
            *seen = Some((owner.clone(), Instant::now()));
            false
        }
    }
}

/// Takes the log over from `was`. Returns `None` if it lives after all, or if it is unknown whether this succeeded:
/// the next look shows it.
async fn take(link: &mut Link, me: &Instance, was: Option<&Owner>) -> Result<Option<i64>, String> {
    let lease = i64::try_from(me.lease.as_millis()).unwrap_or(i64::MAX);
    let (was_id, was_beat) = (was.map(|was| was.id), was.map(|was| was.beat));
    let taken = link
        .query(
            "SELECT take_1($1, $2, $3, $4, $5, $6)",
            &[
                &me.id,
                &me.name,
                &env!("CARGO_PKG_VERSION"),
                &lease,
                &was_id,
                &was_beat,
            ],
        )
        .await;
    match taken {
        Ok(rows) => Ok(rows.first().and_then(|row| row.get(0))),
        Err(trouble) if trouble.remedy().is_some() => Err(trouble.explained()),
        Err(_) => Ok(None),
    }
}

/// Returns the name of the process that took the log over; empty if it is not known.
pub(super) async fn successor(link: &mut Link) -> String {
    match look(link).await {
        Ok(Ok(Some(owner))) => owner.name,
        _ => String::new(),
    }
}

/// Returns the time between two heartbeats.
pub(super) fn pause(lease: Duration) -> Duration {
    lease / 5
}
