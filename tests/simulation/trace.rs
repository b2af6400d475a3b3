//! What happened, line by line, for whoever replays a seed; and one number that tells two runs apart.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

/// Empty unless it was asked for: writing it takes longer than the simulation.
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

/// What the gateway asks about to find out whether a catalog deregisters has another name in each run.
fn without_random_names(line: &str) -> String {
    let mut parts = line.split("nsgate-");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push_str("nsgate-…");
        text.push_str(part.get(36..).unwrap_or_default());
    }
    text
}
