"""The connection to a gateway: transactions, snapshots and plain clients."""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import os
import random
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Callable, Dict, Generic, List, Mapping, Optional, Sequence, Tuple, TypeVar

from ._commit import PASSING, refusal, seconds
from ._http import Http, NoAnswer, Pace, Token
from .errors import Conflict, Error, Finished, Unavailable
from .transaction import TEMPORARY, Progress, Transaction, outlasted

if TYPE_CHECKING:
    import lance

SNAPSHOT = "/nsgate/v1/snapshot"
T = TypeVar("T")
# How many tables of a snapshot are opened at a time.
OPENING = 16


def connect(
    uri: str,
    *,
    token: Token = None,
    headers: Optional[Mapping[str, str]] = None,
    ca: Optional[str] = None,
    certificate: Optional[str] = None,
    private_key: Optional[str] = None,
    timeout: float = 60.0,
) -> Gateway:
    """Return a connection to the gateway at ``uri``. Nothing is sent yet.

    ``token`` is a bearer token, or a function that returns a fresh one and is
    asked before each request. ``headers`` go with every request. ``ca``,
    ``certificate`` and ``private_key`` are paths of PEM files. ``timeout`` is
    the most seconds that one request of this package may take; pylance bounds
    its own.

    >>> gateway = nsgate.connect("http://127.0.0.1:8080", token=TOKEN)
    """
    try:
        import lance  # noqa: F401
        import urllib3  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"{error.name} is missing: transactions need pylance and lancedb; `pip install 'nsgate[client]'`"
        ) from error
    if not timeout > 0:
        raise ValueError("timeout: more than 0 seconds")
    if not uri.startswith(("http://", "https://")):
        raise ValueError(f"uri: begins with http:// or https://, for example https://{uri}")
    return Gateway(uri, token, headers or {}, ca=ca, certificate=certificate, private_key=private_key, timeout=timeout)


class Gateway:
    """A connection to one gateway; threads may share it."""

    def __init__(
        self,
        uri: str,
        token: Token,
        headers: Mapping[str, str],
        *,
        ca: Optional[str],
        certificate: Optional[str],
        private_key: Optional[str],
        timeout: float,
    ) -> None:
        self._http = Http(uri, token, headers, ca=ca, certificate=certificate, private_key=private_key, timeout=timeout)
        self._tls = {"tls.ssl_ca_cert": ca, "tls.cert_file": certificate, "tls.key_file": private_key}
        self._settings: Dict[str, Any] = {
            "token": token,
            "headers": dict(headers),
            "ca": ca,
            "certificate": certificate,
            "private_key": private_key,
            "timeout": timeout,
        }
        self._process = os.getpid()
        self._client: Any = None
        self._connection: Any = None

    def _check_process(self) -> None:
        # After a fork, the copied clients share their connections with the parent's.
        if self._process != os.getpid():
            self._process, self._client, self._connection = os.getpid(), None, None

    def __repr__(self) -> str:
        return f"Gateway({self._http.uri!r})"

    def __reduce__(self) -> Tuple[Any, ...]:
        # Another process makes connections of its own.
        return functools.partial(connect, self._http.uri, **self._settings), ()

    # -- plain clients ------------------------------------------------------------------------------------------

    @property
    def namespace_client(self) -> Any:
        """A namespace client of pylance (``lance.namespace.RestNamespace``) for everything outside of transactions."""
        self._check_process()
        if self._client is None:
            self._client = self._new_namespace_client()
        return self._client

    @property
    def lancedb(self) -> Any:
        """A lancedb connection for everything outside of transactions."""
        self._check_process()
        if self._connection is None:
            from lancedb.namespace import LanceNamespaceDBConnection

            self._connection = LanceNamespaceDBConnection(self.namespace_client)
        return self._connection

    def table(self, *path: str, version: Optional[int] = None) -> lance.LanceDataset:
        """Open a table outside of transactions: a pylance dataset that commits each change at once."""
        import lance

        return lance.dataset(namespace_client=self.namespace_client, table_id=list(path), version=version)

    def _new_namespace_client(self) -> Any:
        from lance.namespace import DynamicContextProvider, RestNamespace

        http = self._http

        class Headers(DynamicContextProvider):
            """The headers of each request, with a fresh token."""

            def provide_context(self, info: Dict[str, str]) -> Dict[str, str]:
                return {f"headers.{name}": value for name, value in http.headers().items()}

        properties = {name: value for name, value in self._tls.items() if value is not None}
        return RestNamespace(  # type: ignore[no-untyped-call]
            uri=http.uri, context_provider=Headers(), **properties
        )

    # -- transactions -------------------------------------------------------------------------------------------

    def transaction(
        self,
        *,
        timeout: float = 120.0,
        rebase: bool = True,
        progress: Optional[Callable[[Progress], None]] = None,
    ) -> Transaction:
        """Begin a transaction; nothing is sent until a table is opened.

        ``timeout`` is the most seconds that the commit may take. With
        ``rebase``, a table that has changed meanwhile gets the same change on
        top, without writing data again, where Lance allows that and nothing
        was read through the table's handle; without it, that is a
        ``Conflict``. ``progress`` is called with each step; what it raises is
        logged (``nsgate``) and changes nothing.
        """
        return Transaction(self, timeout=timeout, rebase=rebase, progress=progress)

    def run(
        self,
        change: Callable[[Transaction], T],
        *,
        attempts: int = 5,
        timeout: float = 120.0,
        rebase: bool = True,
        progress: Optional[Callable[[Progress], None]] = None,
    ) -> T:
        """Run ``change`` in a transaction and commit it; start again where it conflicts, ``attempts`` times in all.

        ``change`` gets the transaction, and may run several times: what it
        does outside of the transaction is done each time. Returns what
        ``change`` returns. Raises the last ``Conflict`` or ``Unavailable``;
        every other error at once.

        >>> def sell(tx):
        ...     stock = tx.table("prod", "stock")
        ...     stock.update({"left": "left - 1"}, where="sku = 'A'")
        >>> gateway.run(sell)
        """

        def checked(transaction: Transaction) -> T:
            result = change(transaction)
            if inspect.isawaitable(result):
                if inspect.iscoroutine(result):
                    result.close()
                raise TypeError("`run` takes a plain function; give a coroutine function to `run_async`")
            return result

        return _Run(self, checked, attempts, timeout=timeout, rebase=rebase, progress=progress).result()

    async def run_async(
        self,
        change: Callable[[Transaction], Any],
        *,
        attempts: int = 5,
        timeout: float = 120.0,
        rebase: bool = True,
        progress: Optional[Callable[[Progress], None]] = None,
    ) -> Any:
        """Do what ``run`` does without blocking the event loop; ``change`` may be a coroutine function.

        A coroutine function runs in a thread and an event loop of its own.
        Cancelling rolls back, unless the commit was sent: then it is waited
        for, and what was committed is returned.
        """

        def change_in_thread(transaction: Transaction) -> Any:
            result = change(transaction)
            return asyncio.run(_awaited(result)) if inspect.isawaitable(result) else result

        run = _Run(self, change_in_thread, attempts, timeout=timeout, rebase=rebase, progress=progress)
        work = asyncio.ensure_future(asyncio.to_thread(run.result))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            if not await asyncio.to_thread(run.stop):
                # Nobody waits for `change`; whatever it still does is not committed.
                work.add_done_callback(lambda done: done.cancelled() or done.exception())
                raise
            return await outlasted(work, lambda: run.is_committed)

    # -- snapshots ----------------------------------------------------------------------------------------------

    def versions(self, *tables: Sequence[str]) -> List[int]:
        """Return the latest versions of several tables, all of one moment, with one request.

        >>> gateway.versions(["prod", "orders"], ["prod", "stock"])
        [..., ...]
        """
        if not tables:
            return []
        for table in tables:
            if isinstance(table, str):
                raise TypeError('a table is named by a list, for example `snapshot(["prod", "orders"])`')
        body = json.dumps({"tables": [{"id": list(table)} for table in tables]}).encode()
        pace = Pace(self._http.timeout)
        while True:
            try:
                status, answer, headers = self._http.post(SNAPSHOT, body, timeout=pace.left())
            except NoAnswer as error:
                problem: Error = Unavailable(f"the gateway does not answer ({error})")
                at_least = 0.0
            else:
                if status == 200:
                    return [int(table["version"]["version"]) for table in answer["tables"]]
                problem = refusal(status, answer, headers.get("Retry-After"))
                if status < 500 and status not in PASSING:
                    raise problem
                at_least = seconds(headers.get("Retry-After"))
            if not pace.pause(at_least):
                raise problem

    def snapshot(self, *tables: Sequence[str]) -> Tuple[lance.LanceDataset, ...]:
        """Open several tables at their latest versions, all of one moment.

        A transaction is in all of the datasets or in none of them. One request
        finds the versions; then each table is opened.

        >>> orders, stock = gateway.snapshot(["prod", "orders"], ["prod", "stock"])
        """
        import lance

        client = self.namespace_client

        def opened(table: Sequence[str], version: int) -> Any:
            return lance.dataset(namespace_client=client, table_id=list(table), version=version)

        versions = self.versions(*tables)
        if len(versions) < 2:
            return tuple(map(opened, tables, versions))
        with ThreadPoolExecutor(min(OPENING, len(versions))) as pool:
            return tuple(pool.map(opened, tables, versions))

    async def snapshot_async(self, *tables: Sequence[str]) -> Tuple[lance.LanceDataset, ...]:
        """Do what ``snapshot`` does without blocking the event loop."""
        return await asyncio.to_thread(self.snapshot, *tables)

    # -- upkeep -------------------------------------------------------------------------------------------------

    def leftovers(self, *namespace: str, older_than: timedelta = timedelta(days=1)) -> List[Tuple[str, ...]]:
        """Return tables that a transaction began to write and whose client then died.

        Looks at the catalogs' own listings of ``namespace``, which must be
        reached without a gateway: a gateway leaves these names out. Drop them
        with ``drop_table`` through a gateway, which refuses that while a commit
        is at work on one.
        """
        from lance_namespace import ListTablesRequest

        found: List[Tuple[str, ...]] = []
        token = None
        while True:
            request = ListTablesRequest(id=list(namespace), page_token=token, limit=1000)
            answer = self.namespace_client.list_tables(request)
            for name in answer.tables:
                age = _age(name)
                if age is not None and age >= older_than:
                    found.append((*namespace, name))
            token = answer.page_token
            if not token:
                return found

    def close(self) -> None:
        """Close the idle connections."""
        self._http.close()

    def __enter__(self) -> Gateway:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


async def _awaited(result: Any) -> Any:
    return await result


class _Run(Generic[T]):
    """A change that starts again where it conflicts, until it is stopped."""

    def __init__(self, gateway: Gateway, change: Callable[[Transaction], T], attempts: int, **options: Any) -> None:
        if attempts < 1:
            raise ValueError("attempts: at least 1")
        self._gateway = gateway
        self._change = change
        self._attempts = attempts
        self._options = options
        self._lock = threading.Lock()
        self._is_stopped = False
        self._transaction: Optional[Transaction] = None

    def result(self) -> T:
        """Run the change; return what it returns."""
        pause = 0.02
        for left in range(self._attempts - 1, -1, -1):
            with self._lock:
                if self._is_stopped:
                    raise Finished("this run was cancelled")
                transaction = self._transaction = self._gateway.transaction(**self._options)
            try:
                with transaction:
                    return self._change(transaction)
            except Exception as error:
                if left == 0 or transaction.result is not None or not _passes(error):
                    raise
                transaction._say("starting again", detail=str(error))
            time.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(pause * 2, 2.0)
        raise AssertionError("unreachable")

    def stop(self) -> bool:
        """Begin no commit from now on. Returns whether one was begun."""
        with self._lock:
            self._is_stopped = True
            transaction = self._transaction
        return transaction is not None and not transaction._give_up()

    @property
    def is_committed(self) -> bool:
        """Whether there is a commit."""
        return self._transaction is not None and self._transaction.result is not None


def _passes(error: Exception) -> bool:
    """Return whether the same transaction may succeed when it starts again."""
    from lance.commit import CommitConflictError

    if isinstance(error, (Conflict, Unavailable, CommitConflictError)):
        return True
    # pylance and lancedb report a writer who was faster in several ways; all of them say so in words.
    is_lance = type(error) in (OSError, RuntimeError, ValueError) and not isinstance(error, Error)
    return is_lance and ("commit conflict" in str(error).lower() or "Commit result for version" in str(error))


def _age(name: str) -> Optional[timedelta]:
    """Return the age of a temporary name; None for every other name."""
    if not name.startswith(TEMPORARY):
        return None
    try:
        began = uuid.UUID(name[len(TEMPORARY) :]).int >> 80
    except ValueError:
        return None
    return datetime.now(timezone.utc) - datetime.fromtimestamp(began / 1000, timezone.utc)
