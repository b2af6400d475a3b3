//! The statements of a refused token about itself, for the log.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::value::RawValue;

use super::{MAX_BYTES, json};
use crate::util::unprintable::is_unprintable;

/// The claims by which an operator finds the client that is set up wrongly.
const NAMED: [&str; 4] = ["iss", "aud", "client_id", "sub"];
/// The most characters that are shown of each.
const MOST: usize = 100;

/// Returns the issuer, audience, client and subject that a token states, as it writes them; `None` if it states none of them.
/// Anybody may write anything there.
pub fn claimed(token: &str) -> Option<String> {
    let payload = token.split('.').nth(1)?;
    if token.len() > MAX_BYTES {
        return None;
    }
    let payload = URL_SAFE_NO_PAD.decode(payload).ok()?;
    let mut stated = NAMED.map(|_| None);
    json::members(&payload, |name, value: &RawValue| {
        if let Some(place) = NAMED.iter().position(|named| *named == name) {
            stated[place] = Some(brief(value.get()));
        }
    })?;
    let stated = NAMED.iter().zip(stated);
    let stated: Vec<String> = stated
        .filter_map(|(name, value)| Some(format!("{name} {}", value?)))
        .collect();
    (!stated.is_empty()).then(|| stated.join(", "))
}

fn brief(json: &str) -> String {
    let seen = json.chars().filter(|c| !is_unprintable(*c));
    let mut text: String = seen.take(MOST).collect();
    if json.len() > text.len() {
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_says_who_it_is_of_in_a_few_words() {
        let of = |payload: &str| claimed(&format!("h.{}.s", URL_SAFE_NO_PAD.encode(payload)));
        let long = format!(r#"{{"sub":"{}"}}"#, "a".repeat(500));
        let cut = format!("sub \"{}…", "a".repeat(MOST - 1));
        for (payload, expected) in [
            (
                r#"{"sub":"ann","aud":["a","b"],"x":1,"iss":"https://i.test"}"#,
                Some(r#"iss "https://i.test", aud ["a","b"], sub "ann""#),
            ),
            (&*long, Some(&*cut)),
            ("{\"sub\":\"a\u{202e}b\"}", Some("sub \"ab\"…")),
            (r#"{"x":1}"#, None),
            (r#"{"sub":1,"sub":2}"#, None),
            ("[]", None),
        ] {
            assert_eq!(of(payload).as_deref(), expected, "{payload}");
        }
        assert_eq!(claimed("no token"), None);
        assert_eq!(claimed(&format!("h.{}.s", "a".repeat(MAX_BYTES))), None);
    }
}
