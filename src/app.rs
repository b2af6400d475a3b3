//! The composition root: builds everything from a [`Config`], binds before it serves, drains, ends.
//!
//! It alone sees the whole configuration and may import everything.

mod build;
mod signals;

use std::fmt;
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

pub use build::routes;

use crate::admin::{Admin, Shown};
use crate::batch::Batches;
use crate::batch::log::LogError;
use crate::config::Config;
use crate::connection::Protocols;
use crate::listener::{Listener, Serving};
use crate::telemetry::{self, Log};
use build::Parts;
use signals::Signals;

/// Connections to the admin address at a time.
const ADMIN_CONNECTIONS: usize = 64;
const RECOVERING: &str = "the batches of the last run are being taken over";
const DRAINING: &str = "the gateway is stopping";

/// Why the gateway did not start, or could not go on.
#[derive(Debug)]
pub enum Failure {
    /// The configuration asks for what cannot be had: an address, a certificate, a folder.
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

/// Serves until SIGTERM or SIGINT, then drains; a second signal ends the drain.
///
/// # Errors
/// It cannot start, or the batch log fails while it runs.
pub fn run(config: Config) -> Result<(), Failure> {
    // An error means that the process has a provider already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let log = telemetry::start(&config.telemetry);
    let runtime = runtime(config.listen.workers)
        .map_err(|error| Failure::Configuration(format!("cannot start threads: {error}")))?;
    let result = runtime.block_on(serve(config, log.clone()));
    // What still runs here is not worth waiting for: every answer has been given or given up.
    runtime.shutdown_background();
    log.flush();
    result
}

/// One thread needs no scheduler that can move work between threads.
fn runtime(workers: usize) -> std::io::Result<Runtime> {
    let workers = match workers {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        workers => workers,
    };
    let mut builder = match workers {
        1 => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    builder
        .worker_threads(workers)
        .thread_name("worker")
        .enable_all()
        .build()
}

async fn serve(config: Config, log: Log) -> Result<(), Failure> {
    let mut signals = Signals::listen()
        .map_err(|error| Failure::Configuration(format!("cannot listen for signals: {error}")))?;
    let front = bind("listen.address", config.listen.address).await?;
    let back = bind("admin.address", config.admin.address).await?;
    let (log_failed, mut log_failure) = oneshot::channel();
    let parts = Parts::build(&config, log, log_failed).await?;

    let mut background = JoinSet::new();
    parts.start_background(&mut background);
    let readiness = Arc::clone(&parts.readiness);
    readiness.hold(RECOVERING);
    let (stop_admin, admin_stopped) = watch::channel(false);
    say(&format!("nsgate admin on http://{}", back.address()));
    let admin = serve_admin(&config, &parts, back, admin_stopped);
    let admin = tokio::spawn(admin);

    recover(&parts).await?;
    readiness.lift(RECOVERING);
    if config.auth.anonymous {
        say("nsgate lets EVERYONE in: `auth.anonymous` is true, no token is asked for");
        tracing::warn!("`auth.anonymous` is true: everyone is let in");
    }
    say(&format!("nsgate listening on http://{}", front.address()));
    let (stop, stopped) = watch::channel(false);
    let mut serving = tokio::spawn(front.serve(
        serving(&config, &parts),
        parts.stack.clone(),
        raised(stopped),
    ));

    let mut ended = tokio::select! {
        () = signals.next() => Ok(()),
        Ok(error) = &mut log_failure => Err(Failure::BatchLog(error)),
    };
    if ended.is_ok() {
        readiness.hold(DRAINING);
        tracing::info!("stopping: no more connections, what runs may end");
        let _ = stop.send(true);
        tokio::select! {
            left = &mut serving => match left {
                Ok(0) | Err(_) => tracing::info!("stopped"),
                Ok(left) => tracing::warn!(connections = left, "stopped; `listen.drain_timeout` was too short for some"),
            },
            () = signals.next() => tracing::warn!("stopped at once, as asked"),
            Ok(error) = log_failure => ended = Err(Failure::BatchLog(error)),
        }
    }
    let _ = stop_admin.send(true);
    let _ = admin.await;
    if ended.is_ok() {
        ended = parts.batches.close().await.map_err(Failure::BatchLog);
    }
    ended
}

async fn bind(key: &str, address: SocketAddr) -> Result<Listener, Failure> {
    Listener::bind(address).await.map_err(|error| {
        Failure::Configuration(format!("{key}: cannot listen on {address}: {error}"))
    })
}

/// Locks and hides what the last run left unfinished, before anything is served.
async fn recover(parts: &Parts) -> Result<(), Failure> {
    let world = parts.world.load_full();
    let batches: &Batches = &parts.batches;
    let by_name = |name: &str| {
        let found = world
            .backends
            .iter()
            .find(|backend| **backend.name() == *name);
        found.cloned()
    };
    let unfinished = batches.recover(by_name).await.map_err(Failure::BatchLog)?;
    if unfinished > 0 {
        tracing::info!(
            batches = unfinished,
            "batches of the last run are taken over"
        );
    }
    Ok(())
}

fn serving(config: &Config, parts: &Parts) -> Serving {
    let limits = &config.limits;
    Serving {
        connections: limits.connections,
        header_timeout: limits.header_timeout,
        // Longer than the gateway itself keeps a client waiting for a catalog.
        stall_timeout: limits.data_timeout + limits.response_timeout,
        drain_timeout: config.listen.drain_timeout,
        protocols: Protocols::new(limits),
        gauge: Some(parts.metrics.connections().clone()),
    }
}

fn serve_admin(
    config: &Config,
    parts: &Parts,
    listener: Listener,
    stopped: watch::Receiver<bool>,
) -> impl Future<Output = usize> + use<> {
    let admin = Admin::new(Shown {
        metrics: Arc::clone(&parts.metrics),
        readiness: Arc::clone(&parts.readiness),
        config: config.redacted(),
        world: Arc::clone(&parts.world),
        batches: Arc::clone(&parts.batches),
        token: config.admin.token.clone(),
    });
    let serving = Serving {
        connections: ADMIN_CONNECTIONS,
        gauge: None,
        drain_timeout: std::time::Duration::from_secs(1),
        ..serving(config, parts)
    };
    listener.serve(serving, admin, raised(stopped))
}

async fn raised(mut flag: watch::Receiver<bool>) {
    // Whoever could raise it being gone is a stop, too.
    let _ = flag.wait_for(|raised| *raised).await;
}

/// Says it on standard error whatever the log's level and form: scripts wait for these lines.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
