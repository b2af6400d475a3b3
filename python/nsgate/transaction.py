"""Changes of several tables, in several catalogs, that happen together or not at all."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import threading
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence, Tuple, Type

from ._held import Chain, Held, TableId, named
from ._http import NoAnswer, Pace
from .errors import Conflict, Error, Finished, NotAtomic, Refused, Unavailable, Unknown

if TYPE_CHECKING:
    from types import TracebackType

    import lance

    from .gateway import Gateway

BATCH_CREATE = "/v1/table/version/batch-create"
BATCH_COMMIT = "/nsgate/v1/batch-commit"
# The names of tables that a transaction is still writing; the gateway leaves them out of its listings.
TEMPORARY = "__nsgate_new_"
# Lance's operations that may move to a later version as they are, if nothing was read through their handle.
MOVABLE = ("Append", "Overwrite", "Delete", "Update", "CreateIndex", "UpdateConfig")
# The statuses of an answer that passes: nothing was committed, and the same request may succeed later.
PASSING = (408, 425, 429)


@dataclass(frozen=True)
class Change:
    """One table's part of a transaction.

    ``base`` is the version that it is built on, 0 for a new table, and
    ``version`` the one that the commit makes. ``operations`` are Lance's names
    of the changes in between, where they are known.
    """

    table: Tuple[str, ...]
    branch: Optional[str]
    base: int
    version: int
    operations: Tuple[str, ...]
    created: bool = False

    def __str__(self) -> str:
        what = "created" if self.created else f"{self.base} -> {self.version}"
        operations = f" ({', '.join(self.operations)})" if self.operations else ""
        return f"{named(self.table, self.branch)}: {what}{operations}"


@dataclass(frozen=True)
class Committed:
    """The result of a commit: the gateway's name of it, and what it changed."""

    transaction_id: Optional[str]
    changes: Tuple[Change, ...]


@dataclass(frozen=True)
class Progress:
    """A step of a transaction.

    ``step`` is ``staged`` (a change is in storage, hidden), ``committing``,
    ``rebasing`` (a table changed meanwhile; the same data is committed on top),
    ``waiting`` (for a lock, or for a gateway), ``starting again`` or
    ``committed``. ``seconds`` have passed since the transaction began.
    """

    step: str
    seconds: float
    table: Optional[Tuple[str, ...]] = None
    detail: str = ""


@dataclass
class _Created:
    """A new table, written under a temporary name."""

    table: TableId
    temporary: TableId
    handle: Any = None


class PendingCommit:
    """One request to commit, repeated with the same key until its outcome is known."""

    def __init__(self, gateway: Gateway, path: str, body: bytes, changes: Tuple[Change, ...]) -> None:
        self.gateway = gateway
        self.path = path
        self.body = body
        self.changes = changes
        self.key = str(uuid.uuid4())
        self.transaction_id: Optional[str] = None

    def settle(self, timeout: float, waiting: Callable[[str], None] = lambda _: None) -> Committed:
        """Send the request until there is a definite answer. Raises an ``Error`` for every other outcome."""
        pace = Pace(timeout)
        while True:
            at_least = 0.0
            try:
                status, answer, headers = self.gateway._http.post(
                    self.path, self.body, headers={"Idempotency-Key": self.key}, timeout=pace.left()
                )
            except NoAnswer as error:
                problem = f"the gateway does not answer ({error})"
            else:
                if status == 200:
                    return Committed(answer.get("transaction_id"), self.changes)
                known = answer.get("transaction_id")
                if not known:
                    raise refusal(status, answer, headers.get("Retry-After"))
                self.transaction_id = known
                at_least = seconds(headers.get("Retry-After"))
                problem = f"transaction {known} is not decided yet"
            waiting(problem)
            if not pace.pause(at_least):
                raise Unknown(f"{problem}; it is committed completely or not at all: ask with `error.wait()`", self)


def seconds(retry_after: Optional[str]) -> float:
    """Return the seconds of a ``Retry-After`` header, 0 if there are none."""
    try:
        return float(retry_after or 0)
    except ValueError:
        return 0.0


def refusal(status: int, answer: Dict[str, Any], retry_after: Optional[str]) -> Refused:
    """Return the error for an answer that says that nothing was committed."""
    message = str(answer.get("error") or f"status {status}")
    facts: Dict[str, Any] = {"status": status, **{name: answer.get(name) for name in ("code", "entry", "table")}}
    if status == 409:
        expected, found = answer.get("expected"), answer.get("found")
        return Conflict(message, branch=answer.get("branch"), expected=expected, found=found, **facts)
    if status in PASSING or status >= 500:
        locked_by = answer.get("locked_by")
        return Unavailable(message, retry_after=seconds(retry_after), locked_by=locked_by, **facts)
    return Refused(message, **facts)


class Transaction:
    """Changes of tables that are committed together, or not at all.

    Use it as a context manager: it commits on leaving, and rolls back on an
    exception. Nobody sees anything of it before the commit, and everybody sees
    all of it after.

    >>> with gateway.transaction() as tx:
    ...     tx.table("prod", "orders").insert(orders)
    ...     _ = tx.table("prod", "stock").update({"left": "left - 1"}, where="sku = 'A'")

    Different tables may be changed by different threads.
    """

    def __init__(
        self,
        gateway: Gateway,
        *,
        timeout: float = 120.0,
        rebase: bool = True,
        progress: Optional[Callable[[Progress], None]] = None,
    ) -> None:
        self._gateway = gateway
        self._timeout = timeout
        self._rebase = rebase
        self._progress = progress
        self._began = time.monotonic()
        self._lock = threading.RLock()
        self._opening: Dict[Tuple[TableId, Optional[str]], threading.Lock] = {}
        self._chains: Dict[Tuple[TableId, Optional[str]], Chain] = {}
        self._handles: Dict[Tuple[TableId, Optional[str]], Any] = {}
        self._created: Dict[TableId, _Created] = {}
        self._result: Optional[Committed] = None
        self._is_finished = False
        self._clients: Dict[str, Held] = {}
        self._lancedb: Any = None

    # -- tables -------------------------------------------------------------------------------------------------

    def table(self, *path: str, branch: Optional[str] = None) -> lance.LanceDataset:
        """Open a table for changes: a pylance dataset, the same one each time.

        Its changes go into the transaction: ``insert``, ``update``,
        ``delete``, ``merge_insert``, ``add_columns``, ``alter_columns``,
        ``drop_columns``, ``create_index``, ``create_scalar_index``,
        ``optimize``, ``restore``, ``update_config`` and the rest of pylance's.
        What acts at once (tags, branches, cleanup) raises ``NotAtomic``.
        Raises ``Unmanaged`` if the catalog would publish changes at once.
        """
        from ._table import Table

        table = _checked(path)
        key = (table, branch)
        with self._lock:
            self._check_open()
            if branch is None and table in self._created:
                created: lance.LanceDataset = self._created[table].handle
                return created
            opening = self._opening.setdefault(key, threading.Lock())
        with opening:
            handle: Optional[Table] = self._handles.get(key)
            if handle is None:
                client = self._client("pylance")
                client.describe(table)
                handle = self._handles[key] = Table.open(client, self._chain_of(table, branch, "pylance"))
        return handle

    @property
    def lancedb(self) -> Any:
        """A lancedb connection whose tables are part of the transaction: ``open_table`` and ``create_table``."""
        from ._lancedb import Connection

        with self._lock:
            self._check_open()
            if self._lancedb is None:
                self._lancedb = Connection(self._client("lancedb"), self._chain_of, self._create)
            return self._lancedb

    def create(self, *path: str, data: Any, schema: Any = None, **options: Any) -> lance.LanceDataset:
        """Create a table from ``data``; its name appears with the commit.

        ``options`` are those of ``lance.write_dataset``. Returns a dataset for
        further changes. Until the commit the table has a temporary name, which
        listings leave out; a rollback drops it. Raises ``Conflict`` at the
        commit if somebody else has created the table meanwhile.
        """
        import lance

        if "mode" in options:
            raise TypeError("`create` makes a new table, so it takes no `mode`; change an existing one with `table`")

        def write(client: Any, temporary: TableId) -> Any:
            return lance.write_dataset(
                data, schema=schema, namespace_client=client, table_id=list(temporary), mode="create", **options
            )

        created: lance.LanceDataset = self._create(_checked(path), write)
        return created

    def _create(self, table: TableId, write: Callable[[Any, TableId], Any]) -> Any:
        with self._lock:
            self._check_open()
            if table in self._created or (table, None) in self._chains:
                raise NotAtomic(f"{named(table)} is part of this transaction already")
            temporary = (*table[:-1], TEMPORARY + uuid7())
            created = self._created[table] = _Created(table, temporary)
        try:
            created.handle = write(self._gateway.namespace_client, temporary)
        except BaseException:
            with self._lock:
                del self._created[table]
            self._drop(temporary)
            raise
        self._say("staged", table)
        return created.handle

    def _client(self, owner: str) -> Held:
        with self._lock:
            if owner not in self._clients:
                self._clients[owner] = Held(self._gateway._new_namespace_client(), owner, self._chain_of, self._staged)
            return self._clients[owner]

    def _chain_of(self, table: TableId, branch: Optional[str], owner: str) -> Chain:
        with self._lock:
            chain = self._chains.get((table, branch))
            if chain is None:
                chain = self._chains[(table, branch)] = Chain(table, branch, owner, opened=0)
            if chain.owner != owner:
                raise NotAtomic(
                    f"{chain.name} was opened through {chain.owner} in this transaction; make all of its changes there"
                )
            return chain

    def _staged(self, chain: Chain) -> None:
        self._say("staged", chain.table, f"version {chain.entries[-1]['version']}")

    def _say(self, step: str, table: Optional[TableId] = None, detail: str = "") -> None:
        if self._progress is not None:
            self._progress(Progress(step, time.monotonic() - self._began, table, detail))

    def _check_open(self) -> None:
        if self._is_finished:
            raise Finished("this transaction is over; begin another one with `gateway.transaction()`")

    # -- the end ------------------------------------------------------------------------------------------------

    def dry_run(self) -> List[Change]:
        """Return what a commit would change now. Nothing is sent."""
        with self._lock:
            self._check_open()
            return [*self._changes(self._changed()), *self._creations()]

    def commit(self) -> Committed:
        """Commit all changes together.

        Returns when everybody sees them. Raises ``Conflict``, ``Unavailable``
        or ``Refused``, and then nobody ever sees any of them, or ``Unknown``.
        A transaction without changes sends nothing.
        """
        with self._lock:
            self._check_open()
            self._finish()
        failure = self._failure
        if failure is not None:
            self._clean_up()
            raise failure
        try:
            self._result = self._commit()
        except Unknown:
            # What is staged may be committed: it stays.
            raise
        except BaseException as error:
            if isinstance(error, Exception):
                self._clean_up()
            raise
        self._say("committed", detail=self._result.transaction_id or "")
        return self._result

    def rollback(self) -> None:
        """Give all changes up. Nobody ever sees them."""
        with self._lock:
            if self._is_finished:
                return
            self._finish()
        self._clean_up()

    @property
    def _failure(self) -> Optional[Error]:
        """The first commit of a table that could not be held back."""
        failures = (client.failure for client in self._clients.values())
        return next((failure for failure in failures if failure is not None), None)

    @property
    def result(self) -> Optional[Committed]:
        """The result of the commit; None before it."""
        return self._result

    def _finish(self) -> None:
        self._is_finished = True
        for client in self._clients.values():
            client.is_finished = True

    def _changed(self) -> List[Chain]:
        return [chain for chain in self._chains.values() if chain.entries]

    def _changes(self, chains: Sequence[Chain]) -> List[Change]:
        return [
            Change(chain.table, chain.branch, chain.base, int(chain.entries[-1]["version"]), self._operations(chain))
            for chain in chains
        ]

    def _creations(self) -> List[Change]:
        return [Change(created.table, None, 0, 1, (), created=True) for created in self._created.values()]

    def _operations(self, chain: Chain) -> Tuple[str, ...]:
        return tuple(type(transaction.operation).__name__ for transaction in self._transactions(chain) or ())

    def _transactions(self, chain: Chain) -> Optional[List[Any]]:
        handle = self._handles.get((chain.table, chain.branch))
        if handle is not None:
            chain.record(handle._ds)
        return chain.transactions

    def _commit(self) -> Committed:
        chains = self._changed()
        if not chains and not self._created:
            return Committed(None, ())
        pace = Pace(self._timeout)
        if not all(chain.is_settled for chain in chains):
            # A change was built on a version that is not decided, or on rows that have changed since they were read.
            self._rebased(chains)
        while True:
            try:
                return self._send(chains, pace)
            except Conflict as conflict:
                problem: Refused = conflict
            except Unavailable as unavailable:
                problem = unavailable
            # The gateway may have used up some of the staged manifests: all are made anew, upon the latest versions.
            wait = problem.retry_after or 0.0 if isinstance(problem, Unavailable) else 0.0
            if any(created.table == problem.table for created in self._created.values()):
                raise problem
            if not self._rebase or not pace.pause(wait):
                raise problem
            if isinstance(problem, Unavailable) and problem.locked_by is not None:
                # It never got its locks, so nothing was used up.
                self._say("waiting", problem.table, str(problem))
                continue
            self._say("rebasing", problem.table, str(problem))
            self._rebased(chains, problem)

    def _send(self, chains: Sequence[Chain], pace: Pace) -> Committed:
        changes = (*self._changes(chains), *self._creations())
        entries = [entry for chain in chains for entry in chain.entries]
        # The change that each entry of the request belongs to.
        of_entry = [change for chain, change in zip(chains, changes) for _ in chain.entries]
        of_entry += changes[len(chains) :]
        if self._created:
            operations: List[Dict[str, Any]] = [{"create_table_version": entry} for entry in entries]
            for created in self._created.values():
                rename = {
                    "id": list(created.temporary),
                    "new_namespace_id": list(created.table[:-1]),
                    "new_table_name": created.table[-1],
                }
                operations.append({"rename_table": rename})
            path, request = BATCH_COMMIT, {"operations": operations}
        else:
            path, request = BATCH_CREATE, {"entries": entries}
        self._say("committing", detail=f"{len(changes)} tables")
        pending = PendingCommit(self._gateway, path, json.dumps(request).encode(), changes)
        try:
            return pending.settle(pace.left(), lambda problem: self._say("waiting", detail=problem))
        except Refused as refused:
            if refused.table is None and isinstance(refused.entry, int) and refused.entry < len(of_entry):
                refused.table = of_entry[refused.entry].table
            raise

    # -- rebase -------------------------------------------------------------------------------------------------

    def _rebased(self, chains: Sequence[Chain], problem: Optional[Refused] = None) -> None:
        """Stage all chains anew upon the latest versions, without writing data again. Raises ``Conflict``."""
        for chain in chains:
            self._rebase_one(chain, problem)

    def _rebase_one(self, chain: Chain, problem: Optional[Refused]) -> None:
        import lance
        from lance.commit import CommitConflictError

        from ._table import latest

        transactions = self._transactions(chain)

        def conflict(why: str) -> Conflict:
            expected, found = (problem.expected, problem.found) if isinstance(problem, Conflict) else (None, None)
            because = f" ({problem})" if problem is not None else ""
            return Conflict(
                f"{chain.name} {why}; start again, for example with `gateway.run`{because}",
                table=chain.table,
                branch=chain.branch,
                expected=expected,
                found=found,
                status=409,
            )

        if not self._rebase:
            raise conflict("has changed since this transaction opened it")
        if not transactions:
            if isinstance(problem, Unavailable):
                raise problem
            raise conflict("was changed through lancedb, whose changes cannot move to a later version")
        client = Held(self._gateway._new_namespace_client(), chain.owner, lambda *_: staged)
        # With a session of its own: the old one remembers the staged version under its number.
        dataset = latest(client, chain)
        since = f"is at version {dataset.version} by now"
        if chain.read and dataset.version != chain.opened:
            raise conflict(f"{since}, and rows of version {chain.opened} were read")
        if dataset.version != chain.base:
            kinds = [type(transaction.operation).__name__ for transaction in transactions]
            if len(kinds) > 1:
                raise conflict(f"{since}, and several changes of it do not move")
            if kinds[0] not in MOVABLE:
                raise conflict(f"{since}, and {kinds[0]} does not move")
        staged = Chain(chain.table, chain.branch, chain.owner, opened=dataset.version)
        for transaction in transactions:
            try:
                dataset = lance.LanceDataset.commit(dataset, transaction, max_retries=1)
            except CommitConflictError as error:
                raise conflict(f"was changed in the same place ({error})") from error
        if not staged.is_settled:
            raise conflict("has a version that is not decided yet")
        self._remove(chain)
        chain.entries, chain.listed, chain.opened = staged.entries, staged.listed, staged.opened
        chain.records = {int(entry["version"]): made for entry, made in zip(chain.entries, transactions)}

    # -- what is left over --------------------------------------------------------------------------------------

    def _clean_up(self) -> None:
        for chain in self._changed():
            self._remove(chain)
        for created in self._created.values():
            self._drop(created.temporary)

    @staticmethod
    def _remove(chain: Chain) -> None:
        """Remove staged manifests that nobody will publish, where they are files of this machine."""
        if chain.location is None or ("://" in chain.location and not chain.location.startswith("file://")):
            return
        for entry in chain.entries:
            path = "/" + str(entry["manifest_path"]).lstrip("/")
            # Its final name belongs to the catalog.
            if ".manifest-" in os.path.basename(path):
                with contextlib.suppress(OSError):
                    os.unlink(path)

    def _drop(self, temporary: TableId) -> None:
        from lance_namespace import DropTableRequest

        # It may never have been there, or the gateway may be gone: `Gateway.leftovers` finds what stays.
        with contextlib.suppress(Exception):
            self._gateway.namespace_client.drop_table(DropTableRequest(id=list(temporary)))

    # -- with ---------------------------------------------------------------------------------------------------

    def __enter__(self) -> Transaction:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if self._is_finished:
            return
        if kind is None:
            self.commit()
            return
        failure = self._failure
        self.rollback()
        if failure is not None and isinstance(error, Exception) and error is not failure:
            # Lance reports an error of its own where this package's has stopped a commit.
            raise failure from error

    async def __aenter__(self) -> Transaction:
        return self

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        await asyncio.to_thread(self.__exit__, kind, error, trace)


def _checked(path: Tuple[str, ...]) -> TableId:
    if not path or not all(isinstance(name, str) and name for name in path):
        raise TypeError('a table is named by its path, for example `tx.table("prod", "orders")`')
    return path


def uuid7() -> str:
    """Return a UUID that begins with the time, so that leftovers tell their age."""
    milliseconds = time.time_ns() // 1_000_000
    value = (milliseconds & (1 << 48) - 1) << 80 | 0x7 << 76 | int.from_bytes(os.urandom(10), "big") & ~(0xF << 76)
    value = value & ~(0x3 << 62) | 0x2 << 62
    return str(uuid.UUID(int=value))


__all__ = ["Change", "Committed", "Progress", "Transaction"]
