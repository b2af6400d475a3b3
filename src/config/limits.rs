//! `limits` and `context`: the limits that every request meets (`in_flight`, `connections`, `rate`, `header_bytes`, `header_timeout`,
//! `data_timeout`, `response_timeout`, `json_body`, `json_bodies`, size of context), with the defaults of these keys.

use std::time::Duration;

use super::keys::{Keys, Section};
use super::kind::{
    Shaped, duration, header_prefix, list, maybe, percent, rate, shaped, size, whole,
};
use super::load::reader::Reader;

/// `limits`: the limits on connections, requests, bodies and waits. Sizes are in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// The most client connections that are open at a time.
    pub connections: usize,
    /// The most requests that are served at a time; further ones get 503.
    pub in_flight: usize,
    /// The share of `in_flight` and of `json_bodies` that one caller may have, roughly, in percent; 100 for all of it.
    pub caller_share: u32,
    /// The largest header section of a request.
    pub header_bytes: usize,
    /// The longest token of a caller.
    pub token_bytes: usize,
    /// The largest JSON body that must be read whole; a larger one gets 413.
    pub json_body: usize,
    /// The memory of all JSON bodies that are held at a time, and of answers that are changed; beyond it 503.
    pub json_bodies: usize,
    /// The time that a client has to send its headers.
    pub header_timeout: Duration,
    /// The time that a catalog has to send its response headers.
    pub response_timeout: Duration,
    /// The time that a catalog has to send its response headers for operations that move or scan
    /// data.
    pub data_timeout: Duration,
    /// The request rate of one subject; `None` if it is not limited.
    pub rate: Option<RateLimit>,
}

/// `limits.rate`: a token bucket for each subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    /// The number of requests that `period` allows.
    pub requests: u32,
    /// The time in which they are allowed: a second, a minute or an hour.
    pub period: Duration,
    /// The number of requests that may come at once.
    pub burst: u32,
}

/// `context`: the request headers that are context, and the limits on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextConfig {
    /// The prefixes of header names, in lower case, at least one.
    pub prefixes: Vec<String>,
    /// The most entries of one request.
    pub max_entries: usize,
    /// The most bytes of all keys and values of one request.
    pub max_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            in_flight: 4096,
            caller_share: 75,
            header_bytes: 64 << 10,
            token_bytes: 16 << 10,
            json_body: 8 << 20,
            json_bodies: 64 << 20,
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

impl Section for Limits {
    fn blank() -> Self {
        Self::default()
    }

    fn keys(&mut self, keys: &mut Keys<'_, '_>) {
        let wait = || duration(Duration::from_millis(10), Duration::from_secs(24 * 3600));
        keys.key(
            "connections",
            &mut self.connections,
            whole(1, 1_000_000),
            "Open client connections, at most.",
        );
        keys.key(
            "in_flight",
            &mut self.in_flight,
            whole(1, 1_000_000),
            "Requests served at once; beyond it 503 with Retry-After.",
        );
        keys.key(
            "caller_share",
            &mut self.caller_share,
            percent(),
            "How much of in_flight one caller may have, where that is 16 or more, and of json_bodies; beyond it 503 with Retry-After. 50% or less leaves it the half of in_flight that is not counted, and one place.",
        );
        keys.key(
            "header_bytes",
            &mut self.header_bytes,
            size(1 << 10, 1 << 20),
            "A request's headers, at most.",
        );
        keys.key(
            "token_bytes",
            &mut self.token_bytes,
            size(1 << 10, 64 << 10),
            "A caller's token, at most; larger: 401. It is one of the headers that header_bytes counts.",
        );
        keys.key(
            "json_body",
            &mut self.json_body,
            size(1 << 10, 1 << 30),
            "A JSON body, at most; larger: 413. Arrow bodies stream and have no limit.",
        );
        keys.key(
            "json_bodies",
            &mut self.json_bodies,
            size(1 << 10, 1 << 40),
            "All JSON bodies in memory at a time, and answers that the gateway changes, at most, those of 16 KiB and less not counted; beyond it 503 with Retry-After. A batch takes some five times its body.",
        );
        keys.key(
            "header_timeout",
            &mut self.header_timeout,
            wait(),
            "How long a client may take to send its headers.",
        );
        keys.key(
            "response_timeout",
            &mut self.response_timeout,
            wait(),
            "How long a catalog may take to its response headers.",
        );
        keys.key(
            "data_timeout",
            &mut self.data_timeout,
            wait(),
            "The same, for operations that move or scan data.",
        );
        keys.key(
            "rate",
            &mut self.rate,
            maybe(shaped()),
            "Requests of one caller; absent: unlimited. Over it: 429 with Retry-After.",
        );
    }
}

impl Section for ContextConfig {
    fn blank() -> Self {
        Self::default()
    }

    fn keys(&mut self, keys: &mut Keys<'_, '_>) {
        keys.key(
            "prefixes",
            &mut self.prefixes,
            list(1, "prefixes, such as [x-ns-ctx-]", header_prefix()),
            "Headers that are context; the first prefix is also written upstream.",
        );
        keys.key(
            "max_entries",
            &mut self.max_entries,
            whole(0, 10_000),
            "Entries of one request, at most.",
        );
        keys.key(
            "max_bytes",
            &mut self.max_bytes,
            size(0, 1 << 20),
            "Bytes of all keys and values of one request, at most.",
        );
    }
}

/// The most requests that may come at once.
const MAX_BURST: u32 = 10_000_000;

/// The table `limits.rate` in the form of the file.
pub(super) struct RateFile {
    per_subject: (u32, Duration),
    burst: Option<u32>,
}

impl Section for RateFile {
    fn blank() -> Self {
        Self {
            per_subject: (1, Duration::from_secs(1)),
            burst: None,
        }
    }

    fn keys(&mut self, keys: &mut Keys<'_, '_>) {
        keys.required(
            "per_subject",
            &mut self.per_subject,
            rate(),
            "write a rate such as 500/s",
            "Requests of one subject in a second, minute or hour.",
        );
        keys.key(
            "burst",
            &mut self.burst,
            maybe(whole(1, MAX_BURST.into())),
            "Requests that may come at once; default: as many as per_subject allows in its second, minute or hour.",
        );
    }
}

impl Shaped for RateLimit {
    type File = RateFile;

    fn from_file(file: RateFile, _: &mut Reader<'_>) -> Option<Self> {
        let (requests, period) = file.per_subject;
        let burst = file.burst.unwrap_or(requests.min(MAX_BURST));
        Some(Self {
            requests,
            period,
            burst,
        })
    }

    fn to_file(&self) -> RateFile {
        RateFile {
            per_subject: (self.requests, self.period),
            burst: Some(self.burst),
        }
    }
}
