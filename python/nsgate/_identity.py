"""What tells the versions of one transaction from those of others, and whether the catalogs have them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, List, Optional, Sequence, Tuple

from lance_namespace import DescribeTableRequest

from ._held import Chain, Held, TableId, named, translated
from ._table import latest

if TYPE_CHECKING:
    from .gateway import Gateway

# How many tables are looked at at a time.
LOOKING = 8


@dataclass(frozen=True)
class Identity:
    """One version that a transaction makes, or one new table."""

    table: TableId
    branch: Optional[str]
    # 0 for a new table.
    version: int
    # The tag of the staged manifest. Storage that renames or copies it mostly keeps the tag.
    e_tag: Optional[str] = None
    # The id of Lance's record of the version; None if pylance could not read it, or lancedb made the version.
    record: Optional[str] = None
    # Where the data of a new table are.
    location: Optional[str] = None

    def __str__(self) -> str:
        return named(self.table, self.branch) + (f" version {self.version}" if self.version else "")

    def is_there(self, gateway: Gateway) -> bool:
        """Ask whether everybody sees this very version, or this very table. False also where nobody can tell."""
        client = gateway.namespace_client
        if not self.version:
            table = found(self.table, lambda: client.describe_table(DescribeTableRequest(id=list(self.table))))
            return table is not None and plain(table.location) == plain(self.location)
        asked = {"id": list(self.table), "version": self.version}
        if self.branch is not None:
            asked["branch"] = self.branch
        # First: a version that is being undone is hidden by the gateway, but not by storage.
        answer = found(self.table, lambda: client.describe_table_version(asked))
        if answer is None:
            return False
        if self.e_tag is not None and dict(answer["version"]).get("e_tag") == self.e_tag:
            return True
        return self.record is not None and self._recorded(client) == self.record

    def _recorded(self, client: Any) -> Optional[str]:
        chain = Chain(self.table, self.branch, "pylance", opened=self.version)
        dataset = latest(Held(client, chain.owner, lambda *_: chain), chain, self.version)
        record = dataset.read_transaction(self.version)
        return None if record is None else record.uuid


def identities(chain: Chain) -> List[Identity]:
    """Return the identities of the versions that a table's staged changes make."""

    def identity(entry: Any) -> Identity:
        version = int(entry["version"])
        record = chain.records.get(version)
        uuid = None if record is None else record.uuid
        return Identity(chain.table, chain.branch, version, entry.get("e_tag"), uuid)

    return [identity(entry) for entry in chain.entries]


def those_there(gateway: Gateway, wanted: Sequence[Identity]) -> Tuple[Identity, ...]:
    """Return those that everybody sees. Raises whatever keeps it from looking."""

    def look(at: Sequence[Identity]) -> Tuple[Identity, ...]:
        with ThreadPoolExecutor(min(LOOKING, len(at))) as pool:
            seen = list(pool.map(lambda one: one.is_there(gateway), at))
        return tuple(one for one, is_there in zip(at, seen) if is_there)

    first = look(wanted)
    missing = [one for one in wanted if one not in first]
    # The commit may have come between two looks: then the rest is there, too, by now.
    return (*first, *look(missing)) if first and missing else first


def found(table: TableId, question: Callable[[], Any]) -> Any:
    """Return the answer of a namespace client; None if what is asked for is not there."""
    try:
        return question()
    except Exception as error:
        if type(error).__name__.endswith("NotFoundError"):
            return None
        known = translated(table, error)
        if known is error:
            raise
        raise known from error


def plain(location: Optional[str]) -> Optional[str]:
    """Return a location as it compares: some write a scheme before a local path, and some a slash at its end."""
    return None if location is None else location.removeprefix("file://").rstrip("/")
