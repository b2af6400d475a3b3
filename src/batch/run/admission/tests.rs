#![allow(clippy::unwrap_used, reason = "a test that panics fails")]
use super::*;
use crate::protocol::data_scope::DataScope;
use crate::protocol::identifier::Identifier;

fn tables(backends: &[&str]) -> Vec<TableKey> {
    let table = |backend: &&str| TableKey {
        scope: DataScope::default(),
        backend: (*backend).into(),
        table: Identifier::from_names(["t"]).unwrap(),
    };
    backends.iter().map(table).collect()
}

#[test]
fn a_decision_makes_room_for_a_batch_that_involves_other_catalogs() {
    let permits = Arc::<Permits>::default();
    let (west, east) = (tables(&["west", "east"]), tables(&["east"]));
    let mut open = Vec::new();
    for number in 0..OPEN {
        let caller = ["ann", "bob"][number % 2];
        let mut permit = permits.admit(caller, &west).unwrap();
        permit.decided();
        open.push(permit);
    }
    let full = permits.admit("ann", &west).map(drop).unwrap_err();
    assert_eq!(full, NoRoom::Open("west".into()));
    assert_eq!(full.into_error().status(), 503);
    assert_eq!(
        permits.admit("ann", &east).map(drop),
        Err(NoRoom::Open("east".into()))
    );
    let north = tables(&["north"]);
    let running: Vec<_> = (0..RUNNING)
        .map(|number| {
            let caller = ["ann", "bob"][number % 2];
            permits.admit(caller, &north).unwrap()
        })
        .collect();
    assert_eq!(permits.admit("eve", &north).map(drop), Err(NoRoom::Running));
    drop(running);
    open.pop();
    permits.admit("bob", &west).map(drop).unwrap();
    drop(open);
    assert!(permits.loads().is_empty(), "nothing is left behind");
}

#[test]
fn the_entries_of_open_batches_are_bounded_too() {
    let permits = Arc::<Permits>::default();
    let half = tables(&vec!["west"; OPEN_ENTRIES / 2]);
    let too_many = tables(&vec!["east"; ENTRIES + 1]);
    let recovered = permits.recovered(half.iter().map(|table| &table.backend));
    let again = permits.recovered(half.iter().map(|table| &table.backend));
    let full = permits.admit("ann", &tables(&["west"])).map(drop);
    assert_eq!(full, Err(NoRoom::Open("west".into())));
    drop((recovered, again));
    permits.admit("ann", &tables(&["west"])).map(drop).unwrap();
    permits.admit("ann", &too_many).map(drop).unwrap();
}

#[test]
fn what_waits_has_a_room_of_its_own_and_one_caller_half_of_it() {
    let permits = Arc::<Permits>::default();
    let batch = tables(&vec!["west"; 1000]);
    let mut waiting = Vec::new();
    for caller in ["ann", "bob"] {
        let before = waiting.len();
        loop {
            let permit = permits.admit(caller, &batch).unwrap();
            if !permit.place().wait() {
                break;
            }
            waiting.push(permit);
        }
        assert_eq!(waiting.len() - before, 12, "{caller}");
    }
    assert!(waiting[0].place().wait(), "it has its place there");
    let mut running = Vec::new();
    for caller in ["eve", "dan"] {
        running.extend((0..50).map(|_| permits.admit(caller, &batch).unwrap()));
        let full = permits.admit(caller, &batch).map(drop).unwrap_err();
        assert!(matches!(full, NoRoom::RunningShare | NoRoom::Running));
    }
    assert_eq!(permits.admit("ann", &batch).map(drop), Err(NoRoom::Running));
    drop(running);
    waiting[0].decided();
    assert!(permits.admit("ann", &batch).unwrap().place().wait());
    drop(waiting);
    let left = [&permits.waiting, &permits.running].map(|pool| locked(&pool.callers).len());
    assert_eq!(left, [0, 0], "nothing is left behind");
}

#[test]
fn what_one_caller_cannot_end_keeps_nobody_else_out() {
    let permits = Arc::<Permits>::default();
    let west = tables(&["west"]);
    let decided = || {
        let mut permit = permits.admit("ann", &west)?;
        permit.decided();
        Ok::<_, NoRoom>(permit)
    };
    let open: Vec<Permit> = (0..OPEN / SHARE).map(|_| decided().unwrap()).collect();
    let full = decided().map(drop).unwrap_err();
    assert_eq!(full, NoRoom::Share("west".into()));
    assert_eq!(full.into_error().status(), 503);
    permits.admit("ann", &tables(&["east"])).map(drop).unwrap();
    permits.admit("bob", &west).map(drop).unwrap();
    drop(open);
    permits.admit("ann", &west).map(drop).unwrap();
}
