//! Who may do what: the rules of `authorization`. Immutable and pure.
//!
//! The rule with the longest prefix of names decides; where none covers a name, it is denied. A write reaches what is
//! below, so it needs the leave of every rule there, too. Deciding allocates nothing where the answer is yes; how the
//! rule is found, whatever their number: [`Prefixes`].
//!
//! There are catalogs that keep an identifier as one text, its names joined by `$`: to them `["prod","hr$t"]` is
//! `["prod","hr","t"]`. Only the catalog knows, so whoever asks for one needs leave for the other, too, unless the rule
//! itself names what holds the `$`.

mod denial;

use std::sync::Arc;

use crate::config::{Access as Need, AuthorizationRule, Unlisted};
use crate::error::Error;
use crate::protocol::identifier::{Identifier, IdentifierError};
use crate::protocol::operation::Access;
use crate::protocol::prefixes::{PrefixEntry, Prefixes};
use crate::protocol::principal::Principal;
use crate::protocol::query::DEFAULT_DELIMITER;

pub use denial::Denial;

/// What callers need at `namespace` and below it, where no longer rule says otherwise.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The prefix it covers.
    pub namespace: Identifier,
    /// To read.
    pub read: Need,
    /// To write.
    pub write: Need,
    /// The reach of an operation that the contract does not have, where one is given.
    pub unlisted: Option<Unlisted>,
}

/// All rules.
#[derive(Clone, Debug, Default)]
pub struct Rules(Prefixes<Rule>);

impl PrefixEntry for Rule {
    fn prefix(&self) -> &Identifier {
        &self.namespace
    }
}

/// The rules as they concern one caller: the extension of a request that its path alone does not decide.
#[derive(Clone, Debug)]
pub struct Rights {
    rules: Arc<Rules>,
    caller: Principal,
}

impl Rules {
    /// The rules of a configuration. Of two for the same namespace, which configuration refuses, one is lost.
    ///
    /// # Errors
    /// A namespace is no identifier, which a loaded configuration does not have.
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
        Ok(Self(Prefixes::new(rules)))
    }

    /// The rule that decides about `id`: the one with the longest prefix of its names.
    pub fn find(&self, id: &Identifier) -> Option<&Rule> {
        self.0.find(id)
    }

    /// The rules strictly below `id`, sorted by namespace.
    pub fn below(&self, id: &Identifier) -> impl Iterator<Item = &Rule> {
        self.0.below(id).iter()
    }

    /// Whether `caller` may do at `id` what an operation of this access does there.
    ///
    /// # Errors
    /// The rule that says no, or that there is none.
    pub fn decide(
        &self,
        caller: &Principal,
        access: Access,
        id: &Identifier,
    ) -> Result<(), Denial<'_>> {
        self.decide_as(caller, access, id, access == Access::Write)
    }

    /// Decides on what reaches nothing below `id`, such as the creation of a namespace.
    ///
    /// # Errors
    /// As of [`Rules::decide`].
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
        // Who may not see that there is such a name does not learn it here.
        let mut told = self.below(id).filter(refuses);
        let told = told.find(|rule| self.shows(caller, &rule.namespace));
        Err(Denial::below(access, told))
    }

    /// Whether `caller` has this access at `id` and everywhere below it.
    pub fn allows_all(&self, caller: &Principal, access: Access, id: &Identifier) -> bool {
        let all = |id: &_| {
            self.decide(caller, access, id).is_ok() && self.decide_below(caller, access, id).is_ok()
        };
        let other = self.find(id).and_then(|rule| rule.other(id));
        all(id) && other.is_none_or(|other| all(&other))
    }

    /// Whether a rule denies anything to everybody at `id` or below it.
    pub fn denies_in(&self, id: &Identifier) -> bool {
        let denies = |rule: &Rule| rule.read == Need::Deny || rule.write == Need::Deny;
        self.find(id).is_some_and(denies) || self.below(id).any(denies)
    }

    /// Whether `caller` may know of `id`: may read it, or something below it.
    pub fn shows(&self, caller: &Principal, id: &Identifier) -> bool {
        self.leads_to(caller, Access::Read, id)
    }

    /// Whether `caller` has this access at `id` or somewhere below it, lack of leave further down notwithstanding.
    pub fn leads_to(&self, caller: &Principal, access: Access, id: &Identifier) -> bool {
        self.leads_to_one(caller, access, id, |_| true)
    }

    /// The same, where only places that `count` do: `id`, and the namespaces of the rules below it.
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
        match self.need(access) {
            Need::Scope(scope) => caller.has_scope(scope),
            Need::Claim { claim, any_of } => caller.has_claim(claim, any_of),
            Need::Deny => false,
        }
    }

    /// What `id`, which this rule covers, is to a catalog that keeps joined names, where that is something else. Whatever
    /// rule covers that, there is no third.
    fn other(&self, id: &Identifier) -> Option<Identifier> {
        id.split_below(&self.namespace, DEFAULT_DELIMITER)
    }

    /// The namespace as the configuration writes it.
    pub fn spelled(&self) -> String {
        let names: Vec<&str> = self.namespace.names().collect();
        format!("[{}]", names.join(", "))
    }

    /// What a caller needs for this access.
    pub fn need(&self, access: Access) -> &Need {
        match access {
            Access::Read => &self.read,
            Access::Write => &self.write,
        }
    }
}

impl Rights {
    /// What `rules` leave to `caller`.
    pub fn new(rules: Arc<Rules>, caller: Principal) -> Self {
        Self { rules, caller }
    }

    /// As [`Rules::decide`]; the error is the answer: 403, code 15.
    pub fn decide(&self, access: Access, id: &Identifier) -> Result<(), Error> {
        Ok(self.rules.decide(&self.caller, access, id)?)
    }

    /// The reach that the rule for `id` gives to operations outside of the contract.
    pub fn unlisted(&self, id: &Identifier) -> Option<Unlisted> {
        self.rules.find(id).and_then(|rule| rule.unlisted)
    }

    /// As [`Rules::denies_in`].
    pub fn denies_in(&self, id: &Identifier) -> bool {
        self.rules.denies_in(id)
    }

    /// As [`Rules::allows_all`].
    pub fn allow_all(&self, access: Access, id: &Identifier) -> bool {
        self.rules.allows_all(&self.caller, access, id)
    }

    /// Whether the caller may read `id`.
    pub fn read(&self, id: &Identifier) -> bool {
        self.rules.decide(&self.caller, Access::Read, id).is_ok()
    }

    /// As [`Rules::shows`].
    pub fn show(&self, id: &Identifier) -> bool {
        self.rules.shows(&self.caller, id)
    }

    /// Whether the caller may read something at `id` or below it in one of the places that `count`: `id`, and the
    /// namespaces of the rules below it.
    pub fn show_in(&self, id: &Identifier, counts: impl Fn(&Identifier) -> bool) -> bool {
        self.rules
            .leads_to_one(&self.caller, Access::Read, id, counts)
    }
}

#[cfg(test)]
mod tests;
