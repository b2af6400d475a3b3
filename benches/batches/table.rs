//! The printed table, and the statistics behind its figures.

use std::fmt::Display;
use std::time::Duration;

/// The table. Prints each line as soon as it is known.
pub struct Table;

/// Repeated measurements of the same duration.
#[derive(Default)]
pub struct Times(Vec<Duration>);

impl Table {
    pub fn new() -> Self {
        let heads = ["what", "figure", "bound", ""];
        println!("{}", line(heads));
        println!("{}", "─".repeat(110));
        Self
    }

    /// Begins a group of lines.
    pub fn begin(&mut self, name: &str) {
        println!("[{name}]");
    }

    /// Prints a figure that must not be above its limit.
    pub fn at_most(&mut self, what: &str, figure: f64, bound: f64, unit: &str) {
        self.bounded(
            what,
            figure,
            &format!("≤ {bound} {unit}"),
            unit,
            figure <= bound,
        );
    }

    /// Prints a figure that must not be below its limit.
    pub fn at_least(&mut self, what: &str, figure: f64, bound: f64, unit: &str) {
        self.bounded(
            what,
            figure,
            &format!("≥ {bound} {unit}"),
            unit,
            figure >= bound,
        );
    }

    /// Prints a figure that explains others.
    pub fn note(&mut self, what: &str, figure: impl Display) {
        println!("{}", line([what, &figure.to_string(), "", ""]));
    }

    fn bounded(&mut self, what: &str, figure: f64, bound: &str, unit: &str, kept: bool) {
        let verdict = if kept { "kept" } else { "MISSED" };
        println!(
            "{}",
            line([what, &format!("{figure:.2} {unit}"), bound, verdict])
        );
    }
}

fn line([what, figure, bound, verdict]: [&str; 4]) -> String {
    format!("{what:<66} {figure:>18} {bound:>16} {verdict:>7}")
}

impl Times {
    pub fn add(&mut self, time: Duration) {
        self.0.push(time);
    }

    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn median(&self) -> Duration {
        self.quantile(0.5)
    }

    /// Returns the time that this share of all measurements does not exceed.
    pub fn quantile(&self, share: f64) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        sorted[((sorted.len() - 1) as f64 * share) as usize]
    }
}

pub fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

pub fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
