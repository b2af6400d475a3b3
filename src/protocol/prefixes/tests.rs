#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

use super::*;

impl PrefixEntry for Identifier {
    fn prefix(&self) -> &Identifier {
        self
    }
}

/// Returns an identifier whose names are the digits of `number`, without zeros.
fn id(number: u32) -> Identifier {
    let digits = number.to_string();
    let digits = digits.split("").filter(|digit| !digit.is_empty());
    Identifier::from_names(digits.filter(|digit| *digit != "0")).unwrap()
}

#[test]
fn finds_what_looking_at_all_of_them_finds() {
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..100 {
        let some = random.usize(..12);
        let ids: Vec<Identifier> = (0..some)
            .map(|_| id(random.u32(..4000) % [5, 50, 500, 4000][random.usize(..4)]))
            .collect();
        let table = Prefixes::new(ids.clone());
        for number in 0..500 {
            let asked = id(number);
            let covering = ids.iter().filter(|one| asked.starts_with(one));
            let longest = covering.max_by_key(|one| one.len());
            assert_eq!(table.find(&asked), longest, "{asked} in {ids:?}");
            let mut below: Vec<&Identifier> = ids
                .iter()
                .filter(|one| one.starts_with(&asked) && **one != asked)
                .collect();
            below.sort();
            below.dedup();
            let found: Vec<_> = table.below(&asked).iter().collect();
            assert_eq!(found, below, "{asked} in {ids:?}");
        }
    }
}

#[test]
fn the_deepest_identifier_is_found_by_the_shortest_prefix_and_by_the_longest() {
    let deep = Identifier::from_names(vec!["n"; 64]).unwrap();
    let short = Identifier::from_names(["n"]).unwrap();
    assert_eq!(Prefixes::new(vec![short.clone()]).find(&deep), Some(&short));
    assert_eq!(
        Prefixes::new(vec![short, deep.clone()]).find(&deep),
        Some(&deep)
    );
    assert!(Prefixes::<Identifier>::default().find(&deep).is_none());
    assert!(Prefixes::<Identifier>::default().below(&deep).is_empty());
}
