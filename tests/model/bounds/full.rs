//! The bounds of a full run.

use super::{Bound, faults};
use crate::setup::{Plan, Tags};

/// The bounds of `NSGATE_MODEL=full`. Each is searched to its end, in minutes and gigabytes.
pub const FULL: [Bound; 24] = [
    Bound::of("two crashes", Plan::Versions, faults(2, 0, 0, 0)),
    Bound::of("a message", Plan::Versions, faults(0, 1, 0, 0)),
    Bound::of("a message, a group", Plan::Grouped, faults(0, 1, 1, 0)),
    Bound::of(
        "a crash, a removal, a message",
        Plan::Mixed,
        faults(1, 1, 0, 0),
    )
    .renamer(),
    Bound::of(
        "a crash, a message, a reader",
        Plan::Pair,
        faults(1, 1, 0, 0),
    )
    .reader(),
    Bound::of(
        "a refusal, a reader, a writer",
        Plan::Pair,
        faults(0, 0, 1, 0),
    )
    .reader()
    .writer(),
    Bound::of("a lie, a writer, a change", Plan::Pair, faults(0, 0, 0, 1))
        .writer()
        .server(),
    Bound::of(
        "a message, a stranger, a person",
        Plan::Chain,
        faults(0, 1, 1, 0),
    )
    .stranger()
    .person(),
    Bound::of(
        "a chain, a crash, a writer, a change",
        Plan::Chain,
        faults(1, 1, 1, 0),
    )
    .writer()
    .server(),
    Bound::of(
        "a chain, a crash, two messages, a change",
        Plan::Chain,
        faults(1, 2, 0, 0),
    )
    .server()
    .keeps(),
    Bound::of(
        "a chain, a lie, another batch, a stranger",
        Plan::Chain,
        faults(1, 1, 0, 1),
    )
    .rival()
    .stranger()
    .tags(Tags::None),
    Bound::of(
        "a chain, two messages, a lie, a count",
        Plan::Chain,
        faults(0, 2, 0, 1),
    )
    .writer()
    .counter(),
    Bound::of(
        "a chain, another batch, a change, a name",
        Plan::Chain,
        faults(1, 1, 0, 0),
    )
    .rival()
    .server()
    .renamer(),
    Bound::of(
        "all faults, a writer, a change",
        Plan::One,
        faults(1, 2, 1, 1),
    )
    .writer()
    .server(),
    Bound::of(
        "sizes, a writer, another batch, a change",
        Plan::One,
        faults(1, 2, 1, 0),
    )
    .writer()
    .rival()
    .server()
    .tags(Tags::None),
    Bound::of(
        "a lie, a writer, a name, a count",
        Plan::One,
        faults(1, 2, 0, 1),
    )
    .writer()
    .renamer()
    .counter(),
    Bound::of("two crashes, kept manifests", Plan::One, faults(2, 2, 0, 0))
        .server()
        .renamer()
        .keeps()
        .tags(Tags::Kept),
    Bound::of(
        "three messages, a change, a person",
        Plan::One,
        faults(1, 3, 0, 0),
    )
    .server()
    .person(),
    Bound::of(
        "a stranger, a writer, kept manifests",
        Plan::One,
        faults(1, 2, 1, 0),
    )
    .stranger()
    .writer()
    .keeps(),
    Bound::of(
        "two crashes, a writer, another batch",
        Plan::One,
        faults(2, 1, 1, 0),
    )
    .writer()
    .rival(),
    Bound::of("a writer, a person, sizes", Plan::One, faults(1, 2, 1, 0))
        .writer()
        .person()
        .tags(Tags::None),
    Bound::of(
        "a move, all faults, a name, a person",
        Plan::Moved,
        faults(1, 2, 1, 0),
    )
    .renamer()
    .person(),
    Bound::of(
        "a move, two crashes, a name, a reader",
        Plan::Moved,
        faults(2, 1, 1, 0),
    )
    .renamer()
    .reader(),
    Bound::of(
        "a move, a message, a writer, another batch",
        Plan::Moved,
        faults(1, 1, 0, 0),
    )
    .writer()
    .rival(),
];
