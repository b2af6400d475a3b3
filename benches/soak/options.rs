//! The options of a soak.

use std::time::Duration;

use clap::Parser;

/// Runs the gateway for minutes or hours under a mixed load, and looks for what grows.
#[derive(Clone, Parser)]
pub struct Options {
    /// The minutes to measure.
    #[arg(long, default_value_t = 10)]
    pub minutes: u32,
    /// The first minutes, which the linear fit leaves out; at most half of all.
    #[arg(long, default_value_t = 10)]
    pub settle: u32,
    /// The requests a second, of all clients together. The default is about 70 % of what two cores can do that also run
    /// clients and catalogs.
    #[arg(long, default_value_t = 4000.0)]
    pub rate: f64,
    /// The connections that have one request in 45 s.
    #[arg(long, default_value_t = 300)]
    pub idle: usize,
    /// The tokens that are shown before the measurement, so that the gateway's caches are full.
    #[arg(long, default_value_t = 180_000)]
    pub fill: usize,
    /// The seconds between two reloads of the configuration. What grows with each of them is seen sooner if there are
    /// more; so it is with the next two.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "45")]
    pub reload: Duration,
    /// The seconds between two restarts of a catalog.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "120")]
    pub restart: Duration,
    /// The seconds between two changes of the issuer's key.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "180")]
    pub rotation: Duration,
    /// Passed by cargo to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

impl Options {
    /// Returns the number of minutes that the fit leaves out.
    pub fn left_out(&self) -> usize {
        self.settle.min(self.minutes / 2) as usize
    }
}

/// The time for which a restarted catalog is away.
pub const AWAY: Duration = Duration::from_secs(2);

/// Reads seconds.
fn seconds(words: &str) -> Result<Duration, String> {
    let seconds: f64 = words.parse().map_err(|_| "not a number".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}
