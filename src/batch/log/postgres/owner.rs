//! Decides which gateway owns the log, and lets another take it over from one that is silent; a number fences off the
//! owners before.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_postgres::Row;
use uuid::Uuid;

use super::cause::Trouble;
use super::link::Link;
use super::observer::{Observer, heartbeat_interval};
use crate::batch::log::LogError;
use crate::config::PostgresLogConfig;

/// The format of the schema that this version reads and writes.
pub(super) const FORMAT: i32 = 2;
/// The oldest server that has all that the schema uses.
pub(super) const OLDEST_SERVER: i32 = 130_000;

/// The trouble with a log that has lost its only row.
const EMPTY: &str = "its table `log` is empty. Restore the schema from a backup, or drop it and run `nsgate log prepare`: what was under way is not finished then";

/// The columns and tables of a look at the users of the log.
macro_rules! look_at {
    ($before:literal, $from:literal) => {
        concat!(
            $before,
            "l.format, l.moved, l.owner, current_setting('server_version_num')::integer, ",
            "current_setting('fsync') = 'on' AND current_setting('full_page_writes') = 'on', ",
            "i.id, i.name, i.beat, i.lease_ms, i.address, i.token, i.version, i.routes",
            $from,
            "log l LEFT JOIN instance i ON true"
        )
    };
}

const LOOK: &str = look_at!("SELECT ", " FROM ");
/// A heartbeat and a look in one statement, which every gateway asks several times in each lease. What it shows is from
/// before the heartbeat.
const BEAT: &str = look_at!(
    "WITH heartbeat AS (SELECT beat_2($1, $2) AS lives) SELECT ",
    ", h.lives FROM heartbeat h, "
);

/// The process itself, as the log knows it.
#[derive(Clone)]
pub(super) struct Instance {
    pub(super) id: Uuid,
    pub(super) name: String,
    pub(super) lease: Duration,
    /// The address for other gateways; `None` if this one uses the log alone.
    pub(super) address: Option<String>,
    /// The token that other gateways must show there.
    pub(super) token: String,
}

/// A gateway that uses the log, as another process sees it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SeenInstance {
    pub(super) id: Uuid,
    pub(super) name: String,
    pub(super) beat: i64,
    pub(super) lease: Duration,
    pub(super) address: Option<String>,
    pub(super) token: Option<String>,
    pub(super) version: String,
    /// The digest of its routes; `None` before its first heartbeat.
    pub(super) routes: Option<String>,
}

/// The log at one moment.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Users {
    pub(super) owner: Option<Uuid>,
    pub(super) instances: Vec<SeenInstance>,
}

impl Instance {
    pub(super) fn new(name: String, lease: Duration, address: Option<String>, token: &str) -> Self {
        Self {
            id: Uuid::new_v4(),
            name,
            lease,
            address,
            token: token.to_owned(),
        }
    }

    /// Returns the parameters with which this process takes the log, or joins.
    fn lease_millis(&self) -> i64 {
        i64::try_from(self.lease.as_millis()).unwrap_or(i64::MAX)
    }
}

impl Users {
    /// The gateway that owns the log; `None` if none does.
    pub(super) fn owning(&self) -> Option<&SeenInstance> {
        self.instances.iter().find(|one| Some(one.id) == self.owner)
    }

    /// The owner, or any other gateway that uses the log.
    pub(super) fn foremost(&self) -> Option<&SeenInstance> {
        self.owning().or_else(|| self.instances.first())
    }
}

/// Returns the gateways that use the log; an error if no gateway of this version may use it. `accepts` is the only note
/// about a move that does not matter.
pub(super) async fn look(
    link: &mut Link,
    accepts: Option<&str>,
) -> Result<Result<Users, String>, Trouble> {
    Ok(users(&link.query(LOOK, &[]).await?, accepts))
}

/// Shows that a gateway lives, and returns the gateways that use the log; `None` if the others took this one for dead.
pub(super) async fn beat(
    link: &mut Link,
    me: Uuid,
    routes: &str,
) -> Result<Option<Result<Users, String>>, Trouble> {
    let rows = link.write(BEAT, &[&me, &routes]).await?;
    let Some(row) = rows.first() else {
        // The server need not have carried the heartbeat out.
        return Err(Trouble::silent(EMPTY));
    };
    Ok(row.get::<_, bool>(13).then(|| users(&rows, None)))
}

/// Reads what a look has shown; an error if no gateway of this version may use the log.
fn users(rows: &[Row], accepts: Option<&str>) -> Result<Users, String> {
    let Some(row) = rows.first() else {
        return Err(EMPTY.to_owned());
    };
    let (format, moved): (i32, Option<String>) = (row.get(0), row.get(1));
    let (server, is_safe): (i32, bool) = (row.get(3), row.get(4));
    if server < OLDEST_SERVER {
        return Err(format!(
            "the server is PostgreSQL {}, and version 13 is the oldest that works",
            server / 10_000
        ));
    }
    if !is_safe {
        return Err("the server runs without `fsync` or without `full_page_writes`, so that a crash may lose what was acknowledged. Switch both on".to_owned());
    }
    if format < FORMAT {
        return Err(format!(
            "its format is {format}, and this version needs format {FORMAT}: run `nsgate log prepare` of this version"
        ));
    }
    if format != FORMAT {
        return Err(format!(
            "its format is {format}, and this version knows format {FORMAT}: start the version that made it, or a later one"
        ));
    }
    if let Some(moved) = moved.filter(|moved| Some(&**moved) != accepts) {
        return Err(moved);
    }
    Ok(Users {
        owner: row.get(2),
        instances: rows.iter().filter_map(instance).collect(),
    })
}

fn instance(row: &Row) -> Option<SeenInstance> {
    Some(SeenInstance {
        id: row.get::<_, Option<Uuid>>(5)?,
        name: row.get(6),
        beat: row.get(7),
        lease: Duration::from_millis(row.get::<_, i64>(8).unsigned_abs()),
        address: row.get(9),
        token: row.get(10),
        version: row.get(11),
        routes: row.get(12),
    })
}

/// Becomes the only user of the log, and returns the number of this ownership. Waits up to `patience` while another
/// process uses it. `accepts` is as for [`look`].
pub(super) async fn take_alone(
    link: &mut Link,
    me: &Instance,
    log: &PostgresLogConfig,
    patience: Duration,
    accepts: Option<&str>,
) -> Result<i64, LogError> {
    let unusable = |cause: String| LogError::Unusable {
        path: log.address.clone(),
        cause,
    };
    let began = Instant::now();
    let (mut observer, mut silent, mut is_told) = (Observer::default(), Duration::ZERO, false);
    loop {
        let refused = match look(link, accepts).await {
            Ok(Err(wrong)) => return Err(unusable(wrong)),
            Err(trouble) if trouble.remedy().is_some() => {
                return Err(unusable(trouble.explained()));
            }
            Err(trouble) => trouble.words,
            Ok(Ok(users)) => {
                let dead = observer.dead(&users, me.id, link.run());
                let lives = |one: &&SeenInstance| one.id != me.id && !dead.contains(one);
                let is_free = !users.instances.iter().any(|one| lives(&one));
                if is_free && let Some(fence) = take(link, me, &dead).await.map_err(unusable)? {
                    return Ok(fence);
                }
                // The server may answer what reads, and not what writes.
                let trouble = link.trouble().filter(|_| is_free);
                let name = users.foremost().map_or("", |one| &one.name);
                if !is_told && trouble.is_none() {
                    tracing::warn!(
                        gateway = name,
                        "another gateway has the batch log; waiting until it ends, or is silent for longer than its lease"
                    );
                    is_told = true;
                }
                let leases = users.instances.iter().map(|one| one.lease);
                silent = leases.max().unwrap_or_default().saturating_mul(2);
                trouble.unwrap_or_else(|| format!(
                    "gateway `{name}` uses it, and its heartbeat goes on. Stop that gateway first, give this one another `batch.schema`, or let both share it with `batch.gateways`"
                ))
            }
        };
        if began.elapsed() > patience.max(silent) {
            return Err(unusable(refused));
        }
        sleep(heartbeat_interval(me.lease)).await;
    }
}

/// Takes the log over, once `dead` gateways are removed. Returns `None` if its owner lives after all, or if it is
/// unknown whether this succeeded: the next look shows it.
pub(super) async fn take(
    link: &mut Link,
    me: &Instance,
    dead: &[SeenInstance],
) -> Result<Option<i64>, String> {
    let sql = "SELECT take_2($1, $2, $3, $4, $5, $6, $7, $8)";
    let taken = enter(link, sql, me, dead).await;
    match taken {
        Ok(rows) => Ok(rows.first().and_then(|row| row.get(0))),
        Err(trouble) if trouble.remedy().is_some() => Err(trouble.explained()),
        Err(_) => Ok(None),
    }
}

/// Becomes one of the gateways that share the log. Returns the name of a gateway that uses it alone.
pub(super) async fn join(
    link: &mut Link,
    me: &Instance,
    dead: &[SeenInstance],
) -> Result<Option<String>, Trouble> {
    let sql = "SELECT join_2($1, $2, $3, $4, $5, $6, $7, $8)";
    let joined = enter(link, sql, me, dead).await?;
    Ok(joined.first().and_then(|row| row.get(0)))
}

/// Calls a function with this process and the gateways that are dead.
async fn enter(
    link: &mut Link,
    sql: &'static str,
    me: &Instance,
    dead: &[SeenInstance],
) -> Result<Vec<Row>, Trouble> {
    let (ids, beats) = columns(dead);
    let (version, lease) = (env!("CARGO_PKG_VERSION"), me.lease_millis());
    link.write(
        sql,
        &[
            &me.id,
            &me.name,
            &version,
            &lease,
            &me.address,
            &me.token,
            &ids,
            &beats,
        ],
    )
    .await
}

/// Removes gateways that were silent for longer than their leases. Returns the names of those that are gone; `None` if
/// this process does not own the log any more.
pub(super) async fn expire(
    link: &mut Link,
    me: Uuid,
    fence: i64,
    dead: &[SeenInstance],
) -> Result<Option<Vec<String>>, Trouble> {
    let (ids, beats) = columns(dead);
    let rows = link
        .query(
            "SELECT expire_2($1, $2, $3, $4)",
            &[&me, &fence, &ids, &beats],
        )
        .await?;
    let gone: Option<Vec<Uuid>> = rows.first().and_then(|row| row.get(0));
    Ok(gone.map(|gone| {
        let gone = dead.iter().filter(|one| gone.contains(&one.id));
        gone.map(|one| one.name.clone()).collect()
    }))
}

fn columns(instances: &[SeenInstance]) -> (Vec<Uuid>, Vec<i64>) {
    instances.iter().map(|one| (one.id, one.beat)).unzip()
}

/// Returns the name of the process that took the log over; empty if it is not known.
pub(super) async fn successor(link: &mut Link) -> String {
    match look(link, None).await {
        Ok(Ok(users)) => users
            .owning()
            .map(|one| one.name.clone())
            .unwrap_or_default(),
        _ => String::new(),
    }
}
