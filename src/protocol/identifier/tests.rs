#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use super::Identifier;

fn id(names: &[&str]) -> Identifier {
    Identifier::from_names(names).unwrap()
}

#[test]
fn prefixes_are_of_names_and_not_of_characters() {
    let deep = id(&["prod", "eu", "t1"]);
    for (prefix, expected) in [
        (id(&[]), true),
        (id(&["prod"]), true),
        (id(&["prod", "eu"]), true),
        (deep.clone(), true),
        (id(&["pro"]), false),
        (id(&["prod", "e"]), false),
        (id(&["prod", "eu", "t1", "x"]), false),
    ] {
        assert_eq!(deep.starts_with(&prefix), expected, "{prefix:?}");
        assert_eq!(deep.below(&prefix).is_some(), expected);
    }
    let rebase = |from: &[&str], to: &[&str]| deep.rebase(&id(from), &id(to));
    assert_eq!(rebase(&["prod"], &[]), Some(id(&["eu", "t1"])));
    assert_eq!(rebase(&["prod", "eu", "t1"], &[]), Some(id(&[])));
    assert_eq!(rebase(&[], &["x"]), Some(id(&["x", "prod", "eu", "t1"])));
    assert_eq!(rebase(&["prod", "eu", "t1"], &["x"]), Some(id(&["x"])));
    assert_eq!(rebase(&["lab"], &[]), None);
    assert_eq!(deep.parent(), Some(id(&["prod", "eu"])));
    assert_eq!(id(&["a"]).parent(), Some(id(&[])));
    assert_eq!(id(&[]).parent(), None);
    assert_eq!(id(&["prod"]).join("eu").unwrap(), id(&["prod", "eu"]));
    assert_eq!(id(&[]).join("eu").unwrap(), id(&["eu"]));
    assert_eq!(deep.to_string(), "prod$eu$t1");
    assert_eq!(id(&[]).to_string(), "$");
}

#[test]
fn identifiers_sort_name_by_name() {
    let mut sorted = [
        id(&["a!", "b"]),
        id(&["a", "z"]),
        id(&["b"]),
        id(&["a"]),
        id(&[]),
    ];
    sorted.sort();
    assert_eq!(
        sorted,
        [
            id(&[]),
            id(&["a"]),
            id(&["a", "z"]),
            id(&["a!", "b"]),
            id(&["b"])
        ]
    );
}

#[test]
fn names_that_hold_a_delimiter_are_several_to_who_joins_them() {
    type Names<'a> = &'a [&'a str];
    let split = |names: Names<'_>, prefix: Names<'_>| id(names).split_below(&id(prefix), "$");
    let cases: [(Names<'_>, Names<'_>, Option<Names<'_>>); 9] = [
        (&["a", "b$c"], &["a"], Some(&["a", "b", "c"])),
        (&["a", "b$c", "d"], &[], Some(&["a", "b", "c", "d"])),
        (&["a$b", "c$d"], &["a$b"], Some(&["a$b", "c", "d"])),
        (&["a", "$b$$c$"], &["a"], Some(&["a", "b", "c"])),
        (&["$"], &[], Some(&[])),
        (&["a$b", "c"], &["a$b"], None),
        (&["a$b"], &["a$b"], None),
        (&["a", "b"], &[], None),
        (&["a", "b$c"], &["x"], None),
    ];
    for (names, prefix, expected) in cases {
        assert_eq!(
            split(names, prefix),
            expected.map(id),
            "{names:?} {prefix:?}"
        );
    }
}
