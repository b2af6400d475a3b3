"""Changes of several tables, in several catalogs, that happen together or not at all."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import json
import logging
import os
import threading
import time
import uuid
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence, Tuple, Type, TypeVar

from ._commit import Change, Committed, PendingCommit
from ._held import LANCES, Chain, Held, TableId, is_lances, named, recreated, translated
from ._http import Pace
from ._identity import Identity, identities
from .errors import Conflict, Error, Finished, NotAtomic, Refused, Unavailable, Unknown

if TYPE_CHECKING:
    from types import TracebackType

    import lance

    from .gateway import Gateway

T = TypeVar("T")
BATCH_CREATE = "/v1/table/version/batch-create"
BATCH_COMMIT = "/nsgate/v1/batch-commit"
# The names of tables that a transaction is still writing; the gateway leaves them out of its listings.
TEMPORARY = "__nsgate_new_"


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
        if not timeout > 0:
            raise ValueError("timeout: more than 0 seconds")
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
        self._pending: Optional[PendingCommit] = None
        self._is_finished = False
        self._process = os.getpid()
        self._is_committing = False
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
        # Lance's own requests name no branch where they mean the main one.
        branch = None if branch == "main" else branch
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
                with client.plainly(table):
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
        if " " in table[-1]:
            raise ValueError(
                f"{named(table)}: pylance cannot open a table with a blank in its name; choose another one"
            )
        with self._lock:
            self._check_open()
            if table in self._created or (table, None) in self._chains:
                raise NotAtomic(f"{named(table)} is part of this transaction already")
            temporary = (*table[:-1], TEMPORARY + uuid7())
            created = self._created[table] = _Created(table, temporary)
        try:
            created.handle = write(self._gateway.namespace_client, temporary)
        except BaseException as error:
            with self._lock:
                del self._created[table]
            self._drop(temporary)
            self._check_open()
            known = translated(table, error) if isinstance(error, Exception) else error
            if known is error:
                raise
            raise known from error
        if self._is_finished:
            # It was ended by another thread meanwhile, without this table.
            self._drop(temporary)
            self._check_open()
        self._say("staged", table)
        return created.handle

    def _client(self, owner: str) -> Held:
        with self._lock:
            if owner not in self._clients:
                # Lance keeps the client where Python's collector cannot look, so the client must not keep this.
                chain_of, staged = weakref.WeakMethod(self._chain_of), weakref.WeakMethod(self._staged)

                def find(table: TableId, branch: Optional[str], owner: str) -> Chain:
                    method = chain_of()
                    if method is None:
                        raise Finished(f"{named(table)}: the transaction of this handle is gone, so nothing commits it")
                    return method(table, branch, owner)

                def tell(chain: Chain) -> None:
                    method = staged()
                    if method is not None:
                        method(chain)

                self._clients[owner] = Held(self._gateway.namespace_client, owner, find, tell)
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
        if self._progress is None:
            return
        try:
            self._progress(Progress(step, time.monotonic() - self._began, table, detail))
        except Exception:
            # What is committed stays committed, whatever becomes of the report.
            logging.getLogger("nsgate").exception("progress: the callback raised an exception at the step %r", step)

    def _check_open(self) -> None:
        if self._process != os.getpid():
            raise Finished("this transaction was begun in another process; begin one here with `gateway.transaction()`")
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
        A transaction without changes sends nothing. If something else
        interrupts it, such as Ctrl-C, ``wait`` tells what became of it.
        """
        with self._lock:
            self._check_open()
            self._finish()
            self._is_committing = True
        failure = self._failure
        unfinished = [created for created in self._created.values() if created.handle is None]
        if failure is None and unfinished:
            failure = NotAtomic(f"{named(unfinished[0].table)} is still being written by another thread; wait for it")
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
        for chain in self._changed():
            # Only what a compaction has replaced goes: the rest is published.
            chain.entries = []
            self._remove(chain)
        self._say("committed", detail=self._result.transaction_id or "")
        return self._result

    def wait(self, timeout: float = 300.0) -> Committed:
        """Return the result of a commit that was interrupted; ask until it is known, ``timeout`` seconds at most.

        It commits nothing by itself. Raises ``Finished`` if no commit was
        sent: then nothing was committed. Otherwise it raises what ``commit``
        raises.
        """
        if self._result is None:
            if self._pending is None:
                raise Finished("no commit of this transaction was sent, so nothing was committed")
            self._result = self._pending.learn(timeout)
        return self._result

    def rollback(self) -> None:
        """Give all changes up. Nobody ever sees them."""
        if self._process != os.getpid():
            # What the parent has staged is the parent's.
            return
        with self._lock:
            if self._is_finished:
                return
            self._finish()
        self._clean_up()

    def _give_up(self) -> bool:
        """Roll back, unless a commit was begun; whether there is none."""
        self.rollback()
        return not self._is_committing

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
            client.finish()

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
        # Nobody sees the version that a change was built on, or it is not the one that it was made at.
        stale = not all(self._is_settled(chain) for chain in chains)
        problem: Optional[Refused] = None
        while True:
            if stale:
                try:
                    self._rebased(chains, problem)
                    stale = False
                except Unavailable as unavailable:
                    problem = unavailable
            if not stale:
                try:
                    return self._send(chains, pace)
                except (Conflict, Unavailable) as refused:
                    problem = refused
                # What was not sent, or is locked and never got its locks, has used nothing up. Otherwise the gateway
                # may have used up some of the staged manifests: all are made anew, upon the latest versions.
                was_sent = self._pending is not None and self._pending.was_sent
                stale = was_sent and getattr(problem, "locked_by", None) is None
            assert problem is not None
            if any(created.table == problem.table for created in self._created.values()):
                raise problem
            wait = problem.retry_after or 0.0 if isinstance(problem, Unavailable) else 0.0
            if not self._rebase or not pace.pause(wait):
                raise problem
            self._say("rebasing" if stale else "waiting", problem.table, str(problem))

    def _is_settled(self, chain: Chain) -> bool:
        from ._rebase import is_settled

        return is_settled(self._client(chain.owner), chain, self._transactions(chain))

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
        makes = [identity for chain in chains for identity in identities(chain)]
        makes += [Identity(it.table, None, 0, location=it.handle.uri) for it in self._created.values()]
        body = json.dumps(request).encode()
        pending = self._pending
        if pending is None or pending.body != body or not pending.may_be_repeated:
            pending = self._pending = PendingCommit(self._gateway, path, body, changes, makes, self._clean_up)
        try:
            return pending.settle(pace.left(), lambda problem: self._say("waiting", detail=problem))
        except Refused as refused:
            if refused.table is None and isinstance(refused.entry, int) and refused.entry < len(of_entry):
                refused.table = of_entry[refused.entry].table
            if not isinstance(refused, (Conflict, Unavailable)):
                for chain in chains:
                    if chain.table == refused.table and not self._client(chain.owner).is_as_opened(chain):
                        raise recreated(chain) from refused
            raise

    # -- rebase -------------------------------------------------------------------------------------------------

    def _rebased(self, chains: Sequence[Chain], problem: Optional[Refused] = None) -> None:
        """Stage what is stale upon the latest versions, without writing data again. Raises ``Conflict``."""
        from ._rebase import is_intact, rebased

        for chain in chains:
            transactions = self._transactions(chain)
            if is_intact(self._client(chain.owner), chain, transactions):
                continue
            handle = self._handles.get((chain.table, chain.branch))
            schema = None if handle is None else handle.schema
            staged = rebased(self._gateway, chain, transactions, schema, self._rebase, problem)
            self._remove(chain)
            chain.replaced = []
            chain.entries, chain.listed, chain.opened = staged.entries, staged.listed, staged.opened
            chain.opened_as, chain.schema, chain.cleans_up = staged.opened_as, staged.schema, staged.cleans_up
            chain.records = {int(entry["version"]): made for entry, made in zip(chain.entries, transactions or ())}

    # -- what is left over --------------------------------------------------------------------------------------

    def _clean_up(self) -> None:
        for chain in self._changed():
            self._remove(chain)
        for created in self._created.values():
            # Where the log may have forgotten a commit, another name may have these data.
            self._drop(created.temporary, keeps_data=self._pending is not None and self._pending.was_searched)

    @staticmethod
    def _remove(chain: Chain) -> None:
        """Remove staged manifests that nobody will publish, where they are files of this machine."""
        for path in chain.staged_files() or ():
            # Its final name belongs to the catalog.
            if ".manifest-" in os.path.basename(path):
                with contextlib.suppress(OSError):
                    os.unlink(path)

    def _drop(self, temporary: TableId, keeps_data: bool = False) -> None:
        from lance_namespace import DeregisterTableRequest, DropTableRequest

        client = self._gateway.namespace_client
        # It may never have been there, or the gateway may be gone: `Gateway.leftovers` finds what stays.
        with contextlib.suppress(Exception):
            if keeps_data:
                client.deregister_table(DeregisterTableRequest(id=list(temporary)))
            else:
                client.drop_table(DropTableRequest(id=list(temporary)))

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
        if failure is not None and error is not failure and _hides(error, failure):
            raise failure from error
        known = translated((), error) if isinstance(error, Exception) and is_lances(error) else None
        if isinstance(known, Unavailable):
            raise known from error

    async def __aenter__(self) -> Transaction:
        return self

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        await outlasted(in_thread(self.__exit__, kind, error, trace))


def in_thread(call: Callable[..., T], *arguments: Any) -> asyncio.Future[T]:
    """Begin a call in a thread. The future is not a task, which the end of the event loop would cancel meanwhile."""
    context = contextvars.copy_context()
    return asyncio.get_running_loop().run_in_executor(None, functools.partial(context.run, call, *arguments))


async def outlasted(work: asyncio.Future[T]) -> T:
    """Wait for what cannot be interrupted, also where this task is cancelled; then the cancellation goes on.

    An error of the work is the cancellation's cause.
    """
    cancelled: Optional[asyncio.CancelledError] = None
    while not work.done():
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled from work.exception()
    return work.result()


def _hides(error: Optional[BaseException], failure: Error) -> bool:
    """Return whether Lance reports, in words of its own, that this package's error has stopped a commit."""
    if type(error) not in LANCES:
        return False
    return "Commit result for version" in str(error) or str(failure)[:40] in str(error)


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
