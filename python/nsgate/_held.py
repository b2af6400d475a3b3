"""The namespace client that holds commits back.

pylance and lancedb commit by asking their namespace client to create a table
version. This client answers as if that had been done, and keeps the request:
data and manifest are in storage by then, and nothing is published.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Tuple

from lance_namespace import DescribeTableRequest, LanceNamespace, ListTableVersionsRequest

from .errors import Error, Finished, NotAtomic, Unmanaged

TableId = Tuple[str, ...]


@dataclass
class Chain:
    """The changes of one branch of one table, in order."""

    table: TableId
    branch: Optional[str]
    # pylance or lancedb: only the handle that made the first change sees it.
    owner: str
    # The version that the handle was opened at.
    opened: int
    # Requests to create versions, one for each number, rising by one.
    entries: List[Dict[str, Any]] = field(default_factory=list)
    # Whether rows were read through the handle: the changes may depend on them.
    read: bool = False
    # Whether Lance deletes old versions by itself when this table is committed to.
    cleans_up: bool = False
    # Lance's records of the changes, by version.
    records: Dict[int, Any] = field(default_factory=dict)
    # More than zero during a compaction, which makes two requests of one number.
    compacting: int = 0
    # The number of entries when the compaction began.
    before_compaction: int = 0
    # The latest version that the gateway listed right after the first change was staged.
    listed: Optional[int] = None
    location: Optional[str] = None

    @property
    def base(self) -> int:
        """The version that the first change is built on."""
        return int(self.entries[0]["version"]) - 1

    @property
    def name(self) -> str:
        """The table as errors write it."""
        return named(self.table, self.branch)

    def record(self, inner: Any) -> None:
        """Keep Lance's record of the last change. ``inner`` is pylance's inner dataset, which has just made it."""
        if self.entries and not self.compacting:
            version = int(self.entries[-1]["version"])
            if version not in self.records and inner.version() == version:
                self.records[version] = inner.read_transaction(version)

    @property
    def transactions(self) -> Optional[List[Any]]:
        """Lance's records of all changes, in order; None if one is missing."""
        records = [self.records.get(int(entry["version"])) for entry in self.entries]
        return None if None in records else records

    @property
    def is_settled(self) -> bool:
        """Whether the first change is built on a version that everybody sees, and on the rows that were read."""
        return self.listed == self.base and (not self.read or self.base == self.opened)


def named(table: TableId, branch: Optional[str] = None) -> str:
    """Return a table as errors and logs write it."""
    return ".".join(table) + (f"@{branch}" if branch else "")


class Held(LanceNamespace):
    """A namespace client that keeps versions to create, for one transaction and one library."""

    def __init__(
        self,
        client: Any,
        owner: str,
        chain_of: Callable[[TableId, Optional[str], str], Chain],
        staged: Callable[[Chain], None] = lambda _: None,
    ) -> None:
        self.client = client
        self.owner = owner
        self._chain_of = chain_of
        self._staged = staged
        self._lock = threading.Lock()
        self.is_finished = False
        # The first commit that was refused here. Lance reports it in words of its own.
        self.failure: Optional[Error] = None

    def namespace_id(self) -> str:
        return str(self.client.namespace_id())

    def describe_table(self, request: Any) -> Any:
        answer = self.client.describe_table(request)
        if getattr(answer, "managed_versioning", None) is not True:
            raise Unmanaged(tuple(request.id or ()))
        return answer

    def list_table_versions(self, request: Any) -> Any:
        return self.client.list_table_versions(request)

    def describe_table_version(self, request: Any) -> Any:
        return self.client.describe_table_version(request)

    def table_exists(self, request: Any) -> Any:
        return self.client.table_exists(request)

    def list_tables(self, request: Any) -> Any:
        return self.client.list_tables(request)

    def list_namespaces(self, request: Any) -> Any:
        return self.client.list_namespaces(request)

    def describe_namespace(self, request: Any) -> Any:
        return self.client.describe_namespace(request)

    def namespace_exists(self, request: Any) -> Any:
        return self.client.namespace_exists(request)

    def create_table_version(self, request: Any) -> Any:
        """Keep the request, and answer as a catalog that has carried it out."""
        entry = {key: value for key, value in dict(request).items() if value is not None}
        try:
            self._keep(entry)
        except Error as error:
            self.failure = self.failure or error
            raise
        return {"version": {"version": entry["version"], "manifest_path": entry["manifest_path"]}}

    def check_open(self, table: TableId) -> None:
        """Raise ``Finished`` if the transaction is over."""
        if self.is_finished:
            raise Finished(f"{named(table)}: the transaction of this handle is over; open the table again")

    def _keep(self, entry: Dict[str, Any]) -> None:
        table: TableId = tuple(entry["id"])
        version = int(entry["version"])
        with self._lock:
            self.check_open(table)
            chain = self._chain_of(table, entry.get("branch"), self.owner)
            entries = chain.entries
            is_repeated = len(entries) > chain.before_compaction and version == entries[-1]["version"]
            if chain.compacting and is_repeated:
                # A compaction first reserves numbers of fragments, with a version of its own, and then asks storage
                # for the latest one, which is still the one before. Its second request contains the reserved numbers,
                # so it replaces the first.
                entries[-1] = entry
                chain.records.pop(version, None)
                return
            if entries and version != int(entries[-1]["version"]) + 1:
                raise NotAtomic(
                    f"{chain.name} was changed in this transaction before, through another handle, and this handle "
                    "does not see that. Make all changes of a table through one handle, from `tx.table(…)` or from "
                    "`tx.lancedb`."
                )
            if entries and chain.cleans_up:
                raise NotAtomic(
                    f"{chain.name} deletes old versions at each commit (`lance.auto_cleanup.interval`). A second "
                    "change in one transaction would delete the published version before the commit. Make one "
                    "change, or turn the automatic cleanup off."
                )
            if not entries:
                chain.listed = self._latest(table, entry.get("branch"))
            entries.append(entry)
        self._staged(chain)

    def _latest(self, table: TableId, branch: Optional[str]) -> int:
        request = ListTableVersionsRequest(id=list(table), descending=True, limit=1, branch=branch)
        versions = self.client.list_table_versions(request).versions
        return max((int(version.version) for version in versions), default=0)

    def describe(self, table: TableId) -> Any:
        """Describe a table. Raises ``Unmanaged`` before anything is written."""
        return self.describe_table(DescribeTableRequest(id=list(table)))
