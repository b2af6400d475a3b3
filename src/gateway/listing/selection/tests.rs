//! Compares pages of a selection with those that are cut from all names, sorted.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::collections::BTreeMap;

use super::*;
use crate::util::dice::Dice;

fn shuffle(dice: &mut Dice, names: &mut [String]) {
    for end in (1..names.len()).rev() {
        names.swap(end, dice.below(end + 1));
    }
}

fn random_names(dice: &mut Dice, count: usize) -> Vec<String> {
    let names = (0..count).map(|_| dice.below(1_000_000).to_string());
    names.collect()
}

/// The page of `room` names at a place, as a listing takes it from an answer that comes in pieces of random sizes.
/// `is_shown` says which names are not hidden.
fn page(
    dice: &mut Dice,
    place: Place,
    listed: &[String],
    room: usize,
    is_shown: impl Fn(&str) -> bool,
) -> (Vec<String>, Option<Place>) {
    let limit = place.limit.unwrap_or(room);
    let place = Place {
        limit: Some(limit),
        ..place
    };
    let mut selection = Selection::new(place, limit, room);
    let mut rest = listed;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.len().min(1 + dice.below(4)));
        let shown = piece.iter().filter(|name| is_shown(name)).cloned();
        selection.add(piece.len(), shown.collect());
        assert!(
            selection.len() <= limit.max(room + 1),
            "{}",
            selection.len()
        );
        rest = after;
    }
    let bytes = selection.bytes();
    let (mut names, mut place) = selection.finish();
    assert_eq!(
        bytes,
        names.iter().map(|name| NAME + name.len()).sum::<usize>()
    );
    if names.len() <= room {
        return (names, None);
    }
    names.truncate(room);
    place.last = names.last().cloned();
    (names, Some(place))
}

#[test]
fn a_page_is_cut_as_from_all_names_sorted() {
    let mut dice = Dice::new(3);
    for round in 0..5000 {
        let count = dice.below(60);
        let (listed, room) = (random_names(&mut dice, count), 1 + dice.below(12));
        let shown = dice.below(4);
        let is_shown = |name: &str| name.len() % 4 >= shown || shown == 0;
        let last = (dice.below(3) > 0).then(|| dice.below(1_000_000).to_string());
        let place = Place {
            is_sorted: last.is_some(),
            last: last.clone(),
            ..Place::default()
        };
        let (names, next) = page(&mut dice, place, &listed, room, is_shown);
        let mut all: Vec<String> = listed
            .iter()
            .filter(|name| is_shown(name))
            .cloned()
            .collect();
        if last.is_some() || listed.len() > room {
            all.sort();
            all.dedup();
            all.retain(|name| Some(name) > last.as_ref());
        }
        let has_more = all.len() > room;
        all.truncate(room);
        assert_eq!((names, next.is_some()), (all, has_more), "round {round}");
    }
}

/// Names come and go between the pages of a walk, and are hidden and shown again. Every name that is there all the time
/// comes once, and no name comes twice.
#[test]
fn a_walk_over_changing_names_has_each_that_stays_exactly_once() {
    let mut dice = Dice::new(5);
    let mut pages = 0;
    for round in 0..1500 {
        let room = 1 + dice.below(9);
        // More than the limit, so that it is clear that the catalog ignores it.
        let count = room + 1 + dice.below(60);
        let mut listed = random_names(&mut dice, count);
        listed.sort();
        listed.dedup();
        if listed.len() <= room {
            continue;
        }
        let stays: Vec<String> = listed
            .iter()
            .filter(|_| dice.below(3) > 0)
            .cloned()
            .collect();
        let mut hidden: Vec<String> = Vec::new();
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        let mut place = Some(Place::default());
        while let Some(from) = place {
            shuffle(&mut dice, &mut listed);
            let is_shown = |name: &str| !hidden.iter().any(|hidden| hidden == name);
            let (names, next) = page(&mut dice, from, &listed, room, is_shown);
            assert!(names.len() == room || next.is_none(), "round {round}");
            names
                .into_iter()
                .for_each(|name| *seen.entry(name).or_default() += 1);
            place = next;
            pages += 1;
            // All but those that stay may change, as long as the limit is passed.
            hidden = listed
                .iter()
                .filter(|_| dice.below(4) == 0)
                .cloned()
                .collect();
            hidden.retain(|name| !stays.contains(name));
            let more = dice.below(4);
            listed.extend(random_names(&mut dice, more));
            let at = dice.below(listed.len());
            if !stays.contains(&listed[at]) && listed.len() > room + 1 {
                listed.remove(at);
            }
        }
        assert!(
            seen.values().all(|times| *times == 1),
            "round {round}: {seen:?}"
        );
        for name in stays {
            assert!(seen.contains_key(&name), "round {round}: {name} is missing");
        }
    }
    assert!(pages > 5000, "{pages}");
}

/// A page that was cut in the catalog's order goes on in that order, although the list is longer than the limit by then.
#[test]
fn an_order_once_begun_is_kept_while_the_list_grows() {
    let mut dice = Dice::new(9);
    for _ in 0..2000 {
        let (room, count) = (1 + dice.below(5), 2 + dice.below(20));
        let mut listed: Vec<String> = (0..count)
            .map(|number| format!("n{}", number * 7919 % 1009))
            .collect();
        let mut place = Some(Place {
            limit: Some(count),
            ..Place::default()
        });
        let mut seen = Vec::new();
        while let Some(from) = place {
            let (names, next) = page(&mut dice, from, &listed, room, |_| true);
            seen.extend(names);
            place = next;
            if place.is_some() && dice.below(2) == 0 {
                listed.push(format!("m{}", listed.len() * 31 % 1009));
            }
        }
        assert_eq!(seen, listed);
    }
}

/// The name at which the page was cut is gone from the catalog's own order: nothing is missing.
#[test]
fn a_cut_that_is_gone_begins_the_page_again() {
    let listed: Vec<String> = ["c", "a", "e", "b"].map(str::to_owned).to_vec();
    for limit in [3, 4] {
        let place = Place {
            last: Some("d".to_owned()),
            limit: Some(limit),
            ..Place::default()
        };
        let (names, next) = page(&mut Dice::new(1), place.clone(), &listed, 4, |_| true);
        assert_eq!((names, next), (listed.clone(), None));
        let (names, next) = page(&mut Dice::new(1), place, &listed, 2, |_| true);
        assert_eq!(names, ["c", "a"]);
        let (names, _) = page(&mut Dice::new(1), next.unwrap(), &listed, 2, |_| true);
        assert_eq!(names, ["e", "b"]);
    }
}
