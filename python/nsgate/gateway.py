"""The connection to a gateway: transactions, snapshots and plain clients."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import json
import os
import random
import re
import threading
import time
import urllib.parse
import uuid
import warnings
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from importlib.metadata import PackageNotFoundError, version
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Container,
    Dict,
    Generic,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Tuple,
    TypeVar,
)

from ._commit import PASSING, SNAPSHOT, refusal, seconds
from ._http import Http, NoAnswer, Pace, Token
from .errors import Conflict, Error, Finished, Unavailable
from .transaction import TEMPORARY, Progress, Transaction, in_thread, outlasted

if TYPE_CHECKING:
    import lance

T = TypeVar("T")
# The first versions that no test has been run with. A transaction stands on inner parts of pylance and lancedb, which
# change without notice: where one of them commits in another way, a change would be published at once. pyproject.toml
# has the same bounds.
UNTESTED = {"lance-namespace": (0, 14), "lancedb": (0, 41), "pylance": (15,)}
# How many tables of a snapshot are opened at a time.
OPENING = 16
# How often a snapshot is taken while names move.
SNAPSHOTS = 5


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
    the most seconds that one request to the gateway may take, also one that
    pylance or lancedb makes. Reading and writing storage has pylance's limits.

    >>> gateway = nsgate.connect("http://127.0.0.1:8080", token=TOKEN)
    """
    try:
        import lance  # noqa: F401
        import urllib3  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"{error.name} is missing: transactions need pylance and lancedb; `pip install 'nsgate[client]'`"
        ) from error
    _check_versions()
    if not timeout > 0:
        raise ValueError("timeout: more than 0 seconds")
    if not uri.startswith(("http://", "https://")):
        raise ValueError(f"uri: begins with http:// or https://, for example https://{uri}")
    return Gateway(uri, token, headers or {}, ca=ca, certificate=certificate, private_key=private_key, timeout=timeout)


def _check_versions() -> None:
    """Warn of libraries that are newer than those that transactions were tested with."""
    for name, bound in UNTESTED.items():
        with contextlib.suppress(PackageNotFoundError):
            found = version(name)
            numbers = re.match(r"\d+(?:\.\d+)*", found)
            if numbers is not None and tuple(map(int, numbers[0].split("."))) >= bound:
                text = ".".join(map(str, bound))
                warnings.warn(
                    f"{name} {found} was not tested with this nsgate: a change in a transaction may fail, or be "
                    f"published at once. Update nsgate, or install a tested version: pip install '{name}<{text}'",
                    stacklevel=3,
                )


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
        from ._client import Client

        return Client(self._http.uri, self._http.headers, self._tls, self._http.timeout)

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
        Cancelling ends a coroutine function and rolls back. If the commit was
        sent, its end is waited for, and what it commits stays committed;
        ``progress`` tells of it. The cancellation goes on in every case, with
        an error of the commit as its cause. A plain function cannot be
        interrupted: it goes on in its thread, and nothing of it is committed.
        """
        run = _Run(self, change, attempts, timeout=timeout, rebase=rebase, progress=progress)
        work = in_thread(run.result)
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError as cancelled:
            # In a thread of its own: all others may be taken by changes that go on.
            with ThreadPoolExecutor(1) as pool:
                stop = asyncio.wrap_future(pool.submit(run.stop))
                with contextlib.suppress(asyncio.CancelledError):
                    await outlasted(stop)
            if not stop.result():
                # Nobody waits for `change`; whatever it still does is not committed.
                work.cancel()
                raise
            with contextlib.suppress(Exception):
                await outlasted(work)
            raise cancelled from work.exception()

    # -- snapshots ----------------------------------------------------------------------------------------------

    def versions(self, *tables: Sequence[str]) -> List[int]:
        """Return the latest versions of several tables, all of one moment, with one request.

        >>> gateway.versions(["prod", "orders"], ["prod", "stock"])
        [..., ...]
        """
        return [int(version["version"]) for version in self._latest(tables)]

    def _latest(self, tables: Sequence[Sequence[str]]) -> List[Dict[str, Any]]:
        """Return the latest versions of several tables, as their catalogs describe them."""
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
                    return [table["version"] for table in answer["tables"]]
                problem = refusal(status, answer, headers.get("Retry-After"))
                if status < 500 and status not in PASSING:
                    raise problem
                at_least = seconds(headers.get("Retry-After"))
            if not pace.pause(at_least):
                raise problem

    def snapshot(self, *tables: Sequence[str]) -> Tuple[lance.LanceDataset, ...]:
        """Open several tables at their latest versions, all of one moment.

        A transaction is in all of the datasets or in none of them. One request
        finds the versions; then each table is opened. Starts again if a name
        was given to another table meanwhile.

        >>> orders, stock = gateway.snapshot(["prod", "orders"], ["prod", "stock"])
        """
        import lance

        client = self.namespace_client

        def opened(table: Sequence[str], version: Dict[str, Any]) -> Any:
            return lance.dataset(namespace_client=client, table_id=list(table), version=int(version["version"]))

        if not tables:
            return ()
        versions = self._latest(tables)
        for _ in range(SNAPSHOTS):
            found = versions
            try:
                with ThreadPoolExecutor(min(OPENING, len(tables))) as pool:
                    datasets = tuple(pool.map(opened, tables, found))
            except Exception:
                # A version may have been cleaned up meanwhile, or the name given to another table.
                versions = self._latest(tables)
                if versions == found:
                    raise
            else:
                if not any(map(_is_anothers, found, datasets)):
                    return datasets
                versions = self._latest(tables)
        raise Unavailable("snapshot: the tables are renamed or cleaned up all the time; take it again")

    async def snapshot_async(self, *tables: Sequence[str]) -> Tuple[lance.LanceDataset, ...]:
        """Do what ``snapshot`` does without blocking the event loop."""
        return await asyncio.to_thread(self.snapshot, *tables)

    # -- upkeep -------------------------------------------------------------------------------------------------

    def leftovers(
        self, *namespace: str, through: Gateway, older_than: timedelta = timedelta(days=1)
    ) -> List[Tuple[str, ...]]:
        """Return tables that a transaction began to write and whose client then died.

        Asks the catalog itself, so this connection is to the catalog's own
        address: a gateway leaves these names out of its listings. ``through``
        is the gateway in front of the catalog. Drop the tables with its
        ``drop_table``, which refuses that while a commit is at work on one.

        Left out is every table whose data another one uses, of all that the
        catalog or the gateway lists to this caller: a commit has given it
        another name, and the old one was not removed. To drop it would delete
        the data of both.

        >>> catalog = nsgate.connect(CATALOG)
        >>> catalog.leftovers("prod", through=gateway)
        []
        """
        old: Dict[Tuple[str, ...], str] = {}
        for table in _tables_in(self.namespace_client, namespace):
            age = _age(table[-1])
            if age is not None and age >= older_than:
                location = _location(self.namespace_client, table)
                if location is not None:
                    old[table] = location
        if not old:
            return []
        used = {
            *_locations(self.namespace_client, except_for=old),
            # Its names are others than the catalog's.
            *_locations(through.namespace_client, except_for=()),
        }
        return [table for table, location in old.items() if not any(_is_within(place, location) for place in used)]

    def close(self) -> None:
        """Close the idle connections."""
        self._http.close()

    def __enter__(self) -> Gateway:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


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
        # The loop and task of a coroutine function, while it runs.
        self._inner: Optional[Tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = None

    def result(self) -> T:
        """Run the change; return what it returns."""
        pause = 0.02
        failure: Exception = Finished("this run was cancelled")
        for left in range(self._attempts - 1, -1, -1):
            with self._lock:
                if self._is_stopped:
                    raise failure
                transaction = self._transaction = self._gateway.transaction(**self._options)
            try:
                with transaction:
                    result = self._change(transaction)
                    return asyncio.run(self._awaited(result)) if inspect.isawaitable(result) else result
            except Exception as error:
                if left == 0 or transaction.result is not None or not _passes(error):
                    raise
                failure = error
                transaction._say("starting again", detail=str(error))
            time.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(pause * 2, 2.0)
        raise AssertionError("unreachable")

    async def _awaited(self, result: Any) -> Any:
        task = asyncio.current_task()
        assert task is not None
        with self._lock:
            if self._is_stopped:
                task.cancel()
            self._inner = (asyncio.get_running_loop(), task)
        try:
            return await result
        finally:
            with self._lock:
                self._inner = None

    def stop(self) -> bool:
        """Begin no commit from now on, and end a coroutine function. Returns whether a commit was begun."""
        with self._lock:
            self._is_stopped = True
            transaction = self._transaction
            if self._inner is not None:
                loop, task = self._inner
                loop.call_soon_threadsafe(task.cancel)
        return transaction is not None and not transaction._give_up()


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


def _names(request: Callable[[Optional[str]], Any], member: str) -> List[str]:
    """Return the names of all pages of a listing."""
    names: List[str] = []
    token = None
    while True:
        answer = request(token)
        names.extend(getattr(answer, member))
        token = answer.page_token
        if not token:
            return names


def _tables_in(client: Any, namespace: Tuple[str, ...]) -> List[Tuple[str, ...]]:
    from lance_namespace import ListTablesRequest

    def page(token: Optional[str]) -> Any:
        return client.list_tables(ListTablesRequest(id=list(namespace), page_token=token, limit=1000))

    return [(*namespace, name) for name in _names(page, "tables")]


def _all_tables(client: Any, namespace: Tuple[str, ...] = ()) -> Iterator[Tuple[str, ...]]:
    from lance_namespace import ListNamespacesRequest, NamespaceNotFoundError, UnsupportedOperationError

    def page(token: Optional[str]) -> Any:
        return client.list_namespaces(ListNamespacesRequest(id=list(namespace), page_token=token, limit=1000))

    # A namespace may be dropped meanwhile, and a catalog may have no listing of tables, or of namespaces.
    with contextlib.suppress(NamespaceNotFoundError, UnsupportedOperationError):
        yield from _tables_in(client, namespace)
    names: List[str] = []
    with contextlib.suppress(NamespaceNotFoundError, UnsupportedOperationError):
        names = _names(page, "namespaces")
    for name in names:
        yield from _all_tables(client, (*namespace, name))


def _location(client: Any, table: Tuple[str, ...]) -> Optional[str]:
    """Return where a table's data are; None if there is no such table any more."""
    from lance_namespace import DescribeTableRequest, TableNotFoundError

    try:
        location = client.describe_table(DescribeTableRequest(id=list(table))).location
    except TableNotFoundError:
        return None
    return None if location is None else location.replace("file://", "", 1).rstrip("/")


def _locations(client: Any, except_for: Container[Tuple[str, ...]]) -> Iterator[str]:
    """Return where the data of all tables are that a client lists."""
    tables = [table for table in _all_tables(client) if table not in except_for]
    with ThreadPoolExecutor(OPENING) as pool:
        yield from filter(None, pool.map(functools.partial(_location, client), tables))


def _is_anothers(version: Dict[str, Any], dataset: lance.LanceDataset) -> bool:
    """Return whether a version that was found is of another table than the one that was opened by its name."""
    table, versions, _ = str(version.get("manifest_path")).rpartition("/_versions/")
    names = (path.rstrip("/").rpartition("/")[2] for path in (table, dataset.uri))
    # One of them may be an encoded URL.
    one, other = ({name, urllib.parse.unquote(name)} for name in names)
    return bool(versions) and one.isdisjoint(other)


def _is_within(place: str, location: str) -> bool:
    return place == location or place.startswith(location + "/")
