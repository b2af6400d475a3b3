//! `batch`: the coordinated batch (`lease`, `lock_timeout`, `prepare_timeout`, `max_entries`, `slot_cooldown`,
//! `remember_outcomes`, `without_log`), with the defaults of these keys.

use std::path::PathBuf;
use std::time::Duration;

use super::batch_log::{LogAddress, SCHEMA, log_address, schema_name};
use super::keys::{Keys, Section};
use super::kind::{choice, duration, flag, maybe, secret, shaped, size, table, whole};
use super::{ClientTls, Gateways, Secret};
use crate::protocol::batch::MOST_ENTRIES;

/// The words for what a gateway does that has lost its log.
const WITHOUT_LOG: [(&str, WithoutLog); 2] =
    [("refuse", WithoutLog::Refuse), ("serve", WithoutLog::Serve)];

/// The conduct of a gateway that cannot reach its log in PostgreSQL for longer than its lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WithoutLog {
    /// Refuses what batches can change.
    Refuse,
    /// Serves tables on which it knows no batch. It may show a part of a batch that it does not know.
    Serve,
}

/// The coordinated batch: its log, its size and its timeouts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchConfig {
    /// The durable log: a file, which is created if it does not exist, or a database.
    pub log: LogAddress,
    /// The password of the user of a log in PostgreSQL; `None` if the server asks for none.
    pub log_password: Option<Secret>,
    /// TLS to the server of a log in PostgreSQL; `None` for the system's authorities, and for no TLS on this machine.
    pub log_tls: Option<ClientTls>,
    /// The schema of a log in PostgreSQL.
    pub schema: String,
    /// The time after which another gateway takes a silent one for dead, and its log in PostgreSQL over.
    pub lease: Duration,
    /// The conduct while the log in PostgreSQL cannot be reached.
    pub without_log: WithoutLog,
    /// The way in which other gateways reach this one; `None` if it uses the log alone.
    pub gateways: Option<Gateways>,
    /// True if the folder of the log is created when it does not exist.
    pub create_folder: bool,
    /// The most entries in one batch.
    pub max_entries: usize,
    /// The most requests of batches to one catalog at a time.
    pub in_flight: usize,
    /// The time that a batch, or a change that meets one, waits for a table's lock.
    pub lock_timeout: Duration,
    /// The time that the catalogs have to create the versions of one batch.
    pub prepare_timeout: Duration,
    /// The time after a rollback in which the number of a rolled-back version is not created again. A writer that found
    /// that version in storage and built on it sends its create of the next one by then, and is refused.
    pub undone_rest: Duration,
    /// The time in which a create above a rolled-back version is refused, because it was built on a version that is
    /// gone.
    pub slot_cooldown: Duration,
    /// The time for which the outcome of a batch is remembered for a repeated request.
    pub remember_outcomes: Duration,
    /// The most bytes of outcomes in memory. Others are read from the log.
    pub outcome_memory: usize,
    /// The most bytes of one caller's batches that the log keeps.
    pub log_share: usize,
}

impl Default for BatchConfig {
    fn default() -> Self {
        Self {
            log: PathBuf::from("./data/batches.redb").into(),
            log_password: None,
            log_tls: None,
            schema: SCHEMA.to_owned(),
            lease: Duration::from_secs(5),
            without_log: WithoutLog::Refuse,
            gateways: None,
            create_folder: false,
            max_entries: 1000,
            in_flight: 32,
            lock_timeout: Duration::from_secs(10),
            prepare_timeout: Duration::from_secs(20),
            undone_rest: Duration::from_millis(500),
            slot_cooldown: Duration::from_secs(60),
            remember_outcomes: Duration::from_secs(24 * 3600),
            outcome_memory: 64 << 20,
            log_share: 4 << 30,
        }
    }
}

impl Section for BatchConfig {
    fn blank() -> Self {
        Self::default()
    }

    fn keys(&mut self, keys: &mut Keys<'_, '_>) {
        let wait = || duration(Duration::from_millis(10), Duration::from_secs(3600));
        let keep = || duration(Duration::ZERO, Duration::from_secs(30 * 24 * 3600));
        keys.key(
            "log",
            &mut self.log,
            log_address(),
            "The durable log: a file in a folder that exists, or the address of a database, such as postgres://nsgate@db.example/nsgate.",
        );
        keys.key(
            "log_password",
            &mut self.log_password,
            maybe(secret("the password, such as ${file:log.password}")),
            "The password of the user of a log in PostgreSQL.",
        );
        keys.key(
            "log_tls",
            &mut self.log_tls,
            maybe(shaped()),
            "TLS to the server of a log in PostgreSQL, whose name is always verified. Without it: the system's authorities, and no TLS on this machine.",
        );
        keys.key(
            "schema",
            &mut self.schema,
            schema_name(),
            "The schema of a log in PostgreSQL.",
        );
        keys.key(
            "lease",
            &mut self.lease,
            duration(Duration::from_millis(500), Duration::from_secs(60)),
            "With a log in PostgreSQL: how long a gateway may be silent before another one takes its log over.",
        );
        keys.key(
            "without_log",
            &mut self.without_log,
            choice(&WITHOUT_LOG),
            "With a log in PostgreSQL that has been away for longer than the lease: refuse what batches can change, or serve tables on which no batch is known and perhaps show a part of one.",
        );
        keys.key(
            "gateways",
            &mut self.gateways,
            maybe(table()),
            "How the gateways that share a log in PostgreSQL reach each other. Without it, one gateway at a time uses the log.",
        );
        keys.key(
            "create_folder",
            &mut self.create_folder,
            flag(),
            "Whether the folder of `log` is created when it does not exist. If its volume is not mounted, a new log is then started beside the old one.",
        );
        keys.key(
            "max_entries",
            &mut self.max_entries,
            whole(1, MOST_ENTRIES as u64),
            "Entries in one batch, at most.",
        );
        keys.key(
            "in_flight",
            &mut self.in_flight,
            whole(1, 4096),
            "Requests of batches to one catalog at a time, at most. Over HTTP/1.1 each has a connection.",
        );
        keys.key(
            "lock_timeout",
            &mut self.lock_timeout,
            wait(),
            "How long a batch, or a change that meets one, waits for a table.",
        );
        keys.key(
            "prepare_timeout",
            &mut self.prepare_timeout,
            wait(),
            "How long the catalogs may take to create the versions of one batch.",
        );
        keys.key(
            "undone_rest",
            &mut self.undone_rest,
            duration(Duration::ZERO, Duration::from_secs(60)),
            "How long a create waits whose version number was rolled back. A writer that found that version in storage and built on it is refused if it writes within this time.",
        );
        keys.key(
            "slot_cooldown",
            &mut self.slot_cooldown,
            keep(),
            "How long a create above a version that was rolled back is refused, because it was built on that version.",
        );
        keys.key(
            "remember_outcomes",
            &mut self.remember_outcomes,
            keep(),
            "How long the outcome of a batch is remembered for a repeated request.",
        );
        keys.key(
            "outcome_memory",
            &mut self.outcome_memory,
            size(1 << 20, 16 << 30),
            "Memory for outcomes. Those for which there is no room are read from the log.",
        );
        keys.key(
            "log_share",
            &mut self.log_share,
            size(1 << 20, 1 << 40),
            "How much of one caller's batches the log keeps, for as long as outcomes are remembered. A caller with more is refused (503).",
        );
    }
}
