//! What an issuer's tokens must say, and what they then mean.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::claims::{date, scopes, strings, text};
use super::{Key, Refusal, Unverified};
use crate::config::{Algorithm, Issuer};
use crate::protocol::context::ClaimEntries;
use crate::protocol::principal::{Identity, Principal, TLS_SUBJECT, has_any};

/// The rules for the tokens of one issuer.
#[derive(Debug, Clone)]
pub struct Policy {
    issuer: Arc<str>,
    audiences: Vec<String>,
    algorithms: Vec<Algorithm>,
    leeway: Duration,
    require: Vec<(String, Vec<String>)>,
    /// Context key, claim.
    context: Vec<(String, String)>,
}

/// A token that is good, until a time and as long as its key is.
#[derive(Debug)]
pub struct Verified {
    /// Its caller.
    pub principal: Principal,
    /// Since the epoch: at this time it is good no more, leeway included.
    pub until: Duration,
    /// What its signature was verified with.
    pub key: Arc<Key>,
}

impl Policy {
    /// The rules that are configured for an issuer.
    pub fn new(issuer: &Issuer) -> Self {
        let pairs = issuer.context.iter();
        Self {
            issuer: issuer.issuer.as_str().into(),
            audiences: issuer.audiences.clone(),
            algorithms: issuer.algorithms.clone(),
            leeway: issuer.leeway,
            require: issuer.require.clone().into_iter().collect(),
            context: pairs
                .map(|(key, claim)| (key.clone(), claim.clone()))
                .collect(),
        }
    }

    /// `iss` of the tokens.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// The algorithms that the issuer signs with.
    pub fn algorithms(&self) -> &[Algorithm] {
        &self.algorithms
    }

    /// Judges a token that one of `keys` should have signed; `now` is since the epoch, `certificate` the subject of the
    /// client certificate it came with.
    ///
    /// # Errors
    /// Not signed by one of them, of another issuer, expired or not yet valid, for another audience, without a
    /// claim that is required, or with one of a wrong type.
    pub fn judge(
        &self,
        token: Unverified<'_>,
        keys: Vec<Arc<Key>>,
        now: Duration,
        certificate: Option<&str>,
    ) -> Result<Verified, Refusal> {
        if !self.algorithms.contains(&token.header().algorithm) {
            return Err(Refusal::Algorithm);
        }
        if token.issuer() != Some(&*self.issuer) {
            return Err(Refusal::Issuer);
        }
        let mut keys = keys.into_iter();
        let key = keys
            .find(|key| key.has_signed(&token))
            .ok_or(Refusal::Signature)?;
        let mut claims = token.into_claims();
        claims.remove(TLS_SUBJECT);
        if let Some(subject) = certificate {
            claims.insert(TLS_SUBJECT.to_owned(), subject.into());
        }
        let until = self.check_times(&claims, now)?;
        self.check_audience(&claims)?;
        self.check_required(&claims)?;
        Ok(Verified {
            principal: self.principal(claims)?,
            until,
            key,
        })
    }

    /// Until when the token is good.
    fn check_times(&self, claims: &Map<String, Value>, now: Duration) -> Result<Duration, Refusal> {
        let exp =
            date(claims, "exp", "its exp is not a date")?.ok_or(Refusal::Claim("it has no exp"))?;
        let until = exp.saturating_add(self.leeway);
        if now >= until {
            return Err(Refusal::Expired(now - exp));
        }
        if let Some(nbf) = date(claims, "nbf", "its nbf is not a date")?
            && now.saturating_add(self.leeway) < nbf
        {
            return Err(Refusal::NotYetValid(nbf - now));
        }
        date(claims, "iat", "its iat is not a date")?;
        Ok(until)
    }

    fn check_audience(&self, claims: &Map<String, Value>) -> Result<(), Refusal> {
        let named = claims
            .get("aud")
            .and_then(strings)
            .ok_or(Refusal::Audience)?;
        let ours = |audience: &&str| self.audiences.iter().any(|accepted| accepted == audience);
        if named.iter().any(ours) {
            Ok(())
        } else {
            Err(Refusal::Audience)
        }
    }

    fn check_required(&self, claims: &Map<String, Value>) -> Result<(), Refusal> {
        for (name, accepted) in &self.require {
            match claims.get(name) {
                None | Some(Value::Null) => return Err(Refusal::Required(harmless(name))),
                Some(_) if accepted.is_empty() => {}
                // Scopes are words in one string (RFC 8693, section 4.2).
                Some(Value::String(scope)) if name == "scope" => {
                    let mut words = scope.split_ascii_whitespace();
                    if !words.any(|word| accepted.iter().any(|value| value == word)) {
                        return Err(Refusal::NotAccepted(harmless(name)));
                    }
                }
                Some(claim) if has_any(claim, accepted) => {}
                Some(_) => return Err(Refusal::NotAccepted(harmless(name))),
            }
        }
        Ok(())
    }

    fn principal(&self, claims: Map<String, Value>) -> Result<Principal, Refusal> {
        let subject: Arc<str> = match claims.get("sub") {
            None => "".into(),
            Some(Value::String(subject)) => subject.as_str().into(),
            Some(_) => return Err(Refusal::Claim("its sub is not a string")),
        };
        let pairs = self.context.iter();
        let pairs = pairs.map(|(key, claim)| (key.as_str(), claims.get(claim).and_then(text)));
        let context = ClaimEntries::new(pairs)
            .map_err(|_| Refusal::Claim("a claim cannot be carried as request context"))?;
        Ok(Principal::new(Identity {
            issuer: Arc::clone(&self.issuer),
            subject,
            scopes: scopes(&claims),
            context,
            claims,
        }))
    }
}

/// A configured claim's name as it may stand in `error_description`.
fn harmless(name: &str) -> String {
    let legal = |c: &char| matches!(c, ' '..='~') && !matches!(c, '"' | '\\');
    name.chars().filter(legal).collect()
}

#[cfg(test)]
mod tests;
