//! The lines of the audit log. `deploy/audit.md` is their documentation.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::StatusCode;
use serde::{Serialize, Serializer};
use tokio::sync::oneshot;

use super::counted::Omitted;
use super::waiting::Place;
use crate::config::LogFormat;
use crate::config::reload::Report;
use crate::error::denied_by::DeniedBy;
use crate::protocol::identifier::Identifier;
use crate::protocol::operation::Kind;
use crate::request::RequestRecord;
use crate::telemetry::writer::Kept;
use crate::telemetry::{Record, rfc3339};

mod brief;
mod escaped;
mod tables;
mod who;

use brief::{NAME, brief};
use tables::Tables;
pub use who::{BatchFacts, Who};

/// The version of the fields. A field that is added does not change it.
const SCHEMA: u8 = 1;

/// The kinds of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Event {
    /// A request that changes something.
    Change,
    /// A read of the keys of a table's storage, where a mount keeps them from others.
    Credentials,
    /// A request that was refused because of its caller.
    Refusal,
    /// The decision about a batch, or the end of its rollback.
    Batch,
    /// The decision of an operator about a batch.
    Decision,
    /// A reload of the configuration.
    Reload,
    /// Lines that were lost.
    Lost,
    /// Lines that were counted instead of written.
    Omitted,
}

/// The results of what a line is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    /// The change was made.
    Done,
    /// The caller may not do it.
    Denied,
    /// The request was refused for another reason.
    Refused,
    /// The request failed. If a catalog was involved, the change may have been made in part or as a whole.
    Failed,
    /// The client left before there was an answer.
    Unanswered,
    /// COMMIT is durable.
    Committed,
    /// ABORT is durable.
    Aborted,
    /// An aborted batch holds no table any more.
    RolledBack,
    /// Lines were lost.
    Lost,
    /// Lines were counted instead of written.
    Omitted,
}

/// A record, which becomes a line on the writer's thread.
#[derive(Serialize)]
pub struct AuditRecord {
    #[serde(serialize_with = "time")]
    time: SystemTime,
    schema: u8,
    event: Event,
    outcome: Outcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    operation: Option<&'static str>,
    #[serde(skip_serializing_if = "Tables::is_empty")]
    tables: Tables,
    /// The number of tables that the line does not name.
    #[serde(skip_serializing_if = "Option::is_none")]
    omitted_tables: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    transaction: Option<Box<str>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    repeated: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    recovered: bool,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "spelled")]
    mount: Option<Identifier>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backend: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    passed_on_to: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    catalog_status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<Box<DeniedBy>>,
    #[serde(flatten)]
    operator: Option<Box<Operator>>,
    #[serde(flatten)]
    who: Who,
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lines: Option<u64>,
    /// True if the line is about a request that has changed nothing: it is bounded, and gives way to others.
    #[serde(skip)]
    is_refusal: bool,
    #[serde(skip)]
    written: Option<oneshot::Sender<()>>,
    #[serde(skip)]
    place: Option<Place>,
}

/// The facts about an operator's action.
#[derive(Debug, Default, Serialize)]
struct Operator {
    #[serde(skip_serializing_if = "Option::is_none")]
    decision: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    operator: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trigger: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changed: Vec<String>,
}

impl AuditRecord {
    fn new(event: Event, outcome: Outcome) -> Self {
        Self {
            time: SystemTime::now(),
            schema: SCHEMA,
            event,
            outcome,
            operation: None,
            tables: Tables::None,
            omitted_tables: None,
            namespace: None,
            transaction: None,
            repeated: false,
            recovered: false,
            mount: None,
            backend: None,
            passed_on_to: None,
            status: None,
            catalog_status: None,
            code: None,
            reason: None,
            rule: None,
            operator: None,
            who: Who::default(),
            request: None,
            duration_ms: None,
            lines: None,
            is_refusal: event == Event::Refusal,
            written: None,
            place: None,
        }
    }

    /// Returns the record of a request with this status; `None` if its operation is not known.
    pub(super) fn of(
        exchange: &RequestRecord,
        event: Event,
        status: Option<StatusCode>,
    ) -> Option<Self> {
        let operation = exchange.operation()?;
        let outcome = match (event, status) {
            (Event::Refusal, _) => Outcome::Denied,
            (_, None) => Outcome::Unanswered,
            (_, Some(status)) if status.is_success() => Outcome::Done,
            (_, Some(status)) if status.is_server_error() => Outcome::Failed,
            _ => Outcome::Refused,
        };
        let is_refusal = match outcome {
            // It changes nothing, and there may be very many of them.
            _ if event == Event::Credentials => true,
            Outcome::Denied | Outcome::Refused => true,
            Outcome::Failed | Outcome::Unanswered => !is_tried(exchange),
            _ => false,
        };
        let name = exchange.name();
        let kind = operation.kind();
        let of_kind = |kinds: &[Kind]| kind.is_some_and(|kind| kinds.contains(&kind));
        let path = name.filter(|_| of_kind(&[Kind::Table, Kind::MaterializedView]));
        let transaction = name.filter(|_| of_kind(&[Kind::Transaction]));
        let namespace = name.filter(|_| of_kind(&[Kind::Namespace]));
        // The batch that a request repeats has a line of its own, with all of its tables.
        let is_brief = is_refusal || exchange.is_repeat();
        let most = if is_brief { NAME } else { usize::MAX };
        let who = Who::of(exchange);
        let tables = Tables::of(exchange, path, is_brief);
        Some(Self {
            operation: Some(operation.name()),
            omitted_tables: tables.omitted(),
            tables,
            namespace: namespace.map(|name| brief(name, most)),
            transaction: exchange
                .transaction()
                .map(Box::from)
                .or_else(|| Some(brief(transaction?, most))),
            repeated: exchange.is_repeat(),
            mount: exchange.mount().cloned(),
            backend: exchange.backend().map(|backend| Arc::clone(backend.name())),
            passed_on_to: exchange.passed_on_to(),
            status: status.map(|status| status.as_u16()),
            catalog_status: exchange.settled_with().filter(|_| status.is_none()),
            code: exchange.code().map(|code| code.number()),
            reason: exchange.reason().map(Box::from),
            rule: exchange.rule().cloned().map(Box::new),
            who: if is_brief { who.brief() } else { who },
            request: Some(exchange.id().into()),
            duration_ms: Some(millis(exchange.age())),
            is_refusal,
            ..Self::new(event, outcome)
        })
    }

    /// Returns the record of the decision about a batch.
    pub fn decided(batch: &BatchFacts, is_committed: bool) -> Self {
        let outcome = if is_committed {
            Outcome::Committed
        } else {
            Outcome::Aborted
        };
        Self::of_batch(batch, outcome)
    }

    /// Returns the record of an aborted batch that holds no table any more.
    pub fn rolled_back(batch: &BatchFacts) -> Self {
        Self::of_batch(batch, Outcome::RolledBack)
    }

    fn of_batch(batch: &BatchFacts, outcome: Outcome) -> Self {
        Self {
            operation: batch.operation,
            tables: Tables::Listed(Arc::clone(&batch.tables)),
            transaction: Some(batch.transaction.clone()),
            recovered: batch.is_recovered,
            who: batch.who.clone(),
            request: Some(batch.request.clone()).filter(|request| !request.is_empty()),
            ..Self::new(Event::Batch, outcome)
        }
    }

    /// Returns the record of an operator's decision about a batch. `refused` is the reason why it was not taken.
    pub fn decision(
        transaction: &str,
        decision: &'static str,
        (operator, why): (&str, &str),
        refused: Option<&str>,
        who: Who,
    ) -> Self {
        let outcome = match refused {
            None => Outcome::Done,
            Some(_) => Outcome::Refused,
        };
        Self {
            transaction: Some(transaction.into()),
            reason: refused.map(Box::from),
            operator: Some(Box::new(Operator {
                decision: Some(decision),
                operator: Some(operator.to_owned()),
                why: Some(why.to_owned()).filter(|why| !why.is_empty()),
                ..Operator::default()
            })),
            who,
            ..Self::new(Event::Decision, outcome)
        }
    }

    /// Returns the record of a reload, with the keys that have changed or the first problem.
    pub fn reload(report: &Report, who: Who) -> Self {
        let (outcome, changed, reason) = match &report.outcome {
            Ok(applied) => (Outcome::Done, applied.difference.changed.clone(), None),
            Err(problems) => {
                let reason = problems.first().map(|problem| problem.as_str().into());
                (Outcome::Refused, Vec::new(), reason)
            }
        };
        Self {
            reason,
            operator: Some(Box::new(Operator {
                trigger: Some(report.trigger.name()),
                changed,
                ..Operator::default()
            })),
            who,
            ..Self::new(Event::Reload, outcome)
        }
    }

    /// Returns the record of a request to the admin address without its token.
    pub fn admin_refused(status: StatusCode, who: Who) -> Self {
        Self {
            operation: Some("admin"),
            status: Some(status.as_u16()),
            who,
            ..Self::new(Event::Refusal, Outcome::Denied)
        }
    }

    /// Returns the record of lines that were lost.
    pub(super) fn lost(lines: u64) -> Self {
        Self {
            lines: Some(lines),
            ..Self::new(Event::Lost, Outcome::Lost)
        }
    }

    /// Returns the record of lines that were counted instead of written.
    pub(super) fn omitted(Omitted { who, lines }: Omitted) -> Self {
        Self {
            lines: Some(lines),
            who,
            is_refusal: true,
            ..Self::new(Event::Omitted, Outcome::Omitted)
        }
    }

    /// The caller.
    pub(super) fn who(&self) -> &Who {
        &self.who
    }

    /// True if it is about a request that has changed nothing by itself, so that many of them are only counted.
    pub(super) fn is_spared(&self) -> bool {
        self.is_refusal || self.repeated
    }

    /// Tells `written` when the line is written.
    pub(super) fn acknowledging(mut self, written: oneshot::Sender<()>) -> Self {
        self.written = Some(written);
        self
    }

    /// The bytes that it holds in memory, about. Some may be shared with others.
    pub(super) fn bytes(&self) -> usize {
        let texts = [
            &self.namespace,
            &self.transaction,
            &self.reason,
            &self.request,
        ];
        let texts = texts.into_iter().flatten().map(|text| text.len());
        size_of::<Self>() + self.tables.bytes() + self.who.bytes() + texts.sum::<usize>()
    }

    /// True if it is about a request that has changed nothing.
    pub(super) fn is_refusal(&self) -> bool {
        self.is_refusal
    }

    pub(super) fn takes(&mut self, place: Place) {
        self.place = Some(place);
    }

    /// Returns the line, its end included.
    pub(super) fn line(&self) -> String {
        escaped::line(self)
    }
}

impl Record for AuditRecord {
    fn write(&self, _: LogFormat, to: &mut Vec<u8>) {
        to.extend_from_slice(self.line().as_bytes());
    }

    fn written(&mut self) -> Option<oneshot::Sender<()>> {
        self.written.take()
    }

    fn kept(&mut self, line: usize) -> Option<Kept> {
        let mut place = self.place.take()?;
        place.becomes(line);
        Some(Box::new(place))
    }

    fn gives_way(&self) -> bool {
        self.is_refusal
    }
}

/// True if a catalog, a batch or another gateway may have acted.
fn is_tried(exchange: &RequestRecord) -> bool {
    let is_sent = exchange.backend().is_some() || exchange.was_passed_on();
    is_sent || exchange.transaction().is_some()
}

fn time<S: Serializer>(time: &SystemTime, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&rfc3339(*time))
}

fn spelled<S: Serializer>(name: &Option<Identifier>, to: S) -> Result<S::Ok, S::Error> {
    match name {
        Some(name) => to.collect_str(name),
        None => to.serialize_none(),
    }
}

/// Returns milliseconds, rounded to the microsecond.
fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}
