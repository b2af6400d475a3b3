//! The trace of a simulation: a line for each event, to be read when a seed is replayed, and a hash that tells runs
//! apart.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

/// The lines; `None` unless a trace was requested, because writing it takes longer than the simulation.
pub struct Trace(Option<Vec<String>>);

impl Trace {
    pub fn new(wanted: bool) -> Self {
        Self(wanted.then(Vec::new))
    }

    pub fn add(&mut self, at: Duration, line: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.0 {
            let line = without_random_names(&line());
            lines.push(format!("{:>9.3} {line}", at.as_secs_f64()));
        }
    }

    pub fn lines(&self) -> &[String] {
        self.0.as_deref().unwrap_or_default()
    }

    pub fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.lines().hash(&mut hasher);
        hasher.finish()
    }
}

/// Removes the random names that the gateway uses to find out whether a catalog deregisters: they differ in each run.
fn without_random_names(line: &str) -> String {
    let mut parts = line.split("nsgate-");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push_str("nsgate-…");
        text.push_str(part.get(36..).unwrap_or_default());
    }
    text
}
