"""The namespace client that holds commits back.

pylance and lancedb commit by asking their namespace client to create a table
version. This client answers as if that had been done, and keeps the request:
data and manifest are in storage by then, and nothing is published.
"""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from lance_namespace import DescribeTableRequest, LanceNamespace, LanceNamespaceError, ListTableVersionsRequest

from .errors import Conflict, Error, Finished, NotAtomic, Refused, Unavailable, Unmanaged

TableId = Tuple[str, ...]
AUTO_CLEANUP = "lance.auto_cleanup."
# The classes of the errors in which Lance reports another one.
LANCES = (OSError, RuntimeError, ValueError)
# The words of Lance and its client for a request that was refused for now, and for one without an answer.
BUSY = ("Namespace error: Service unavailable: ", ": Unavailable: ")
SILENT = ("Failed to execute request", "Failed to parse error response", "Commit result for version")


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
    # What the catalog says of that version: another table of this name has another one of this number.
    opened_as: Optional[Dict[str, Any]] = None
    # The columns of that version, with their numbers.
    schema: Any = None
    # Whether rows were read through the handle: the changes may depend on them.
    read: bool = False
    # Whether rows were matched by keys: the changes depend on the keys that there were.
    merged: bool = False
    # Whether Lance deletes old versions by itself when this table is committed to.
    cleans_up: bool = False
    # Lance's records of the changes, by version; None where pylance cannot read it.
    records: Dict[int, Any] = field(default_factory=dict)
    # Requests that others have replaced, whose manifests nobody needs.
    replaced: List[Dict[str, Any]] = field(default_factory=list)
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
                try:
                    self.records[version] = inner.read_transaction(version)
                except Exception:
                    # pylance 14 cannot read the record of a compaction that has changed an index.
                    self.records[version] = None
                # Another writer may have turned it on before the change was made.
                self.cleans_up = self.cleans_up or cleans_up(inner.config())

    def staged_files(self) -> Optional[List[str]]:
        """Return the paths of the staged manifests; None where storage is not this machine's."""
        if self.location is None or ("://" in self.location and not self.location.startswith("file://")):
            return None
        return ["/" + str(entry["manifest_path"]).lstrip("/") for entry in (*self.entries, *self.replaced)]

    @property
    def transactions(self) -> Optional[List[Any]]:
        """Lance's records of all changes, in order; None if one is missing."""
        records = [self.records.get(int(entry["version"])) for entry in self.entries]
        return None if None in records else records


def cleans_up(config: Dict[str, str]) -> bool:
    """Return whether Lance deletes old versions by itself at the commits of a table with this configuration."""
    return any(key.startswith(AUTO_CLEANUP) for key in config)


def named(table: TableId, branch: Optional[str] = None) -> str:
    """Return a table as errors and logs write it."""
    return ".".join(table) + (f"@{branch}" if branch else "")


def members(request: Any) -> Dict[str, Any]:
    """Return the members of a request: Lance gives a dictionary, others an object."""
    found: Dict[str, Any] = request if isinstance(request, dict) else request.model_dump()
    return found


def differs(one: Optional[Dict[str, Any]], other: Optional[Dict[str, Any]]) -> bool:
    """Return whether two descriptions of a version of one number are of different versions."""
    for name in ("e_tag", "manifest_size"):
        values = [None if version is None else version.get(name) for version in (one, other)]
        if None not in values:
            return values[0] != values[1]
    return False


def recreated(chain: Chain) -> Conflict:
    """Return the error for a table of this name that is another one by now, or is gone."""
    return Conflict(
        f"{chain.name} was dropped, renamed or created anew since version {chain.opened} was opened, or that version "
        "was cleaned up; start again, for example with `gateway.run`",
        table=chain.table,
        branch=chain.branch,
    )


def is_lances(error: Optional[BaseException]) -> bool:
    """Return whether an error is Lance's or its client's, and about a request: programs have such errors, too."""
    if type(error) in LANCES:
        text = str(error)
        in_python = "Python error in " in text and ": Unavailable: " in text
        return in_python or "Namespace error: " in text or "Wrapped error: Commit result for version" in text
    return isinstance(error, LanceNamespaceError)


def translated(table: TableId, error: Exception) -> Exception:
    """Return this package's error for one of a namespace client, or the same error if there is none."""
    kind, text = type(error).__name__, str(error)
    name = f"{named(table)}: " if table else ""
    # Lance's own errors have the text of the client's, but not its class.
    if any(words in text for words in SILENT):
        return Unavailable(f"{name}the gateway does not answer", table=table)
    busy = type(error) in LANCES and any(words in text for words in BUSY)
    if busy or kind in ("ServiceUnavailableError", "ThrottlingError", "InternalError"):
        return Unavailable(f"{name}{error}", table=table)
    if kind in ("UnauthenticatedError", "PermissionDeniedError"):
        return Refused(f"{name}{error}", table=table, status=401 if kind.startswith("Una") else 403)
    return error


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
        # Held for moments only: the end of the transaction does not wait for requests.
        self._ending = threading.Lock()
        self._is_finished = False
        # The first commit that was refused here. Lance reports it in words of its own.
        self.failure: Optional[Error] = None
        # What the last request that failed came to, and the latest versions that were listed.
        self._trouble: Optional[Error] = None
        self._latest_seen: Dict[Tuple[TableId, Optional[str]], Dict[str, Any]] = {}

    @contextlib.contextmanager
    def plainly(self, table: TableId) -> Iterator[None]:
        """Raise the error of a request about a table that has failed, where Lance raises one in words of its own."""
        self._trouble = None
        try:
            yield
        except Error:
            raise
        except Exception as error:
            known = self._trouble or translated(table, error)
            if known is error:
                raise
            raise known from error

    def _asked(self, table: Any, question: Callable[[], Any]) -> Any:
        try:
            return question()
        except Exception as error:
            known = translated(tuple(table or ()), error)
            if isinstance(known, Error):
                self._trouble = known
                raise known from error
            raise

    def namespace_id(self) -> str:
        return str(self.client.namespace_id())

    def describe_table(self, request: Any) -> Any:
        table = members(request)["id"]
        answer = self._asked(table, lambda: self.client.describe_table(request))
        if getattr(answer, "managed_versioning", None) is not True:
            self._trouble = Unmanaged(tuple(table))
            raise self._trouble
        return answer

    def list_table_versions(self, request: Any) -> Any:
        asked = members(request)
        answer = self._asked(asked["id"], lambda: self.client.list_table_versions(request))
        if answer.versions and asked.get("descending"):
            self._latest_seen[(tuple(asked["id"]), asked.get("branch"))] = answer.versions[0].model_dump()
        return answer

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
        except Exception as error:
            table = tuple(entry["id"])
            known = error if isinstance(error, Error) else Conflict(f"{named(table)}: {error}", table=table)
            self.failure = self.failure or known
            raise known from error
        return {"version": {"version": entry["version"], "manifest_path": entry["manifest_path"]}}

    def check_open(self, table: TableId) -> None:
        """Raise ``Finished`` if the transaction is over."""
        if self._is_finished:
            raise Finished(f"{named(table)}: the transaction of this handle is over; open the table again")

    def finish(self) -> None:
        """Keep nothing from now on."""
        with self._ending:
            self._is_finished = True

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
                chain.replaced.append(entries[-1])
                entries[-1] = entry
                chain.records.pop(version, None)
                return
            if entries and version > int(entries[-1]["version"]) + 1:
                raise Conflict(
                    f"{chain.name} is at version {version - 1} by now, and this transaction has changed version "
                    f"{chain.base}; start again, for example with `gateway.run`",
                    table=table,
                    branch=chain.branch,
                )
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
                if not chain.opened:
                    raise NotAtomic(
                        f"{chain.name} is changed through a handle of another branch; open it with "
                        f"`tx.table(…, branch={chain.branch!r})`"
                    )
                chain.listed = self.latest(chain)
                if version - 1 > chain.listed and self._may_clean_up(chain, version - 1):
                    raise Unavailable(
                        f"{chain.name}: version {version - 1} is in storage and not decided yet, and the table deletes "
                        "old versions at each commit (`lance.auto_cleanup.interval`). A change upon it would delete "
                        f"the published version {chain.listed}. Nothing was changed; try again",
                        table=table,
                    )
                if chain.read and version - 1 != chain.opened:
                    raise Conflict(
                        f"{chain.name} is at version {version - 1} by now, and rows of version {chain.opened} were "
                        "read; start again, for example with `gateway.run`",
                        table=table,
                        branch=chain.branch,
                    )
            with self._ending:
                self.check_open(table)
                entries.append(entry)
        self._staged(chain)

    def _may_clean_up(self, chain: Chain, version: int) -> bool:
        """Return whether Lance deletes old versions when it commits upon this one, which only storage may have."""
        import lance

        if chain.cleans_up:
            return True
        try:
            described = self.client.describe_table(DescribeTableRequest(id=list(chain.table)))
            stored = lance.dataset(described.location, storage_options=described.storage_options)
            return cleans_up(stored.checkout_version((chain.branch, version)).config())
        except Exception:
            # It may be undone by now, and Lance has read it.
            return True

    def latest(self, chain: Chain) -> int:
        """Ask for the table's latest version."""
        request = ListTableVersionsRequest(id=list(chain.table), descending=True, limit=1, branch=chain.branch)
        versions = self.list_table_versions(request).versions
        found = max((int(version.version) for version in versions), default=0)
        if found == chain.opened and differs(chain.opened_as, self.seen(chain, found)):
            raise recreated(chain)
        return found

    def seen(self, chain: Chain, version: int) -> Optional[Dict[str, Any]]:
        """Return what was listed of a version; None if another one was listed after it."""
        listed = self._latest_seen.get((chain.table, chain.branch))
        return listed if listed is not None and int(listed["version"]) == version else None

    def is_as_opened(self, chain: Chain) -> bool:
        """Ask whether the version that the changes were made at is still the table's own."""
        described = self.described(chain, chain.opened)
        return described is not None and not differs(chain.opened_as, described)

    def described(self, chain: Chain, version: int) -> Optional[Dict[str, Any]]:
        """Ask for the description of a version; None if it is not there."""
        request = {"id": list(chain.table), "version": version}
        if chain.branch is not None:
            request["branch"] = chain.branch
        answer = self.found(chain.table, lambda: self.client.describe_table_version(request))
        return None if answer is None else dict(answer["version"])

    def found(self, table: TableId, question: Callable[[], Any]) -> Any:
        """Return the answer to a question; None if what is asked for is not there."""
        try:
            return self._asked(table, question)
        except Error:
            raise
        except Exception as error:
            if type(error).__name__.endswith("NotFoundError"):
                return None
            raise

    def describe(self, table: TableId) -> Any:
        """Describe a table. Raises ``Unmanaged`` before anything is written."""
        return self.describe_table(DescribeTableRequest(id=list(table)))
