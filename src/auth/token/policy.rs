//! Judges a token whose signature is verified by its issuer's rules (type, `exp`, `nbf`, `iat`, audience, required
//! claims), and makes the caller that it stands for.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::claims::{Claims, context_value};
use super::header::is_at_jwt;
use super::{Key, Refusal, UnverifiedToken, json};
use crate::config::{Algorithm, AudienceClaim, Issuer, TokenKinds};
use crate::protocol::claims::{self, find, has_any, leads_to, with_certificate};
use crate::protocol::context::ClaimEntries;
use crate::protocol::principal::{Identity, Principal};

/// The rules for the tokens of one issuer.
#[derive(Debug, Clone)]
pub struct Policy {
    issuer: Arc<str>,
    audiences: Vec<String>,
    audience_claim: AudienceClaim,
    algorithms: Vec<Algorithm>,
    leeway: Duration,
    require: Vec<(String, Vec<String>)>,
    kinds: TokenKinds,
    /// Pairs of a context key and a claim.
    context: Vec<(String, String)>,
    /// The claims that `require` and `context` name, and paths in them.
    names: Vec<String>,
}

/// A verified token. It is valid until a time, and only as long as its key is.
#[derive(Debug)]
pub struct VerifiedToken {
    /// The caller.
    pub principal: Principal,
    /// The time since the epoch at which the token expires, leeway included.
    pub until: Duration,
    /// The key that verified the signature.
    pub key: Arc<Key>,
}

impl Policy {
    /// Creates the rules from the configuration of an issuer.
    pub fn new(issuer: &Issuer) -> Self {
        let context = issuer.context.iter();
        let names = issuer.require.keys().chain(issuer.context.values());
        Self {
            issuer: issuer.issuer.as_str().into(),
            audiences: issuer.audiences.clone(),
            audience_claim: issuer.audience_claim,
            algorithms: issuer.algorithms.clone(),
            leeway: issuer.leeway,
            kinds: issuer.kinds,
            names: names.cloned().collect(),
            require: issuer.require.clone().into_iter().collect(),
            context: context
                .map(|(key, claim)| (key.clone(), claim.clone()))
                .collect(),
        }
    }

    /// The `iss` of the tokens.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// The algorithms that the issuer signs with.
    pub fn algorithms(&self) -> &[Algorithm] {
        &self.algorithms
    }

    /// Verifies a token that one of `keys` should have signed. `now` is the time since the epoch, `certificate` the
    /// subject of the client certificate that the token came with; `None` if it has none.
    ///
    /// # Errors
    /// The token is not signed by one of the keys, is of another issuer, expired or not yet valid, for another
    /// audience, without a claim that is required, or has a claim of a wrong type.
    pub fn judge(
        &self,
        token: UnverifiedToken<'_>,
        keys: Vec<Arc<Key>>,
        now: Duration,
        certificate: Option<&str>,
    ) -> Result<VerifiedToken, Refusal> {
        if !self.algorithms.contains(&token.header().alg) {
            return Err(Refusal::Algorithm);
        }
        if token.issuer() != Some(&*self.issuer) {
            return Err(Refusal::Issuer);
        }
        let mut keys = keys.into_iter();
        let key = keys
            .find(|key| key.has_signed(&token))
            .ok_or(Refusal::Signature)?;
        if self.kinds.at_jwt && !is_at_jwt(token.header()) {
            return Err(Refusal::Header("its typ is not at+jwt"));
        }
        let all = claims::Claims::new(token.text(), certificate);
        let (mut claims, payload) = token.into_claims();
        self.check_kind(&claims)?;
        let until = self.check_times(&mut claims, now)?;
        self.check_audience(&claims)?;
        let named = with_certificate(self.named(&payload), certificate);
        self.check_required(&named)?;
        Ok(VerifiedToken {
            principal: self.principal(claims, &named, all)?,
            until,
            key,
        })
    }

    /// Refuses a token that was made for another use than calls to a catalog.
    fn check_kind(&self, claims: &Claims) -> Result<(), Refusal> {
        if claims.is_id_token && !self.kinds.id_tokens {
            return Err(Refusal::Claim("it is an ID token, send an access token"));
        }
        // A wrong type is reported where the subject is read.
        let is_named = match &claims.subject {
            None => false,
            Some(Ok(subject)) => !subject.is_empty(),
            Some(Err(_)) => true,
        };
        if self.kinds.subject && !is_named {
            return Err(Refusal::Claim("it has no sub"));
        }
        Ok(())
    }

    /// Returns the claims of a payload that the configuration names, or of which it names a part.
    fn named(&self, payload: &[u8]) -> Map<String, Value> {
        let mut named = Map::new();
        let mut note = |name: &str, value: &RawValue| {
            if self.names.iter().any(|wanted| leads_to(name, wanted)) {
                let value = serde_json::from_str(value.get()).unwrap_or_default();
                named.insert(name.to_owned(), value);
            }
        };
        if !self.names.is_empty() {
            // The payload was read before, so this cannot fail.
            let _ = json::members(payload, &mut note);
        }
        named
    }

    /// Returns the time until which the token is valid.
    fn check_times(&self, claims: &mut Claims, now: Duration) -> Result<Duration, Refusal> {
        let exp = claims.exp.take().transpose()?;
        let exp = exp.ok_or(Refusal::Claim("it has no exp"))?;
        let until = exp.saturating_add(self.leeway);
        if now >= until {
            return Err(Refusal::Expired(now - exp));
        }
        if let Some(nbf) = claims.nbf.take().transpose()?
            && now.saturating_add(self.leeway) < nbf
        {
            return Err(Refusal::NotYetValid(nbf - now));
        }
        claims.iat.take().transpose()?;
        Ok(until)
    }

    /// Refuses a token that is for others. One that is known by its `client_id` may have an `aud` as well, which must
    /// be accepted, too.
    fn check_audience(&self, claims: &Claims) -> Result<(), Refusal> {
        let ours = |name: &str| self.audiences.iter().any(|accepted| accepted == name);
        let aud = claims.audience.as_ref();
        let aud = aud.map(|named| {
            named
                .as_ref()
                .is_some_and(|all| all.iter().any(|one| ours(one)))
        });
        let is_ours = match self.audience_claim {
            AudienceClaim::Aud => aud.unwrap_or(false),
            AudienceClaim::ClientId => {
                aud.unwrap_or(true) && claims.client_id.as_deref().is_some_and(ours)
            }
        };
        if is_ours {
            Ok(())
        } else {
            Err(Refusal::Audience)
        }
    }

    fn check_required(&self, named: &Map<String, Value>) -> Result<(), Refusal> {
        for (name, accepted) in &self.require {
            match find(named, name) {
                None | Some(Value::Null) => return Err(Refusal::Required(harmless(name))),
                Some(_) if accepted.is_empty() => {}
                Some(claim) if has_any(name, claim, accepted) => {}
                Some(_) => return Err(Refusal::NotAccepted(harmless(name))),
            }
        }
        Ok(())
    }

    fn principal(
        &self,
        mut claims: Claims,
        named: &Map<String, Value>,
        all: claims::Claims,
    ) -> Result<Principal, Refusal> {
        let subject = claims.subject.take().transpose()?;
        let pairs = self.context.iter();
        let pairs =
            pairs.map(|(key, claim)| (key.as_str(), find(named, claim).and_then(context_value)));
        let context = ClaimEntries::new(pairs)
            .map_err(|_| Refusal::Claim("a claim cannot be carried as request context"))?;
        Ok(Principal::new(Identity {
            issuer: Arc::clone(&self.issuer),
            subject: subject.unwrap_or_default(),
            scopes: claims.scopes(),
            context,
            claims: all,
        }))
    }
}

/// Returns a configured claim's name without the characters that `error_description` may not hold.
fn harmless(name: &str) -> String {
    let legal = |c: &char| matches!(c, ' '..='~') && !matches!(c, '"' | '\\');
    name.chars().filter(legal).collect()
}

#[cfg(test)]
mod tests;
