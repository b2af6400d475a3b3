//! Starts and reloads over the numbers of mounts and rules.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::connection::{Connection, Message};
use crate::curve::{Bound, Curve};
use crate::program::{Program, Setup};
use crate::requests;
use crate::server::Server;
use crate::sizes;
use crate::stalls::Stalls;

/// The reloads of each size. An odd number: the one in the middle counts.
const RELOADS: usize = 5;
/// The time in which the gateway is asked before anything counts: its first requests find everything cold.
const WARM: Duration = Duration::from_millis(500);
/// The time between two describes while the longest is looked for.
const EVERY: Duration = Duration::from_millis(1);

pub async fn mounts() {
    let sizes = sizes("mounts", &[1_000, 5_000, 25_000, 100_000]);
    over(&sizes, with_mounts, "c0%24t").await;
}

pub async fn rules() {
    let sizes = sizes("rules", &[1_000, 5_000, 25_000, 100_000]);
    over(&sizes, with_rules, "m0%24r0%24t").await;
}

/// Returns a setup with so many mounts of one catalog, named `m0` and so on, and one named `c0`.
pub fn with_mounts(catalog: &Server, count: usize) -> Setup {
    let mut setup = Setup::over([catalog.address]);
    setup.mounts = "  - { namespace: [c0], backend: c0 }\n".to_owned();
    for number in 0..count {
        let _ = writeln!(
            setup.mounts,
            "  - {{ namespace: [m{number}], backend: c0 }}"
        );
    }
    setup
}

/// Returns a setup with so many rules below a mount named `m0`, for callers with tokens.
pub fn with_rules(catalog: &Server, count: usize) -> Setup {
    let mut setup = Setup::over([catalog.address]);
    setup.mounts = "  - { namespace: [m0], backend: c0 }\n".to_owned();
    setup.auth = requests::AUTH.to_owned();
    setup.more = "authorization:\n".to_owned();
    for number in 0..count {
        let _ = writeln!(
            setup.more,
            "  - {{ namespace: [m0, r{number}], read: {{ scope: catalog.read }}, write: {{ scope: catalog.write }} }}"
        );
    }
    setup
}

async fn over(sizes: &[usize], setup: fn(&Server, usize) -> Setup, table: &str) {
    let mut used = Curve::new("start: processor time", "s");
    let mut peak = Curve::new("start: most memory", "MiB");
    let mut stall = Curve::new(
        "longest describe during a reload, more than without one: median of five",
        "ms",
    );
    let catalog = Server::plain().await;
    let bearer = requests::bearer("client");
    let mut stalls = Stalls::during("start and reloads");
    for size in sizes {
        let yaml = setup(&catalog, *size).yaml();
        let folder = tempfile::tempdir().unwrap();
        let program = Program::start(folder, &yaml, &requests::files());
        used.add(*size, program.seconds());
        peak.add(*size, program.peak());
        stall.add(*size, stalled(&program, &yaml, table, &bearer).await);
        stalls.add(&program).await;
    }
    used.end(&Bound::Most(3.0));
    peak.end(&Bound::Most(150.0));
    stall.end(&Bound::Most(10.0));
    stalls.end();
}

/// Returns the difference between the longest describe while the configuration is reloaded, and the longest one in the
/// same time just before, in milliseconds: the median of several reloads. Other work of the machine holds up a describe now
/// and then, with a reload and without.
async fn stalled(program: &Program, yaml: &str, table: &str, bearer: &str) -> f64 {
    let asked = |stopped| longest(program.address, target(table), bearer.to_owned(), stopped);
    let mut pause = WARM;
    let mut more = Vec::with_capacity(RELOADS);
    for number in 0..=RELOADS {
        let (stop, stopped) = oneshot::channel();
        let quiet = tokio::spawn(asked(stopped));
        tokio::time::sleep(pause).await;
        let _ = stop.send(());
        let without = quiet.await.unwrap();

        let other = yaml.replacen(
            "workers: 1",
            &format!("workers: 1, drain_timeout: {}s", 20 + number),
            1,
        );
        std::fs::write(program.folder().join("gateway.yaml"), other).unwrap();
        let (stop, stopped) = oneshot::channel();
        let began = Instant::now();
        let reloading = tokio::spawn(asked(stopped));
        let mut operator = Connection::open(program.admin).await.unwrap();
        let message = Message::post("/reload".to_owned(), "", "");
        let (status, body) = operator.send(message).await.unwrap();
        assert!(status.is_success(), "{}", String::from_utf8_lossy(&body));
        let _ = stop.send(());
        let with = reloading.await.unwrap();
        // The first shows how long a reload takes.
        if number > 0 {
            more.push(with.saturating_sub(without));
        }
        pause = began.elapsed();
    }
    more.sort_unstable();
    more[RELOADS / 2].as_secs_f64() * 1e3
}

fn target(table: &str) -> String {
    format!("/v1/table/{table}/describe")
}

/// Returns the longest of many describes, until it is stopped.
async fn longest(
    address: std::net::SocketAddr,
    target: String,
    bearer: String,
    mut stopped: oneshot::Receiver<()>,
) -> Duration {
    let mut connection = Connection::open(address).await.unwrap();
    let mut longest = Duration::ZERO;
    while matches!(stopped.try_recv(), Err(oneshot::error::TryRecvError::Empty)) {
        let began = Instant::now();
        let message = Message::post(target.clone(), &bearer, "{}");
        let (status, body) = connection.send(message).await.unwrap();
        longest = longest.max(began.elapsed());
        assert!(status.is_success(), "{}", String::from_utf8_lossy(&body));
        tokio::time::sleep(EVERY).await;
    }
    longest
}
