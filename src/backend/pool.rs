//! One address of a catalog and the idle connections to it, the most recently used first.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::HeaderValue;
use http::uri::{InvalidUri, PathAndQuery, Uri};
use rustls::ClientConfig;

use super::connection::{Connection, Home};
use super::dial::Dialer;
use crate::config;
use crate::error::BoxError;

/// One base address of a catalog.
pub(super) struct Endpoint {
    /// The value of `host`.
    pub(super) host: HeaderValue,
    /// The base address's path without a closing slash; often empty.
    prefix: String,
    dialer: Dialer,
    /// The most recently used at the back.
    idle: Mutex<VecDeque<Idle>>,
    max_idle: usize,
    idle_timeout: Duration,
}

struct Idle {
    connection: Box<Connection>,
    since: Instant,
}

impl Endpoint {
    /// The address `uri`; nothing is contacted.
    pub(super) fn new(
        uri: &Uri,
        tls: Option<&Arc<ClientConfig>>,
        pool: &config::Pool,
    ) -> Result<Self, BoxError> {
        let authority = uri.authority().ok_or("a base address needs a host")?;
        // User information is no part of `host` (RFC 9110, section 7.2).
        let host = authority.as_str();
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
        Ok(Self {
            host: HeaderValue::try_from(host)?,
            prefix: uri.path().trim_end_matches('/').to_owned(),
            dialer: Dialer::new(uri, tls, pool.connect_timeout)?,
            idle: Mutex::default(),
            max_idle: pool.max_idle,
            idle_timeout: pool.idle_timeout,
        })
    }

    /// `path` below this address.
    pub(super) fn target(&self, path: &PathAndQuery) -> Result<Uri, InvalidUri> {
        if self.prefix.is_empty() {
            return Ok(Uri::from(path.clone()));
        }
        let path = PathAndQuery::try_from(format!("{}{path}", self.prefix))?;
        Ok(Uri::from(path))
    }

    /// An idle connection that the catalog has not closed, as far as is known.
    pub(super) fn take_idle(&self) -> Option<Box<Connection>> {
        loop {
            let Idle {
                mut connection,
                since,
            } = self.lock().pop_back()?;
            if since.elapsed() < self.idle_timeout && connection.is_usable() {
                return Some(connection);
            }
        }
    }

    /// A new connection.
    pub(super) async fn connect(&self) -> Result<Box<Connection>, BoxError> {
        // Boxed since it is rare and large: it would make the future of every request large.
        let io = Box::pin(self.dialer.dial()).await?;
        Ok(Box::new(Connection::open(io).await?))
    }

    /// Closes what has been idle for too long or was closed by the catalog.
    pub(super) fn reap(&self) {
        self.lock().retain_mut(|idle| {
            idle.since.elapsed() < self.idle_timeout && idle.connection.is_usable()
        });
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Home for Arc<Endpoint> {
    fn give_back(&self, connection: Box<Connection>) {
        let since = Instant::now();
        let mut idle = self.lock();
        let surplus = if idle.len() >= self.max_idle {
            idle.pop_front()
        } else {
            None
        };
        if self.max_idle > 0 {
            idle.push_back(Idle { connection, since });
        }
        drop(idle);
        drop(surplus);
    }
}
