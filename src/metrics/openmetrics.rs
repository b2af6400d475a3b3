//! The exposition format OpenMetrics 1.0, which unlike the text format has exemplars.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Write};

use prometheus::proto::{LabelPair, Metric, MetricFamily, MetricType};

use super::exemplars::{Buckets, Exemplar};

/// The suffix of a counter's samples, which the name of its family lacks.
const TOTAL: &str = "_total";

/// A number as OpenMetrics spells it.
struct Number(f64);

/// The bound of a bucket: always with a decimal point, as other libraries and Prometheus 3 spell it.
struct Bound(f64);

/// A text with backslash, quote and line feed escaped.
struct Escaped<'a>(&'a str);

/// Encodes `families`. The buckets of the one called `with_exemplars` get `exemplars`, by their label `operation`.
pub(super) fn encode(
    families: &[MetricFamily],
    with_exemplars: &str,
    exemplars: &BTreeMap<&'static str, Buckets>,
) -> String {
    let mut text = String::new();
    for family in families {
        let has_exemplars = family.name() == with_exemplars;
        let of = |metric: &Metric| {
            let labels = metric.get_label().iter();
            let operation = labels.filter(|_| has_exemplars).map(LabelPair::value);
            operation.filter_map(|name| exemplars.get(name)).next()
        };
        // Writing to a string does not fail.
        let _ = write_family(&mut text, family, of);
    }
    text.push_str("# EOF\n");
    text
}

fn write_family<'a>(
    text: &mut String,
    family: &MetricFamily,
    exemplars: impl Fn(&Metric) -> Option<&'a Buckets>,
) -> fmt::Result {
    let whole = family.name();
    let kind = family.get_field_type();
    let (name, kind_word) = match kind {
        MetricType::COUNTER => (whole.strip_suffix(TOTAL).unwrap_or(whole), "counter"),
        MetricType::HISTOGRAM => (whole, "histogram"),
        _ => (whole, "gauge"),
    };
    writeln!(text, "# HELP {name} {}", Escaped(family.help()))?;
    writeln!(text, "# TYPE {name} {kind_word}")?;
    for metric in family.get_metric() {
        let labels = metric.get_label();
        match kind {
            MetricType::COUNTER => {
                let value = metric.get_counter().get_value();
                write_sample(text, name, TOTAL, labels, value)?;
            }
            MetricType::HISTOGRAM => write_histogram(text, name, metric, exemplars(metric))?,
            _ => write_sample(text, name, "", labels, metric.get_gauge().get_value())?,
        }
    }
    Ok(())
}

fn write_histogram(
    text: &mut String,
    name: &str,
    metric: &Metric,
    exemplars: Option<&Buckets>,
) -> fmt::Result {
    let (labels, histogram) = (metric.get_label(), metric.get_histogram());
    let count = histogram.get_sample_count();
    let bounded = histogram.get_bucket().iter();
    let bounded = bounded.map(|bucket| (bucket.upper_bound(), bucket.cumulative_count()));
    let bounded = bounded.filter(|(bound, _)| bound.is_finite());
    for (index, (bound, below)) in bounded.chain([(f64::INFINITY, count)]).enumerate() {
        write!(text, "{name}_bucket{{")?;
        for label in labels {
            write!(text, "{}=\"{}\",", label.name(), Escaped(label.value()))?;
        }
        write!(text, "le=\"{}\"}} {below}", Bound(bound))?;
        if let Some(exemplar) = exemplars.and_then(|buckets| *buckets.get(index)?) {
            write!(text, "{exemplar}")?;
        }
        text.push('\n');
    }
    write_sample(text, name, "_sum", labels, histogram.get_sample_sum())?;
    write_sample(text, name, "_count", labels, count as f64)
}

fn write_sample(
    text: &mut String,
    name: &str,
    suffix: &str,
    labels: &[LabelPair],
    value: f64,
) -> fmt::Result {
    write!(text, "{name}{suffix}")?;
    for (index, label) in labels.iter().enumerate() {
        let before = if index == 0 { '{' } else { ',' };
        write!(
            text,
            "{before}{}=\"{}\"",
            label.name(),
            Escaped(label.value())
        )?;
    }
    if !labels.is_empty() {
        text.push('}');
    }
    writeln!(text, " {}", Number(value))
}

/// The part of a line after the value of its bucket.
impl Display for Exemplar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (trace, seconds) = (self.trace, Number(self.seconds));
        let (whole, millis) = (self.at.as_secs(), self.at.subsec_millis());
        write!(
            f,
            " # {{trace_id=\"{trace:032x}\"}} {seconds} {whole}.{millis:03}"
        )
    }
}

impl Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_infinite() {
            let sign = if self.0 > 0.0 { '+' } else { '-' };
            return write!(f, "{sign}Inf");
        }
        write!(f, "{}", self.0)
    }
}

impl Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_whole = self.0.is_finite() && self.0.fract() == 0.0;
        let point = if is_whole { ".0" } else { "" };
        write!(f, "{}{point}", Number(self.0))
    }
}

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '\n' => f.write_str("\\n"),
            '\\' | '"' => write!(f, "\\{c}"),
            other => f.write_char(other),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use std::time::Duration;

    use prometheus::{
        Gauge, Histogram, HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry,
    };

    use super::*;

    #[test]
    fn counters_gauges_and_histograms_are_spelled_as_the_format_demands() {
        let registry = Registry::new();
        let help = "Quoted \"so\", with a \\ and\na line.";
        let counters = IntCounterVec::new(Opts::new("a_total", help), &["of"]).unwrap();
        counters.with_label_values(&["x\"y"]).inc_by(3);
        let gauge = Gauge::new("b", "B.").unwrap();
        gauge.set(f64::INFINITY);
        let options = HistogramOpts::new("c", "C.").buckets(vec![0.00001, 0.5, 1.0]);
        let histogram = Histogram::with_opts(options).unwrap();
        histogram.observe(0.7);
        registry.register(Box::new(counters)).unwrap();
        registry.register(Box::new(gauge)).unwrap();
        registry.register(Box::new(histogram)).unwrap();
        let text = encode(&registry.gather(), "none", &BTreeMap::new());
        let expected = r#"# HELP a Quoted \"so\", with a \\ and\na line.
# TYPE a counter
a_total{of="x\"y"} 3
# HELP b B.
# TYPE b gauge
b +Inf
# HELP c C.
# TYPE c histogram
c_bucket{le="0.00001"} 0
c_bucket{le="0.5"} 0
c_bucket{le="1.0"} 1
c_bucket{le="+Inf"} 1
c_sum 0.7
c_count 1
# EOF
"#;
        assert_eq!(text, expected);
    }

    #[test]
    fn an_exemplar_follows_its_bucket_and_no_other_family_has_any() {
        let registry = Registry::new();
        for name in ["with", "without"] {
            let options = HistogramOpts::new(name, "H.").buckets(vec![0.5, 1.0]);
            let family = HistogramVec::new(options, &["operation"]).unwrap();
            family.with_label_values(&["describe"]).observe(0.7);
            registry.register(Box::new(family)).unwrap();
        }
        let exemplar = Exemplar {
            trace: 0xabc,
            seconds: 0.7,
            at: Duration::from_millis(1_700_000_000_042),
        };
        let mut buckets = Buckets::default();
        buckets[1] = Some(exemplar);
        let all = BTreeMap::from([("describe", buckets)]);
        let text = encode(&registry.gather(), "with", &all);
        let line = "with_bucket{operation=\"describe\",le=\"1.0\"} 1 # {trace_id=\"00000000000000000000000000000abc\"} 0.7 1700000000.042\n";
        assert!(text.contains(line), "{text}");
        assert_eq!(text.matches("trace_id").count(), 1, "{text}");
    }
}
