//! The table that is printed, and what makes a figure out of many.

use std::fmt::Display;
use std::time::Duration;

/// Prints a line as soon as it is known.
pub struct Table;

/// Times of the same thing.
#[derive(Default)]
pub struct Times(Vec<Duration>);

impl Table {
    pub fn new() -> Self {
        let heads = ["what", "figure", "bound", ""];
        println!("{}", line(heads));
        println!("{}", "─".repeat(110));
        Self
    }

    /// What follows belongs together.
    pub fn begin(&mut self, name: &str) {
        println!("[{name}]");
    }

    /// A figure that must not be above its bound.
    pub fn at_most(&mut self, what: &str, figure: f64, bound: f64, unit: &str) {
        self.bounded(
            what,
            figure,
            &format!("≤ {bound} {unit}"),
            unit,
            figure <= bound,
        );
    }

    /// A figure that must not be below its bound.
    pub fn at_least(&mut self, what: &str, figure: f64, bound: f64, unit: &str) {
        self.bounded(
            what,
            figure,
            &format!("≥ {bound} {unit}"),
            unit,
            figure >= bound,
        );
    }

    /// A figure that explains others.
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

    /// The time that this share of all does not exceed.
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
