#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use super::*;

fn id(names: &[&str]) -> Identifier {
    Identifier::from_names(names).unwrap()
}

#[test]
fn a_segment_is_decoded_once_and_split_by_the_delimiter() {
    let cases: [(&str, &str, &[&str]); 14] = [
        ("t1", "$", &["t1"]),
        ("prod%24t1", "$", &["prod", "t1"]),
        ("prod$eu%24t1", "$", &["prod", "eu", "t1"]),
        ("$", "$", &[]),
        ("%24", "$", &[]),
        ("%2F", "/", &[]),
        ("a.b", ".", &["a", "b"]),
        ("a.b", "$", &["a.b"]),
        ("a::b::c", "::", &["a", "b", "c"]),
        ("a%3A%3Ab:c", "::", &["a", "b:c"]),
        ("%2524", "$", &["%24"]),
        ("a%2Fb%24c", "$", &["a/b", "c"]),
        ("caf%C3%A9%24%F0%9F%A6%80", "$", &["café", "🦀"]),
        ("a%20b+c", "$", &["a b+c"]),
    ];
    for (raw, delimiter, names) in cases {
        let parsed = Identifier::parse_segment(raw, delimiter).unwrap();
        assert!(parsed.names().eq(names.iter().copied()), "{raw}");
        assert_eq!(parsed.len(), names.len(), "{raw}");
        assert_eq!(parsed.is_root(), names.is_empty(), "{raw}");
        assert_eq!(parsed, id(names));
        assert_eq!(parsed.last(), names.last().copied());
    }
}

#[test]
fn what_is_no_identifier_is_refused() {
    let deep = ["a"; MAX_NAMES + 1].join("$");
    let long = "a".repeat(9000);
    let cases = [
        ("a$$b", IdentifierError::EmptyName),
        ("$a", IdentifierError::EmptyName),
        ("a$", IdentifierError::EmptyName),
        ("$$", IdentifierError::EmptyName),
        ("", IdentifierError::EmptyName),
        ("a%24%24b", IdentifierError::EmptyName),
        ("a%00b", IdentifierError::Nul),
        ("a%FFb", IdentifierError::Utf8),
        ("a%C3", IdentifierError::Utf8),
        ("a%", IdentifierError::PercentEncoding),
        ("a%2", IdentifierError::PercentEncoding),
        ("a%zzb", IdentifierError::PercentEncoding),
        ("%é", IdentifierError::PercentEncoding),
        (&deep, IdentifierError::TooLong),
        (&long, IdentifierError::TooLong),
    ];
    for (raw, error) in cases {
        assert_eq!(Identifier::parse_segment(raw, "$"), Err(error), "{raw}");
    }
}

#[test]
fn a_segment_is_split_into_the_names_it_was_made_of() {
    let identifiers = [
        id(&[]),
        id(&["a"]),
        id(&["a b", "c/d", "e%f"]),
        id(&["é", "$"]),
        id(&["a$", "b"]),
        id(&["..", "."]),
        id(&["a:", ":b", "|"]),
        id(&["."]),
    ];
    let delimiters = ["$", "$$", ".", "/", "::", "%24", "a", " ", "é", "\u{1f}"];
    for identifier in &identifiers {
        for delimiter in delimiters {
            if let Ok(segment) = identifier.to_segment(delimiter) {
                let again = Identifier::parse_segment(&segment, delimiter).unwrap();
                assert_eq!(&again, identifier, "{segment} {delimiter}");
                let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~%".contains(&byte);
                assert!(segment.bytes().all(plain), "{segment}");
                assert!(!["", ".", ".."].contains(&&*segment));
            }
        }
    }
    assert_eq!(
        id(&["prod", "t 1"]).to_segment("$").unwrap(),
        "prod%24t%201"
    );
    assert!(id(&["a$", "b"]).to_segment("$").is_err());
    assert!(id(&["a$", "b"]).to_segment("$$").is_err());
    assert!(id(&["a", "$b"]).to_segment("$$").is_ok());
    let delimiter = Identifier::delimiter_for(&identifiers.each_ref());
    for identifier in &identifiers {
        assert!(identifier.to_segment(&delimiter).is_ok());
    }
    let nasty = [id(&["$", "\u{1f}", "|", "/", ".~!", "\u{1e}$\u{1f}"])];
    let delimiter = Identifier::delimiter_for(&nasty.each_ref());
    assert!(nasty[0].to_segment(&delimiter).is_ok());
}

#[test]
fn what_is_parsed_in_one_pass_is_parsed_as_everything_else() {
    let long = "n".repeat(FEW);
    let parts = [
        "", "a", "\u{e9}", "%C3%A9", "%c3", "%24", "$", "%2e", ".", "%00", "\0", "%", "%4", "%+1",
        "%zz", "+", &long,
    ];
    let mut plain = 0;
    for one in parts {
        for two in parts {
            for three in parts {
                let raw = format!("{one}{two}{three}");
                for delimiter in ["$", ".", "%", "\u{e9}", "$$"] {
                    let general =
                        decode_segment(&raw).and_then(|text| Identifier::parse(&text, delimiter));
                    let quick = Identifier::parse_segment(&raw, delimiter);
                    assert_eq!(quick, general, "{raw:?} {delimiter:?}");
                    plain += usize::from(
                        delimiter.len() == 1
                            && Identifier::parse_plain(raw.as_bytes(), delimiter.as_bytes()[0])
                                .is_some(),
                    );
                }
            }
        }
    }
    assert!(plain > 1000, "only {plain} were as usual");
}

#[test]
fn the_bounds_are_the_same_in_one_pass() {
    let names = |count: usize, length: usize| vec!["n".repeat(length); count].join("%24");
    for raw in [
        names(MAX_NAMES, 1),
        names(MAX_NAMES + 1, 1),
        names(1, MAX_BYTES),
        names(1, MAX_BYTES + 1),
        names(2, MAX_BYTES / 2),
        names(2, MAX_BYTES / 2 + 1),
    ] {
        let general = decode_segment(&raw).and_then(|text| Identifier::parse(&text, "$"));
        assert_eq!(Identifier::parse_segment(&raw, "$"), general);
    }
}

#[test]
fn a_segment_is_the_text_encoded_whichever_way_it_is_made() {
    let names = [
        "a", "t-1", "x_y~z", "v1.2", ".", "..", ".a", "ü", "a b", "a%b", "a$b", "AZ09",
    ];
    for first in names {
        for second in names {
            for delimiter in ["$", ".", "-", "a", "/", "\u{1f}", "::", "ü"] {
                let id = Identifier::from_names([first, second]).unwrap();
                let encoded = |text: String| {
                    if text.bytes().all(|byte| byte == b'.') {
                        text.replace('.', "%2E")
                    } else {
                        utf8_percent_encode(&text, RESERVED).to_string()
                    }
                };
                let expected = id.to_text(delimiter).map(encoded);
                assert_eq!(id.to_segment(delimiter), expected, "{id} {delimiter}");
            }
        }
    }
}
