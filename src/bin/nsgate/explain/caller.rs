//! The caller of `nsgate explain`: of a token, which is verified as the gateway does it, or of claims that are assumed.

use std::fs::File;
use std::io::{Read, stdin};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nsgate::auth::keys::{Clock, Issuer, Keys, SystemClock};
use nsgate::auth::token::{Headers, MAX_BYTES, Refusal, UnverifiedToken};
use nsgate::config::{self, AudienceClaim, Auth, Config};
use nsgate::error::BoxError;
use nsgate::error::cause::Causes;
use nsgate::metrics::Metrics;
use nsgate::protocol::claims::{Claims, find};
use nsgate::protocol::principal::{Identity, Principal};
use nsgate::telemetry::rfc3339;
use serde_json::{Map, Value};
use tokio::runtime::Builder;

use crate::batches::{age, plain};
use crate::cli::Explain;

/// A caller.
pub(super) struct Caller {
    pub(super) principal: Principal,
    /// The caller in words, without the token.
    pub(super) words: String,
}

/// Returns the caller; `None` if the command line names none.
///
/// # Errors
/// The gateway would refuse the token, or its keys are not at hand.
pub(super) fn of(config: &Config, asked: &Explain) -> Result<Option<Caller>, String> {
    match &asked.token {
        Some(_) if config.auth.anonymous => Ok(Some(Caller {
            principal: Principal::anonymous(),
            words: "anybody: `auth.anonymous` is true, so the gateway looks at no token".to_owned(),
        })),
        Some(file) => of_token(config, &read(file)?, asked.online).map(Some),
        None if asked.claims.is_empty() && asked.scopes.is_empty() => Ok(None),
        None => assumed(asked).map(Some),
    }
}

/// Reads a token, with or without the word `Bearer` before it.
fn read(file: &Path) -> Result<String, String> {
    let mut text = String::new();
    let most = 2 * MAX_BYTES as u64;
    let read = if file == Path::new("-") {
        stdin().take(most).read_to_string(&mut text)
    } else {
        File::open(file).and_then(|file| file.take(most).read_to_string(&mut text))
    };
    read.map_err(|error| format!("--token: {} cannot be read ({error})", file.display()))?;
    let token = text.trim_start_matches('\u{feff}').trim();
    let token = token.strip_prefix("Bearer ").map_or(token, str::trim_start);
    if token.is_empty() {
        return Err(format!("--token: {} is empty", file.display()));
    }
    Ok(token.to_owned())
}

/// Verifies a token as the gateway does.
fn of_token(config: &Config, text: &str, online: bool) -> Result<Caller, String> {
    let refused =
        |refusal: &Refusal, hint: &str| format!("the gateway refuses this token: {refusal}{hint}");
    let longest = config.limits.token_bytes;
    if text.len() > longest {
        return Err(format!(
            "the gateway refuses this token: it has {} bytes, and `limits.token_bytes` is {longest}",
            text.len()
        ));
    }
    let token = UnverifiedToken::read(text, &Headers::default());
    let token = token.map_err(|refusal| refused(&refusal, ""))?;
    let named = token.issuer().unwrap_or_default().to_owned();
    let mut issuers = config.auth.issuers.iter();
    let Some(configured) = issuers.find(|issuer| issuer.issuer == named) else {
        let known: Vec<_> = config
            .auth
            .issuers
            .iter()
            .map(|issuer| &*issuer.issuer)
            .collect();
        let hint = format!(
            "; its iss is `{}`, and the configuration has {}",
            plain(&named),
            known.join(", ")
        );
        return Err(refused(&Refusal::Issuer, &hint));
    };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let issuer = issuer(configured, &clock, online)?;
    let (algorithm, kid) = (token.header().alg, token.header().kid.clone());
    let found = issuer.find(token.header());
    let verified = issuer
        .accepts(&token)
        .and_then(|()| issuer.judge(token, found, clock.wall(), None));
    let verified = verified.map_err(|refusal| {
        let hint = match &refusal {
            Refusal::Algorithm => format!(
                "; it is signed with {algorithm:?}, and `algorithms` has {:?}",
                configured.algorithms
            ),
            Refusal::UnknownKey => unknown_key(&issuer, kid.as_deref()),
            refusal => hint(refusal, configured, text),
        };
        refused(&refusal, &hint)
    })?;
    let principal = verified.principal;
    let words = words(
        &principal,
        verified.until.saturating_sub(configured.leeway),
        clock.wall(),
    );
    Ok(Caller { principal, words })
}

/// Returns an issuer with its keys.
fn issuer(
    configured: &config::Issuer,
    clock: &Arc<dyn Clock>,
    online: bool,
) -> Result<Arc<Issuer>, String> {
    let name = &configured.issuer;
    // An error only means that the process has a provider already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let auth = Auth {
        issuers: vec![configured.clone()],
        anonymous: false,
    };
    let failed = |error: BoxError| format!("the keys of {name} cannot be had: {}", Causes(&*error));
    let keys = Keys::new(&auth, clock, Metrics::new().auth()).map_err(failed)?;
    let issuer = Arc::clone(&keys.issuers()[0]);
    if !issuer.has_file() && !online {
        return Err(format!(
            "the token is not verified: the keys of {name} are behind an address; add --online to fetch them, or describe the caller with --claim and --scope"
        ));
    }
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| failed(error.into()))?;
    runtime.block_on(issuer.fetch_once()).map_err(failed)?;
    Ok(issuer)
}

fn unknown_key(issuer: &Issuer, kid: Option<&str>) -> String {
    let count = issuer.known().as_deref().map_or(0, |keys| keys.len());
    let kid = kid.map_or("it names no kid".to_owned(), |kid| {
        format!("its kid is `{}`", plain(kid))
    });
    format!("; {kid}, and none of the issuer's keys ({count} at hand) fits that and its algorithm")
}

/// Returns what an operator may know of a refusal, which the caller is not told.
fn hint(refusal: &Refusal, configured: &config::Issuer, text: &str) -> String {
    let claims = Claims::new(text, None);
    let claim = |name: &str| {
        find(claims.all(), name).map_or("absent".to_owned(), |value| plain(&value.to_string()))
    };
    match refusal {
        Refusal::Signature => {
            "; it was not signed with the key that it names, or changed since".to_owned()
        }
        Refusal::Audience => {
            let named = match configured.audience_claim {
                AudienceClaim::Aud => "aud",
                AudienceClaim::ClientId => "client_id",
            };
            format!(
                "; its {named} is {}, and `audiences` has {}",
                claim(named),
                configured.audiences.join(", ")
            )
        }
        Refusal::NotAccepted(name) => {
            let accepted = configured
                .require
                .get(name)
                .map(|values| values.join(" or "));
            format!(
                "; it is {}, and `require` wants {}",
                claim(name),
                accepted.unwrap_or_default()
            )
        }
        Refusal::Expired(_) => format!("; it was issued to {}", claim("sub")),
        _ => String::new(),
    }
}

fn words(principal: &Principal, end: Duration, now: Duration) -> String {
    let expires = UNIX_EPOCH
        .checked_add(end)
        .map_or_else(String::new, |end: SystemTime| rfc3339(end));
    let left = match end.checked_sub(now) {
        Some(left) => format!("in {}", age(left.as_secs())),
        None => "within its leeway".to_owned(),
    };
    let scopes = principal.claim("scope").or_else(|| principal.claim("scp"));
    let scopes = scopes.map_or_else(
        || "none".to_owned(),
        |scopes| match scopes {
            Value::String(scopes) => plain(scopes),
            other => plain(&other.to_string()),
        },
    );
    let subject = match &**principal.subject() {
        "" => "a caller without sub".to_owned(),
        subject => plain(subject),
    };
    let issuer = plain(principal.issuer());
    format!("{subject} of {issuer}, token verified, expires {expires} ({left}), scopes: {scopes}")
}

/// Returns a caller whose token is assumed to have the claims and scopes of the command line.
fn assumed(asked: &Explain) -> Result<Caller, String> {
    let mut claims = Map::new();
    for (name, value) in &asked.claims {
        if ["scope", "scp"].contains(&&**name) {
            return Err(format!("--claim {name}: give each scope with --scope"));
        }
        let value = serde_json::from_str(value).unwrap_or_else(|_| value.as_str().into());
        claims.insert(name.clone(), value);
    }
    let scopes = asked.scopes.join(" ");
    if !scopes.is_empty() {
        claims.insert("scope".to_owned(), scopes.clone().into());
    }
    let text = |name: &str| {
        claims
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .into()
    };
    let identity = Identity {
        issuer: text("iss"),
        subject: text("sub"),
        scopes: scopes.into(),
        claims: claims.into(),
        ..Identity::default()
    };
    Ok(Caller {
        principal: Principal::new(identity),
        words: "assumed: a token with these claims and scopes that the gateway accepts".to_owned(),
    })
}
