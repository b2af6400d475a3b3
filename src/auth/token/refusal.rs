//! The reasons why a token is refused, and the words of the 401: they help an honest caller and teach a forger nothing.

use std::time::Duration;

/// A refusal. Its `Display` is for the caller: ASCII without quotes and backslashes, as `error_description`
/// must be (RFC 6750, section 3). It holds no part of the token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The `Authorization` header is missing.
    #[error("a bearer token is needed")]
    Missing,
    /// The `Authorization` header does not hold exactly one bearer token.
    #[error("{0}")]
    Credentials(&'static str),
    /// The token is not a signed token in compact form.
    #[error("the token is malformed: {0}")]
    Malformed(&'static str),
    /// The token's header requires something that is not accepted.
    #[error("the token is not accepted: {0}")]
    Header(&'static str),
    /// The algorithm is not on the issuer's list.
    #[error("the token is not accepted: its issuer does not sign with this algorithm")]
    Algorithm,
    /// `iss` is missing or not configured.
    #[error("the token's issuer is not accepted here")]
    Issuer,
    /// No key of the issuer has the token's `kid` and fits its algorithm.
    #[error("the signature of the token cannot be verified")]
    UnknownKey,
    /// The signature is not by the key. The message is that of an unknown key.
    #[error("the signature of the token cannot be verified")]
    Signature,
    /// `exp` has passed.
    #[error("the token expired {} ago", rough(.0))]
    Expired(Duration),
    /// `nbf` has not come yet.
    #[error("the token is valid only in {}", rough(.0))]
    NotYetValid(Duration),
    /// `aud` is missing or names other audiences.
    #[error("the token is for another audience")]
    Audience,
    /// A claim is missing, or has a type or a value that is not accepted.
    #[error("the token is not accepted: {0}")]
    Claim(&'static str),
    /// A claim that the issuer's tokens must have is missing.
    #[error("the token does not have the claim {0}")]
    Required(String),
    /// A claim that the issuer's tokens must have has another value.
    #[error("the claim {0} of the token does not have an accepted value")]
    NotAccepted(String),
    /// The issuer's keys have not arrived yet, so the token cannot be judged.
    #[error("the keys of the token's issuer are not available; retry later")]
    NoKeys,
}

impl Refusal {
    /// Every [`reason`](Self::reason), so that each is counted from zero.
    pub const REASONS: [&str; 13] = [
        "missing",
        "credentials",
        "malformed",
        "header",
        "algorithm",
        "issuer",
        "unknown_key",
        "signature",
        "expired",
        "not_yet_valid",
        "audience",
        "claim",
        "keys_unavailable",
    ];

    /// The value of the metric's label `reason`.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Credentials(_) => "credentials",
            Self::Malformed(_) => "malformed",
            Self::Header(_) => "header",
            Self::Algorithm => "algorithm",
            Self::Issuer => "issuer",
            Self::UnknownKey => "unknown_key",
            Self::Signature => "signature",
            Self::Expired(_) => "expired",
            Self::NotYetValid(_) => "not_yet_valid",
            Self::Audience => "audience",
            Self::Claim(_) | Self::Required(_) | Self::NotAccepted(_) => "claim",
            Self::NoKeys => "keys_unavailable",
        }
    }
}

/// Formats a duration in its largest whole unit.
fn rough(duration: &Duration) -> String {
    let seconds = duration.as_secs();
    let (count, unit) = match seconds {
        0..=119 => (seconds, "second"),
        120..=7199 => (seconds / 60, "minute"),
        7200..=172_799 => (seconds / 3600, "hour"),
        _ => (seconds / 86400, "day"),
    };
    format!("{count} {unit}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_key_and_a_bad_signature_read_the_same() {
        let (unknown, bad) = (Refusal::UnknownKey, Refusal::Signature);
        assert_eq!(unknown.to_string(), bad.to_string());
        assert_ne!(unknown.reason(), bad.reason());
    }

    #[test]
    fn every_reason_is_on_the_list() {
        let none = Duration::ZERO;
        let refusals = [
            Refusal::Missing,
            Refusal::Credentials(""),
            Refusal::Malformed(""),
            Refusal::Header(""),
            Refusal::Algorithm,
            Refusal::Issuer,
            Refusal::UnknownKey,
            Refusal::Signature,
            Refusal::Expired(none),
            Refusal::NotYetValid(none),
            Refusal::Audience,
            Refusal::Claim(""),
            Refusal::NoKeys,
        ];
        assert_eq!(refusals.map(|refusal| refusal.reason()), Refusal::REASONS);
    }

    #[test]
    fn an_honest_caller_learns_how_late_it_is() {
        let cases = [
            (1, "1 second"),
            (119, "119 seconds"),
            (300, "5 minutes"),
            (7200, "2 hours"),
            (172_800, "2 days"),
        ];
        for (seconds, expected) in cases {
            let refusal = Refusal::Expired(Duration::from_secs(seconds));
            assert_eq!(
                refusal.to_string(),
                format!("the token expired {expected} ago")
            );
        }
    }
}
