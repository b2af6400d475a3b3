"""What tells the versions of one transaction from those of others, and whether the catalogs have them."""

from __future__ import annotations

import concurrent.futures
import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Set

from lance_namespace import DescribeTableRequest

from ._held import Chain, Held, TableId, differs, named
from ._http import Pace
from ._table import latest
from .errors import Unavailable

if TYPE_CHECKING:
    from .gateway import Gateway

# How many tables are looked at at a time.
LOOKING = 8


class Sight(enum.Enum):
    """What a look at the catalogs has shown of one version, or of one new table."""

    THERE = "there"
    ABSENT = "absent"
    # Another writer's, as far as its tag and Lance's record tell.
    OTHER = "other"
    # A later version is there and this one is not, or the table of this name is gone, or is another one: it may have
    # been there before.
    GONE = "gone"


@dataclass(frozen=True)
class Identity:
    """One version that a transaction makes, or one new table."""

    table: TableId
    branch: Optional[str]
    # 0 for a new table.
    version: int
    # The tag of the staged manifest. Storage that renames or copies it mostly keeps the tag.
    e_tag: Optional[str] = None
    # The size of the staged manifest, which every catalog keeps.
    size: Optional[int] = None
    # The id of Lance's record of the version; None if pylance could not read it, or lancedb made the version.
    record: Optional[str] = None
    # Where the data of a new table are.
    location: Optional[str] = None
    # The version that the changes were made at, and what the catalog said of it then: it tells the table from another
    # one that has its name since.
    opened: int = 0
    opened_as: Optional[Dict[str, Any]] = field(default=None, compare=False)

    def __str__(self) -> str:
        return named(self.table, self.branch) + (f" version {self.version}" if self.version else "")

    def look(self, gateway: Gateway) -> Sight:
        """Ask what everybody sees. Raises whatever keeps it from looking."""
        client = gateway.namespace_client
        chain = Chain(self.table, self.branch, "pylance", opened=self.version)
        held = Held(client, chain.owner, lambda *_: chain)
        if not self.version:
            request = DescribeTableRequest(id=list(self.table))
            table = held.found(self.table, lambda: client.describe_table(request))
            if table is None:
                return Sight.ABSENT
            return Sight.THERE if plain(table.location) == plain(self.location) else Sight.OTHER
        # First: a version that is being undone is hidden by the gateway, but not by storage.
        described = held.described(chain, self.version)
        if described is None:
            last = held.found(self.table, lambda: held.latest(chain))
            if last is not None and last < self.version:
                # One that was created anew has all of its versions.
                return Sight.ABSENT if self._is_same(held, chain, last > self.opened) else Sight.GONE
            # One answer may be wrong.
            described = held.described(chain, self.version)
            if described is None:
                return Sight.GONE
        if self.e_tag is not None and described.get("e_tag") == self.e_tag:
            return Sight.THERE
        others = Sight.OTHER if self._is_same(held, chain, True) else Sight.GONE
        if self.record is None or described.get("manifest_size") not in (None, self.size):
            return others
        dataset = latest(held, chain, self.version)
        try:
            record = dataset.read_transaction(self.version)
        except TypeError:
            # pylance 14 cannot read the record of a compaction that has changed an index. Its own have no record.
            return others
        return Sight.THERE if record is not None and record.uuid == self.record else others

    def _is_same(self, held: Held, chain: Chain, if_cleaned_up: bool) -> bool:
        """Ask whether the table is the one that was changed."""
        described = held.described(chain, self.opened) if self.opened else None
        return if_cleaned_up if described is None else not differs(self.opened_as, described)


def identities(chain: Chain) -> List[Identity]:
    """Return the identities of the versions that a table's staged changes make."""

    def identity(entry: Any) -> Identity:
        version = int(entry["version"])
        record = chain.records.get(version)
        uuid = None if record is None else record.uuid
        tag, size = entry.get("e_tag"), entry.get("manifest_size")
        at = (chain.opened, chain.opened_as)
        return Identity(chain.table, chain.branch, version, tag, size, uuid, None, *at)

    return [identity(entry) for entry in chain.entries]


class Search:
    """A search of the catalogs for what a transaction makes. It keeps what it has seen, should it be cut off."""

    def __init__(self, gateway: Gateway, wanted: Sequence[Identity]) -> None:
        self.gateway = gateway
        self.wanted = tuple(wanted)
        self.seen: Dict[Identity, Sight] = {}
        self.seen_twice: Set[Identity] = set()
        self.is_over = False

    def go_on(self, pace: Pace) -> None:
        """Look at what is not seen yet. Raises whatever keeps it from looking."""
        self._look([one for one in self.wanted if one not in self.seen], pace)
        # Once more: one answer may be wrong, or the commit has come between two looks.
        absent = [one for one in self.those(Sight.ABSENT) if one not in self.seen_twice]
        self.seen_twice.update(self._look(absent, pace))
        self.is_over = True

    def those(self, *sights: Sight) -> List[Identity]:
        """Return what was seen so."""
        return [one for one in self.wanted if self.seen.get(one) in sights]

    def is_complete(self) -> bool:
        """Return whether everything is there."""
        return len(self.those(Sight.THERE)) == len(self.wanted)

    def may_be_there(self) -> bool:
        """Return whether a part is there, or may have been: then it cannot be told that nothing was committed.

        What was never there says that nothing was, as all of it is committed or nothing. A new table that is not there
        may have been.
        """
        never = [one for one in self.those(Sight.ABSENT) if one.version]
        return bool(self.those(Sight.THERE) or (self.those(Sight.GONE) and not never))

    def __str__(self) -> str:
        words = {
            Sight.THERE: "There",
            Sight.ABSENT: "Not there",
            Sight.OTHER: "Another writer's, as far as can be told",
            Sight.GONE: "Gone, cleaned up or renamed for example",
        }
        those = ((word, self.those(sight)) for sight, word in words.items())
        return ". ".join(f"{word}: {', '.join(map(str, some))}" for word, some in those if some)

    def _look(self, wanted: Sequence[Identity], pace: Pace) -> Sequence[Identity]:
        if not wanted:
            return ()
        pool = concurrent.futures.ThreadPoolExecutor(min(LOOKING, len(wanted)))
        try:
            looks = {pool.submit(one.look, self.gateway): one for one in wanted}
            first_error = concurrent.futures.FIRST_EXCEPTION
            over, left = concurrent.futures.wait(looks, max(pace.left(), 0.1), first_error)
            errors = [look.exception() for look in over if look.exception() is not None]
            self.seen.update({looks[look]: look.result() for look in over if look.exception() is None})
        finally:
            # What is under way ends by its own time limit.
            pool.shutdown(wait=False, cancel_futures=True)
        for error in errors:
            assert error is not None
            raise error
        if left:
            raise Unavailable("the catalogs do not answer in time")
        return wanted


def plain(location: Optional[str]) -> Optional[str]:
    """Return a location as it compares: some write a scheme before a local path, and some a slash at its end."""
    return None if location is None else location.removeprefix("file://").rstrip("/")
