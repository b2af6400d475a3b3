//! One spelling for all spellings of the same JSON: without white space, members sorted, strings and numbers written in
//! one way. It is used for comparison only.

use std::borrow::Cow;

use super::json::{Document, string};

/// The depth of nesting below which values keep their spelling, because each level is read once more. No request is
/// nested so deeply.
const DEPTH: usize = 16;

/// Appends the canonical spelling of a JSON value. Appends text that is not JSON unchanged.
pub fn write(json: &str, to: &mut Vec<u8>) {
    value(json, DEPTH, to);
}

fn value(json: &str, depth: usize, to: &mut Vec<u8>) {
    let json = json.trim_matches([' ', '\t', '\r', '\n']);
    let begin = to.len();
    let written = match json.as_bytes().first() {
        Some(b'{') if depth > 0 => object(json, depth, to),
        Some(b'[') if depth > 0 => array(json, depth, to),
        Some(b'"') => string(json).map(|text| quoted(&text, to)),
        Some(b'-' | b'0'..=b'9') => number(json, to),
        _ => None,
    };
    if written.is_none() {
        to.truncate(begin);
        to.extend_from_slice(json.as_bytes());
    }
}

/// Writes an object. Members of the same name stay in their order: the reader decides which of them counts.
fn object(json: &str, depth: usize, to: &mut Vec<u8>) -> Option<()> {
    let mut members = Vec::new();
    let document = Document { text: json };
    let read = document.all_members_where(json, "a value", &|_| true, &mut |member| {
        // A name with escapes that could not be decoded differs from the name with the same letters.
        let undecoded = member.escaped && matches!(member.name, Cow::Borrowed(_));
        members.push((undecoded, member.name, member.value));
        Ok(())
    });
    read.ok()?;
    members.sort_by(|one, two| (one.0, &one.1).cmp(&(two.0, &two.1)));
    to.push(b'{');
    for (undecoded, name, member) in members {
        if undecoded {
            to.push(b'\\');
        }
        quoted(&name, to);
        to.push(b':');
        value(member, depth - 1, to);
        to.push(b',');
    }
    to.push(b'}');
    Some(())
}

fn array(json: &str, depth: usize, to: &mut Vec<u8>) -> Option<()> {
    to.push(b'[');
    let document = Document { text: json };
    let read = document.elements(json, "a value", &mut |_, element| {
        value(element, depth - 1, to);
        to.push(b',');
        Ok(())
    });
    to.push(b']');
    read.ok()
}

fn quoted(text: &str, to: &mut Vec<u8>) {
    serde_json::to_writer(to, text).expect("a string is always JSON, and memory takes all of it");
}

/// Writes a number as its digits, without zeros at either end, and the power of ten that they are multiplied by.
fn number(json: &str, to: &mut Vec<u8>) -> Option<()> {
    let (sign, rest) = match json.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", json),
    };
    let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
        None => (rest, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    let significant = digits.trim_end_matches('0');
    if significant.is_empty() {
        to.push(b'0');
        return Some(());
    }
    let places = i64::try_from(fraction.len()).ok()?;
    let zeros = i64::try_from(digits.len() - significant.len()).ok()?;
    let exponent = exponent.checked_sub(places)?.checked_add(zeros)?;
    to.extend_from_slice(format!("{sign}{significant}e{exponent}").as_bytes());
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(json: &str) -> String {
        let mut to = Vec::new();
        write(json, &mut to);
        String::from_utf8_lossy(&to).into_owned()
    }

    #[test]
    fn the_same_values_are_spelled_the_same() {
        for spellings in [
            &["1", "1.0", "10e-1", "0.1E+1", " 1\n", "0.01e2"][..],
            &["0", "-0", "0.0", "0e9"],
            &["-1200", "-1.2e3", "-12E2"],
            &[r#""a/ü""#, r#""\u0061\/\u00fc""#],
            &["[1,[2]]", " [ 1.0 , [ 2 ]\t] "],
            &[
                r#"{"a":1,"b":{"c":"x","d":null}}"#,
                "{ \"b\" : {\"d\": null,\n\"\\u0063\": \"x\"}, \"a\": 1.0 }",
            ],
        ] {
            for spelling in spellings {
                assert_eq!(canonical(spelling), canonical(spellings[0]), "{spelling}");
            }
        }
    }

    #[test]
    fn other_values_are_spelled_otherwise() {
        let values = [
            "1",
            "-1",
            "10",
            "0.1",
            "18446744073709551616",
            "18446744073709551617",
            "1e400",
            "1e401",
            "1e99999999999999999999",
            "1e99999999999999999998",
            "0",
            "null",
            "true",
            "false",
            r#""1""#,
            r#""""#,
            r#"" ""#,
            r#""\ud800""#,
            r#""\\ud800""#,
            r#""null""#,
            "[]",
            "[[]]",
            "[1,2]",
            "[2,1]",
            "[12]",
            "{}",
            r#"{"a":1}"#,
            r#"{"a":2}"#,
            r#"{"A":1}"#,
            r#"{"a":1,"a":2}"#,
            r#"{"a":2,"a":1}"#,
            r#"{"a":[1]}"#,
            r#"{"a":{}}"#,
            r#"{"\ud800":1}"#,
            r#"{"\\ud800":1}"#,
        ];
        for (place, one) in values.iter().enumerate() {
            for two in &values[..place] {
                assert_ne!(canonical(one), canonical(two), "{one} {two}");
            }
        }
    }

    #[test]
    fn depth_costs_no_stack() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(canonical(&deep).matches('[').count(), 100_000);
    }
}
