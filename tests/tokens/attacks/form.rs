//! Attacks on the form of the header and of the token.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};

use super::{Attack, attack};
use crate::forge::{P256, RSA, claims, encode, good, header, raw, token, with};
use serde_json::json;

pub(super) fn attacks() -> Vec<Attack> {
    credentials()
        .into_iter()
        .chain(encodings())
        .chain(parts())
        .collect()
}

fn credentials() -> Vec<Attack> {
    let good = good();
    let one = |name, value: String| Attack(name, "credentials", vec![value.into_bytes()]);
    let bearer = || format!("Bearer {good}").into_bytes();
    let mut not_ascii = bearer();
    not_ascii.push(0xff);
    vec![
        Attack("no header", "missing", vec![]),
        Attack("the header twice", "credentials", vec![bearer(), bearer()]),
        Attack(
            "a good and a bad header",
            "credentials",
            vec![bearer(), b"Bearer x".to_vec()],
        ),
        Attack(
            "a bad and a good header",
            "credentials",
            vec![b"Basic x".to_vec(), bearer()],
        ),
        Attack("a byte beyond ascii", "credentials", vec![not_ascii]),
        one("another scheme", format!("Basic {good}")),
        one("a scheme that begins like it", format!("Bearerx {good}")),
        one("no scheme", good.clone()),
        one("a colon after the scheme", format!("Bearer: {good}")),
        one("a tab after the scheme", format!("Bearer\t{good}")),
        one("a scheme without a token", "Bearer".to_owned()),
        one("a scheme and spaces", "Bearer   ".to_owned()),
        one("an empty header", String::new()),
        one("a space before the scheme", format!(" Bearer {good}")),
        attack(
            "two tokens in a header",
            "malformed",
            format!("{good} {good}"),
        ),
        attack(
            "two credentials in a header",
            "malformed",
            format!("{good}, Bearer {good}"),
        ),
        attack("a quoted token", "malformed", format!("\"{good}\"")),
    ]
}

fn encodings() -> Vec<Attack> {
    let good = good();
    let parts: Vec<&str> = good.split('.').collect();
    let (h, p, s) = (parts[0], parts[1], parts[2]);
    let padded = |part: &str| format!("{part}{}", "=".repeat((4 - part.len() % 4) % 4));
    // The last character of 256 signature bytes in base64 has four bits that mean nothing.
    let stray = format!("{}{}", &s[..s.len() - 1], next(s.as_bytes()[s.len() - 1]));
    // The base64 alphabets spell `?` and `>` of this payload differently.
    let odd = with(claims(), json!({"x": "???>>>???>>>"})).to_string();
    let ordinary = header("RS256", "rsa").to_string();
    let signed = format!(
        "{}.{}",
        STANDARD_NO_PAD.encode(&ordinary),
        STANDARD_NO_PAD.encode(&odd)
    );
    assert!(signed.contains(['+', '/']), "the alphabets differ");
    let standard = format!("{signed}.{}", encode(RSA.sign("RS256", signed.as_bytes())));
    let signed = format!(
        "{}.{}",
        STANDARD.encode(format!("{ordinary} ")),
        encode(&odd)
    );
    let padded_header = format!("{signed}.{}", encode(RSA.sign("RS256", signed.as_bytes())));
    vec![
        attack(
            "padding after the signature",
            "malformed",
            format!("{h}.{p}.{}", padded(s)),
        ),
        attack("padding within, signed so", "malformed", padded_header),
        attack(
            "a newline in the payload, percent-encoded",
            "malformed",
            good.replacen('.', ".%0a", 1),
        ),
        attack(
            "a space before the payload",
            "malformed",
            good.replacen('.', ". ", 1),
        ),
        attack("a space after the token", "malformed", format!("{good} ")),
        attack("a tab after the token", "malformed", format!("{good}\t")),
        attack(
            "stray bits at the signature's end",
            "malformed",
            format!("{h}.{p}.{stray}"),
        ),
        attack("the standard alphabet", "malformed", standard),
        attack(
            "longer than 16 KiB",
            "malformed",
            token(
                &header("RS256", "rsa"),
                &with(claims(), json!({"x": "x".repeat(13_000)})),
                &RSA,
            ),
        ),
        attack("sixty kilobytes of dots", "malformed", ".".repeat(60_000)),
    ]
}

/// Returns the character that stands for the next six bits.
fn next(character: u8) -> char {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let place = ALPHABET.iter().position(|&c| c == character).unwrap();
    ALPHABET[place + 1] as char
}

fn parts() -> Vec<Attack> {
    let good = good();
    let parts: Vec<&str> = good.split('.').collect();
    let (h, p, s) = (parts[0], parts[1], parts[2]);
    let json = json!({"payload": p, "signatures": [{"protected": h, "signature": s}]});
    let flat = json!({"payload": p, "protected": h, "signature": s});
    let sign = |message: &[u8]| RSA.sign("RS256", message);
    let usual = header("RS256", "rsa").to_string();
    let made = |payload: &[u8]| raw(&usual, payload, sign);
    let text = claims().to_string();
    let nested = token(&header("ES256", "ec"), &claims(), &P256);
    vec![
        attack("two signatures", "malformed", format!("{good}.{s}")),
        attack(
            "five parts, as if encrypted",
            "malformed",
            format!("{good}.{s}.{s}"),
        ),
        attack("two parts", "malformed", format!("{h}.{p}")),
        attack("one part", "malformed", "abc"),
        attack("an empty signature", "malformed", format!("{h}.{p}.")),
        attack("nothing but dots", "malformed", ".."),
        attack("an empty header part", "malformed", format!(".{p}.{s}")),
        attack("an empty payload part", "malformed", format!("{h}..{s}")),
        attack("a part more in front", "malformed", format!("{h}.{good}")),
        attack("a signed token as JSON", "malformed", json.to_string()),
        attack("a signed token as flat JSON", "malformed", flat.to_string()),
        attack(
            "a payload that is an array",
            "malformed",
            made(format!("[{text}]").as_bytes()),
        ),
        attack(
            "a payload that is a string",
            "malformed",
            made(b"\"claims\""),
        ),
        attack(
            "a payload that is a token",
            "malformed",
            made(nested.as_bytes()),
        ),
        attack("an empty payload, signed", "malformed", made(b"")),
        attack(
            "two payloads",
            "malformed",
            made(format!("{text}{text}").as_bytes()),
        ),
        attack(
            "a payload with a mark of byte order",
            "malformed",
            made(format!("\u{feff}{text}").as_bytes()),
        ),
        attack(
            "a payload that is not utf-8",
            "malformed",
            made(&text.replace("ann", "\u{1}").into_bytes()),
        ),
        attack(
            "a payload with half a surrogate",
            "malformed",
            made(text.replace("ann", "\\ud800").as_bytes()),
        ),
        attack(
            "a payload that ends early",
            "malformed",
            made(&text.as_bytes()[..text.len() - 1]),
        ),
        attack(
            "a deep payload",
            "malformed",
            made(
                text.replacen(
                    '{',
                    &format!("{{\"x\":{}{},", "[".repeat(900), "]".repeat(900)),
                    1,
                )
                .as_bytes(),
            ),
        ),
        attack(
            "a header that is an array",
            "malformed",
            raw(format!("[{usual}]"), &text, sign),
        ),
        attack(
            "a header that is no JSON",
            "malformed",
            raw("RS256", &text, sign),
        ),
    ]
}
