//! The page `/status`: everything that the status page and `nsgate status` show, as one JSON object.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::findings::{Finding, Urgency};
use crate::admin::backends::CatalogState;
use crate::admin::gateways::GatewayList;
use crate::admin::history::{Curves, Rates};
use crate::batch::BatchCaller;
use crate::metrics::BatchState;

/// The page `/status`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct StatusReport {
    /// The time of the report.
    pub at: String,
    /// The most urgent finding in a sentence; `ready` if there is none.
    pub headline: String,
    /// The urgency of that finding; `None` if there is none.
    pub urgency: Option<Urgency>,
    /// True if a person has to act, now or within days.
    pub needs_person: bool,
    /// Everything that is not as it should be, the most urgent first.
    pub findings: Vec<Finding>,
    /// The reasons why clients are not served; empty if they are.
    pub missing: Vec<String>,
    /// The version of the program.
    pub version: String,
    /// The figures of the process.
    pub process: ProcessReport,
    /// The present load, and its limits.
    pub load: Load,
    /// The catalogs, by name.
    pub catalogs: Vec<CatalogState>,
    /// The unfinished batches, those that wait for an operator first.
    pub batches: Vec<BatchLine>,
    /// The number of unfinished batches that are not listed.
    pub more_batches: usize,
    /// The number of these that wait for a person's decision.
    #[serde(default)]
    pub more_waiting_batches: usize,
    /// The reason why the batches are not known; `None` if they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batches_unknown: Option<String>,
    /// The gateways that share the batch log.
    pub gateways: Option<GatewayList>,
    /// True if this gateway has lost its contact to the batch log.
    pub log_is_away: bool,
    /// The reason why the batch log cannot be written; `None` if it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_trouble: Option<String>,
    /// The last requests that failed, the newest first.
    pub failed: Vec<FailureLine>,
    /// The last requests that were refused, the newest first.
    pub refused: Vec<FailureLine>,
    /// The last requests of the last minute that waited long for a catalog, the newest first.
    #[serde(default)]
    pub slow: Vec<FailureLine>,
    /// The callers with the most requests of the last minutes, estimated from a sample, the busiest first.
    pub callers: Vec<CallerLine>,
    /// The issuers of tokens.
    pub issuers: Vec<IssuerLine>,
    /// The audit log; `None` if there is none.
    #[serde(default)]
    pub audit: Option<AuditReport>,
    /// The certificates that the gateway presents, the one that expires first in front.
    pub certificates: Vec<CertificateLine>,
    /// The active configuration.
    pub configuration: ConfigurationReport,
    /// The curves of the last hour.
    pub curves: Curves,
}

impl StatusReport {
    /// Lists the first `most` batches, and counts the others.
    pub(super) fn list_batches(&mut self, most: usize) {
        let unlisted = self.batches.split_off(most.min(self.batches.len()));
        let waiting = unlisted.iter().filter(|batch| batch.state.needs_person());
        self.more_waiting_batches += waiting.count();
        self.more_batches += unlisted.len();
    }
}

/// The figures of the process.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ProcessReport {
    /// The time of its start.
    pub since: String,
    /// The time since then, in seconds.
    pub uptime_seconds: u64,
    /// The resident memory, in bytes.
    pub resident_bytes: u64,
    /// The processor time since the start, in seconds.
    pub cpu_seconds: f64,
    /// The number of open files, connections included.
    pub open_files: u64,
    /// The limit of open files.
    pub max_files: u64,
    /// The number of threads.
    pub threads: u64,
}

/// The present load, and its limits.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Load {
    /// The requests whose response has not ended.
    pub in_flight: u64,
    /// `limits.in_flight`.
    pub in_flight_limit: u64,
    /// The open client connections.
    pub connections: u64,
    /// `limits.connections`.
    pub connections_limit: u64,
    /// The rates of the last minute.
    #[serde(flatten)]
    pub rates: Rates,
    /// The catalogs that answered slowly in the last minute.
    #[serde(default)]
    pub slow: Vec<SlowCatalog>,
}

/// A catalog that answered slowly in the last minute.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlowCatalog {
    /// The backend's name in the configuration.
    pub catalog: String,
    /// The requests that waited 2 s or longer, but for those that read or write rows.
    pub slow: u64,
    /// All requests that were sent to it.
    pub sent: u64,
}

/// The audit log.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct AuditReport {
    /// Its file, or `stderr`.
    pub to: String,
    /// True if lines can be written.
    pub is_writable: bool,
    /// The error of the last write; `None` if it succeeded.
    pub error: Option<String>,
    /// True if changes are refused while lines cannot be written.
    pub is_required: bool,
    /// The number of lines that were lost since the start.
    pub lost: u64,
}

/// An unfinished batch.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BatchLine {
    /// The id of the batch.
    pub id: String,
    /// The state of the batch.
    pub state: BatchState,
    /// The time at which it began.
    pub since: String,
    /// The time since then, in seconds.
    pub age_seconds: u64,
    /// The reason why it is unfinished, in words.
    pub waits_for: String,
    /// True if a catalog has reported an error for it.
    pub has_error: bool,
    /// The tables that wait for an operator, or if there are none the tables that it changes.
    pub tables: Vec<String>,
    /// The number of tables that are not named.
    pub more_tables: usize,
    /// The number of its changes.
    pub changes: usize,
    /// The catalogs that it changes.
    pub catalogs: Vec<String>,
    /// The caller who began it; `None` if it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub begun_by: Option<BatchCaller>,
}

/// A request that failed, was refused or was slow.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FailureLine {
    /// The time of its end.
    pub at: String,
    /// The id of the request, as the log has it.
    pub id: String,
    /// The status of the answer.
    pub status: u16,
    /// The name of the operation.
    pub operation: String,
    /// The table or namespace; `None` if there is none, or it is not recorded.
    pub name: Option<String>,
    /// The catalog; `None` if it got to none.
    pub catalog: Option<String>,
    /// The cause, in words.
    pub cause: String,
    /// The subject of the caller; `None` if it is not known.
    pub subject: Option<String>,
    /// The issuer of the caller; `None` if it is not known.
    pub issuer: Option<String>,
    /// The number of such requests: a caller that is refused again and again has one line.
    pub count: u64,
    /// The address of the client; `None` if it is not recorded.
    #[serde(default)]
    pub client: Option<String>,
    /// The time since its end, in seconds.
    #[serde(default)]
    pub age_seconds: u64,
}

/// A caller with many requests.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CallerLine {
    /// The subject of the caller; empty for the anonymous one.
    pub subject: String,
    /// The issuer of its tokens; empty without a token.
    pub issuer: String,
    /// The share of the requests, in percent.
    pub percent: f64,
}

/// An issuer of tokens.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct IssuerLine {
    /// The issuer.
    pub issuer: String,
    /// True if there is a key to verify its tokens with.
    pub has_keys: bool,
    /// The time since its keys were last fetched, in seconds; `None` if there are none.
    pub age_seconds: Option<u64>,
    /// The number of fetches that have failed since the last one that succeeded.
    pub failures: u32,
    /// The error of the last fetch; `None` if it succeeded.
    pub error: Option<String>,
    /// The file or address of its keys.
    #[serde(default)]
    pub source: String,
}

/// A certificate that the gateway presents.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CertificateLine {
    /// The purpose: `listen`, `admin` or `backends.NAME`.
    pub of: String,
    /// The time at which it expires.
    pub expires: String,
    /// The time until then, in seconds; negative if it has expired.
    pub seconds_left: i64,
    /// Its file.
    #[serde(default)]
    pub file: String,
}

/// The active configuration.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ConfigurationReport {
    /// The file.
    pub file: String,
    /// The time at which it was loaded.
    pub since: String,
    /// The last reload, as `/ready` shows it; `None` if there was none.
    pub last_reload: Option<Value>,
}
