//! `mounts` and `authorization`: the backend of each namespace, and the permissions that callers need there.

use super::keys::{Keys, Section};
use super::kind::{Shaped, choice, flag, list, maybe, name, shaped, text};
use super::load::reader::Reader;

/// An entry of `mounts`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The prefix as clients spell it; `[]` is the fallback. At most 16 names, none empty, none over 256 bytes.
    pub namespace: Vec<String>,
    /// The backend that serves it: a key of `backends`.
    pub backend: String,
    /// The prefix as the catalog spells it; equal to `namespace` unless configured.
    pub backend_namespace: Vec<String>,
    /// The callers who get the keys of the tables' storage.
    pub storage_credentials: StorageCredentials,
}

/// `storage_credentials` of a mount: what becomes of the `storage_options` in a catalog's answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StorageCredentials {
    /// Those get them who may read the table.
    #[default]
    Pass,
    /// Those get them who may write the table.
    Strip,
}

const STORAGE_CREDENTIALS: [(&str, StorageCredentials); 2] = [
    ("pass", StorageCredentials::Pass),
    ("strip", StorageCredentials::Strip),
];

/// An entry of `authorization`: the permissions that callers need below `namespace`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthorizationRule {
    /// The prefix that the rule covers; `[]` covers everything.
    pub namespace: Vec<String>,
    /// The permission for operations that read.
    pub read: Access,
    /// The permission for operations that write.
    pub write: Access,
    /// The reach of operations that the contract does not list. `None` means everything in a catalog for which
    /// some rule denies, and otherwise the name in the path.
    pub unlisted: Option<Unlisted>,
}

/// `unlisted` of a rule: the assumed reach of an operation that the contract does not list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unlisted {
    /// The name in the path.
    Name,
    /// The whole catalog, because the body may name any tables.
    Catalog,
}

const UNLISTED: [(&str, Unlisted); 2] = [("name", Unlisted::Name), ("catalog", Unlisted::Catalog)];

/// The permission that a caller needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// A scope in the token's `scope` or `scp`.
    Scope(String),
    /// Any one of the values in this claim.
    Claim {
        /// The claim's name or, if a token has no claim of that name, the path to it through objects, such as
        /// `realm_access.roles`. `tls.subject` is that of the client's certificate.
        claim: String,
        /// The accepted values; never empty.
        any_of: Vec<String>,
    },
    /// That permission in a token of this issuer. Names of scopes and claims mean something else at each issuer.
    Issued {
        /// The token's `iss`.
        issuer: String,
        /// The permission that the token must have besides; never [`Deny`](Self::Deny), and not `Issued` again.
        need: Box<Self>,
    },
    /// Every caller has permission, also without a token where `auth.anonymous` lets callers in.
    AnyCaller,
    /// No caller has permission.
    Deny,
}

impl Mount {
    /// Creates a mount of `namespace` on `backend` under the same path.
    #[must_use]
    pub fn new(namespace: &[&str], backend: &str) -> Self {
        Self::rerooted(namespace, backend, namespace)
    }

    /// Creates a mount of `namespace` on `backend`, where it is called `backend_namespace`.
    #[must_use]
    pub fn rerooted(namespace: &[&str], backend: &str, backend_namespace: &[&str]) -> Self {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Self {
            namespace: owned(namespace),
            backend: backend.to_owned(),
            backend_namespace: owned(backend_namespace),
            storage_credentials: StorageCredentials::Pass,
        }
    }
}

/// An entry of `mounts` in the form of the file.
pub(super) struct MountFile {
    namespace: Vec<String>,
    backend: String,
    backend_namespace: Option<Vec<String>>,
    storage_credentials: StorageCredentials,
}

/// The permission that a caller needs, in the form of the file.
pub(super) struct AccessFile {
    scope: Option<String>,
    claim: Option<String>,
    any_of: Option<Vec<String>>,
    issuer: Option<String>,
    any_caller: bool,
    deny: bool,
}

/// The most names of a prefix.
pub(super) const MAX_NAMES: usize = 16;
const NAMES: &str = "names, such as [prod, eu]; [] is the root";
const NAMESPACE: &str = "write a list of names such as [prod, eu]; [] is the root";

impl Section for MountFile {
    fn blank() -> Self {
        Self {
            namespace: Vec::new(),
            backend: String::new(),
            backend_namespace: None,
            storage_credentials: StorageCredentials::Pass,
        }
    }

    fn keys(&mut self, keys: &mut Keys<'_, '_>) {
        keys.required(
            "namespace",
            &mut self.namespace,
            list(0, NAMES, name()),
            NAMESPACE,
            "The prefix as clients spell it; [] is the fallback.",
        );
        keys.required(
            "backend",
            &mut self.backend,
            text("the name of a backend"),
            "write the name of a backend",
            "The backend that serves it: a key of `backends`.",
        );
        keys.key(
            "backend_namespace",
            &mut self.backend_namespace,
            maybe(list(0, NAMES, name())),
            "The prefix as the catalog spells it; absent: the same.",
        );
        keys.key(
            "storage_credentials",
            &mut self.storage_credentials,
            choice(&STORAGE_CREDENTIALS),
            "Who gets the `storage_options` of a catalog's answers, which may be keys that write: `pass`, who may read; `strip`, only who may write.",
        );
    }
}

impl Shaped for Mount {
    type File = MountFile;

    fn from_file(file: MountFile, reader: &mut Reader<'_>) -> Option<Self> {
        for (key, names) in [
            ("namespace", Some(&file.namespace)),
            ("backend_namespace", file.backend_namespace.as_ref()),
        ] {
            if names.is_some_and(|names| names.len() > MAX_NAMES) {
                reader.problem_at(
                    key,
                    format!("has more than {MAX_NAMES} names; mount it further up"),
                );
            }
        }
        Some(Self {
            backend_namespace: file
                .backend_namespace
                .unwrap_or_else(|| file.namespace.clone()),
            namespace: file.namespace,
            backend: file.backend,
            storage_credentials: file.storage_credentials,
        })
    }

    fn to_file(&self) -> MountFile {
        MountFile {
            namespace: self.namespace.clone(),
            backend: self.backend.clone(),
            backend_namespace: Some(self.backend_namespace.clone()),
            storage_credentials: self.storage_credentials,
        }
    }
}

impl Section for AuthorizationRule {
    fn blank() -> Self {
        Self {
            namespace: Vec::new(),
            read: Access::Deny,
            write: Access::Deny,
            unlisted: None,
        }
    }

    fn keys(&mut self, keys: &mut Keys<'_, '_>) {
        const WHO: &str = "write { scope: NAME }, { claim: NAME, any_of: [VALUE] }, { any_caller: true } or { deny: true }";
        keys.required(
            "namespace",
            &mut self.namespace,
            list(0, NAMES, name()),
            NAMESPACE,
            "The prefix it covers; [] covers everything.",
        );
        keys.required(
            "read",
            &mut self.read,
            shaped(),
            WHO,
            "What a caller needs to read.",
        );
        keys.required(
            "write",
            &mut self.write,
            shaped(),
            WHO,
            "What a caller needs to write.",
        );
        keys.key(
            "unlisted",
            &mut self.unlisted,
            maybe(choice(&UNLISTED)),
            "What an operation outside of the contract acts on: `name`, what its path names; `catalog`, everything in its catalog. Absent: `catalog` where some rule denies anything there.",
        );
    }
}

impl Section for AccessFile {
    fn blank() -> Self {
        Self {
            scope: None,
            claim: None,
            any_of: None,
            issuer: None,
            any_caller: false,
            deny: false,
        }
    }

    fn keys(&mut self, keys: &mut Keys<'_, '_>) {
        keys.key(
            "scope",
            &mut self.scope,
            maybe(text("the name of a scope")),
            "This scope in the token.",
        );
        keys.key(
            "claim",
            &mut self.claim,
            maybe(text("the name of a claim, or a path to it such as realm_access.roles")),
            "This claim in the token, with a value of `any_of`; a.b is b in the claim a where no claim has this name.",
        );
        keys.key(
            "any_of",
            &mut self.any_of,
            maybe(list(
                1,
                "values, such as [hr]",
                text("a value of the claim"),
            )),
            "Values of `claim`.",
        );
        keys.key(
            "issuer",
            &mut self.issuer,
            maybe(text("an issuer of `auth.issuers`")),
            "Beside another key: in a token of this issuer only. Absent: of any.",
        );
        keys.key("any_caller", &mut self.any_caller, flag(), "Everybody may.");
        keys.key("deny", &mut self.deny, flag(), "Nobody may.");
    }
}

impl Shaped for Access {
    type File = AccessFile;

    fn from_file(mut file: AccessFile, reader: &mut Reader<'_>) -> Option<Self> {
        let issuer = file.issuer.take();
        let need = Self::without_issuer(file, reader)?;
        Some(match issuer {
            None => need,
            Some(_) if need == Self::Deny => {
                reader.problem_at("issuer", "says whose callers may, and `deny` says that nobody may; remove one of the two");
                need
            }
            Some(issuer) => Self::Issued {
                issuer,
                need: Box::new(need),
            },
        })
    }

    fn to_file(&self) -> AccessFile {
        let mut file = AccessFile::blank();
        match self {
            Self::Scope(scope) => file.scope = Some(scope.clone()),
            Self::Claim { claim, any_of } => {
                file.claim = Some(claim.clone());
                file.any_of = Some(any_of.clone());
            }
            Self::Issued { issuer, need } => {
                file = need.to_file();
                file.issuer = Some(issuer.clone());
            }
            Self::AnyCaller => file.any_caller = true,
            Self::Deny => file.deny = true,
        }
        file
    }
}

impl Access {
    /// Returns what a file says apart from `issuer`, if it says one thing.
    fn without_issuer(file: AccessFile, reader: &mut Reader<'_>) -> Option<Self> {
        match file {
            AccessFile {
                scope: Some(scope),
                claim: None,
                any_of: None,
                issuer: None,
                any_caller: false,
                deny: false,
            } => {
                if scope.contains(char::is_whitespace) {
                    reader.problem_at(
                        "scope",
                        "is more than one word, and no token grants such a scope; write one scope",
                    );
                }
                Some(Self::Scope(scope))
            }
            AccessFile {
                scope: None,
                claim: Some(claim),
                any_of: Some(any_of),
                issuer: None,
                any_caller: false,
                deny: false,
            } => Some(Self::Claim { claim, any_of }),
            AccessFile {
                scope: None,
                claim: None,
                any_of: None,
                issuer: None,
                any_caller: true,
                deny: false,
            } => Some(Self::AnyCaller),
            AccessFile {
                scope: None,
                claim: None,
                any_of: None,
                issuer: None,
                any_caller: false,
                deny: true,
            } => Some(Self::Deny),
            // What was not read is missing here, too.
            _ if !reader.is_sound() => None,
            _ => {
                reader.problem_at("", "does not say one thing; write { scope: NAME }, { claim: NAME, any_of: [VALUE] }, { any_caller: true } or { deny: true }");
                None
            }
        }
    }
}
