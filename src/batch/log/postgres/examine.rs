//! Looks at a log without using it, for `nsgate check --online`.

use std::sync::Arc;
use std::time::Instant;

use super::connect::Connector;
use super::link::Link;
use super::outage_report::Outage;
use super::owner;
use crate::config::PostgresLogConfig;

const RIGHTS: &str =
    "SELECT name FROM unnest(ARRAY['log', 'instance', 'writer', 'batch', 'entry', 'resolution', 'guard', 'owed', 'stray']) AS name
    WHERE NOT (has_table_privilege(name, 'SELECT') AND has_table_privilege(name, 'INSERT')
        AND has_table_privilege(name, 'UPDATE') AND has_table_privilege(name, 'DELETE')) LIMIT 1";

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
    let mut link = Link::new(Arc::new(connector), outage);
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
    let milliseconds = since.elapsed().as_secs_f64() * 1000.0;
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
    Ok(format!("works: {used}; {milliseconds:.1} ms a round trip"))
}
