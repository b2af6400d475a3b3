//! Numbers, sizes, durations, percentages and rates.

use std::time::Duration;

use serde_json::json;

use super::scalar::{Scalar, placeholder_schema, quoted};
use crate::config::load::reader::Text;

const SIZES: [(&str, u64); 4] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("B", 1),
];
const DURATIONS: [(&str, u64); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];
const PERIODS: [(&str, u64); 3] = [("s", 1), ("m", 60), ("h", 3600)];

/// A whole number from `min` to `max`, both included.
pub(in crate::config) fn whole<T>(min: u64, max: u64) -> Scalar<T>
where
    T: Copy + TryFrom<u64> + TryInto<u64> + 'static,
{
    Scalar::new(
        format!("a whole number from {min} to {max}"),
        json!({ "anyOf": [{ "type": "integer", "minimum": min, "maximum": max }, placeholder_schema()] }),
        move |text| {
            if quoted(text) {
                return Err("is text in quotes".to_owned());
            }
            let number = digits(&text.value).ok_or("is not a whole number")?;
            within(text, number, min, max)?;
            T::try_from(number).map_err(|_| "is too large".to_owned())
        },
        |&number| {
            number
                .try_into()
                .map_or(json!(null), |number: u64| json!(number))
        },
    )
}

/// A number of bytes with its unit, from `min` to `max`.
pub(in crate::config) fn size(min: u64, max: u64) -> Scalar<usize> {
    let range = format!(
        "a size from {} to {}, such as 64KiB or 8MiB",
        in_units(min, &SIZES),
        in_units(max, &SIZES)
    );
    Scalar::new(
        range,
        json!({ "type": "string", "pattern": "^[0-9]+(B|KiB|MiB|GiB)$|\\$\\{[^}]+\\}" }),
        move |text| {
            let bytes = with_unit(text, &SIZES)?;
            within(text, bytes, min, max)?;
            usize::try_from(bytes).map_err(|_| "is too large".to_owned())
        },
        |&bytes| json!(in_units(bytes as u64, &SIZES)),
    )
}

/// A time with its unit, from `min` to `max`.
pub(in crate::config) fn duration(min: Duration, max: Duration) -> Scalar<Duration> {
    let (min, max) = (millis(&min), millis(&max));
    let range = format!(
        "a duration from {} to {}, such as 250ms, 5s or 1h",
        in_units(min, &DURATIONS),
        in_units(max, &DURATIONS)
    );
    Scalar::new(
        range,
        json!({ "type": "string", "pattern": "^[0-9]+(ms|s|m|h)$|\\$\\{[^}]+\\}" }),
        move |text| {
            let time = with_unit(text, &DURATIONS)?;
            within(text, time, min, max)?;
            Ok(Duration::from_millis(time))
        },
        |time| json!(in_units(millis(time), &DURATIONS)),
    )
}

/// A percentage such as `20%`, from 0 to 100.
pub(in crate::config) fn percent() -> Scalar<u32> {
    Scalar::new(
        "a percentage from 0% to 100%, such as 20%",
        json!({ "type": "string", "pattern": "^[0-9]+%$|\\$\\{[^}]+\\}" }),
        |text| {
            let number = text
                .value
                .strip_suffix('%')
                .and_then(digits)
                .ok_or("is not a percentage")?;
            within(text, number, 0, 100)?;
            u32::try_from(number).map_err(|_| "is too large".to_owned())
        },
        |percent| json!(format!("{percent}%")),
    )
}

/// A rate such as `500/s`: a number and the period that it is for.
pub(in crate::config) fn rate() -> Scalar<(u32, Duration)> {
    Scalar::new(
        "a rate such as 500/s, 100/m or 1000/h",
        json!({ "type": "string", "pattern": "^[0-9]+/(s|m|h)$|\\$\\{[^}]+\\}" }),
        |text| {
            let parts = text.value.split_once('/');
            let (number, period) = parts.ok_or("is not a rate")?;
            let number = digits(number).and_then(|number| u32::try_from(number).ok());
            let number = number
                .filter(|&number| number > 0)
                .ok_or("does not begin with a positive number")?;
            let seconds = PERIODS.iter().find(|(unit, _)| *unit == period);
            let (_, seconds) = seconds.ok_or("does not end with /s, /m or /h")?;
            Ok((number, Duration::from_secs(*seconds)))
        },
        |(number, period)| {
            let unit = PERIODS
                .iter()
                .find(|(_, seconds)| *seconds == period.as_secs());
            json!(format!("{number}/{}", unit.map_or("s", |(unit, _)| unit)))
        },
    )
}

fn digits(text: &str) -> Option<u64> {
    let all = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    all.then(|| text.parse().ok()).flatten()
}

fn with_unit(text: &Text, units: &[(&str, u64)]) -> Result<u64, String> {
    let value = text.value.as_str();
    let end = value
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(value.len());
    let (number, unit) = value.split_at(end);
    let Some(number) = digits(number) else {
        return Err(format!(
            "{} does not begin with a whole number",
            text.shown()
        ));
    };
    let time = units.contains(&("ms", 1));
    if unit.is_empty() {
        let unit = if time { "s" } else { "B" };
        // What a placeholder stands for is not shown.
        let number = if text.raw == text.value {
            number.to_string()
        } else {
            "the number and ".to_owned()
        };
        return Err(format!(
            "{} has no unit; write {number}{unit} if you mean {}",
            text.shown(),
            if time { "seconds" } else { "bytes" }
        ));
    }
    let Some((_, factor)) = units.iter().find(|(name, _)| *name == unit) else {
        let known = if time {
            "ms, s, m and h, such as 250ms, 5s or 1h"
        } else {
            "B, KiB, MiB and GiB, such as 64KiB or 8MiB"
        };
        return Err(format!(
            "{} ends with a unit that does not exist; the units are {known}, without a space before them",
            text.shown()
        ));
    };
    number
        .checked_mul(*factor)
        .ok_or_else(|| format!("{} is too large", text.shown()))
}

fn within(text: &Text, number: u64, min: u64, max: u64) -> Result<(), String> {
    if number < min {
        return Err(format!("{} is too small", text.shown()));
    }
    if number > max {
        return Err(format!("{} is too large", text.shown()));
    }
    Ok(())
}

fn in_units(number: u64, units: &[(&str, u64)]) -> String {
    if number == 0 {
        return format!(
            "0{}",
            if units.contains(&("s", 1000)) {
                "s"
            } else {
                "B"
            }
        );
    }
    let exact = units
        .iter()
        .find(|(_, factor)| number >= *factor && number.is_multiple_of(*factor));
    let (unit, factor) = exact.or(units.last()).copied().unwrap_or(("", 1));
    format!("{}{unit}", number / factor)
}

fn millis(time: &Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
