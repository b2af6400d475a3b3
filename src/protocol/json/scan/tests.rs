#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use serde_json::value::RawValue;

use super::Scan;

fn scanned(text: &str) -> Option<&str> {
    let mut scan = Scan::new(text);
    let value = scan.value().ok()?;
    scan.end().ok()?;
    Some(value)
}

fn known(text: &str) -> Option<&str> {
    serde_json::from_str::<&RawValue>(text)
        .ok()
        .map(RawValue::get)
}

#[test]
fn reads_what_another_reader_reads_and_nothing_else() {
    let seeds = [
        r#"{"id":["prod","t1"],"check_declared":false}"#,
        "\t{ \"a\" : [ 1 , -0.5e+10 , 0 , [ ] , { } ] ,\r\n \"b\" : { \"c\" : null } } ",
        r#""plain text that is longer than a word, \"quoted\" \u00e9\uD800 \/ \b\f\n\r\t""#,
        "[true,false,null,\"\u{7f}\u{e9}\u{10ffff}\",[[[{\"x\":[]}]]]]",
        "-12.25E-3",
    ];
    let pieces = [
        "{", "}", "[", "]", ",", ":", "\"", "\\", "\\u00", "0", "1", "-", ".", "e", "+", " ", "\n",
        "\u{1}", "\u{0}", "a", "true", "nul", "\u{e9}", "\u{feff}",
    ];
    let mut random = fastrand::Rng::with_seed(11);
    let mut sound = 0;
    for turn in 0..60_000 {
        let mut text = seeds[turn % seeds.len()].to_owned();
        for _ in 0..random.usize(..4) {
            let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
            let at = places[random.usize(..places.len())];
            match random.u8(..3) {
                0 => text.insert_str(at, pieces[random.usize(..pieces.len())]),
                1 if places.len() > 1 => drop(text.remove(at)),
                _ => text.truncate(at),
            }
            if text.is_empty() {
                text.push(' ');
            }
        }
        assert_eq!(scanned(&text), known(&text), "{text:?}");
        sound += usize::from(known(&text).is_some());
    }
    assert!((10_000..50_000).contains(&sound), "{sound} were JSON");
}

#[test]
fn every_byte_is_seen_wherever_it_stands_in_a_string() {
    for length in 0..20 {
        for at in 0..length {
            for byte in 0..0x80 {
                let mut text = vec![b'x'; length];
                text[at] = byte;
                let text = format!("\"{}\"", String::from_utf8(text).unwrap());
                assert_eq!(scanned(&text), known(&text), "{text:?}");
            }
        }
    }
}
