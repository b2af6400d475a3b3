//! Decides by the rules of `authorization` what a caller may do; immutable and pure.
//!
//! The rule with the longest prefix of names decides; a name that no rule covers is denied. A write reaches what is
//! below, so it needs the permission of every rule there, too. A decision to allow allocates nothing. [`Prefixes`]
//! finds the rule, however many there are.
//!
//! Some catalogs keep an identifier as one text, its names joined by `$`: to them `["prod","hr$t"]` is
//! `["prod","hr","t"]`. Only the catalog knows, so a caller needs permission for both, unless the rule itself names the
//! part that holds the `$`.

mod denial;

use std::sync::Arc;

use crate::config::{Access as Need, AuthorizationRule, Mount, StorageCredentials, Unlisted};
use crate::error::Error;
use crate::protocol::identifier::{Identifier, IdentifierError};
use crate::protocol::operation::Access;
use crate::protocol::prefixes::{PrefixEntry, Prefixes};
use crate::protocol::principal::Principal;
use crate::protocol::query::DEFAULT_DELIMITER;

pub use denial::Denial;

/// The permissions that callers need at `namespace` and below it, where no longer rule decides.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The prefix that the rule covers.
    pub namespace: Identifier,
    /// The permission that a read needs.
    pub read: Need,
    /// The permission that a write needs.
    pub write: Need,
    /// The reach of operations that the contract does not list; `None` if the rule states none.
    pub unlisted: Option<Unlisted>,
}

/// The rules of a configuration.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    rules: Prefixes<Rule>,
    /// The mounts; empty if none of them keeps the keys of its storage from callers who may not write.
    credentials: Prefixes<MountCredentials>,
}

/// The choice of a mount about the keys of its storage.
#[derive(Clone, Debug)]
struct MountCredentials {
    namespace: Identifier,
    kept: StorageCredentials,
}

impl PrefixEntry for MountCredentials {
    fn prefix(&self) -> &Identifier {
        &self.namespace
    }
}

impl PrefixEntry for Rule {
    fn prefix(&self) -> &Identifier {
        &self.namespace
    }
}

/// The rules as they concern one caller, for names that only the body or the catalog shows. A request without this extension
/// is decided by its path.
#[derive(Clone, Debug)]
pub struct Rights {
    rules: Arc<Rules>,
    caller: Principal,
}

impl Rules {
    /// Creates the rules of a configuration. If two are for the same namespace, which the configuration refuses, one is
    /// lost.
    ///
    /// # Errors
    /// A namespace is no identifier; a loaded configuration has no such namespace.
    pub fn new(rules: &[AuthorizationRule]) -> Result<Self, IdentifierError> {
        let rule = |rule: &AuthorizationRule| {
            Ok(Rule {
                namespace: Identifier::from_names(&rule.namespace)?,
                read: rule.read.clone(),
                write: rule.write.clone(),
                unlisted: rule.unlisted,
            })
        };
        let rules = rules.iter().map(rule).collect::<Result<_, _>>()?;
        Ok(Self {
            rules: Prefixes::new(rules),
            credentials: Prefixes::default(),
        })
    }

    /// Keeps the keys of the storage as the mounts say.
    ///
    /// # Errors
    /// A namespace is no identifier; a loaded configuration has no such namespace.
    pub fn keeping_credentials(mut self, mounts: &[Mount]) -> Result<Self, IdentifierError> {
        let strips = |mount: &Mount| mount.storage_credentials == StorageCredentials::Strip;
        if mounts.iter().any(strips) {
            let mounts = mounts.iter().map(|mount| {
                Ok(MountCredentials {
                    namespace: Identifier::from_names(&mount.namespace)?,
                    kept: mount.storage_credentials,
                })
            });
            self.credentials = Prefixes::new(mounts.collect::<Result<_, _>>()?);
        }
        Ok(self)
    }

    /// Says whether `caller`, who may read `id`, gets the keys of its storage; `None` if everybody gets them.
    pub fn credentials_for(&self, caller: &Principal, id: &Identifier) -> Option<bool> {
        let mount = self.credentials.find(id)?;
        (mount.kept == StorageCredentials::Strip)
            .then(|| self.decide(caller, Access::Write, id).is_ok())
    }

    /// Returns the rule that decides about `id`: the one with the longest prefix of its names.
    pub fn find(&self, id: &Identifier) -> Option<&Rule> {
        self.rules.find(id)
    }

    /// Returns the rules strictly below `id`, sorted by namespace.
    pub fn below(&self, id: &Identifier) -> impl Iterator<Item = &Rule> {
        self.rules.below(id).iter()
    }

    /// Decides whether `caller` may use an operation with this access at `id`.
    ///
    /// # Errors
    /// The rule that denies it, or that there is none.
    pub fn decide(
        &self,
        caller: &Principal,
        access: Access,
        id: &Identifier,
    ) -> Result<(), Denial<'_>> {
        self.decide_as(caller, access, id, access == Access::Write)
    }

    /// Decides about an operation that reaches nothing below `id`, such as the creation of a namespace.
    ///
    /// # Errors
    /// The errors of [`Rules::decide`].
    pub fn decide_at(
        &self,
        caller: &Principal,
        access: Access,
        id: &Identifier,
    ) -> Result<(), Denial<'_>> {
        self.decide_as(caller, access, id, false)
    }

    fn decide_as(
        &self,
        caller: &Principal,
        access: Access,
        id: &Identifier,
        reaches_below: bool,
    ) -> Result<(), Denial<'_>> {
        let rule = self.find(id);
        if !rule.is_some_and(|rule| rule.allows(caller, access)) {
            return Err(Denial::new(access, rule));
        }
        if reaches_below {
            self.decide_below(caller, access, id)?;
        }
        match rule.and_then(|rule| rule.other(id)) {
            Some(other) => self.decide_as(caller, access, &other, reaches_below),
            None => Ok(()),
        }
    }

    fn decide_below(
        &self,
        caller: &Principal,
        access: Access,
        id: &Identifier,
    ) -> Result<(), Denial<'_>> {
        let refuses = |rule: &&Rule| !rule.allows(caller, access);
        if !self.below(id).any(|rule| refuses(&rule)) {
            return Ok(());
        }
        // A caller who may not see that the name exists does not learn it here.
        let mut refusing = self.below(id).filter(refuses);
        let shown = refusing.find(|rule| self.shows(caller, &rule.namespace));
        let first = || self.below(id).find(refuses);
        Err(Denial::below(access, shown.or_else(first), shown.is_none()))
    }

    /// True if `caller` has this access at `id` and everywhere below it.
    pub fn allows_all(&self, caller: &Principal, access: Access, id: &Identifier) -> bool {
        let all = |id: &_| {
            self.decide(caller, access, id).is_ok() && self.decide_below(caller, access, id).is_ok()
        };
        let other = self.find(id).and_then(|rule| rule.other(id));
        all(id) && other.is_none_or(|other| all(&other))
    }

    /// True if a rule at `id` or below it denies something to every caller.
    pub fn denies_in(&self, id: &Identifier) -> bool {
        let denies = |rule: &Rule| rule.read == Need::Deny || rule.write == Need::Deny;
        self.find(id).is_some_and(denies) || self.below(id).any(denies)
    }

    /// True if `caller` may know of `id`: may read it, or something below it.
    pub fn shows(&self, caller: &Principal, id: &Identifier) -> bool {
        self.leads_to(caller, Access::Read, id)
    }

    /// True if `caller` has this access at `id` or somewhere below it, even if permission is missing further down.
    pub fn leads_to(&self, caller: &Principal, access: Access, id: &Identifier) -> bool {
        self.leads_to_one(caller, access, id, |_| true)
    }

    /// Checks as [`Rules::leads_to`] does, but only at the places that `counts` accepts: `id`, and the namespaces of
    /// the rules below it.
    fn leads_to_one(
        &self,
        caller: &Principal,
        access: Access,
        id: &Identifier,
        counts: impl Fn(&Identifier) -> bool,
    ) -> bool {
        let allows = |rule: &Rule| rule.allows(caller, access);
        let rule = self.find(id);
        let leads = rule.is_some_and(|rule| allows(rule) && counts(id))
            || self
                .below(id)
                .any(|rule| allows(rule) && counts(&rule.namespace));
        let other = || rule.and_then(|rule| rule.other(id));
        leads && other().is_none_or(|other| self.leads_to(caller, access, &other))
    }
}

impl Rule {
    fn allows(&self, caller: &Principal, access: Access) -> bool {
        is_met(self.need(access), caller)
    }

    /// Returns the identifier that `id`, which this rule covers, has in a catalog that keeps joined names; `None` if it
    /// is the same. Whatever rule covers the other one, there is no third.
    fn other(&self, id: &Identifier) -> Option<Identifier> {
        id.split_below(&self.namespace, DEFAULT_DELIMITER)
    }

    /// Returns the namespace as the configuration writes it.
    pub fn spelled(&self) -> String {
        let names: Vec<&str> = self.namespace.names().collect();
        format!("[{}]", names.join(", "))
    }

    /// Returns the permission that this access needs.
    pub fn need(&self, access: Access) -> &Need {
        match access {
            Access::Read => &self.read,
            Access::Write => &self.write,
        }
    }
}

fn is_met(need: &Need, caller: &Principal) -> bool {
    match need {
        Need::Scope(scope) => caller.has_scope(scope),
        Need::Claim { claim, any_of } => caller.has_claim(claim, any_of),
        Need::Issued { issuer, need } => **caller.issuer() == **issuer && is_met(need, caller),
        Need::AnyCaller => true,
        Need::Deny => false,
    }
}

impl Rights {
    /// Binds `rules` to `caller`.
    pub fn new(rules: Arc<Rules>, caller: Principal) -> Self {
        Self { rules, caller }
    }

    /// Decides as [`Rules::decide`] does; the error is the response: 403, code 15.
    pub fn decide(&self, access: Access, id: &Identifier) -> Result<(), Error> {
        Ok(self.rules.decide(&self.caller, access, id)?)
    }

    /// Returns the reach that the rule for `id` gives to operations outside of the contract; `None` if it states none.
    pub fn unlisted(&self, id: &Identifier) -> Option<Unlisted> {
        self.rules.find(id).and_then(|rule| rule.unlisted)
    }

    /// Checks as [`Rules::denies_in`] does.
    pub fn denies_in(&self, id: &Identifier) -> bool {
        self.rules.denies_in(id)
    }

    /// Checks as [`Rules::allows_all`] does.
    pub fn allow_all(&self, access: Access, id: &Identifier) -> bool {
        self.rules.allows_all(&self.caller, access, id)
    }

    /// True if the caller may read `id`.
    pub fn read(&self, id: &Identifier) -> bool {
        self.rules.decide(&self.caller, Access::Read, id).is_ok()
    }

    /// Checks as [`Rules::shows`] does.
    pub fn show(&self, id: &Identifier) -> bool {
        self.rules.shows(&self.caller, id)
    }

    /// True if the caller may read something at `id` or below it, at one of the places that `counts` accepts: `id`, and
    /// the namespaces of the rules below it.
    pub fn show_in(&self, id: &Identifier, counts: impl Fn(&Identifier) -> bool) -> bool {
        self.rules
            .leads_to_one(&self.caller, Access::Read, id, counts)
    }
}

#[cfg(test)]
mod tests;
