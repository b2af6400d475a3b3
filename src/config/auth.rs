//! `auth`: the issuers whose tokens are accepted (`audiences`, `algorithms`, `keys`, `leeway`, `require`), or anonymous
//! access; with the defaults of these keys.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use http::Uri;
pub use jsonwebtoken::Algorithm;

use super::keys::{Keys as Table, Section};
use super::kind::{
    Shaped, algorithm, choice, context_key, duration, file, flag, guarded_uri, list, map, maybe,
    shaped, table, text,
};
use super::load::reader::Reader;

/// `auth`. A loaded one has issuers or is `anonymous`, never both and never neither.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Auth {
    /// The accepted issuers; no `issuer` occurs twice.
    pub issuers: Vec<Issuer>,
    /// True if every caller is admitted without a token.
    pub anonymous: bool,
}

/// An identity provider, and the requirements for its tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issuer {
    /// The token's `iss`, compared byte for byte.
    pub issuer: String,
    /// The accepted values of `aud`, one of which the token must hold; never empty.
    pub audiences: Vec<String>,
    /// The claim that has one of `audiences`.
    pub audience_claim: AudienceClaim,
    /// The accepted values of `alg`; never empty.
    pub algorithms: Vec<Algorithm>,
    /// The source of the verification keys.
    pub keys: Keys,
    /// The clock difference that is tolerated in `exp` and `nbf`.
    pub leeway: Duration,
    /// The claims that a token must have: any one of the values, or any value if the list is empty.
    pub require: BTreeMap<String, Vec<String>>,
    /// The context keys (lower case), each with the claim that sets it.
    pub context: BTreeMap<String, String>,
    /// The kinds of tokens of the issuer that are accepted.
    pub kinds: TokenKinds,
}

/// `audience_claim` of an issuer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AudienceClaim {
    /// `aud`, as RFC 9068 requires.
    Aud,
    /// `client_id`, for an issuer whose access tokens have no `aud`. One that has it must name an accepted audience
    /// there, too.
    ClientId,
}

const AUDIENCE_CLAIMS: [(&str, AudienceClaim); 2] = [
    ("aud", AudienceClaim::Aud),
    ("client_id", AudienceClaim::ClientId),
];

/// `accept_id_tokens`, `require_subject` and `require_at_jwt` of an issuer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenKinds {
    /// True if ID tokens are accepted, which are made for the client that requested them: those with `nonce`, `at_hash`
    /// or `c_hash`.
    pub id_tokens: bool,
    /// True if a token must have a `sub`.
    pub subject: bool,
    /// True if a token's `typ` must be `at+jwt` (RFC 9068).
    pub at_jwt: bool,
}

impl Default for TokenKinds {
    fn default() -> Self {
        Self {
            id_tokens: false,
            subject: true,
            at_jwt: false,
        }
    }
}

/// `keys` of an issuer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys {
    /// The source of the JSON Web Key Set.
    pub source: KeySource,
    /// The PEM file of the private authority that signed the issuer's server certificate; `None` for the system's
    /// authorities.
    pub ca: Option<PathBuf>,
}

/// The source of a JSON Web Key Set (RFC 7517).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// The `jwks_uri` of the issuer's `/.well-known/openid-configuration`.
    Discovery,
    /// An address from which the set is fetched.
    Url(Uri),
    /// A file from which the set is read.
    File(PathBuf),
}

/// The name of EdDSA with Ed25519 that RFC 9864 gives it.
pub const ED25519: &str = "Ed25519";

/// Signature algorithms (RFC 7518, RFC 8037) that a gateway can check without sharing a secret with the issuer, with
/// their names in a token.
pub const ALGORITHMS: [(&str, Algorithm); 9] = [
    ("RS256", Algorithm::RS256),
    ("RS384", Algorithm::RS384),
    ("RS512", Algorithm::RS512),
    ("PS256", Algorithm::PS256),
    ("PS384", Algorithm::PS384),
    ("PS512", Algorithm::PS512),
    ("ES256", Algorithm::ES256),
    ("ES384", Algorithm::ES384),
    // With Ed25519.
    ("EdDSA", Algorithm::EdDSA),
];

impl Issuer {
    /// Creates an issuer with the default algorithms, leeway and key discovery, and no further requirements.
    #[must_use]
    pub fn new(issuer: &str, audience: &str) -> Self {
        Self {
            issuer: issuer.to_owned(),
            audiences: vec![audience.to_owned()],
            audience_claim: AudienceClaim::Aud,
            algorithms: vec![Algorithm::RS256, Algorithm::ES256],
            keys: Keys::default(),
            leeway: Duration::from_secs(30),
            require: BTreeMap::new(),
            context: BTreeMap::new(),
            kinds: TokenKinds::default(),
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

const ISSUERS: &str = "issuers, such as [{ issuer: https://idp.example, audiences: [catalog] }]";

impl Section for Auth {
    fn blank() -> Self {
        Self::default()
    }

    fn keys(&mut self, keys: &mut Table<'_, '_>) {
        keys.key(
            "issuers",
            &mut self.issuers,
            list(0, ISSUERS, table()),
            "Identity providers whose tokens are accepted.",
        );
        keys.key(
            "anonymous",
            &mut self.anonymous,
            flag(),
            "Let everyone in without a token; only without issuers.",
        );
    }
}

impl Section for Issuer {
    fn blank() -> Self {
        let mut blank = Self::new("", "");
        blank.audiences.clear();
        blank
    }

    fn keys(&mut self, keys: &mut Table<'_, '_>) {
        keys.required(
            "issuer",
            &mut self.issuer,
            text("the token's `iss`, such as https://idp.example"),
            "write the `iss` of the tokens, such as https://idp.example",
            "The token's `iss`, byte for byte.",
        );
        keys.required(
            "audiences",
            &mut self.audiences,
            list(
                1,
                "audiences, such as [catalog]",
                text("an audience, such as catalog"),
            ),
            "write the `aud` of tokens that are meant for this gateway, such as [catalog]",
            "The token's `aud` must hold one of these.",
        );
        keys.key(
            "audience_claim",
            &mut self.audience_claim,
            choice(&AUDIENCE_CLAIMS),
            "Where the token says whom it is for: `aud`, or `client_id` for an issuer whose access tokens have no `aud`, such as Amazon Cognito.",
        );
        keys.key(
            "algorithms",
            &mut self.algorithms,
            list(1, "algorithms, such as [RS256, ES256]", algorithm()),
            "The token's `alg` must be one of these, and must fit the key.",
        );
        keys.key(
            "keys",
            &mut self.keys,
            shaped(),
            "Where the verification keys come from; absent: discovery.",
        );
        let leeway = duration(Duration::ZERO, Duration::from_secs(600));
        keys.key(
            "leeway",
            &mut self.leeway,
            leeway,
            "Clock difference forgiven in `exp` and `nbf`.",
        );
        let values = list(
            0,
            "values, such as [acme, umbrella]; [] means any value",
            text("a value of the claim"),
        );
        keys.key(
            "require",
            &mut self.require,
            map(0, "claims, such as { tenant: [acme] }", claim, values),
            "Claims a token must have: any one of the values; [] means present.",
        );
        let set = map(
            0,
            "context keys and claims, such as { tenant: tenant }",
            context_key,
            text("the name of a claim, or a path to it such as realm_access.tenant"),
        );
        keys.key(
            "context",
            &mut self.context,
            set,
            "Context key: the claim that sets it. A client's own value for that key is dropped.",
        );
        keys.key(
            "accept_id_tokens",
            &mut self.kinds.id_tokens,
            flag(),
            "Accept ID tokens too: those with `nonce`, `at_hash` or `c_hash`, which are made for a client and not for a catalog.",
        );
        keys.key(
            "require_subject",
            &mut self.kinds.subject,
            flag(),
            "A token must have a `sub`; without one, callers are told apart by their addresses only.",
        );
        keys.key(
            "require_at_jwt",
            &mut self.kinds.at_jwt,
            flag(),
            "A token's `typ` must be `at+jwt` (RFC 9068), which says that it is an access token.",
        );
    }
}

fn claim(name: &str) -> Result<String, String> {
    if name.is_empty() {
        Err("an empty name of a claim; write the claim's name".to_owned())
    } else if name.trim() != name {
        Err(
            "has a space at its beginning or end, and no claim has such a name; remove it"
                .to_owned(),
        )
    } else {
        Ok(name.to_owned())
    }
}

/// The table `keys` in the form of the file.
pub(super) struct KeysFile {
    discovery: bool,
    url: Option<Uri>,
    file: Option<PathBuf>,
    ca: Option<PathBuf>,
}

impl Section for KeysFile {
    fn blank() -> Self {
        Self {
            discovery: false,
            url: None,
            file: None,
            ca: None,
        }
    }

    fn keys(&mut self, keys: &mut Table<'_, '_>) {
        keys.key(
            "discovery",
            &mut self.discovery,
            flag(),
            "Find them through the issuer's /.well-known/openid-configuration.",
        );
        keys.key(
            "url",
            &mut self.url,
            maybe(guarded_uri()),
            "Fetch them from this address (a JSON Web Key Set).",
        );
        keys.key(
            "file",
            &mut self.file,
            maybe(file()),
            "Read them from this file (a JSON Web Key Set).",
        );
        keys.key(
            "ca",
            &mut self.ca,
            maybe(file()),
            "Authority of the issuer's server, when it is a private one (PEM).",
        );
    }
}

impl Shaped for Keys {
    type File = KeysFile;

    fn from_file(file: KeysFile, reader: &mut Reader<'_>) -> Option<Self> {
        const ONE: &str = "write one of `discovery: true`, `url: https://…` and `file: jwks.json`";
        let given = [file.discovery, reader.has("url"), reader.has("file")];
        match given.iter().filter(|&&given| given).count() {
            1 => {}
            0 => reader.problem_at("", format!("does not say where the keys are; {ONE}")),
            _ => reader.problem_at("", format!("says more than once where the keys are; {ONE}")),
        }
        if file.ca.is_some() && file.file.is_some() {
            reader.problem_at("ca", "has no meaning for keys from a file; remove it");
        }
        let source = match (file.url, file.file) {
            (Some(url), _) => KeySource::Url(url),
            (None, Some(path)) => KeySource::File(path),
            (None, None) => KeySource::Discovery,
        };
        Some(Self {
            source,
            ca: file.ca,
        })
    }

    fn to_file(&self) -> KeysFile {
        let mut file = KeysFile::blank();
        file.ca.clone_from(&self.ca);
        match &self.source {
            KeySource::Discovery => file.discovery = true,
            KeySource::Url(url) => file.url = Some(url.clone()),
            KeySource::File(path) => file.file = Some(path.clone()),
        }
        file
    }
}
