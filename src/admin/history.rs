//! The curves of the last hour: one sample every ten seconds, in bounded memory. Each time, findings that are new are
//! written to the log.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tokio::time::{MissedTickBehavior, interval};

use super::AdminState;
use super::status::findings_now;
use super::status::journal::Journal;
use crate::metrics::{CatalogTotals, ProcessFigures, Totals};

/// The time between two samples.
const EVERY: Duration = Duration::from_secs(10);
/// The number of samples that are kept: an hour of them, some 30 KiB.
const KEPT: usize = 360;
/// The number of samples that make the present rates: a minute of them.
const PRESENT: usize = 6;

/// The samples of the last hour, the oldest first.
pub struct History {
    /// The time of the start, at which all counters were zero.
    began: Instant,
    samples: Mutex<VecDeque<Sample>>,
    /// The counters of catalogs at the samples of the last minute.
    catalogs: Mutex<VecDeque<BTreeMap<String, CatalogTotals>>>,
}

/// The figures of the seconds before a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sample {
    /// The moment, in seconds since the epoch.
    at: u64,
    requests_per_second: f64,
    failed_per_second: f64,
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
    in_flight: u64,
    open_batches: u64,
    resident_bytes: u64,
    /// The processor time for each second; 1 is one core.
    cpu: f64,
}

/// The curves of the last hour: the values of one place of each list belong together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Curves {
    /// The moments, in seconds since the epoch.
    pub at: Vec<u64>,
    /// The requests that were answered, in one second.
    pub requests_per_second: Vec<f64>,
    /// The requests that were answered with a status from 500 up, in one second.
    pub failed_per_second: Vec<f64>,
    /// The duration that half of the requests did not exceed, in milliseconds; `null` where there was no request.
    pub p50_ms: Vec<Option<f64>>,
    /// The duration that 99 % of the requests did not exceed, in milliseconds; `null` where there was no request.
    pub p99_ms: Vec<Option<f64>>,
    /// The requests whose response had not ended.
    pub in_flight: Vec<u64>,
    /// The unfinished batches of this gateway.
    pub open_batches: Vec<u64>,
    /// The resident memory, in bytes.
    pub resident_bytes: Vec<u64>,
    /// The processor time for each second; 1 is one core.
    pub cpu: Vec<f64>,
}

/// The rates of the last minute; of the time since the start, if that is shorter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// The time that the rates are of, in seconds.
    #[serde(default)]
    pub rate_seconds: u64,
    /// The requests that were answered, in one second.
    pub requests_per_second: f64,
    /// The requests that were answered with a status from 500 up, in one second.
    pub failed_per_second: f64,
}

/// The counters at one moment.
struct Reading {
    at: Instant,
    totals: Totals,
    process: ProcessFigures,
    open_batches: u64,
}

impl Reading {
    fn of(shown: &AdminState) -> Self {
        Self {
            at: Instant::now(),
            totals: shown.metrics.totals(),
            process: ProcessFigures::read(),
            open_batches: shown.batches.kept().open as u64,
        }
    }

    /// Returns the figures of the time since `before`.
    fn since(&self, before: &Self) -> Sample {
        let seconds = (self.at - before.at).as_secs_f64().max(0.001);
        let rate = |now: u64, then: u64| rounded(now.saturating_sub(then) as f64 / seconds);
        let (now, then) = (&self.totals, &before.totals);
        let millis = |part| {
            let seconds = now.quantile_since(then, part)?;
            Some(rounded(seconds * 1e3))
        };
        let epoch = SystemTime::now().duration_since(UNIX_EPOCH);
        Sample {
            at: epoch.unwrap_or_default().as_secs(),
            requests_per_second: rate(now.requests, then.requests),
            failed_per_second: rate(now.failed, then.failed),
            p50_ms: millis(0.5),
            p99_ms: millis(0.99),
            in_flight: now.in_flight,
            open_batches: self.open_batches,
            resident_bytes: self.process.resident_bytes,
            cpu: rounded((self.process.cpu_seconds - before.process.cpu_seconds) / seconds),
        }
    }
}

impl Default for History {
    fn default() -> Self {
        Self {
            began: Instant::now(),
            samples: Mutex::default(),
            catalogs: Mutex::default(),
        }
    }
}

impl History {
    /// Returns the rates of the last minute; before the first sample, of the time since the start.
    pub(super) fn present(&self, now: &Totals) -> Rates {
        let samples = self.samples();
        let last = samples.iter().rev().take(PRESENT);
        let count = last.len();
        if count == 0 {
            return Rates::of(now, self.began.elapsed());
        }
        let mean = |value: fn(&Sample) -> f64| {
            rounded(last.clone().map(value).sum::<f64>() / count as f64)
        };
        Rates {
            rate_seconds: count as u64 * EVERY.as_secs(),
            requests_per_second: mean(|sample| sample.requests_per_second),
            failed_per_second: mean(|sample| sample.failed_per_second),
        }
    }

    fn push(&self, sample: Sample) {
        let mut samples = self.samples();
        if samples.len() == KEPT {
            samples.pop_front();
        }
        samples.push_back(sample);
    }

    fn samples(&self) -> MutexGuard<'_, VecDeque<Sample>> {
        self.samples.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn catalogs(&self) -> MutexGuard<'_, VecDeque<BTreeMap<String, CatalogTotals>>> {
        self.catalogs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push_catalogs(&self, totals: BTreeMap<String, CatalogTotals>) {
        let mut kept = self.catalogs();
        if kept.len() > PRESENT {
            kept.pop_front();
        }
        kept.push_back(totals);
    }

    /// Returns the requests that were sent to each catalog in the last minute.
    pub(super) fn last_minute(&self) -> BTreeMap<String, CatalogTotals> {
        let kept = self.catalogs();
        let (Some(then), Some(now)) = (kept.front(), kept.back()) else {
            return BTreeMap::new();
        };
        let since = |(name, now): (&String, &CatalogTotals)| {
            // A catalog that is new, or was removed and came back, began at zero.
            let then = then.get(name).copied().unwrap_or_default();
            let since = CatalogTotals {
                sent: now.sent.saturating_sub(then.sent),
                slow: now.slow.saturating_sub(then.slow),
            };
            (name.clone(), since)
        };
        now.iter().map(since).collect()
    }

    /// Returns the curves.
    pub(super) fn curves(&self) -> Curves {
        let samples = self.samples();
        let mut curves = Curves::default();
        for sample in &*samples {
            curves.at.push(sample.at);
            curves.requests_per_second.push(sample.requests_per_second);
            curves.failed_per_second.push(sample.failed_per_second);
            curves.p50_ms.push(sample.p50_ms);
            curves.p99_ms.push(sample.p99_ms);
            curves.in_flight.push(sample.in_flight);
            curves.open_batches.push(sample.open_batches);
            curves.resident_bytes.push(sample.resident_bytes);
            curves.cpu.push(sample.cpu);
        }
        curves
    }
}

impl Rates {
    /// Returns the rates of the time in which the counters went from zero to `totals`.
    fn of(totals: &Totals, time: Duration) -> Self {
        let seconds = time.as_secs().max(1);
        let rate = |count: u64| rounded(count as f64 / seconds as f64);
        Self {
            rate_seconds: seconds,
            requests_per_second: rate(totals.requests),
            failed_per_second: rate(totals.failed),
        }
    }
}

/// Takes samples, and writes findings to the log, until the future is dropped.
pub(super) async fn keep(shown: Arc<AdminState>) {
    let mut journal = Journal::default();
    let mut tick = interval(EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut last, mut ticks): (Option<Reading>, usize) = (None, 0);
    loop {
        tick.tick().await;
        let state = Arc::clone(&shown);
        // With many backends it takes longer than a request may wait.
        let read = tokio::task::spawn_blocking(move || Reading::of(&state));
        let Ok(now) = read.await else { continue };
        shown.history.push_catalogs(now.totals.catalogs.clone());
        if let Some(before) = last {
            shown.history.push(now.since(&before));
            let state = Arc::clone(&shown);
            // Not before the second sample: at the start keys and catalogs need a moment.
            let found = tokio::task::spawn_blocking(move || findings_now(&state));
            if let Ok(findings) = found.await {
                let telemetry = &shown.current.load().config.telemetry;
                journal.note(&findings, telemetry.log_names);
            }
        }
        ticks += 1;
        if ticks.is_multiple_of(PRESENT) {
            shown.metrics.requests().callers().fade();
        }
        last = Some(now);
    }
}

/// Rounds to three places, so that the page stays short.
fn rounded(value: f64) -> f64 {
    // The sum with 0 makes a negative zero, as of no numbers at all, a positive one.
    (value * 1e3).round() / 1e3 + 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at: u64) -> Sample {
        Sample {
            at,
            requests_per_second: at as f64,
            ..Sample::default()
        }
    }

    #[test]
    fn an_hour_is_kept_and_no_more() {
        let history = History::default();
        for at in 0..1000 {
            history.push(sample(at));
        }
        let curves = history.curves();
        assert_eq!((curves.at.len(), curves.at[0]), (360, 640));
        assert_eq!(curves.p99_ms.len(), 360);
        let present = history.present(&Totals::default());
        let mean = present.requests_per_second;
        assert!((mean - 996.5).abs() < 1e-9, "{mean}");
        assert_eq!(present.rate_seconds, 60);
    }

    #[test]
    fn the_requests_of_a_catalog_are_those_of_the_last_minute() {
        let history = History::default();
        assert!(history.last_minute().is_empty());
        for sent in 0..20 {
            let totals = CatalogTotals {
                sent: sent * 10,
                slow: sent,
            };
            history.push_catalogs([("lake".to_owned(), totals)].into());
        }
        let minute = history.last_minute();
        assert_eq!(minute["lake"], CatalogTotals { sent: 60, slow: 6 });
    }

    #[test]
    fn before_the_first_sample_the_rates_are_those_since_the_start_and_never_negative() {
        let totals = Totals {
            requests: 40,
            failed: 10,
            ..Totals::default()
        };
        let rates = Rates::of(&totals, Duration::from_millis(4900));
        let expected = Rates {
            rate_seconds: 4,
            requests_per_second: 10.0,
            failed_per_second: 2.5,
        };
        assert_eq!(rates, expected);
        let history = History::default();
        let none = history.present(&Totals::default());
        for rate in [none.requests_per_second, none.failed_per_second] {
            assert!(rate == 0.0 && rate.is_sign_positive(), "{rate}");
        }
        assert!(history.present(&totals).failed_per_second > 0.0);
        history.push(sample(6));
        let one = history.present(&totals);
        assert_eq!((one.rate_seconds, one.requests_per_second), (10, 6.0));
        assert!(one.failed_per_second.is_sign_positive());
    }

    #[test]
    fn a_sample_is_the_difference_of_two_readings() {
        let totals = |requests, failed| Totals {
            requests,
            failed,
            in_flight: 3,
            durations: vec![(0.001, requests), (f64::INFINITY, requests)],
            catalogs: BTreeMap::new(),
        };
        let reading = |seconds, totals, cpu_seconds| Reading {
            at: Instant::now() + Duration::from_secs(seconds),
            totals,
            process: ProcessFigures {
                cpu_seconds,
                ..ProcessFigures::default()
            },
            open_batches: 2,
        };
        let before = reading(0, totals(100, 10), 1.0);
        let mut after = reading(10, totals(300, 30), 6.0);
        after.at = before.at + Duration::from_secs(10);
        let sample = after.since(&before);
        let expected = Sample {
            at: sample.at,
            requests_per_second: 20.0,
            failed_per_second: 2.0,
            p50_ms: Some(0.5),
            p99_ms: Some(0.99),
            in_flight: 3,
            open_batches: 2,
            resident_bytes: 0,
            cpu: 0.5,
        };
        assert_eq!(sample, expected);
    }
}
