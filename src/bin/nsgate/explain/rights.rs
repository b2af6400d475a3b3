//! The permissions of one caller, each with the rule that grants or denies it.

use nsgate::auth::access::{Denial, Rule};
use nsgate::config::Access as Need;
use nsgate::protocol::identifier::Identifier;
use nsgate::protocol::operation::Access;
use nsgate::protocol::principal::Principal;

use super::{PlacedRules, line, names};
use crate::batches::plain;

/// Adds whether the caller may read and write, and why.
pub(super) fn add(
    said: &mut String,
    rules: Option<&PlacedRules<'_>>,
    caller: &Principal,
    id: &Identifier,
) {
    let Some(rules) = rules else {
        let words = "yes: there is no `authorization`, so every caller who is let in may";
        line(said, "may read", words);
        return line(said, "may write", words);
    };
    for (what, access) in [("may read", Access::Read), ("may write", Access::Write)] {
        let words = match rules.rules.decide(caller, access, id) {
            Ok(()) => granted(rules, access, id),
            Err(denial) => denied(rules, caller, access, id, denial),
        };
        line(said, what, &words);
    }
    let is_readable = rules.rules.decide(caller, Access::Read, id).is_ok();
    if !is_readable && rules.rules.shows(caller, id) {
        line(
            said,
            "may list",
            "yes: something below it may be read, so listings show the name",
        );
    }
}

fn granted(rules: &PlacedRules<'_>, access: Access, id: &Identifier) -> String {
    let Some(rule) = rules.rules.find(id) else {
        return "yes".to_owned();
    };
    let has = has(rule.need(access));
    format!("yes: {has} ({})", named(rules, rule, access))
}

fn has(need: &Need) -> String {
    match need {
        Need::Scope(scope) => format!("it has the scope {scope}"),
        Need::Claim { claim, any_of } => format!("its claim {claim} is {}", any_of.join(" or ")),
        Need::Issued { issuer, need } if **need == Need::AnyCaller => format!("it is of {issuer}"),
        Need::Issued { issuer, need } => format!("{}, and is of {issuer}", has(need)),
        Need::AnyCaller => "every caller may".to_owned(),
        Need::Deny => String::new(),
    }
}

fn denied(
    rules: &PlacedRules<'_>,
    caller: &Principal,
    access: Access,
    id: &Identifier,
    denial: Denial<'_>,
) -> String {
    let Some(rule) = denial.rule() else {
        let place = rules.place(None, "");
        return format!(
            "no: no rule covers {:?}; add one below `authorization` ({place})",
            names(id)
        );
    };
    let reach = if denial.is_below() {
        "a write also reaches what is below, and there "
    } else {
        ""
    };
    let lacks = lacks(rule.need(access), caller);
    format!("no: {reach}{lacks} ({})", named(rules, rule, access))
}

fn lacks(need: &Need, caller: &Principal) -> String {
    match need {
        Need::Issued { issuer, .. } if **caller.issuer() != **issuer => {
            format!("the rule is for callers of {issuer} only (`--claim iss={issuer}`)")
        }
        Need::Issued { need, .. } => lacks(need, caller),
        Need::Scope(scope) => format!("it lacks the scope {scope}; a token with this scope could"),
        Need::Claim { claim, any_of } => {
            let values = any_of.join(" or ");
            match caller.claim(claim) {
                Some(value) => {
                    let value = plain(&value.to_string());
                    format!("its claim {claim} is {value}; a token where it is {values} could")
                }
                None => format!("it lacks the claim {claim}; a token where it is {values} could"),
            }
        }
        Need::AnyCaller | Need::Deny => {
            "the rule denies it to every caller; change it, or add a longer rule".to_owned()
        }
    }
}

/// Returns the name of a rule, and the place of what it needs.
fn named(rules: &PlacedRules<'_>, rule: &Rule, access: Access) -> String {
    let key = match access {
        Access::Read => ".read",
        Access::Write => ".write",
    };
    format!("rule {}, {}", rule.spelled(), rules.place(Some(rule), key))
}
