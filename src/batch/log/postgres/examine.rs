//! Looks at a log without using it, for `nsgate check --online`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::connect::Connector;
use super::link::Link;
use super::outage_report::Outage;
use super::owner;
use crate::config::PostgresLogConfig;

const RIGHTS: &str =
    "SELECT name FROM unnest(ARRAY['log', 'instance', 'writer', 'batch', 'entry', 'resolution', 'guard', 'owed', 'stray']) AS name
    WHERE NOT (has_table_privilege(name, 'SELECT') AND has_table_privilege(name, 'INSERT')
        AND has_table_privilege(name, 'UPDATE') AND has_table_privilege(name, 'DELETE')) LIMIT 1";

/// Writes what nobody reads, and locks nothing.
const DURABLE: &str = "SELECT pg_logical_emit_message(true, 'nsgate', 'check') IS NOT NULL";
/// The longest time that it may take until that is durable.
const PATIENCE: Duration = Duration::from_secs(5);

/// Returns what is to be said about the log in PostgreSQL, and whether a gateway can use it.
pub async fn examine(config: &PostgresLogConfig) -> (String, bool) {
    match look(config).await {
        Ok(words) => (words, true),
        Err(words) => (words, false),
    }
}

async fn look(config: &PostgresLogConfig) -> Result<String, String> {
    let connector =
        Connector::new(config, None, Arc::default()).map_err(|error| error.to_string())?;
    let outage = Arc::new(Outage::new(&config.address));
    let link = Link::new(Arc::new(connector), Arc::clone(&outage));
    let mut link = link.within(PATIENCE);
    let looked = owner::look(&mut link, None).await;
    let users = looked.map_err(|trouble| trouble.explained())??;
    let lacking = link.query(RIGHTS, &[]).await;
    let lacking = lacking.map_err(|trouble| trouble.explained())?;
    if let Some(table) = lacking.first() {
        let table: &str = table.get(0);
        return Err(format!(
            "the user may not read and write the table `{table}`. Run `nsgate log prepare` with `--grant USER`, as the owner of the schema"
        ));
    }
    let since = Instant::now();
    // The functions are there, and this user may call them; the first is no owner, so nothing is changed.
    let none = uuid::Uuid::nil();
    let called = link.query("SELECT beat_1($1)", &[&none]).await;
    called.map_err(|trouble| trouble.explained())?;
    let round_trip = milliseconds(since);
    let since = Instant::now();
    if let Err(trouble) = link.write(DURABLE, &[]).await {
        // A new connection sees what a write waits for.
        let _ = owner::look(&mut link, None).await;
        let cause = outage.cause(Duration::ZERO);
        let cause = cause.unwrap_or_else(|| trouble.explained());
        return Err(format!("it can be read, and not be written: {cause}"));
    }
    let write = milliseconds(since);
    let names: Vec<_> = users
        .instances
        .iter()
        .map(|one| format!("`{}`", one.name))
        .collect();
    let used = match &names[..] {
        [] => "no gateway uses it".to_owned(),
        [name] => format!("gateway {name} uses it"),
        names => format!("gateways {} share it", names.join(", ")),
    };
    Ok(format!(
        "works: {used}; {round_trip:.1} ms a round trip, {write:.1} ms a durable write"
    ))
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1000.0
}
