#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

use serde_json::json;

use super::*;
use crate::protocol::principal::Identity;
use crate::util::dice::Dice;

fn id(names: &[&str]) -> Identifier {
    Identifier::from_names(names).unwrap()
}

fn scope(scope: &str) -> Need {
    Need::Scope(scope.to_owned())
}

fn team(team: &str) -> Need {
    Need::Claim {
        claim: "team".to_owned(),
        any_of: vec![team.to_owned()],
    }
}

fn rules_of(rules: &[(&[&str], Need, Need)]) -> Rules {
    let rule = |(namespace, read, write): &(&[&str], Need, Need)| AuthorizationRule {
        namespace: namespace.iter().map(|&name| name.to_owned()).collect(),
        read: read.clone(),
        write: write.clone(),
        unlisted: None,
    };
    Rules::new(&rules.iter().map(rule).collect::<Vec<_>>()).unwrap()
}

fn caller(scopes: &[&str], team: &str) -> Principal {
    Principal::new(Identity {
        issuer: "https://one.test".into(),
        scopes: scopes.join(" ").into(),
        claims: json!({"team": team}).as_object().unwrap().clone().into(),
        ..Identity::default()
    })
}

fn sample() -> Rules {
    rules_of(&[
        (&["prod"], scope("read"), scope("write")),
        (&["prod", "hr"], team("hr"), Need::Deny),
        (&["prod", "hr", "open"], scope("read"), scope("write")),
        (&["lab"], scope("read"), scope("write")),
        (&["far", "away"], scope("read"), scope("write")),
    ])
}

#[test]
fn the_longest_prefix_of_names_decides() {
    use Access::{Read, Write};
    let rules = sample();
    let everything = caller(&["read", "write"], "it");
    let reader = caller(&["read"], "it");
    let hr = caller(&[], "hr");
    let cases: [(&Principal, Access, &[&str], bool); 19] = [
        (&everything, Read, &["prod"], true),
        (&everything, Read, &["prod", "x", "t"], true),
        (&everything, Read, &["prod", "hr"], false),
        (&everything, Read, &["prod", "hr", "t"], false),
        (&everything, Read, &["prod", "hrx", "t"], true),
        (&everything, Read, &["prod", "hr", "open", "t"], true),
        (&everything, Read, &["product", "t"], false),
        (&everything, Read, &[], false),
        (&everything, Read, &["far"], false),
        (&everything, Read, &["nowhere", "t"], false),
        (&everything, Write, &["prod", "x"], true),
        (&everything, Write, &["lab"], true),
        (&everything, Write, &["prod", "hr", "open", "t"], true),
        // The write would reach what is below.
        (&everything, Write, &["prod"], false),
        (&reader, Read, &["lab", "t"], true),
        (&reader, Write, &["lab", "t"], false),
        (&hr, Read, &["prod", "hr", "t"], true),
        (&hr, Read, &["prod", "t"], false),
        (&hr, Write, &["prod", "hr", "t"], false),
    ];
    for (who, access, names, expected) in cases {
        let decided = rules.decide(who, access, &id(names));
        assert_eq!(decided.is_ok(), expected, "{who:?} {access:?} {names:?}");
    }
    let none = Rules::new(&[]).unwrap();
    assert!(none.decide(&everything, Read, &id(&[])).is_err());
    let nobody = Principal::anonymous();
    assert!(rules.decide(&nobody, Read, &id(&["prod", "t"])).is_err());
}

#[test]
fn what_leads_to_something_readable_is_shown() {
    let rules = sample();
    let hr = caller(&[], "hr");
    let reader = caller(&["read"], "it");
    let cases: [(&Principal, &[&str], bool); 9] = [
        (&hr, &[], true),
        (&hr, &["prod"], true),
        (&hr, &["prod", "hr"], true),
        (&hr, &["prod", "hr", "open"], false),
        (&hr, &["lab"], false),
        (&hr, &["far"], false),
        (&reader, &["far"], true),
        (&reader, &["prod", "hr"], true),
        (&reader, &["prod", "hr", "t"], false),
    ];
    for (who, names, expected) in cases {
        assert_eq!(rules.shows(who, &id(names)), expected, "{who:?} {names:?}");
    }
}

#[test]
fn a_name_that_holds_the_delimiter_is_also_what_it_is_joined() {
    use Access::{Read, Write};
    let rules = rules_of(&[
        (&["prod"], scope("read"), scope("write")),
        (&["prod", "hr"], team("hr"), team("hr")),
        (&["prod", "x", "y"], scope("read"), Need::Deny),
        (&["prod", "k$l"], scope("read"), scope("write")),
        (&["prod", "k", "l"], Need::Deny, Need::Deny),
    ]);
    let everything = caller(&["read", "write"], "it");
    let hr = caller(&["read", "write"], "hr");
    let only_hr = caller(&[], "hr");
    let deep: Vec<&str> = ["prod"].into_iter().chain(["a$b"; 60]).collect();
    let cases: [(&Principal, Access, &[&str], bool); 17] = [
        (&everything, Read, &["prod", "a$b"], true),
        (&everything, Write, &deep, true),
        (&everything, Write, &["prod", "a$b", "t"], true),
        (&everything, Read, &["prod", "hr$t"], false),
        (&everything, Write, &["prod", "hr$t"], false),
        (&everything, Read, &["prod", "hr$"], false),
        (&everything, Read, &["prod", "$hr$$t$"], false),
        (&everything, Read, &["prod", "hr$open", "t"], false),
        (&everything, Write, &["prod", "x$"], false),
        (&everything, Write, &["prod", "x$y", "t"], false),
        (&everything, Write, &["prod", "x$z"], true),
        (&hr, Read, &["prod", "hr$t"], true),
        (&hr, Write, &["prod", "hr$t"], true),
        // It may still be a name of its own.
        (&only_hr, Read, &["prod", "hr$t"], false),
        (&only_hr, Read, &["prod", "hr", "a$b"], true),
        // A rule that names it settles what it is.
        (&everything, Read, &["prod", "k$l", "t"], true),
        (&everything, Read, &["prod", "k", "l", "t"], false),
    ];
    for (who, access, names, expected) in cases {
        let id = id(names);
        let decided = rules.decide(who, access, &id);
        assert_eq!(decided.is_ok(), expected, "{who:?} {access:?} {names:?}");
        assert_eq!(rules.allows_all(who, access, &id), expected, "{names:?}");
        let leads = rules.leads_to(who, access, &id);
        assert_eq!(leads, expected || names == ["prod", "x$"], "{names:?}");
    }
}

/// Caller, access, name, message, challenge.
type Said<'a> = (
    &'a Principal,
    Access,
    &'a [&'a str],
    &'a str,
    Option<&'a str>,
);

#[test]
fn a_denial_says_what_is_needed_and_nothing_of_what_there_is() {
    use Access::{Read, Write};
    let rules = sample();
    let nobody = caller(&[], "it");
    let writer = caller(&["write"], "it");
    let both = caller(&["read", "write"], "hr");
    let cases: [Said<'_>; 7] = [
        (
            &nobody,
            Read,
            &["prod", "t"],
            "not allowed to read: the rule for [prod] needs the scope `read`",
            Some(r#"Bearer error="insufficient_scope", scope="read""#),
        ),
        (
            &nobody,
            Write,
            &["prod"],
            "not allowed to write: the rule for [prod] needs the scope `write`",
            Some(r#"Bearer error="insufficient_scope", scope="write""#),
        ),
        (
            &nobody,
            Read,
            &["prod", "hr", "t"],
            "not allowed to read: the rule for [prod, hr] needs the claim `team` with a value that the rule accepts",
            None,
        ),
        (
            &both,
            Write,
            &["prod", "hr", "t"],
            "not allowed to write: the rule for [prod, hr] allows nobody",
            None,
        ),
        (
            &both,
            Write,
            &["prod"],
            "not allowed to write: this also affects the names below, where the rule for [prod, hr] allows nobody",
            None,
        ),
        (
            &writer,
            Write,
            &["prod"],
            "not allowed to write: this also affects the names below, where another rule does not allow this caller",
            None,
        ),
        (
            &both,
            Read,
            &["nowhere"],
            "not allowed to read: no rule covers this name",
            None,
        ),
    ];
    for (who, access, names, message, challenge) in cases {
        let denial = rules.decide(who, access, &id(names)).unwrap_err();
        let error = Error::from(denial);
        assert_eq!((error.status().as_u16(), error.code().number()), (403, 15));
        assert_eq!(error.message(), message);
        let said = error
            .headers()
            .first()
            .map(|(_, value)| value.to_str().unwrap());
        assert_eq!(said, challenge, "{message}");
    }
    let odd = rules_of(&[(&[], scope("a\"b"), Need::Deny)]);
    let denial = odd.decide(&nobody, Read, &id(&["t"])).unwrap_err();
    assert!(
        Error::from(denial).headers().is_empty(),
        "it would end the quotes"
    );
}

#[test]
fn a_rule_of_one_issuer_is_met_by_no_token_of_another() {
    let caller = caller(&["one"], "hr");
    for (issuer, may) in [
        ("https://one.test", true),
        ("https://two.test", false),
        ("", false),
    ] {
        for need in [scope("one"), team("hr"), Need::AnyCaller] {
            let rules = Rules::new(&[AuthorizationRule {
                namespace: Vec::new(),
                read: issued(issuer, need.clone()),
                write: Need::Deny,
                unlisted: None,
            }]);
            let decided = rules
                .unwrap()
                .decide(&caller, Access::Read, &id(&["t"]))
                .is_ok();
            assert_eq!(decided, may, "{issuer} {need:?}");
        }
    }
}

impl Dice {
    /// Returns names of which some are prefixes of others.
    fn names(&mut self, most: usize) -> Vec<&'static str> {
        let length = self.below(most + 1);
        let names = ["a", "ab", "b", "a b"];
        (0..length).map(|_| self.one_of(&names)).collect()
    }

    fn need(&mut self) -> Need {
        match self.below(6) {
            0 => Need::Deny,
            1 => team("hr"),
            2 => issued("https://one.test", scope("one")),
            3 => issued("https://other", scope("one")),
            4 => scope("one"),
            _ => scope("two"),
        }
    }
}

fn issued(issuer: &str, need: Need) -> Need {
    Need::Issued {
        issuer: issuer.to_owned(),
        need: Box::new(need),
    }
}

/// A simple second implementation of the rules, over lists of names.
struct Model(Vec<(Vec<&'static str>, Need, Need)>);

impl Model {
    fn allows(&self, (one, hr): (bool, bool), access: Access, id: &[&str]) -> bool {
        let covering = self.0.iter().filter(|rule| id.starts_with(&rule.0));
        let longest = covering.max_by_key(|rule| rule.0.len());
        let need = longest.map(|rule| match access {
            Access::Read => &rule.1,
            Access::Write => &rule.2,
        });
        match need {
            Some(Need::Scope(scope)) => scope == "one" && one,
            Some(Need::Claim { .. }) => hr,
            Some(Need::Issued { issuer, .. }) => issuer == "https://one.test" && one,
            Some(Need::AnyCaller) => true,
            Some(Need::Deny) | None => false,
        }
    }

    /// Returns every place where the decision may change: `id`, and the namespaces of the rules
    /// below it.
    fn places_from<'a>(
        &'a self,
        id: &'a [&'static str],
    ) -> impl Iterator<Item = &'a [&'static str]> {
        let places = self.0.iter().map(|rule| rule.0.as_slice());
        places.filter(|place| place.starts_with(id)).chain([id])
    }
}

#[test]
fn decisions_are_those_of_a_model_that_looks_at_every_rule() {
    let (mut cases, mut allowed) = (0, 0);
    for seed in 1..=400_u64 {
        let mut dice = Dice::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut model = Model(Vec::new());
        for _ in 0..dice.below(9) {
            let names = dice.names(4);
            if model.0.iter().all(|rule| rule.0 != names) {
                model.0.push((names, dice.need(), dice.need()));
            }
        }
        let given = model.0.iter();
        let given: Vec<(&[&str], Need, Need)> = given
            .map(|(names, read, write)| (names.as_slice(), read.clone(), write.clone()))
            .collect();
        let rules = rules_of(&given);
        for who in [(false, false), (true, false), (false, true), (true, true)] {
            let scopes: &[&str] = if who.0 { &["one"] } else { &["none"] };
            let principal = caller(scopes, if who.1 { "hr" } else { "it" });
            for _ in 0..40 {
                let names = dice.names(5);
                let id = id(&names);
                let reads = model.allows(who, Access::Read, &names);
                let all = |access| {
                    let mut places = model.places_from(&names);
                    places.all(|place| model.allows(who, access, place))
                };
                let shows = model
                    .places_from(&names)
                    .any(|place| model.allows(who, Access::Read, place));
                let expected = (reads, all(Access::Write), all(Access::Read), shows);
                let found = (
                    rules.decide(&principal, Access::Read, &id).is_ok(),
                    rules.decide(&principal, Access::Write, &id).is_ok(),
                    rules.allows_all(&principal, Access::Read, &id),
                    rules.shows(&principal, &id),
                );
                assert_eq!(
                    found, expected,
                    "seed {seed}: {who:?} {names:?} {:?}",
                    model.0
                );
                cases += 1;
                allowed += usize::from(reads);
            }
        }
    }
    println!("{cases} decisions over 400 sets of rules, {allowed} of them allowed reads");
    assert!(allowed > cases / 20 && allowed < cases / 2);
}
