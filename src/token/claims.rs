//! Reading single claims (RFC 7519, section 4).

use std::time::Duration;

use serde_json::{Map, Value};

use super::Refusal;

/// The end of the year 9999. Later times are mistakes, and would overflow elsewhere.
const MAX_DATE: u64 = 253_402_300_799;

/// A `NumericDate` (RFC 7519, section 2) since the epoch; `None` when the claim is absent.
pub(super) fn date(
    claims: &Map<String, Value>,
    name: &str,
    wrong: &'static str,
) -> Result<Option<Duration>, Refusal> {
    let Some(value) = claims.get(name) else {
        return Ok(None);
    };
    let date = match (value.as_u64(), value.as_f64()) {
        (Some(seconds), _) => Duration::from_secs(seconds),
        (None, Some(seconds)) if value.is_number() => {
            Duration::try_from_secs_f64(seconds).map_err(|_| Refusal::Claim(wrong))?
        }
        _ => return Err(Refusal::Claim(wrong)),
    };
    if date.as_secs() > MAX_DATE {
        return Err(Refusal::Claim(wrong));
    }
    Ok(Some(date))
}

/// The strings of a claim that is one string or an array of them; `None` when it is anything else.
pub(super) fn strings(claim: &Value) -> Option<Vec<&str>> {
    match claim {
        Value::String(one) => Some(vec![one]),
        Value::Array(many) => many.iter().map(Value::as_str).collect(),
        _ => None,
    }
}

/// A claim as the value of a context entry: a string as it is, anything else as JSON, which keeps
/// `["a","b"]` and `["a,b"]` apart.
pub(super) fn text(claim: &Value) -> Option<String> {
    match claim {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// What the token grants: the words of `scope` (RFC 8693, section 4.2), or of `scp` where an issuer writes that,
/// either a string or an array.
pub(super) fn scopes(claims: &Map<String, Value>) -> Vec<String> {
    let claim = claims.get("scope").or_else(|| claims.get("scp"));
    let strings = claim.and_then(strings).unwrap_or_default();
    let words = strings
        .iter()
        .flat_map(|text| text.split_ascii_whitespace());
    words.map(str::to_owned).collect()
}
