//! A catalog in a directory, embedded in the process (cargo feature `dir`).
//!
//! The engine is called through its trait; no port is opened. A [`Dir`] takes the same requests as a `rest`
//! backend, and answers with the status, headers and body of the engine's own REST service. That includes its
//! error messages, which may name paths of this machine. Request bodies are held in memory completely, up to
//! `arrow_body_limit`, because the trait requires it; a larger one is refused with 413.
//!
//! An operation runs in its own task: a caller that disconnects does not stop it half-way, and a panic of the
//! engine is one 500.

mod answer;
mod call;
mod operations;

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use http::{Request, Response};
use lance_namespace::{LanceNamespace, models};
use lance_namespace_impls::{DirectoryNamespace, DirectoryNamespaceBuilder};

use super::Failure;
use crate::body::{Body, CollectError};
use crate::config::DirConfig;
use crate::error::BoxError;
use crate::error::code::Code;
use call::Call;

/// The time between two health checks.
pub(super) const CHECK_INTERVAL: Duration = Duration::from_secs(10);
const CHECK_TIMEOUT: Duration = Duration::from_secs(2);

/// One embedded catalog.
#[derive(Debug)]
pub(super) struct Dir {
    engine: Arc<DirectoryNamespace>,
    body_limit: usize,
}

impl Dir {
    /// Opens the directory that the property `root` names. It need not exist yet.
    pub(super) async fn open(config: &DirConfig) -> Result<Self, BoxError> {
        let mut properties: HashMap<_, _> = config.properties.clone().into_iter().collect();
        if let Some(root) = properties.get_mut("root")
            && !root.contains("://")
        {
            // Clients get locations below it, and have other working directories.
            *root = absolute(root)?;
        }
        let engine = DirectoryNamespaceBuilder::from_properties(properties, None)?;
        Ok(Self {
            engine: Arc::new(engine.build().await?),
            body_limit: config.body_limit,
        })
    }

    /// Sends a request, see [`super::Backend::send`]. The operation is read from the request line. Of the
    /// extensions only the [`Context`](crate::protocol::context::Context) is used, because the engine does not
    /// distinguish callers.
    pub(super) async fn send_within(
        &self,
        deadline: Instant,
        request: Request<Body>,
    ) -> Result<Response<Body>, Failure> {
        tokio::time::timeout_at(deadline, self.send(request))
            .await
            .unwrap_or(Err(Failure::TimedOut))
    }

    async fn send(&self, request: Request<Body>) -> Result<Response<Body>, Failure> {
        let (parts, body) = request.into_parts();
        let body = match body.collect_up_to(self.body_limit).await {
            Ok(body) => body,
            Err(CollectError::TooLarge) => return Ok(answer::too_large(self.body_limit)),
            Err(CollectError::Broken(cause)) => return Err(Failure::NotSent(cause)),
        };
        let engine = Arc::clone(&self.engine);
        Ok(alone(async move {
            let answer = match Call::read(&parts, body) {
                Ok(call) => operations::carry_out(&engine, call).await,
                Err(refusal) => Err(refusal),
            };
            answer.unwrap_or_else(|refusal| answer::refusal(&refusal))
        })
        .await)
    }

    /// Checks that the directory can be read.
    pub(super) async fn check(&self) -> Result<(), String> {
        let request = models::ListTablesRequest {
            id: Some(Vec::new()),
            limit: Some(1),
            ..Default::default()
        };
        match tokio::time::timeout(CHECK_TIMEOUT, self.engine.list_tables(request)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(late) => Err(late.to_string()),
        }
    }
}

fn absolute(root: &str) -> Result<String, BoxError> {
    let path = std::path::absolute(root)?.into_os_string();
    path.into_string()
        .map_err(|_| "the working directory is not UTF-8".into())
}

/// Runs `operation` to its end, even if the caller disconnects.
async fn alone(operation: impl Future<Output = Response<Body>> + Send + 'static) -> Response<Body> {
    tokio::spawn(operation).await.unwrap_or_else(|cause| {
        tracing::error!(%cause, "an embedded catalog failed");
        answer::error(Code::Internal, "the catalog failed")
    })
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::{Body, Response, alone};

    #[tokio::test]
    async fn a_panic_of_the_engine_is_one_500() {
        let answer = alone(poll_fn(|_| panic!("a bug"))).await;
        assert_eq!(answer.status(), 500);
        let answer = alone(async { Response::new(Body::empty()) }).await;
        assert_eq!(answer.status(), 200);
    }
}
