//! Checks for access rules that contradict each other, or cannot do what they were written for.

use std::collections::{BTreeMap, HashMap};

use super::prefixes::Prefixes;
use crate::config::load::reader::Reader;
use crate::config::mount::MAX_NAMES;
use crate::config::{Access, AuthorizationRule, Config, Mount, StorageCredentials};
use crate::protocol::claims::TLS_SUBJECT;

/// The most pairs of mounts that are checked for two names of one table. A file has more only if thousands of mounts
/// lead to one place.
const MAX_PAIRS: usize = 1 << 20;

/// Records the problems of the rules, and what seems to be one.
pub(super) fn rules(config: &Config, reader: &mut Reader<'_>) {
    let Some(rules) = &config.authorization else {
        for (index, mount) in config.mounts.iter().enumerate() {
            if mount.storage_credentials == StorageCredentials::Strip {
                let key = format!("mounts[{index}].storage_credentials");
                reader.warn_at(&key, "keeps the keys of the storage from callers who may not write, and without `authorization` every caller may; write rules below `authorization`");
            }
        }
        return;
    };
    if rules.is_empty() && reader.has_no_problem_below("authorization") {
        reader.warn_at("authorization", "has no rule, so nobody may do anything; write a rule such as { namespace: [], read: { scope: catalog.read }, write: { scope: catalog.write } }, or remove the key to let every authenticated caller do everything");
    }
    let mounts = config.mounts.iter().map(|mount| (&*mount.namespace, mount));
    let mounts: Prefixes<'_, &Mount> = mounts.collect();
    let mut first: HashMap<&[String], usize> = HashMap::new();
    for (index, rule) in rules.iter().enumerate() {
        let key = format!("authorization[{index}]");
        if rule.namespace.len() > MAX_NAMES {
            let message = format!("has more than {MAX_NAMES} names; write the rule further up");
            reader.problem_at(&format!("{key}.namespace"), message);
        }
        if reader.has_no_problem_below(&key) && reader.has(&format!("{key}.namespace")) {
            idle(&mounts, reader, &key, rule);
            for (what, need) in [("read", &rule.read), ("write", &rule.write)] {
                unmet(config, reader, &format!("{key}.{what}"), need);
            }
        }
        if let Some(first) = first.insert(&rule.namespace, index) {
            let place = reader.place(&format!("authorization[{first}].namespace"));
            let message = format!(
                "has a rule at {place} already; one namespace has one rule, so merge the two"
            );
            reader.problem_at(&format!("{key}.namespace"), message);
        }
    }
    if reader.has_no_problem_below("authorization") && reader.has_no_problem_below("auth") {
        issued(config, reader, rules);
    }
    if reader.has_no_problem_below("authorization") && reader.has_no_problem_below("mounts") {
        two_names(config, &mounts, reader, rules);
        kept_from_nobody(config, reader, rules);
    }
}

/// Warns about a rule that can decide nothing.
fn idle(
    mounts: &Prefixes<'_, &Mount>,
    reader: &mut Reader<'_>,
    key: &str,
    rule: &AuthorizationRule,
) {
    let namespace = &rule.namespace;
    let mut near = mounts.covering(namespace).chain(mounts.below(namespace));
    if near.next().is_none() && reader.has_no_problem_below("mounts") {
        reader.warn_at(&format!("{key}.namespace"), "nothing is mounted at, above or below it, so the rule decides nothing; correct the names, or remove the rule");
    }
}

/// Warns about a permission that no caller can have.
fn unmet(config: &Config, reader: &mut Reader<'_>, key: &str, need: &Access) {
    if is_of_certificate(need) {
        let tls = config.listen.tls.as_ref();
        if tls.is_none_or(|tls| tls.client_ca.is_none())
            && reader.has_no_problem_below("listen.tls")
        {
            reader.warn_at(key, "asks for the subject of a client's certificate, and no client is asked for one, so nobody may; write `client_ca: clients.pem` into `listen.tls`");
        }
    } else if config.auth.anonymous && !matches!(need, Access::AnyCaller | Access::Deny) {
        reader.warn_at(key, "asks for something in a token, and `auth.anonymous` lets everyone in without one, so nobody may; name the issuers of the tokens instead");
    }
}

/// Warns about mounts that keep the keys of their storage from nobody.
fn kept_from_nobody(config: &Config, reader: &mut Reader<'_>, rules: &[AuthorizationRule]) {
    let rules = rules.iter().map(|rule| (&*rule.namespace, rule));
    let rules: Prefixes<'_, &AuthorizationRule> = rules.collect();
    for (index, mount) in config.mounts.iter().enumerate() {
        let rule = rules.covering(&mount.namespace).next();
        if mount.storage_credentials == StorageCredentials::Strip
            && let Some((_, rule)) = rule
            && (rule.read == rule.write || rule.write == Access::AnyCaller)
            && rules.below(&mount.namespace).next().is_none()
        {
            let key = format!("mounts[{index}].storage_credentials");
            reader.warn_at(&key, "keeps the keys of the storage from callers who may not write, and by the rule for it whoever may read may write; write another rule, or leave it out");
        }
    }
}

/// Warns about a permission that any of several issuers may give, whose scopes and claims may mean different things, and
/// about an issuer that is none.
fn issued(config: &Config, reader: &mut Reader<'_>, rules: &[AuthorizationRule]) {
    let issuers = &config.auth.issuers;
    let mut is_told = issuers.len() < 2;
    for (index, rule) in rules.iter().enumerate() {
        for (what, need) in [("read", &rule.read), ("write", &rule.write)] {
            let key = format!("authorization[{index}].{what}");
            match need {
                Access::Issued { issuer, .. }
                    if !issuers.iter().any(|known| known.issuer == *issuer) =>
                {
                    let message = "is no issuer of `auth.issuers`, so nobody may; write one of them, byte for byte";
                    reader.warn_at(&format!("{key}.issuer"), message);
                }
                Access::Scope(_) | Access::Claim { .. } if !is_told && !is_of_certificate(need) => {
                    is_told = true;
                    let message = "counts in the tokens of every issuer, and another issuer may give it to anybody; write `issuer: ISSUER` beside it here and in all rules, unless it means the same at all of them";
                    reader.warn_at(&key, message);
                }
                _ => {}
            }
        }
    }
}

fn is_of_certificate(need: &Access) -> bool {
    match need {
        Access::Claim { claim, .. } => claim == TLS_SUBJECT,
        Access::Issued { need, .. } => is_of_certificate(need),
        _ => false,
    }
}

/// Warns about a table with two names and different rules: a caller that may do something under either name may do it
/// to the table.
fn two_names(
    config: &Config,
    owners: &Prefixes<'_, &Mount>,
    reader: &mut Reader<'_>,
    rules: &[AuthorizationRule],
) {
    let mounts = &config.mounts;
    let rules = rules
        .iter()
        .map(|rule| (&*rule.namespace, (&rule.read, &rule.write)));
    let rules: Prefixes<'_, Needs<'_>> = rules.collect();
    for ((index, inner), (other, outer)) in within(mounts).take(MAX_PAIRS) {
        let tail = &inner.backend_namespace[outer.backend_namespace.len()..];
        // Two mounts that are each other's other name are reported once.
        if other == index || (tail.is_empty() && other > index) {
            continue;
        }
        let second = [&outer.namespace[..], tail].concat();
        let owner = owners.covering(&second).next();
        let reaches = owner.is_some_and(|(namespace, _)| *namespace == outer.namespace);
        let (first, place) = (inner.namespace.join(", "), second.join(", "));
        if reaches && inner.storage_credentials != outer.storage_credentials {
            reader.warn_at(&format!("mounts[{index}].namespace"), format!("what is below [{first}] is below [{place}] too, and only one of the two mounts keeps the keys of its storage; write the same `storage_credentials` for both"));
        }
        if reaches && said(&rules, &inner.namespace) != said(&rules, &second) {
            let second = place;
            reader.warn_at(&format!("mounts[{index}].namespace"), format!("what is below [{first}] is below [{second}] too, and the rules for the two differ, so who may do something under either name may do it; write the same rules for both"));
        }
    }
}

type Numbered<'a> = (usize, &'a Mount);

/// Returns each mount paired with those that lead to the same place in its catalog, or to a place above it.
fn within(mounts: &[Mount]) -> impl Iterator<Item = (Numbered<'_>, Numbered<'_>)> {
    let mut by_place: HashMap<(&str, &[String]), Vec<Numbered<'_>>> = HashMap::new();
    for (index, mount) in mounts.iter().enumerate() {
        let place = (&*mount.backend, &*mount.backend_namespace);
        by_place.entry(place).or_default().push((index, mount));
    }
    let outer = move |inner: &Mount| {
        let names = &inner.backend_namespace;
        let places = (0..=names.len())
            .filter_map(|length| by_place.get(&(&*inner.backend, &names[..length])));
        let mut found: Vec<_> = places.flatten().copied().collect();
        found.sort_by_key(|(index, _)| *index);
        found
    };
    let inner = mounts.iter().enumerate();
    inner.flat_map(move |inner| outer(inner.1).into_iter().map(move |outer| (inner, outer)))
}

type Needs<'a> = (&'a Access, &'a Access);

/// Returns the permissions that the rules require for a namespace, and for what is below it.
fn said<'a>(
    rules: &Prefixes<'a, Needs<'a>>,
    namespace: &[String],
) -> (Option<Needs<'a>>, BTreeMap<&'a [String], Needs<'a>>) {
    let longest = rules.covering(namespace).next();
    let below = rules.below(namespace);
    (
        longest.map(|(_, needs)| *needs),
        below.map(|(tail, needs)| (tail, *needs)).collect(),
    )
}
