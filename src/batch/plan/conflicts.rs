//! Refuses changes that cannot be in one batch: a version or a name twice, a gap between versions, changes that contradict
//! each other.

use std::collections::BTreeMap;

use super::Entry;
use super::rename::is_of_rename;
use crate::batch::locks::TableKey;
use crate::batch::log::{Action, VersionRange};
use crate::batch::visibility::TableBranch;
use crate::error::Error;

/// Returns the request's name for an entry.
type Label<'a> = &'a dyn Fn(usize) -> String;

/// Fails with 400, code 13, and names the later of two entries that contradict each other.
pub(super) fn check(entries: &[Entry], label: Label<'_>) -> Result<(), Error> {
    names(entries, label)?;
    deletes(entries, label)?;
    match entries.iter().position(|entry| entry.version() == Some(0)) {
        None => Ok(()),
        Some(index) => Err(Error::invalid(format!(
            "{}.version: 0 is not a version that can be created; they begin with 1",
            label(index)
        ))),
    }
}

/// Checks that a name is declared or deregistered once, that a table that is deregistered or renamed has no other
/// change, under neither name, and that no version is deleted of a table that begins with the batch.
fn names(entries: &[Entry], label: Label<'_>) -> Result<(), Error> {
    let mut tables: BTreeMap<&TableKey, Vec<usize>> = BTreeMap::new();
    for (index, entry) in entries.iter().enumerate() {
        tables.entry(&entry.line.table).or_default().push(index);
    }
    for changes in tables.values().filter(|changes| changes.len() > 1) {
        let all = |wanted: fn(&Action) -> bool| {
            let found = changes.iter().copied();
            found.filter(move |index| wanted(&entries[*index].action))
        };
        let mut renamed = changes.iter().copied();
        if let Some(renamed) = renamed.find(|index| is_of_rename(entries, *index)) {
            let other = changes.iter().copied().find(|other| *other != renamed);
            let (one, next) = in_order(renamed, other.unwrap_or(renamed));
            let why = "a table that is renamed cannot be in another operation, under its old name or its new one";
            return Err(contradicts(label, next, one, why));
        }
        let made = |action: &Action| matches!(action, Action::Declare { .. });
        if let Some(gone) = all(|action| matches!(action, Action::Deregister)).next() {
            let other = changes.iter().copied().find(|other| *other != gone);
            let (one, next) = in_order(gone, other.unwrap_or(gone));
            return Err(contradicts(
                label,
                next,
                one,
                "a table that is deregistered cannot also be changed",
            ));
        }
        let mut made = all(made);
        let Some(first) = made.next() else {
            continue;
        };
        if let Some(second) = made.next() {
            return Err(contradicts(
                label,
                second,
                first,
                "the table is declared there",
            ));
        }
        if let Some(delete) = all(|action| matches!(action, Action::DeleteVersions { .. })).next() {
            let (one, next) = in_order(first, delete);
            let why = "a table that the batch declares has no versions to delete";
            return Err(contradicts(label, next, one, why));
        }
    }
    Ok(())
}

/// Checks that no version is deleted twice, and none that the batch itself creates.
fn deletes(entries: &[Entry], label: Label<'_>) -> Result<(), Error> {
    let mut lines: BTreeMap<&TableBranch, Vec<(VersionRange, usize)>> = BTreeMap::new();
    for (index, entry) in entries.iter().enumerate() {
        if let Action::DeleteVersions { ranges } = &entry.action {
            let ranges = ranges.iter().map(|range| (*range, index));
            lines.entry(&entry.line).or_default().extend(ranges);
        }
    }
    for ranges in lines.values_mut() {
        ranges.sort_by_key(|(range, _)| (range.start, range.end));
        for pair in ranges.windows(2) {
            let ((one, first), (next, second)) = (pair[0], pair[1]);
            if next.start < one.end {
                let (first, second) = in_order(first, second);
                let version = next.start;
                let why = format!("version {version} is deleted there");
                return Err(contradicts(label, second, first, &why));
            }
        }
    }
    for (index, entry) in entries.iter().enumerate() {
        let (Some(version), Some(ranges)) = (entry.version(), lines.get(&entry.line)) else {
            continue;
        };
        let covers = |(range, _): &&(VersionRange, usize)| range.end > version;
        if let Some((_, delete)) = ranges.iter().find(covers) {
            let (one, next) = in_order(index, *delete);
            let why = format!("version {version}, which the batch creates, would be deleted");
            return Err(contradicts(label, next, one, &why));
        }
    }
    Ok(())
}

/// Checks that an entry may come after another one of its table branch.
pub(super) fn follows(
    entries: &[Entry],
    label: impl Fn(usize) -> String,
    one: usize,
    next: usize,
) -> Result<(), Error> {
    let created = (entries[one].version(), entries[next].version());
    let (version, after) = match created {
        (Some(version), Some(after)) => (version, after),
        // The first version of a table that begins with the batch is 1.
        (None, Some(after)) => (0, after),
        _ => return Ok(()),
    };
    if after == version {
        return Err(Error::invalid(format!(
            "{}: version {after} of this table is in {} already",
            label(next),
            label(one)
        )));
    }
    if after != version + 1 {
        return Err(Error::invalid(format!(
            "{}: version {after} does not follow version {version} of {}: several versions of one table must be consecutive",
            label(next),
            label(one)
        )));
    }
    Ok(())
}

fn in_order(one: usize, other: usize) -> (usize, usize) {
    (one.min(other), one.max(other))
}

fn contradicts(label: Label<'_>, index: usize, other: usize, why: &str) -> Error {
    Error::invalid(format!(
        "{} contradicts {}: {why}",
        label(index),
        label(other)
    ))
}
