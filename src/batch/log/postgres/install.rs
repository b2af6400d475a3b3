//! Installs the schema, `schema.sql` (tables, indexes, functions), which the gateway itself has no right to do.

use std::sync::Arc;

use super::cause;
use super::connect::Connector;
use crate::batch::log::LogError;
use crate::config::PostgresLogConfig;

const SCHEMA: &str = include_str!("schema.sql");

/// Installs the schema, or brings it up to date, and gives the role `grant` the rights that a gateway needs.
///
/// # Errors
/// The server cannot be reached, or refuses.
pub async fn prepare(log: &PostgresLogConfig, grant: Option<&str>) -> Result<(), LogError> {
    let unusable = |cause: String| LogError::Unusable {
        path: log.address.clone(),
        cause,
    };
    let connector =
        Connector::new(log, None, Arc::default()).map_err(|error| unusable(error.to_string()))?;
    let client = connector.connect(None).await;
    let client = client
        .map_err(|trouble| unusable(trouble.explained()))?
        .client;
    let schema = quoted(&log.schema);
    let mut script = SCHEMA
        .replace("{schema_text}", &format!("'{}'", log.schema))
        .replace("{schema}", &schema);
    if let Some(role) = grant {
        let role = quoted(role);
        script.push_str(&format!(
            "GRANT USAGE ON SCHEMA {schema} TO {role};
             GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role};
             GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} TO {role};"
        ));
    }
    // One message with several statements is one transaction.
    let installed = client.batch_execute(&script).await;
    installed.map_err(|error| unusable(cause::trouble(&error).explained()))
}

/// Returns a name in the quotes of SQL.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
