"""The record of what the writers and readers of the kills did, and its checks."""

import collections
import dataclasses


@dataclasses.dataclass(eq=False)
class Table:
    """A table and the names that it may have, one of them at a time."""

    names: list
    backend: str
    uri: str
    # The names as the catalog spells them.
    stored: list
    # The index of its present name, as far as is known.
    at: int = 0
    # The index of the name that a client was told last; None if another rename may have happened since.
    told: int | None = 0

    @property
    def name(self):
        return self.names[self.at]

    @property
    def id(self):
        return self.name.split("$")

    @property
    def stored_id(self):
        return self.stored[self.at].split("$")

    def __str__(self):
        return self.names[0]


@dataclasses.dataclass(frozen=True)
class Line:
    """The main line of a table, or a branch."""

    table: Table
    branch: str | None = None

    def __str__(self):
        return f"{self.table}@{self.branch}" if self.branch else str(self.table)


@dataclasses.dataclass
class Write:
    """Rows for one or more lines, all or nothing."""

    number: int
    rows: dict  # the number of rows by line
    # committed, refused or unknown
    told: str = "unknown"
    answered: float = float("inf")
    entries: list = dataclasses.field(default_factory=list)
    transaction: str | None = None
    # The number of times it was sent: a batch without a result is sent again.
    sent: int = 0
    repeatable: bool = False

    def __str__(self):
        found = [entry["version"] for entry in self.entries] or [None] * len(self.rows)
        lines = {str(line): version for line, version in zip(self.rows, found)}
        return f"write {self.number} (told: {self.told}) of {lines}"

    def whole(self, there):
        return all(there[line].get(self.number, 0) == count for line, count in self.rows.items())

    def versions(self):
        """Returns the versions that a batch creates, as the gateway shows them, except for the table's name."""
        pairs = zip(self.rows, self.entries)
        return frozenset((str(line.table), line.branch, entry["version"]) for line, entry in pairs)


@dataclasses.dataclass(frozen=True)
class Read:
    begun: float
    ended: float
    line: Line
    numbers: collections.Counter


def judged_writes(writes, there):
    for write in writes:
        counts = {str(line): there[line].get(write.number, 0) for line in write.rows}
        if not write.whole(there) and any(counts.values()):
            yield f"half of {write} is there: {counts}"
        elif write.told == "committed" and not write.whole(there):
            yield f"{write} was done, and is gone"
        elif write.told == "refused" and write.whole(there):
            yield f"{write} was refused, and is there"
    known = {0, *(write.number for write in writes)}
    for line, numbers in there.items():
        if strange := set(numbers) - known:
            yield f"{line} has rows of nobody: {strange}"


def judged_reads(writes, reads, there):
    """Checks that a write shows in none of its tables, and from some moment on in all of them."""
    shows = collections.defaultdict(lambda: float("inf"))
    for read in reads:
        for number in read.numbers:
            shows[number] = min(shows[number], read.ended)
    of_line = {line: [] for line in there}
    for write in writes:
        since = min(shows[write.number], write.answered if write.told == "committed" else float("inf"))
        for line in write.rows:
            of_line[line].append((write, since))
    for read in reads:
        for write, since in of_line[read.line]:
            count = read.numbers.get(write.number, 0)
            if count and not write.whole(there):
                yield f"{write} was seen in {read.line}, and is not there"
            elif count not in (0, write.rows[read.line]):
                yield f"{count} rows of {write} were seen in {read.line}"
            elif not count and since < read.begun:
                yield f"{write} was done or seen, and not seen in {read.line} {read.begun - since} s later"


def judged_transactions(writes, shown, there, described, passed_on=False):
    """Checks that the gateway describes each batch as what became of it.

    With `passed_on`, a gateway may send a batch again that its client sent once: the attempts are batches of their own.
    """
    for write in writes:
        if write.transaction is not None:
            status = described(write.transaction)
            if status != ("Succeeded" if write.whole(there) else "Failed"):
                yield f"{write} is described as {status}"
    alike = collections.defaultdict(list)
    for write in writes:
        alike[write.versions()].append(write)
    succeeded = collections.Counter()
    for id, entries in shown.items():
        status = described(id)
        succeeded[entries] += status == "Succeeded"
        # Several batches may want the same versions, and one of them, or one of its attempts, has got them.
        done = [write.whole(there) for write in alike[entries]]
        others = not all(done) or any(write.sent > 1 for write in alike[entries])
        if passed_on and not others:
            told = {write.transaction for write in alike[entries]}
            attempts = told | {other for other, versions in shown.items() if versions == entries}
            others = None in told or any(described(other) == "Succeeded" for other in attempts - {id})
        if not {"Succeeded": any(done), "Failed": others}.get(status, False):
            yield f"{id} of {set(entries)} is described as {status}"
        if succeeded[entries] > 1:
            yield f"several batches of {set(entries)} are described as Succeeded"
