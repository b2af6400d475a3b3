//! Finds out whether clients commit through a catalog: only then can the gateway hold back what belongs to a batch.
//!
//! A client that finds no `managed_versioning: true` in the description of a table writes its versions to storage, past
//! the catalog and the gateway. One table stands for all of a catalog.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use serde::Deserialize;

use super::{Authority, Backend, InternalAnswer, InternalRequest};
use crate::protocol::context::Context;
use crate::protocol::identifier::Identifier;
use crate::protocol::operation::Operation;
use crate::protocol::query::DEFAULT_DELIMITER;
use crate::request::origin::Origin;

/// The largest number of namespaces in which a table is looked for.
const NAMESPACES: usize = 8;
/// The longest wait for each answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The answer of a catalog about managed versioning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Versioning {
    /// No table has been described yet.
    NotSeen,
    /// A table is described with `managed_versioning: true`.
    Managed,
    /// A table is described without it.
    Unmanaged,
}

/// The last known [`Versioning`] of a catalog.
#[derive(Debug, Default)]
pub(super) struct KnownVersioning(AtomicU8);

impl Versioning {
    /// The word for operators.
    pub fn word(self) -> &'static str {
        match self {
            Self::NotSeen => "not seen yet",
            Self::Managed => "yes",
            Self::Unmanaged => "no",
        }
    }
}

impl KnownVersioning {
    fn get(&self) -> Versioning {
        match self.0.load(Ordering::Relaxed) {
            1 => Versioning::Managed,
            2 => Versioning::Unmanaged,
            _ => Versioning::NotSeen,
        }
    }

    fn set(&self, versioning: Versioning) {
        let value = match versioning {
            Versioning::NotSeen => 0,
            Versioning::Managed => 1,
            Versioning::Unmanaged => 2,
        };
        self.0.store(value, Ordering::Relaxed);
    }
}

/// A page of names.
#[derive(Deserialize)]
struct Names {
    #[serde(default)]
    tables: Vec<String>,
    #[serde(default)]
    namespaces: Vec<String>,
}

impl Backend {
    /// Returns the last known answer of the catalog, without asking it.
    pub fn versioning(&self) -> Versioning {
        self.to.versioning.get()
    }

    /// Asks the catalog, with the gateway's own credentials or without any, for the description of a table that it lists. Returns and
    /// keeps its answer; `NotSeen` if it lists no table.
    ///
    /// # Errors
    ///
    /// The catalog does not answer, or refuses to list; in words for an operator.
    pub async fn ask_versioning(&self) -> Result<Versioning, String> {
        #[derive(Deserialize)]
        struct Table {
            managed_versioning: Option<bool>,
        }
        let Some(table) = self.any_table().await? else {
            return Ok(Versioning::NotSeen);
        };
        let id: Vec<&str> = table.names().collect();
        let body = serde_json::json!({ "id": id }).to_string();
        let answer = self.probe(Operation::DescribeTable, &table, Some(body.into()));
        let answer = answer.await?;
        if !answer.status.is_success() {
            return Err(self.refused(&answer, "the description of a table"));
        }
        let table: Result<Table, _> = serde_json::from_slice(&answer.body);
        let table = table
            .map_err(|error| format!("describes a table in a way that cannot be read: {error}"))?;
        let versioning = match table.managed_versioning {
            Some(true) => Versioning::Managed,
            _ => Versioning::Unmanaged,
        };
        self.to.versioning.set(versioning);
        Ok(versioning)
    }

    /// Returns a table that the catalog lists: in all of it, at its root, or in one of its first namespaces.
    async fn any_table(&self) -> Result<Option<Identifier>, String> {
        let root = Identifier::root();
        let answer = self.probe(Operation::ListAllTables, &root, None).await?;
        if let Some(names) = read(&answer) {
            let first = names.tables.first();
            return Ok(first.and_then(|name| below(&root, name)));
        }
        let namespaces = self.probe(Operation::ListNamespaces, &root, None).await?;
        let Some(namespaces) = read(&namespaces) else {
            return Err(self.refused(&namespaces, "a list of its namespaces"));
        };
        let namespaces = namespaces.namespaces.iter().take(NAMESPACES);
        let namespaces = namespaces.filter_map(|name| below(&root, name));
        for namespace in std::iter::once(root.clone()).chain(namespaces) {
            let answer = self.probe(Operation::ListTables, &namespace, None).await?;
            let first = read(&answer).and_then(|names| below(&namespace, names.tables.first()?));
            if first.is_some() {
                return Ok(first);
            }
        }
        Ok(None)
    }

    async fn probe(
        &self,
        operation: Operation,
        identifier: &Identifier,
        body: Option<Bytes>,
    ) -> Result<InternalAnswer, String> {
        let limit = body.is_none().then(|| ("limit", NAMESPACES.to_string()));
        let ask = InternalRequest {
            operation,
            identifier: identifier.clone(),
            query: limit.into_iter().collect(),
            body,
            authority: Authority::Service,
            context: Context::default(),
            origin: Origin::default(),
            timeout: Some(PATIENCE),
        };
        let answer = self.ask(ask).await;
        answer.map_err(|failure| format!("does not answer: {failure}"))
    }

    /// Returns the words for an answer that refuses `to`.
    fn refused(&self, answer: &InternalAnswer, to: &str) -> String {
        let status = answer.status;
        let asks_for_some = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&status);
        if asks_for_some && !self.shows_service_credentials() {
            return format!(
                "answers {status} to a request for {to}, and the gateway has no credentials of its own for it; set `service_authorization` or `oauth` (`authorization: none` is enough only for a catalog that asks for none)"
            );
        }
        format!(
            "answers {status} to a request for {to}; check `service_authorization` and its permissions"
        )
    }
}

/// Returns the names of a listing; `None` if the answer is not one.
fn read(answer: &InternalAnswer) -> Option<Names> {
    let body = answer.status.is_success().then_some(&answer.body)?;
    serde_json::from_slice(body).ok()
}

/// Returns the identifier of a name in the listing of `namespace`. Some catalogs join all names of the identifier.
fn below(namespace: &Identifier, name: &str) -> Option<Identifier> {
    let listed = Identifier::from_names(name.split(DEFAULT_DELIMITER)).ok()?;
    if listed.starts_with(namespace) && listed.len() > namespace.len() {
        return Some(listed);
    }
    let mut below = namespace.clone();
    for name in listed.names() {
        below = below.join(name).ok()?;
    }
    Some(below)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use super::*;
    use crate::backend::fake_server::{Act, Catalog, ok};
    use crate::config::{BackendConfig, Limits};
    use crate::metrics::Metrics;

    async fn ask(script: Vec<Act>) -> (Result<Versioning, String>, Versioning, Catalog) {
        let catalog = Catalog::start(script).await;
        let mut config = BackendConfig::rest("lake", catalog.uri().parse().unwrap());
        if let crate::config::Implementation::Rest(rest) = &mut config.implementation {
            rest.retry.attempts = 1;
        }
        let (limits, metrics) = (Limits::default(), Metrics::new());
        let backend = Backend::open(&config, &limits, &metrics).await.unwrap();
        assert_eq!(backend.versioning(), Versioning::NotSeen);
        let answer = backend.ask_versioning().await;
        (answer, backend.versioning(), catalog)
    }

    fn missing() -> Act {
        Act::Answer("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_owned())
    }

    #[tokio::test]
    async fn one_table_says_whether_versions_are_managed() {
        let tables = || ok(r#"{"tables":["ns$t","u"]}"#);
        for (described, expected) in [
            (r#"{"managed_versioning":true}"#, Versioning::Managed),
            (r#"{"managed_versioning":false}"#, Versioning::Unmanaged),
            (r#"{"managed_versioning":null}"#, Versioning::Unmanaged),
            ("{}", Versioning::Unmanaged),
        ] {
            let (answer, kept, catalog) = ask(vec![tables(), ok(described)]).await;
            assert_eq!((answer, kept), (Ok(expected), expected), "{described}");
            let requests = catalog.requests();
            assert!(
                requests[1].starts_with("POST /v1/table/ns%24t/describe"),
                "{requests:?}"
            );
            assert!(
                requests[1].ends_with(r#"{"id":["ns","t"]}"#),
                "{requests:?}"
            );
        }
        let (answer, kept, _) = ask(vec![ok(r#"{"tables":[]}"#)]).await;
        assert_eq!(
            (answer, kept),
            (Ok(Versioning::NotSeen), Versioning::NotSeen)
        );
    }

    #[tokio::test]
    async fn a_catalog_that_does_not_list_all_tables_is_searched() {
        let script = vec![
            missing(),
            ok(r#"{"namespaces":["a","b"]}"#),
            ok(r#"{"tables":[]}"#),
            missing(),
            ok(r#"{"tables":["t"]}"#),
            ok(r#"{"managed_versioning":true}"#),
        ];
        let (answer, _, catalog) = ask(script).await;
        assert_eq!(answer, Ok(Versioning::Managed));
        let requests = catalog.requests();
        let last = requests.last().unwrap();
        assert!(
            last.starts_with("POST /v1/table/b%24t/describe"),
            "{requests:?}"
        );
    }

    #[tokio::test]
    async fn a_catalog_that_refuses_or_is_silent_is_no_answer() {
        let denied =
            || Act::Answer("HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n".to_owned());
        let cases = [
            (vec![denied(), denied()], "403"),
            (vec![ok(r#"{"tables":["t"]}"#), denied()], "403"),
            (vec![ok(r#"{"tables":["t"]}"#), ok("[")], "cannot be read"),
            (vec![Act::Close, Act::Close], "does not answer"),
        ];
        for (script, words) in cases {
            let (answer, kept, _) = ask(script).await;
            let error = answer.unwrap_err();
            assert!(error.contains(words), "{error}");
            assert_eq!(kept, Versioning::NotSeen);
        }
    }
}
