//! Reads the claims of a token (RFC 7519, section 4.1; RFC 8693, section 4.2), which `policy.rs` judges.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::Refusal;
use super::json::{self, Claim};

/// The end of the year 9999. Later times are mistakes, and would overflow elsewhere.
const MAX_DATE: u64 = 253_402_300_799;

/// A claim: `None` if it is absent, otherwise its value or the reason why it is refused.
type ClaimResult<T> = Option<Result<T, Refusal>>;

/// The claims that are read of a payload. A wrong claim is reported only when the token is judged by it.
#[derive(Debug, Default)]
pub(super) struct Claims {
    /// The claim `iss`; `None` if it is absent or no string.
    pub(super) issuer: Option<Box<str>>,
    /// The claim `sub`.
    pub(super) subject: ClaimResult<Arc<str>>,
    /// The claim `aud`; `None` if it is absent, and in it `None` if it is neither a string nor an array of strings.
    pub(super) audience: Option<Option<Vec<Box<str>>>>,
    /// The claim `client_id` (RFC 8693, section 4.3); `None` if it is absent or no string.
    pub(super) client_id: Option<Box<str>>,
    pub(super) exp: ClaimResult<Duration>,
    pub(super) nbf: ClaimResult<Duration>,
    pub(super) iat: ClaimResult<Duration>,
    /// True if it has a claim that only ID tokens have (OpenID Connect Core, sections 2 and 3.3.2.11).
    pub(super) is_id_token: bool,
    scope: Option<Box<str>>,
    scp: Option<Box<str>>,
}

impl Claims {
    /// Reads a payload; `None` if it is not a JSON object without repeated members.
    pub(super) fn read(payload: &[u8]) -> Option<Self> {
        let mut claims = Self::default();
        json::members(payload, |name, value| claims.note(name, &value))?;
        Some(claims)
    }

    /// Takes the granted scopes, separated by spaces: the words of `scope`, or of `scp` if an issuer writes that.
    /// Either may be a string or an array.
    pub(super) fn scopes(&mut self) -> Box<str> {
        let claim = self.scope.take().or_else(|| self.scp.take());
        claim.unwrap_or_default()
    }

    fn note(&mut self, name: &str, claim: &Claim<'_>) {
        match name {
            "iss" => self.issuer = claim.text().map(Into::into),
            "sub" => {
                let subject = claim.text().map(Into::into);
                self.subject = Some(subject.ok_or(Refusal::Claim("its sub is not a string")));
            }
            "aud" => self.audience = Some(claim.strings()),
            "client_id" => self.client_id = claim.text().map(Into::into),
            "exp" => self.exp = Some(date(claim, "its exp is not a date")),
            "nbf" => self.nbf = Some(date(claim, "its nbf is not a date")),
            "iat" => self.iat = Some(date(claim, "its iat is not a date")),
            "scope" => self.scope = Some(words(claim)),
            "scp" => self.scp = Some(words(claim)),
            "nonce" | "at_hash" | "c_hash" => self.is_id_token = true,
            _ => {}
        }
    }
}

/// Reads a `NumericDate` (RFC 7519, section 2) as the time since the epoch.
fn date(claim: &Claim<'_>, wrong: &'static str) -> Result<Duration, Refusal> {
    let Claim::Number(number) = claim else {
        return Err(Refusal::Claim(wrong));
    };
    let date = match (number.as_u64(), number.as_f64()) {
        (Some(seconds), _) => Some(Duration::from_secs(seconds)),
        (None, Some(seconds)) => Duration::try_from_secs_f64(seconds).ok(),
        (None, None) => None,
    };
    let date = date.filter(|date| date.as_secs() <= MAX_DATE);
    date.ok_or(Refusal::Claim(wrong))
}

fn words(claim: &Claim<'_>) -> Box<str> {
    match claim {
        Claim::Text(text) => (&**text).into(),
        claim => claim.strings().unwrap_or_default().join(" ").into(),
    }
}

/// Returns a claim as the value of a context entry; `None` for null. A string stays as it is, anything else
/// becomes JSON, which keeps `["a","b"]` and `["a,b"]` apart.
pub(super) fn context_value(claim: &Value) -> Option<String> {
    match claim {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}
