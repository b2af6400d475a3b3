//! The date of a response. It is written once a second: a describe then costs 500 instructions less (`cargo bench --bench
//! instructions`).

use std::cell::RefCell;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The date that was written last.
#[derive(Default)]
struct CachedDate {
    /// The time in seconds since the epoch.
    second: u64,
    /// The spelling, such as `Sun, 06 Nov 1994 08:49:37 GMT`; empty before the first.
    text: String,
}

thread_local! {
    static LAST: RefCell<CachedDate> = RefCell::default();
}

/// Appends the present date.
pub(super) fn write_date(out: &mut Vec<u8>) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let second = now.map_or(0, |now| now.as_secs());
    LAST.with_borrow_mut(|last| out.extend_from_slice(last.at(second).as_bytes()));
}

impl CachedDate {
    fn at(&mut self, second: u64) -> &str {
        if self.second != second || self.text.is_empty() {
            let text = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(second));
            *self = Self { second, text };
        }
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_second_has_its_date() {
        let mut date = CachedDate::default();
        for (second, expected) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (784_111_778, "Sun, 06 Nov 1994 08:49:38 GMT"),
            // The clock is set back.
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
        ] {
            assert_eq!(date.at(second), expected);
        }
    }
}
