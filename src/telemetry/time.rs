//! The format of times in every record: RFC 3339, UTC, milliseconds.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use x509_cert::der::DateTime;

/// Adds the time to the program's own records.
pub(super) struct Now;

impl FormatTime for Now {
    fn format_time(&self, to: &mut Writer<'_>) -> fmt::Result {
        to.write_str(&rfc3339(SystemTime::now()))
    }
}

/// Formats a time, e.g. as `2026-11-21T14:25:22.123Z`. A time before 1970 becomes the beginning of 1970, and one after
/// 9999 the last second of 9999.
pub fn rfc3339(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let date = DateTime::from_unix_duration(since).unwrap_or(DateTime::INFINITY);
    let (year, month, day) = (date.year(), date.month(), date.day());
    let (hour, minute, second) = (date.hour(), date.minutes(), date.seconds());
    let milli = since.subsec_millis();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tracing_subscriber::fmt::time::SystemTime as Reference;

    use super::*;

    #[test]
    fn a_time_is_written_as_the_rfc_has_it() {
        let cases = [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_800_001, "2000-03-01T00:00:00.001Z"),
            (1_798_761_599_123, "2026-12-31T23:59:59.123Z"),
            (4_107_542_399_000, "2100-02-28T23:59:59.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ];
        for (millis, expected) in cases {
            let time = UNIX_EPOCH + Duration::from_millis(millis);
            assert_eq!(rfc3339(time), expected);
        }
    }

    #[test]
    fn it_is_the_time_that_it_is() {
        let mut reference = String::new();
        let before = rfc3339(SystemTime::now());
        let written = Reference.format_time(&mut Writer::new(&mut reference));
        assert!(written.is_ok());
        let after = rfc3339(SystemTime::now());
        // The reference has microseconds.
        let reference = format!("{}Z", &reference[..23]);
        assert!(
            before <= reference && reference <= after,
            "{before} {reference} {after}"
        );
    }
}
