//! A figure over sizes, with its exponent and its bound.

use crate::fit::Fit;
use crate::report::{Row, rounded, with_commas};

/// The bound of a curve.
pub enum Bound {
    /// The figure may grow with this power of the size at most.
    Exponent(f64),
    /// No figure may be above this.
    Most(f64),
    /// The figure is printed for the reader.
    Free,
}

/// The measurements of one figure.
pub struct Curve {
    what: &'static str,
    unit: &'static str,
    points: Vec<(usize, f64)>,
}

impl Curve {
    pub fn new(what: &'static str, unit: &'static str) -> Self {
        Self {
            what,
            unit,
            points: Vec::new(),
        }
    }

    pub fn add(&mut self, size: usize, figure: f64) {
        self.points.push((size, figure));
    }

    /// Prints sizes and figures, the exponent (the slope of the logarithms), the bound, and whether it was kept.
    pub fn end(self, bound: &Bound) {
        println!("  {}", self.what);
        for (size, figure) in &self.points {
            println!("    {size:>9} {figure:>14.3} {}", self.unit);
        }
        let (fit, most) = (self.exponent(), self.most());
        let (bound, kept) = match bound {
            // Two standard errors of a figure that does not grow are no growth.
            Bound::Exponent(bound) => (
                format!("exponent ≤ {bound}"),
                fit.slope <= *bound || fit.is_noise(),
            ),
            Bound::Most(bound) => (format!("≤ {bound} {}", self.unit), most <= *bound),
            Bound::Free => ("no bound".to_owned(), true),
        };
        let joined = |text: Vec<String>| text.join(" / ");
        let sizes = self.points.iter().map(|(size, _)| with_commas(*size));
        let figures = self.points.iter().map(|(_, figure)| rounded(*figure));
        let row = Row {
            what: self.what,
            sizes: joined(sizes.collect()),
            figures: format!("{} {}", joined(figures.collect()), self.unit),
            exponent: format!("{:.3} ± {:.3}", fit.slope, fit.error),
            bound,
            is_kept: kept,
        };
        println!(
            "    exponent {}    {}    {}",
            row.exponent,
            row.bound,
            row.verdict()
        );
        row.note();
    }

    fn exponent(&self) -> Fit {
        let logarithms = self.points.iter();
        let logarithms: Vec<_> = logarithms
            .map(|(size, figure)| ((*size as f64).ln(), figure.max(1e-3).ln()))
            .collect();
        Fit::of(&logarithms)
    }

    fn most(&self) -> f64 {
        let figures = self.points.iter().map(|(_, figure)| *figure);
        figures.fold(f64::MIN, f64::max)
    }
}
