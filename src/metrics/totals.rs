//! Reads counters back, for the curves and the facts of the status page.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prometheus::IntCounterVec;
use prometheus::core::Collector as _;

use super::Metrics;

/// The counters of all requests at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Totals {
    /// The requests that were answered.
    pub requests: u64,
    /// The requests that were answered with a status from 500 up.
    pub failed: u64,
    /// The requests whose response has not ended.
    pub in_flight: u64,
    /// The durations: upper bounds in seconds, and the number of requests that took no longer.
    pub durations: Vec<(f64, u64)>,
    /// The requests that were sent to each catalog.
    pub catalogs: BTreeMap<String, CatalogTotals>,
}

/// The requests that were sent to one catalog.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CatalogTotals {
    /// All of them.
    pub sent: u64,
    /// The requests that waited [`SLOW`](super::SLOW) or longer, without those that read or write rows.
    pub slow: u64,
}

impl Totals {
    /// Estimates the duration that a part of the requests since `before` did not exceed, in seconds: linear within its
    /// bucket, as Prometheus does. `None` if there were none.
    pub fn quantile_since(&self, before: &Self, part: f64) -> Option<f64> {
        let old = |place: usize| before.durations.get(place).map_or(0, |(_, count)| *count);
        let counts = self.durations.iter().enumerate();
        let since: Vec<(f64, f64)> = counts
            .map(|(place, (bound, count))| (*bound, count.saturating_sub(old(place)) as f64))
            .collect();
        let all = since.last()?.1;
        if all <= 0.0 {
            return None;
        }
        let wanted = part * all;
        let place = since.iter().position(|(_, under)| *under >= wanted)?;
        let (low, below) = place.checked_sub(1).map_or((0.0, 0.0), |at| since[at]);
        let (high, under) = since[place];
        if high.is_infinite() {
            return Some(low);
        }
        Some(low + (high - low) * (wanted - below) / (under - below).max(f64::MIN_POSITIVE))
    }
}

impl Metrics {
    /// Adds up the counters of all requests. Takes as long as there are series, so not for a worker.
    pub fn totals(&self) -> Totals {
        self.gather_requests();
        let families = &self.families;
        let mut totals = Totals {
            in_flight: u64::try_from(families.in_flight.get()).unwrap_or_default(),
            ..Totals::default()
        };
        for family in families.requests.collect() {
            for metric in family.get_metric() {
                let count = metric.get_counter().get_value() as u64;
                let mut labels = metric.get_label().iter();
                let fails =
                    labels.any(|label| label.name() == "code" && label.value().starts_with('5'));
                totals.requests += count;
                totals.failed += if fails { count } else { 0 };
            }
        }
        // Bounds are positive, so the order of their bits is their own order.
        let mut buckets: BTreeMap<u64, u64> = BTreeMap::new();
        for family in families.request_duration.collect() {
            for metric in family.get_metric() {
                let histogram = metric.get_histogram();
                for bucket in histogram.get_bucket() {
                    let bound = bucket.upper_bound().to_bits();
                    *buckets.entry(bound).or_default() += bucket.cumulative_count();
                }
                let all = buckets.entry(f64::INFINITY.to_bits()).or_default();
                *all += histogram.get_sample_count();
            }
        }
        let buckets = buckets.into_iter();
        totals.durations = buckets
            .map(|(bound, count)| (f64::from_bits(bound), count))
            .collect();
        for (name, sent) in by_backend(&families.upstream_requests) {
            totals.catalogs.entry(name).or_default().sent = sent;
        }
        for (name, slow) in by_backend(&families.backend_slow) {
            totals.catalogs.entry(name).or_default().slow = slow;
        }
        totals
    }

    /// Returns the certificates in use, by their purpose, with the times at which they expire.
    pub fn certificate_ends(&self) -> Vec<(String, SystemTime)> {
        let families = self.families.certificates.collect();
        let metrics = families.iter().flat_map(|family| family.get_metric());
        let ends = metrics.map(|metric| {
            let of = metric.get_label().first();
            let seconds = metric.get_gauge().get_value().max(0.0);
            let end = UNIX_EPOCH + Duration::from_secs_f64(seconds);
            (of.map_or("", |label| label.value()).to_owned(), end)
        });
        let mut ends: Vec<_> = ends.collect();
        ends.sort_by_key(|(_, end)| *end);
        ends
    }

    /// Returns the time at which the active configuration was loaded.
    pub fn config_since(&self) -> SystemTime {
        let seconds = self.families.config_last_reload.get().max(0.0);
        UNIX_EPOCH + Duration::from_secs_f64(seconds)
    }
}

/// Returns the counts of a family whose only label is the backend.
fn by_backend(family: &IntCounterVec) -> Vec<(String, u64)> {
    let families = family.collect();
    let metrics = families.iter().flat_map(|family| family.get_metric());
    let counts = metrics.map(|metric| {
        let name = metric.get_label().first();
        let count = metric.get_counter().get_value() as u64;
        (name.map_or("", |label| label.value()).to_owned(), count)
    });
    counts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(durations: &[(f64, u64)]) -> Totals {
        Totals {
            durations: durations.to_vec(),
            ..Totals::default()
        }
    }

    #[test]
    fn a_quantile_counts_only_the_requests_since_the_last_look() {
        let before = totals(&[(0.001, 100), (0.01, 100), (f64::INFINITY, 100)]);
        let after = totals(&[(0.001, 100), (0.01, 110), (f64::INFINITY, 110)]);
        let half = after.quantile_since(&before, 0.5).unwrap_or_default();
        assert!((half - 0.0055).abs() < 1e-9, "{half}");
        assert_eq!(after.quantile_since(&after, 0.5), None);
        assert!(after.quantile_since(&Totals::default(), 0.5) < Some(0.001));
    }

    #[test]
    fn a_duration_beyond_the_last_bucket_is_that_bound() {
        let after = totals(&[(1.0, 0), (2.0, 0), (f64::INFINITY, 3)]);
        assert_eq!(after.quantile_since(&Totals::default(), 0.99), Some(2.0));
    }
}
