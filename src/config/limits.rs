//! `limits` and `context`: the bounds every request meets.

use std::time::Duration;

/// `limits`: bounds on connections, requests, bodies and waits. Sizes are bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Open client connections, at most.
    pub connections: usize,
    /// Requests being served at once, at most; beyond it 503.
    pub in_flight: usize,
    /// A request's header section, at most.
    pub header_bytes: usize,
    /// A JSON body that must be read whole, at most; larger: 413.
    pub json_body: usize,
    /// How long a client may take to send its headers.
    pub header_timeout: Duration,
    /// How long a catalog may take to its response headers.
    pub response_timeout: Duration,
    /// The same, for operations that move or scan data.
    pub data_timeout: Duration,
    /// Requests of one subject; `None`: unlimited.
    pub rate: Option<RateLimit>,
}

/// `limits.rate`: a token bucket for each subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    /// Requests that `period` allows.
    pub requests: u32,
    /// The time in which they are allowed: a second, a minute or an hour.
    pub period: Duration,
    /// Requests that may come at once.
    pub burst: u32,
}

/// `context`: which request headers are context, and how much of it there may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextConfig {
    /// Header-name prefixes in lower case, at least one.
    pub prefixes: Vec<String>,
    /// Entries of one request, at most.
    pub max_entries: usize,
    /// Bytes of all keys and values of one request, at most.
    pub max_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            in_flight: 4096,
            header_bytes: 64 << 10,
            json_body: 8 << 20,
            header_timeout: Duration::from_secs(10),
            response_timeout: Duration::from_secs(60),
            data_timeout: Duration::from_secs(600),
            rate: None,
        }
    }
}

impl Default for ContextConfig {
    fn default() -> Self {
        Self {
            prefixes: vec![super::backend::CONTEXT_PREFIX.to_owned()],
            max_entries: 64,
            max_bytes: 16 << 10,
        }
    }
}
