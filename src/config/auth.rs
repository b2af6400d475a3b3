//! `auth`: the issuers whose tokens are accepted, or nobody at all.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use http::Uri;

/// `auth`. Loaded from a file it has issuers or is `anonymous`, never both and never neither.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Auth {
    /// Accepted issuers; no `issuer` occurs twice.
    pub issuers: Vec<Issuer>,
    /// Everyone is let in without a token.
    pub anonymous: bool,
}

/// One identity provider and what its tokens must say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issuer {
    /// The token's `iss`, compared byte for byte.
    pub issuer: String,
    /// The token's `aud` must hold one of these; never empty.
    pub audiences: Vec<String>,
    /// The token's `alg` must be one of these; never empty.
    pub algorithms: Vec<Algorithm>,
    /// Where the verification keys come from.
    pub keys: Keys,
    /// Clock difference forgiven in `exp` and `nbf`.
    pub leeway: Duration,
    /// Claims a token must have: any one of the values, or any value when the list is empty.
    pub require: BTreeMap<String, Vec<String>>,
    /// Context key (lower case) to the claim that sets it.
    pub context: BTreeMap<String, String>,
}

/// `keys` of an issuer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys {
    /// Where the JSON Web Key Set is.
    pub source: KeySource,
    /// PEM file of the authority that signed the issuer's server certificate, when it is a private one.
    pub ca: Option<PathBuf>,
}

/// Where a JSON Web Key Set (RFC 7517) comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// `jwks_uri` of the issuer's `/.well-known/openid-configuration`.
    Discovery,
    /// Fetched from this address.
    Url(Uri),
    /// Read from this file.
    File(PathBuf),
}

/// Signature algorithms (RFC 7518, RFC 8037) that a gateway can check without sharing a secret with the issuer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are those of RFC 7518")]
pub enum Algorithm {
    RS256,
    RS384,
    RS512,
    PS256,
    PS384,
    PS512,
    ES256,
    ES384,
    /// RFC 8037, with Ed25519.
    EdDSA,
}

impl Algorithm {
    /// Every algorithm with its name as it stands in a token.
    pub const ALL: [(&'static str, Self); 9] = [
        ("RS256", Self::RS256),
        ("RS384", Self::RS384),
        ("RS512", Self::RS512),
        ("PS256", Self::PS256),
        ("PS384", Self::PS384),
        ("PS512", Self::PS512),
        ("ES256", Self::ES256),
        ("ES384", Self::ES384),
        ("EdDSA", Self::EdDSA),
    ];
}

impl Issuer {
    /// An issuer with the default algorithms, leeway and key discovery, and no further requirements.
    #[must_use]
    pub fn new(issuer: &str, audience: &str) -> Self {
        Self {
            issuer: issuer.to_owned(),
            audiences: vec![audience.to_owned()],
            algorithms: vec![Algorithm::RS256, Algorithm::ES256],
            keys: Keys::default(),
            leeway: Duration::from_secs(30),
            require: BTreeMap::new(),
            context: BTreeMap::new(),
        }
    }
}

impl Default for Keys {
    fn default() -> Self {
        Self {
            source: KeySource::Discovery,
            ca: None,
        }
    }
}
