//! The format of times in every record: RFC 3339, UTC, milliseconds.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

/// Adds the time to the program's own records.
pub(super) struct Now;

impl FormatTime for Now {
    fn format_time(&self, to: &mut Writer<'_>) -> fmt::Result {
        to.write_str(&rfc3339(SystemTime::now()))
    }
}

/// Formats a time, e.g. as `2026-11-21T14:25:22.123Z`. A time before 1970 becomes the beginning of 1970.
pub fn rfc3339(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let milli = since.subsec_millis();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

/// Returns the date so many days after 1970-01-01. Years are counted from March, so that a leap day is
/// their last.
fn civil(days: u64) -> (u64, u64, u64) {
    // Days since 0000-03-01; 400 years have 146,097 of them.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // Five months have 153 days, from March as from August.
    let from_march = (5 * day + 2) / 153;
    let day = day - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = era * 400 + year + u64::from(month <= 2);
    (year, month, day)
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
