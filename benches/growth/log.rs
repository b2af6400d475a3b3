//! The batch log over the batches that it remembers: a start, and the size of the file.

use std::time::Duration;

use nsgate::batch::log::Log as _;
use nsgate::batch::log::disk::DiskLog;

use crate::curve::{Bound, Curve};
use crate::program::{LOG, Program, Setup};
use crate::stalls::Stalls;
use crate::{remembered, server, sizes};

/// The batches that are remembered at a time while the file must not grow.
const AT_ONCE: usize = 5_000;
/// The time after a start in which stalls are looked for.
const AFTER: Duration = Duration::from_secs(2);

/// Measures a start over remembered batches.
pub async fn start() {
    let mut used = Curve::new("start over remembered batches: processor time", "s");
    let mut peak = Curve::new("start over remembered batches: most memory", "MiB");
    let mut file = Curve::new("file of the log over remembered batches", "MiB");
    let catalog = server::Server::plain().await;
    let setup = Setup::over([catalog.address]);
    let mut stalls = Stalls::during("the first two seconds after a start");
    for size in sizes("start", &[10_000, 30_000, 100_000, 300_000]) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(LOG);
        remembered::write(&path, size).await;
        let bytes = std::fs::metadata(&path).unwrap().len();
        file.add(size, bytes as f64 / f64::from(1 << 20));
        let program = Program::start(folder, &setup.yaml(), &[]);
        used.add(size, program.seconds());
        peak.add(size, program.peak());
        tokio::time::sleep(AFTER).await;
        stalls.add(&program).await;
    }
    used.end(&Bound::Most(2.0));
    peak.end(&Bound::Most(150.0));
    file.end(&Bound::Free);
    stalls.end();
}

/// Measures the file over the batches of its life, of which only the last ones are remembered.
pub async fn file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(LOG);
    let log = DiskLog::open(&path, |error| panic!("{error}")).unwrap();
    let mut curve = Curve::new(
        "file of a log that remembers 5,000 of so many batches",
        "MiB",
    );
    let mut written = 0;
    for size in sizes("log", &[10_000, 20_000, 40_000, 80_000]) {
        while written < size {
            remembered::add(&log, AT_ONCE).await;
            written += AT_ONCE;
            log.forget(2).await.unwrap();
        }
        let bytes = std::fs::metadata(&path).unwrap().len();
        curve.add(size, bytes as f64 / f64::from(1 << 20));
    }
    log.close().await.unwrap();
    curve.end(&Bound::Exponent(0.1));
}
