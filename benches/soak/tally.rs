//! The counts and latencies of requests, minute by minute.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use crate::clients::Kind;

/// The most errors without an explanation that are shown in full.
const SHOWN: usize = 20;

/// The end of one request.
pub enum Ending {
    /// The expected answer, and its time.
    Good(Duration),
    /// An error while a catalog that it needs restarts.
    Explained(String),
    /// An error that nothing explains.
    Unexplained(String),
}

/// The counts since the start, and those of the current minute.
#[derive(Default)]
pub struct Tally(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    minute: Minute,
    errors: BTreeMap<(&'static str, String, bool), u64>,
    requests: BTreeMap<&'static str, u64>,
    shown: usize,
}

/// The requests of one minute.
#[derive(Default)]
pub struct Minute {
    pub requests: u64,
    pub explained: u64,
    pub unexplained: u64,
    describes: Vec<u32>,
    batches: Vec<u32>,
}

impl Tally {
    pub fn add(&self, kind: Kind, ending: Ending) {
        let mut counts = self.0.lock().unwrap();
        counts.minute.requests += 1;
        *counts.requests.entry(kind.name()).or_default() += 1;
        match ending {
            Ending::Good(took) => {
                let took = u32::try_from(took.as_micros()).unwrap_or(u32::MAX);
                match kind {
                    Kind::Describe => counts.minute.describes.push(took),
                    Kind::Batch => counts.minute.batches.push(took),
                    _ => {}
                }
            }
            Ending::Explained(error) => {
                counts.minute.explained += 1;
                *counts.error(kind, &error, true) += 1;
            }
            Ending::Unexplained(error) => {
                counts.minute.unexplained += 1;
                *counts.error(kind, &error, false) += 1;
                counts.shown += 1;
                if counts.shown <= SHOWN {
                    let error = error.replace('\n', " ");
                    println!("unexplained: {}: {error}", kind.name());
                }
            }
        }
    }

    /// Returns the counts of the minute, and begins the next one.
    pub fn next_minute(&self) -> Minute {
        std::mem::take(&mut self.0.lock().unwrap().minute)
    }

    /// Prints the number of requests by kind, and of errors by kind and reason. Returns the number of unexplained ones.
    pub fn print(&self) -> u64 {
        let counts = self.0.lock().unwrap();
        let requests = counts.requests.iter();
        let requests: Vec<_> = requests
            .map(|(kind, count)| format!("{kind} {count}"))
            .collect();
        println!("requests: {}", requests.join(", "));
        let mut unexplained = 0;
        for ((kind, error, explained), count) in &counts.errors {
            let why = if *explained {
                "a catalog restarts"
            } else {
                unexplained += count;
                "UNEXPLAINED"
            };
            println!("errors: {count} × {kind}: {error} ({why})");
        }
        unexplained
    }
}

impl Counts {
    /// Returns the count of errors that begin like this one: the rest holds numbers and names.
    fn error(&mut self, kind: Kind, error: &str, explained: bool) -> &mut u64 {
        let short = error.replace('\n', " ").chars().take(80).collect();
        self.errors
            .entry((kind.name(), short, explained))
            .or_default()
    }
}

impl Minute {
    /// Returns p50 and p99 of plain describes, in milliseconds.
    pub fn describes(&mut self) -> [f64; 2] {
        quantiles(&mut self.describes)
    }

    /// Returns the same of batches.
    pub fn batches(&mut self) -> [f64; 2] {
        quantiles(&mut self.batches)
    }
}

fn quantiles(micros: &mut [u32]) -> [f64; 2] {
    micros.sort_unstable();
    [0.5, 0.99].map(|share| {
        let last = micros.len().saturating_sub(1);
        let found = micros.get((last as f64 * share) as usize);
        found.map_or(0.0, |micros| f64::from(*micros) / 1e3)
    })
}
