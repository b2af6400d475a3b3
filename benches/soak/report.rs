//! The printed curve, and the lines through it.

use std::time::Duration;

use crate::World;
use crate::connection::{Connection, Message};
use crate::fit::Fit;
use crate::options::Options;
use crate::processor;

/// The columns of the curve that a line is fitted to, each with its unit.
const FITTED: [(&str, &str); 7] = [
    ("resident memory", "MiB"),
    ("allocated memory", "MiB"),
    ("open files", "files"),
    ("threads", "threads"),
    ("file of the batch log", "MiB"),
    ("series of metrics", "series"),
    ("p50 of describes", "ms"),
];

/// The fewest minutes that a line is fitted to.
const FEWEST: usize = 4;

/// The measurements so far.
pub struct Report {
    minutes: Vec<[f64; FITTED.len()]>,
    left_out: usize,
    used: [Duration; 2],
}

impl Report {
    pub fn begin(world: &World, options: &Options) -> Self {
        println!(
            "{} requests a second, {} idle connections, {} catalogs; times in ms",
            options.rate,
            options.idle,
            world.sites.len()
        );
        println!(
            "minute    MiB allocated files threads log MiB series  CPU % load % requests describe p50    p99 batch p50    p99 explained unexplained"
        );
        // What filling the caches cost is not counted.
        let _ = world.tally.next_minute();
        Self {
            minutes: Vec::new(),
            left_out: options.left_out(),
            used: used(world),
        }
    }

    /// Prints the line of the minute that has passed.
    pub async fn minute(&mut self, world: &World) {
        let mut minute = world.tally.next_minute();
        let usage = world.gateway.usage();
        let page = metrics(world).await.unwrap_or_default();
        let series = page.lines().filter(|line| !line.starts_with('#'));
        let series = series.count() as f64;
        let allocated = page.lines();
        let mut allocated =
            allocated.filter_map(|line| line.strip_prefix("nsgate_allocated_bytes "));
        let allocated = allocated.next().and_then(|bytes| bytes.parse().ok());
        let allocated = allocated.unwrap_or(f64::NAN) / f64::from(1 << 20);
        let now = used(world);
        let [gateway, load] = [0, 1].map(|at| (now[at] - self.used[at]).as_secs_f64() / 0.6);
        self.used = now;
        let [p50, p99] = minute.describes();
        let [batch_p50, batch_p99] = minute.batches();
        println!(
            "{:>6} {:>6.1} {allocated:>9.2} {:>5} {:>7} {:>7.2} {series:>6} {gateway:>6.1} {load:>6.1} {:>8} {p50:>12.2} {p99:>6.2} \
             {batch_p50:>9.2} {batch_p99:>6.2} {:>9} {:>11}",
            self.minutes.len() + 1,
            usage.resident_mib,
            usage.files,
            usage.threads,
            usage.batch_log_mib,
            minute.requests,
            minute.explained,
            minute.unexplained,
        );
        self.minutes.push([
            usage.resident_mib,
            allocated,
            usage.files,
            usage.threads,
            usage.batch_log_mib,
            series,
            p50,
        ]);
    }

    /// Prints slopes, and what [`Report::requests`] does. Returns true if also nothing grows beyond noise.
    pub fn end(&self, world: &World) -> bool {
        let mut is_flat = true;
        let measured = &self.minutes[self.left_out..];
        println!();
        if measured.len() < FEWEST {
            println!("too few minutes for a line");
            return Self::requests(world);
        }
        println!("after {} minutes, by hour:", self.left_out);
        for (at, (what, unit)) in FITTED.into_iter().enumerate() {
            let points = measured.iter().enumerate();
            let points: Vec<_> = points
                .map(|(minute, figures)| (minute as f64 / 60.0, figures[at]))
                .collect();
            let fit = Fit::of(&points);
            let verdict = if fit.is_noise() {
                "within noise of zero"
            } else if fit.slope < 0.0 {
                "falls"
            } else {
                is_flat = false;
                "GROWS"
            };
            println!(
                "{what:<24} {:>+9.3} ± {:.3} {unit:<8} {verdict}",
                fit.slope, fit.error
            );
        }
        Self::requests(world) && is_flat
    }

    /// Prints requests, errors and warnings. Returns true if every error is explained.
    fn requests(world: &World) -> bool {
        let unexplained = world.tally.print();
        world.gateway.log(|log| {
            println!("log: {} MiB", log.bytes >> 20);
            for (message, count) in &log.warnings {
                println!("log: {count} × {message}");
            }
        });
        unexplained == 0
    }
}

fn used(world: &World) -> [Duration; 2] {
    [world.gateway.id(), std::process::id()].map(processor::of_process)
}

/// Returns the number of series on the page of metrics.
async fn metrics(world: &World) -> Result<String, String> {
    let mut scraper = Connection::open(world.gateway.admin).await?;
    let (_, page) = scraper
        .send(Message::get("/metrics".to_owned(), ""))
        .await?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}
