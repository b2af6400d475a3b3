//! The access log: one line for each request, noted when it is over and written by the log's own thread.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::Version;
use serde::{Serialize, Serializer};

use crate::body::End;
use crate::config::LogFormat;
use crate::error::code::Code;
use crate::protocol::identifier::Identifier;
use crate::protocol::operation::{Kind, Operation};
use crate::request::{CompletionObserver, RequestHead, RequestRecord};
use crate::telemetry::{Log, Record, rfc3339};
use crate::util::unprintable::is_unprintable;

/// The most bytes that are shown of a name that a client or an issuer has chosen.
const MAX_SHOWN: usize = 256;

/// The most tables of a batch that its line names.
const MOST_TABLES: usize = 20;

/// The access log.
pub struct AccessLog {
    log: Log,
    has_names: bool,
}

/// The facts that are noted of a request: no more than a line needs, because many may wait for a slow reader.
struct AccessRecord {
    ended: SystemTime,
    how: End,
    head: Option<RequestHead>,
    operation: Option<Operation>,
    name: Option<Identifier>,
    /// The first tables of a batch, and the number of all.
    tables: (Box<[Identifier]>, usize),
    transaction: Option<Box<str>>,
    mount: Option<Identifier>,
    backend: Option<Arc<str>>,
    passed_on_to: Option<Arc<str>>,
    /// The subject and the issuer of the caller.
    caller: Option<(Arc<str>, Arc<str>)>,
    context: Vec<(String, String)>,
    code: Option<Code>,
    reason: Option<&'static str>,
    /// The cause of a 401, in words.
    cause: Option<Box<str>>,
    status: Option<u16>,
    whole: Duration,
    answered: Duration,
    upstream: Duration,
    request_bytes: u64,
    response_bytes: u64,
}

/// A line of the log. Times are in milliseconds, lengths in bytes.
#[derive(Serialize)]
struct AccessLine<'a> {
    timestamp: String,
    level: &'static str,
    message: &'static str,
    id: &'a str,
    trace: String,
    /// The gateway's own span, which is the parent of the catalog's.
    span: String,
    operation: &'static str,
    /// The table or materialized view in the path, as clients spell it with `$`.
    #[serde(skip_serializing_if = "Option::is_none")]
    table: Option<Cow<'a, str>>,
    /// The namespace in the path, likewise; `$` for the root.
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<Cow<'a, str>>,
    /// The first tables that a batch changes, in the order of its entries.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tables: Vec<Cow<'a, str>>,
    /// The number of entries of a batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    entries: Option<usize>,
    /// The id of the batch, or the transaction in the path.
    #[serde(skip_serializing_if = "Option::is_none")]
    transaction: Option<Cow<'a, str>>,
    /// The namespace of the mount as clients spell it; empty if no mount or more than one was involved.
    mount: Cow<'a, str>,
    backend: &'a str,
    /// The gateway that answered for this one, because it has the batch log; its line has the catalog and the caller.
    #[serde(skip_serializing_if = "Option::is_none")]
    passed_on_to: Option<&'a str>,
    /// The status of the response; 499 if the client left before there was one.
    status: u16,
    /// The contract's code; `None` unless the gateway itself refused or failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<u8>,
    /// A fixed word for the refusal: the reason why a token was refused (a label of
    /// `nsgate_authentication_failures_total`), the limit that was reached (a label of `nsgate_limited_requests_total`),
    /// `exchange` if a catalog's token server issued no token, or `audit` if the audit log cannot be written.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    /// For a refused token, what is wrong, and the issuer, audience and subject that it states, which nobody has verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<Cow<'a, str>>,
    /// True if the client has the whole response.
    complete: bool,
    /// The side that ended it too early: `connection` or `catalog`; `None` if it is complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    aborted_by: Option<&'static str>,
    duration_ms: f64,
    /// The gateway's own part of the time to the response.
    gateway_ms: f64,
    /// The time spent waiting for catalogs.
    catalog_ms: f64,
    /// The time that the response's body took: as fast as catalog and client are together.
    transfer_ms: f64,
    request_bytes: u64,
    response_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    issuer: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<&'a str>,
    protocol: &'static str,
    #[serde(serialize_with = "as_object", skip_serializing_if = "<[_]>::is_empty")]
    context: &'a [(String, String)],
}

impl AccessLog {
    /// Creates the log; with `has_names`, its lines name tables, namespaces and transactions.
    pub fn new(log: Log, has_names: bool) -> Self {
        Self { log, has_names }
    }
}

impl CompletionObserver for AccessLog {
    fn over(&self, exchange: &RequestRecord, how: End) {
        let record = AccessRecord::of(exchange, how, self.has_names);
        self.log.record(Box::new(record));
    }
}

impl AccessRecord {
    fn of(exchange: &RequestRecord, how: End, has_names: bool) -> Self {
        let whole = exchange.age();
        // Only the changes of a batch have names of their own.
        let tables = exchange.changed();
        let is_batch = tables.first().is_some_and(|first| first.change.is_some());
        let tables = if is_batch { tables } else { &[] };
        let shown = if has_names {
            tables.len().min(MOST_TABLES)
        } else {
            0
        };
        let name = exchange.name().filter(|_| has_names);
        let transaction = exchange.transaction().filter(|_| has_names);
        let caller = exchange.caller();
        let is_unauthenticated = exchange.code() == Some(Code::Unauthenticated);
        Self {
            ended: SystemTime::now(),
            how,
            head: exchange.head().cloned(),
            operation: exchange.operation(),
            name: name.cloned(),
            tables: (
                tables[..shown].iter().map(|of| of.table.clone()).collect(),
                tables.len(),
            ),
            transaction: transaction.map(Into::into),
            mount: exchange.mount().cloned(),
            backend: exchange.backend().map(|backend| Arc::clone(backend.name())),
            passed_on_to: exchange.passed_on_to(),
            caller: caller
                .map(|caller| (Arc::clone(caller.subject()), Arc::clone(caller.issuer()))),
            context: exchange.context(),
            code: exchange.code(),
            reason: exchange.reason(),
            cause: is_unauthenticated
                .then(|| exchange.cause().map(Into::into))
                .flatten(),
            status: exchange.status().map(|status| status.as_u16()),
            whole,
            answered: exchange.timed_at().unwrap_or(whole),
            upstream: exchange.upstream(whole),
            request_bytes: exchange.request_bytes(),
            response_bytes: exchange.response_bytes(),
        }
    }
}

impl Record for AccessRecord {
    fn write(&self, format: LogFormat, to: &mut Vec<u8>) {
        let line = AccessLine::of(self);
        match format {
            LogFormat::Json => {
                // Strings and numbers are always valid JSON, and a vector takes all of it.
                let _ = serde_json::to_writer(&mut *to, &line);
                to.push(b'\n');
            }
            LogFormat::Text => to.extend_from_slice(line.text().as_bytes()),
        }
    }
}

impl<'a> AccessLine<'a> {
    fn of(noted: &'a AccessRecord) -> Self {
        let head = noted.head.as_ref();
        let client = head.and_then(|head| head.client()?.to_str().ok());
        let caller = noted.caller.as_ref();
        let kind = noted.operation.and_then(Operation::kind);
        let named = |kinds: &[Kind]| {
            let name = noted.name.as_ref()?;
            kind.is_some_and(|kind| kinds.contains(&kind))
                .then(|| spelled(name))
        };
        let (tables, entries) = &noted.tables;
        let transaction = noted.transaction.as_deref().map(Cow::Borrowed);
        Self {
            timestamp: rfc3339(noted.ended),
            level: "INFO",
            message: "request",
            id: head.map_or("", RequestHead::id),
            trace: head.map_or_else(String::new, |head| format!("{:032x}", head.span.trace())),
            span: head.map_or_else(String::new, |head| format!("{:016x}", head.span.span())),
            operation: noted.operation.map_or("unrecognized", Operation::name),
            table: named(&[Kind::Table, Kind::MaterializedView]),
            namespace: named(&[Kind::Namespace]),
            tables: tables.iter().map(spelled).collect(),
            entries: (*entries > 0).then_some(*entries),
            transaction: transaction.or_else(|| named(&[Kind::Transaction])),
            mount: noted
                .mount
                .as_ref()
                .map_or(Cow::Borrowed(""), |mount| Cow::Owned(mount.to_string())),
            backend: noted.backend.as_deref().unwrap_or("none"),
            passed_on_to: noted.passed_on_to.as_deref(),
            status: noted.status.unwrap_or(499),
            code: noted.code.map(Code::number),
            reason: noted.reason,
            cause: noted.cause.as_deref().map(Cow::Borrowed),
            complete: noted.how == End::Complete,
            aborted_by: match noted.how {
                End::Complete => None,
                End::Broken => Some("catalog"),
                End::Aborted => Some("connection"),
            },
            duration_ms: millis(noted.whole),
            gateway_ms: millis(noted.answered.saturating_sub(noted.upstream)),
            catalog_ms: millis(noted.upstream),
            transfer_ms: millis(noted.whole.saturating_sub(noted.answered)),
            request_bytes: noted.request_bytes,
            response_bytes: noted.response_bytes,
            subject: caller.map(|(subject, _)| shown(subject)),
            issuer: caller.map(|(_, issuer)| shown(issuer)),
            client,
            protocol: head.map_or("", |head| protocol(head.version)),
            context: &noted.context,
        }
    }

    /// Formats the line as text. Values that others have chosen are quoted, so that none can end the line or look
    /// like a field.
    fn text(&self) -> String {
        let mut line = format!(
            "{} {:>5} {} status={} operation={}",
            self.timestamp, self.level, self.message, self.status, self.operation,
        );
        // Writing to a string does not fail.
        for (key, value) in [("table", &self.table), ("namespace", &self.namespace)] {
            if let Some(value) = value {
                let _ = write!(line, " {key}={value:?}");
            }
        }
        if !self.tables.is_empty() {
            let _ = write!(line, " tables={:?}", self.tables);
        }
        if let Some(entries) = self.entries {
            let _ = write!(line, " entries={entries}");
        }
        let _ = write!(line, " duration={}ms", self.duration_ms);
        if let Some(transaction) = &self.transaction {
            let _ = write!(line, " transaction={transaction:?}");
        }
        if let Some(gateway) = self.passed_on_to {
            let _ = write!(line, " passed_on_to={gateway:?}");
        }
        if let Some(code) = self.code {
            let _ = write!(line, " code={code}");
        }
        if let Some(reason) = self.reason {
            let _ = write!(line, " reason={reason}");
        }
        if let Some(cause) = &self.cause {
            let _ = write!(line, " cause={cause:?}");
        }
        if let Some(who) = self.aborted_by {
            let _ = write!(line, " complete=false aborted_by={who}");
        }
        let _ = write!(
            line,
            " mount={:?} backend={} gateway={}ms catalog={}ms transfer={}ms request_bytes={} response_bytes={} id={} trace={} span={}",
            self.mount,
            self.backend,
            self.gateway_ms,
            self.catalog_ms,
            self.transfer_ms,
            self.request_bytes,
            self.response_bytes,
            self.id,
            self.trace,
            self.span,
        );
        for (key, value) in [("subject", &self.subject), ("issuer", &self.issuer)] {
            if let Some(value) = value {
                let _ = write!(line, " {key}={value:?}");
            }
        }
        if let Some(client) = self.client {
            let _ = write!(line, " client={client}");
        }
        let _ = write!(line, " protocol={}", self.protocol);
        for (key, value) in self.context {
            let _ = write!(line, " context.{key}={:?}", shown(value));
        }
        line.push('\n');
        line
    }
}

/// Returns a name as clients spell it, cut if it is long.
fn spelled(name: &Identifier) -> Cow<'_, str> {
    Cow::Owned(shown(&name.to_string()).into_owned())
}

/// Returns milliseconds, rounded to the microsecond.
fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

fn protocol(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "HTTP/1.0",
        Version::HTTP_11 => "HTTP/1.1",
        Version::HTTP_2 => "HTTP/2",
        _ => "other",
    }
}

/// Returns the beginning of a text that a client or an issuer has chosen, without the characters that are not
/// seen and that JSON lets pass.
fn shown(text: &str) -> Cow<'_, str> {
    let text = &text[..text.floor_char_boundary(MAX_SHOWN)];
    let passes = |c: char| c >= '\x7f' && is_unprintable(c);
    if text.contains(passes) {
        Cow::Owned(text.replace(passes, "\u{fffd}"))
    } else {
        Cow::Borrowed(text)
    }
}

fn as_object<S: Serializer>(entries: &&[(String, String)], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(entries.iter().map(|(key, value)| (key, shown(value))))
}
