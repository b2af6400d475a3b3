//! The composition root: builds everything from a [`Config`], binds before it serves, drains, ends.
//!
//! Only this module sees the whole configuration, and it may import everything.

mod active;
mod build;
mod config_metrics;
mod online;
mod open_files;
mod ownership;
mod peers;
mod process;
mod reload;
mod service_manager;
mod signals;
mod snapshot;
mod start_line;
mod workers;

use std::fmt;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};
use tracing::Level;

pub use build::routes;
pub use online::{OnlineAnswer, check_online};

use crate::admin::{Admin, AdminState, History, Reloads, Starting};
use crate::app::active::ActiveConfig;
use crate::app::process::ProcessState;
use crate::app::reload::Reloader;
use crate::batch::log::{LogError, disk};
use crate::config::load::{Loaded, Origin, Problem};
use crate::config::reload::Digests;
use crate::config::{Config, LogFormat};
use crate::metrics::Metrics;
use crate::server::listener::Listener;
use crate::telemetry::audit::Audit;
use crate::telemetry::{self, Log, past_log};
use build::BuildError;
use service_manager::notifier::Notifier;
use service_manager::{HeldSockets, listen};
use signals::{Hangups, Signals};
use snapshot::Snapshot;
use workers::{Workers, watch_stalls};

const RECOVERING: &str = "unfinished batches of the last run are being recovered";
const DRAINING: &str = "the gateway is stopping";

/// The reason why the gateway did not start, or could not go on.
#[derive(Debug)]
pub enum Failure {
    /// The configuration names something that is not available: an address, a certificate, a folder.
    Configuration(String),
    /// The batch log cannot be read or written.
    BatchLog(LogError),
}

impl Failure {
    /// The exit code of the process.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Configuration(_) => 1,
            Self::BatchLog(_) => 3,
        }
    }

    fn unbuilt(origin: &Origin, parts: Vec<BuildError>) -> Self {
        let problems = placed(origin, parts).into_iter();
        let problems = problems.map(|problem| problem.to_string());
        Self::Configuration(problems.collect::<Vec<_>>().join("\n"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Configuration(words) => f.write_str(words),
            Self::BatchLog(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Failure {}

/// Builds everything in a configuration that can be built without contacting another system: reads certificates and
/// keys and checks that they fit each other, and also key sets in files. A catalog in a directory is not opened. Returns
/// every problem.
///
/// # Errors
/// A runtime cannot be started.
pub fn check(loaded: &Loaded) -> Result<Vec<Problem>, Failure> {
    let runtime = workers::runtime().map_err(|error| Failure::Configuration(error.to_string()))?;
    let unbuilt = runtime.block_on(build::check(&loaded.config));
    Ok(placed(&loaded.origin, unbuilt))
}

fn placed(origin: &Origin, parts: Vec<BuildError>) -> Vec<Problem> {
    let parts = parts.into_iter();
    parts
        .map(|part| origin.problem(&part.key, part.message))
        .collect()
}

/// Returns the problems that the gateway would have on this machine, though it may have none on the machine that the
/// configuration is for.
pub fn missing_here(loaded: &Loaded) -> Vec<Problem> {
    let warning = |key: &str, message: String| Problem {
        warning: true,
        ..loaded.origin.problem(key, message)
    };
    let batch = &loaded.config.batch;
    let folder = batch.log.file().and_then(disk::missing_folder);
    let folder = folder.filter(|_| !batch.create_folder).map(|missing| {
        let message = format!("the gateway does not start with this log: {missing}");
        warning("batch.log", message)
    });
    let files = open_files::shortage(loaded.config.limits.connections)
        .map(|shortage| warning("limits.connections", shortage));
    folder.into_iter().chain(files).collect()
}

/// Serves the configuration that was read from `path` until SIGTERM or SIGINT, then drains; a second signal ends the
/// drain. The file is read again on SIGHUP, on request, and when it or a file that it names has changed.
///
/// # Errors
/// The gateway cannot start, or the batch log fails while it runs.
pub fn run(path: &Path, loaded: Loaded, digests: Digests) -> Result<(), Failure> {
    // An error only means that the process has a provider already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    // First, because it needs a process without threads.
    let sockets = HeldSockets::take()?;
    let has_room = open_files::make_room();
    let log = telemetry::start(&loaded.config.telemetry);
    start_line::log(path, &loaded.config);
    if let Err(error) = has_room {
        tracing::debug!(%error, "no room for open files was made: requests may wait some milliseconds while many clients connect");
    }
    let shortage = open_files::shortage(loaded.config.limits.connections);
    let shortage = shortage.map(|message| loaded.origin.problem("limits.connections", message));
    for warning in loaded.warnings.iter().chain(&shortage) {
        tracing::warn!(warning = %warning, "configuration warning");
    }
    let last_lines = LastLines {
        log,
        audit: OnceLock::new(),
    };
    let unstarted = |error| Failure::Configuration(format!("cannot start threads: {error}"));
    let notifier = Notifier::start().map_err(unstarted)?;
    let workers = Workers::start(loaded.config.listen.workers).map_err(unstarted)?;
    let serving = serve(
        path.to_owned(),
        loaded,
        digests,
        &last_lines,
        &notifier,
        sockets,
        workers.handles(),
    );
    let result = workers.block_on(serving);
    // Nothing that still runs here is worth waiting for: every response has been sent or abandoned.
    workers.end();
    notifier.end();
    result
}

/// Writes the last lines of the logs, also when this thread panics.
struct LastLines {
    log: Log,
    /// The audit log, once it is open; empty if none is configured.
    audit: OnceLock<Audit>,
}

impl Drop for LastLines {
    fn drop(&mut self) {
        if let Some(audit) = self.audit.get() {
            audit.end();
        }
        self.log.flush();
    }
}

async fn serve(
    path: PathBuf,
    loaded: Loaded,
    digests: Digests,
    last_lines: &LastLines,
    notifier: &Notifier,
    sockets: HeldSockets,
    workers: &[Handle],
) -> Result<(), Failure> {
    let Loaded { config, origin, .. } = loaded;
    let format = config.telemetry.log;
    let unheard = |error| Failure::Configuration(format!("cannot listen for signals: {error}"));
    let mut signals = Signals::listen().map_err(unheard)?;
    let hangups = Hangups::listen().map_err(unheard)?;
    let front = listen("listen.address", config.listen.address, sockets.data).await?;
    let front = front.on(workers);
    let back = listen("admin.address", config.admin.address, sockets.admin).await?;
    let peers = peers::bind(&config).await?;
    let (log_failed, mut log_failure) = oneshot::channel();
    let peers_at = peers.as_ref().map(Listener::address);
    let probes = answer_probes(&back, &config);
    let lasting = tokio::select! {
        opened = ProcessState::open(&config, last_lines.log.clone(), peers_at, log_failed) => opened?,
        // A log in a database may be waited for.
        () = signals.next() => return Ok(()),
    };
    if let Some((stop, probes)) = probes {
        drop(stop);
        let _ = probes.await;
    }
    if let Some(audit) = &lasting.audit {
        let _ = last_lines.audit.set(audit.clone());
    }
    let snapshot = Snapshot::build(&lasting, config, digests, None).await;
    let snapshot = snapshot.map_err(|unbuilt| Failure::unbuilt(&origin, unbuilt))?;
    // The place of each key in a long file takes much memory.
    drop(origin);
    let in_use = Arc::new(ActiveConfig::new(lasting, snapshot));
    in_use.start();
    watch_stalls(workers, &in_use.lasting.metrics);
    in_use.lasting.metrics.watch_workers(workers);

    let (reloads, asked) = Reloads::new();
    let readiness = Arc::clone(&in_use.lasting.readiness);
    readiness.hold(RECOVERING);
    let (stop_admin, admin_stopped) = watch::channel(false);
    let scheme = |tls: bool| if tls { "https" } else { "http" };
    let guarded = in_use.snapshot().config.admin.tls.is_some();
    say(
        format,
        &format!("nsgate admin on {}://{}", scheme(guarded), back.address()),
    );
    let admin = admin(&path, &in_use, &reloads);
    let recording = tokio::spawn(admin.clone().keep_history());
    let serving_admin = back.serve(in_use.serving_admin(), admin.clone(), raised(admin_stopped));
    let serving_admin = tokio::spawn(serving_admin);

    let (stop_peers, peers_stopped) = watch::channel(false);
    let peers = peers.map(|peers| peers::serve(peers, &in_use, &admin, raised(peers_stopped)));
    let peers = peers.transpose()?;
    let mut owning = ownership::begin(&in_use).await?;
    readiness.lift(RECOVERING);
    if in_use.snapshot().config.auth.anonymous {
        say(
            format,
            "nsgate lets EVERYONE in: `auth.anonymous` is true, no token is asked for",
        );
        tracing::warn!("`auth.anonymous` is true: everyone is let in");
    }
    let guarded = in_use.snapshot().config.listen.tls.is_some();
    say(
        format,
        &format!(
            "nsgate listening on {}://{}",
            scheme(guarded),
            front.address()
        ),
    );
    let (stop, stopped) = watch::channel(false);
    let mut serving = tokio::spawn(front.serve(in_use.serving(), in_use.stack(), raised(stopped)));
    let reloader = Reloader::new(
        path,
        Arc::clone(&in_use),
        reloads,
        asked,
        hangups,
        notifier.clone(),
    );
    let reloading = tokio::spawn(reloader.run());
    notifier.ready();

    let mut ended = tokio::select! {
        () = signals.next() => Ok(()),
        Ok(error) = &mut log_failure => Err(Failure::BatchLog(error)),
        Some(error) = owning.recv() => Err(Failure::BatchLog(error)),
    };
    reloading.abort();
    // That the gateway is not ready any more is no finding for the log.
    recording.abort();
    notifier.stopping();
    if ended.is_ok() {
        readiness.hold(DRAINING);
        tracing::info!("shutting down: not accepting connections, waiting for in-flight requests");
        let _ = stop.send(true);
        let deadline = Instant::now() + in_use.snapshot().config.listen.drain_timeout;
        let drained = async {
            let left = (&mut serving).await;
            // The client that was told of an abort is gone, but its rollback goes on. One that is cut off in the
            // middle would hide its versions from all readers for minutes after the next start. A change whose client
            // has left goes on, too, and its lines in the logs say what became of it.
            let _ = timeout_at(deadline, in_use.lasting.batches.at_rest()).await;
            left
        };
        tokio::select! {
            left = drained => match left {
                Ok(0) | Err(_) => tracing::info!("stopped"),
                Ok(left) => tracing::warn!(connections = left, "stopped; connections were cut off at `listen.drain_timeout`"),
            },
            () = signals.next() => tracing::warn!("stopped at once, because of a second signal"),
            Ok(error) = log_failure => ended = Err(Failure::BatchLog(error)),
        }
        let changes = in_use.lasting.batches.detached();
        if changes > 0 {
            tracing::warn!(
                changes,
                "stopped before catalogs answered changes whose clients had left; the audit log names them as `unanswered`"
            );
        }
    }
    let _ = stop_admin.send(true);
    let _ = serving_admin.await;
    if let Some(peers) = peers {
        let _ = stop_peers.send(true);
        let _ = peers.await;
    }
    if ended.is_ok() {
        ended = in_use
            .lasting
            .batches
            .close()
            .await
            .map_err(Failure::BatchLog);
    }
    if let Some(spans) = &in_use.snapshot().spans {
        spans.flush();
    }
    ended
}

/// Answers probes while a log in a database is waited for, until the sender is dropped; `None` if there is none.
fn answer_probes(
    back: &Listener,
    config: &Config,
) -> Option<(watch::Sender<bool>, JoinHandle<usize>)> {
    config.batch.postgres()?;
    // What is wrong here is reported with everything else, once the log is open.
    let tls = build::admin_tls(config, None, |_| false).ok()?;
    let before = back.before().ok()?;
    let serving = build::serving_admin(config, &Metrics::new(), tls);
    let serving = Arc::new(ArcSwap::from_pointee(serving));
    let (stop, stopped) = watch::channel(false);
    let serves = before.serve(serving, Starting, raised(stopped));
    Some((stop, tokio::spawn(serves)))
}

fn admin(path: &Path, in_use: &ActiveConfig, reloads: &Arc<Reloads>) -> Admin {
    Admin::new(AdminState {
        metrics: Arc::clone(&in_use.lasting.metrics),
        readiness: Arc::clone(&in_use.lasting.readiness),
        batches: Arc::clone(&in_use.lasting.batches),
        current: in_use.shown(),
        reloads: Arc::clone(reloads),
        history: History::default(),
        // A command with it works in any folder.
        config_file: std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
        audit: in_use.lasting.audit.clone(),
    })
}

async fn raised(mut flag: watch::Receiver<bool>) {
    // A sender that is gone counts as a stop, too.
    let _ = flag.wait_for(|raised| *raised).await;
}

/// Writes a line to standard error, whatever the log's level: scripts wait for these lines.
fn say(format: LogFormat, line: &str) {
    let line = past_log(format, Level::INFO, line);
    let _ = writeln!(std::io::stderr(), "{line}");
}
