//! The stalls of workers during a measurement, as the gateway itself measures them.
//!
//! A timer is late while its worker does something else, and while the worker has no processor. Only the first is the
//! gateway's. The metric cannot tell the two apart, so the time without a processor is shown beside it: it is the kernel's
//! sum over the whole measurement, of which clients and catalogs of this bench, which run beside the worker, are a part.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::connection::{Connection, Message};
use crate::program::Program;
use crate::report::{Row, with_commas};

/// The metric: how late a timer of a worker fires, looked at 50 times a second.
const METRIC: &str = "nsgate_worker_stall_seconds_bucket{le=\"";
/// The longest stall, in milliseconds, of all but one look in a thousand.
const BOUND: f64 = 10.0;
const PER_MILLE: f64 = 0.999;

/// The looks of several programs, by the bound of their bucket in microseconds.
pub struct Stalls {
    what: &'static str,
    looks: BTreeMap<u64, u64>,
    without_processor: Duration,
}

impl Stalls {
    pub fn during(what: &'static str) -> Self {
        Self {
            what,
            looks: BTreeMap::new(),
            without_processor: Duration::ZERO,
        }
    }

    /// Adds those of a program since its start.
    pub async fn add(&mut self, program: &Program) {
        self.without_processor += program.waited();
        let mut scraper = Connection::open(program.admin).await.unwrap();
        let page = Message::get("/metrics".to_owned(), "");
        let page = scraper.send(page).await.unwrap().1;
        let page = String::from_utf8_lossy(&page);
        let mut before = 0;
        for line in page.lines() {
            let Some((bound, count)) = line
                .strip_prefix(METRIC)
                .and_then(|line| line.split_once("\"} "))
            else {
                continue;
            };
            // The bucket `+Inf` has no bound.
            let bound: f64 = bound.parse().unwrap();
            let bound = (bound * 1e6).round() as u64;
            let count = count.parse::<f64>().unwrap() as u64;
            *self.looks.entry(bound).or_default() += count - before;
            before = count;
        }
    }

    /// Prints the bound of the bucket that has the look of which one in a thousand is longer.
    pub fn end(self) {
        let all: u64 = self.looks.values().sum();
        let (mut below, mut tail, mut longest) = (0, None, 0);
        for (bound, count) in &self.looks {
            below += count;
            if *count > 0 {
                longest = *bound;
            }
            if tail.is_none() && below as f64 >= PER_MILLE * all as f64 {
                tail = Some(*bound);
            }
        }
        let over = |bound: f64| -> u64 {
            let longer = self.looks.range((bound * 1e3) as u64 + 1..);
            longer.map(|(_, count)| count).sum()
        };
        let tail = tail.unwrap_or(u64::MAX);
        let row = Row {
            what: &format!("{}: longest stall of a worker, p99.9", self.what),
            sizes: format!("{} looks", with_commas(all as usize)),
            figures: format!(
                "≤ {} ms (longest ≤ {} ms, {} above {BOUND} ms; {} ms without a processor)",
                milliseconds(tail),
                milliseconds(longest),
                over(BOUND),
                self.without_processor.as_millis()
            ),
            exponent: String::new(),
            bound: format!("≤ {BOUND} ms"),
            is_kept: all > 0 && tail as f64 <= BOUND * 1e3,
        };
        println!("  {}", row.what);
        println!(
            "    {}, {}    {}    {}",
            row.sizes,
            row.figures,
            row.bound,
            row.verdict()
        );
        row.note();
    }
}

fn milliseconds(microseconds: u64) -> String {
    if microseconds == u64::MAX {
        return "∞".to_owned();
    }
    (microseconds as f64 / 1e3).to_string()
}
