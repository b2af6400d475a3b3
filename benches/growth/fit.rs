//! The straight line through a series of measurements.

/// A fitted line: its slope, and the slope's standard error.
#[derive(Clone, Copy)]
pub struct Fit {
    pub slope: f64,
    pub error: f64,
}

impl Fit {
    /// Fits a line by least squares. The error is corrected for measurements that follow each other: neighbours that are
    /// alike count as fewer measurements (lag-1 autocorrelation of what the line does not explain).
    pub fn of(points: &[(f64, f64)]) -> Self {
        let count = points.len() as f64;
        let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
        let (x_mean, y_mean) = (mean(|point| point.0), mean(|point| point.1));
        let x_square: f64 = points.iter().map(|(x, _)| (x - x_mean).powi(2)).sum();
        let both = points.iter().map(|(x, y)| (x - x_mean) * (y - y_mean));
        let slope = both.sum::<f64>() / x_square;
        let rest: Vec<f64> = points
            .iter()
            .map(|(x, y)| y - y_mean - slope * (x - x_mean))
            .collect();
        let square: f64 = rest.iter().map(|rest| rest * rest).sum();
        let neighbours: f64 = rest.windows(2).map(|pair| pair[0] * pair[1]).sum();
        let alike = if square > 0.0 {
            (neighbours / square).clamp(0.0, 0.95)
        } else {
            0.0
        };
        let error = (square / (count - 2.0).max(1.0) / x_square).sqrt();
        Self {
            slope,
            error: error * ((1.0 + alike) / (1.0 - alike)).sqrt(),
        }
    }

    /// True if the slope is within two standard errors of zero.
    pub fn is_noise(self) -> bool {
        self.slope.abs() <= 2.0 * self.error
    }
}
