"""The table handle of a transaction: pylance's dataset, without what cannot be undone."""

from __future__ import annotations

import functools
from typing import Any, Callable, Iterable, List, NoReturn, Optional, Union

import lance
from lance.dataset import DatasetOptimizer, MergeInsertBuilder

from ._held import AUTO_CLEANUP, Chain, Held, cleans_up
from .errors import NotAtomic


class compacting:
    """A compaction of a table, which makes two requests of one number."""

    def __init__(self, chain: Chain) -> None:
        self.chain = chain

    def __enter__(self) -> None:
        self.chain.compacting += 1
        self.chain.before_compaction = len(self.chain.entries)

    def __exit__(self, *_: object) -> None:
        self.chain.compacting -= 1


def latest(client: Held, chain: Chain, version: Optional[int] = None) -> lance.LanceDataset:
    """Open the latest version of a table's branch, or another one, with a session of its own."""
    with client.plainly(chain.table):
        if chain.branch is None:
            return lance.dataset(namespace_client=client, table_id=list(chain.table), version=version)
        dataset = lance.dataset(namespace_client=client, table_id=list(chain.table))
        return dataset.checkout_version((chain.branch, version))


def schema_of(dataset: lance.LanceDataset) -> Any:
    """Return the columns of a version with their numbers: a column that is dropped and added again has another one."""

    def columns(fields: Any) -> Any:
        return [(field.id(), str(field.to_arrow()), columns(field.children())) for field in fields]

    return columns(dataset.lance_schema.fields())


def refuse(chain: Chain, what: str) -> NoReturn:
    """Raise the error for an operation that acts at once."""
    raise NotAtomic(f"{chain.name}: {what} acts at once and cannot be undone; do it outside of the transaction")


def at_once(name: str) -> Callable[..., NoReturn]:
    """Return a method that refuses an operation that acts at once."""

    def method(self: Any, *_: Any, **__: Any) -> NoReturn:
        refuse(self._chain, f"`{name}`")

    method.__name__ = name
    method.__doc__ = f"Refuse ``{name}``: it acts at once and cannot be undone."
    return method


class Optimizer(DatasetOptimizer):
    """pylance's optimizer, inside of a transaction."""

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        self._chain = table._chain

    def compact_files(self, **options: Any) -> Any:
        """Compact small files; see ``lance.dataset.DatasetOptimizer.compact_files``."""
        self._chain.record(self._dataset._ds)
        with compacting(self._chain):
            return super().compact_files(**options)

    enable_auto_cleanup = at_once("optimize.enable_auto_cleanup")


class ReadOnly:
    """Tags or branches of a table: what changes them acts at once, so it is refused."""

    _CHANGES = ("create", "delete", "update", "replace_metadata")

    def __init__(self, inner: Any, chain: Chain, what: str) -> None:
        self._inner, self._chain, self._what = inner, chain, what

    def __getattr__(self, name: str) -> Any:
        if name in self._CHANGES:
            return lambda *_, **__: refuse(self._chain, f"`{self._what}.{name}`")
        return getattr(self._inner, name)


class Table(lance.LanceDataset):
    """A pylance dataset whose changes are part of a transaction.

    It sees its own changes. Everybody else sees them after the commit.
    """

    _chain: Chain
    _held: Held

    @property
    def _ds(self) -> Any:
        """pylance's inner dataset. Each change begins here, so the one before is recorded here."""
        inner = self.__dict__["_inner"]
        self._chain.record(inner)
        return inner

    @_ds.setter
    def _ds(self, inner: Any) -> None:
        self.__dict__["_inner"] = inner

    @classmethod
    def open(cls, client: Held, chain: Chain) -> Table:
        """Open the table's latest version."""
        dataset = latest(client, chain)
        table = cls._of(dataset, chain, client)
        chain.opened = dataset.version
        chain.opened_as = client.seen(chain, dataset.version)
        chain.schema = schema_of(dataset)
        chain.location = dataset.uri
        chain.cleans_up = cleans_up(dataset.config())
        return table

    @classmethod
    def _of(cls, dataset: lance.LanceDataset, chain: Chain, client: Held) -> Table:
        table = cls.__new__(cls)
        table._chain = chain
        table._held = client
        for name, value in vars(dataset).items():
            setattr(table, name, value)
        return table

    def checkout_version(self, version: Any) -> Table:
        """Return the table at another version; its ``restore`` is a change of this transaction."""
        branch = version[0] if isinstance(version, tuple) else self._chain.branch
        if (None if branch == "main" else branch) != self._chain.branch:
            raise NotAtomic(f"{self._chain.name}: open another branch with `tx.table(…, branch={branch!r})`")
        self._chain.read = True
        other = Table._of(super().checkout_version(version), self._chain, self._held)
        other.__dict__["_origin"] = self
        return other

    def restore(self) -> None:
        """Make the checked out version the table's next version."""
        origin: Table = self.__dict__.get("_origin", self)
        operation = lance.LanceOperation.Restore(self.version)
        # Upon what the transaction has changed so far, not upon the latest version that everybody sees.
        restored = lance.LanceDataset.commit(origin, operation)
        origin._ds = restored._ds
        self._ds = restored._ds

    def checkout_latest(self) -> None:
        """Stay where the transaction is: its own changes are the latest version here."""

    def update_config(self, *arguments: Any, **options: Any) -> Any:
        """Update the table's configuration; automatic cleanup is refused."""
        keys: List[str] = []
        for argument in (*arguments, *options.values()):
            keys.extend(argument if isinstance(argument, dict) else ())
        if any(key.startswith(AUTO_CLEANUP) for key in keys):
            refuse(self._chain, "turning on the automatic cleanup")
        return super().update_config(*arguments, **options)

    def merge_insert(self, on: Union[str, Iterable[str], None] = None) -> MergeInsertBuilder:
        """Match rows by keys; see ``lance.LanceDataset.merge_insert``."""
        self._chain.merged = True
        return super().merge_insert(on)

    @property
    def optimize(self) -> Optimizer:
        """Compaction and the upkeep of indexes."""
        self._held.check_open(self._chain.table)
        return Optimizer(self)

    @property
    def tags(self) -> Any:
        """The table's tags, to read."""
        return ReadOnly(super().tags, self._chain, "tags")

    @property
    def branches(self) -> Any:
        """The table's branches, to read."""
        return ReadOnly(super().branches, self._chain, "branches")

    create_branch = at_once("create_branch")
    cleanup_old_versions = at_once("cleanup_old_versions")
    shallow_clone = at_once("shallow_clone")
    deep_clone = at_once("deep_clone")
    migrate_manifest_paths_v2 = at_once("migrate_manifest_paths_v2")
    initialize_mem_wal = at_once("initialize_mem_wal")
    mem_wal_writer = at_once("mem_wal_writer")

    def __copy__(self) -> Table:
        return Table._of(
            super().__copy__(),  # type: ignore[no-untyped-call]
            self._chain,
            self._held,
        )

    def __reduce__(self) -> NoReturn:
        # Another process would commit past the transaction.
        raise NotAtomic(f"{self._chain.name}: a table of a transaction cannot be sent to another process")


def wrap(kind: type, names: str, around: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Replace the methods of a handle that its library has, by what ``around`` makes of them."""
    for name in names.split():
        plain = getattr(kind, name, None)
        if plain is not None:
            setattr(kind, name, functools.wraps(plain)(around(plain)))


def reading(plain: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that notes that rows were read: a change that may depend on them is never moved."""

    def method(self: Any, *arguments: Any, **options: Any) -> Any:
        self._chain.read = True
        return plain(self, *arguments, **options)

    return method


def changing(plain: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that reports why a change was refused, in this package's words and not in Lance's."""

    def method(self: Any, *arguments: Any, **options: Any) -> Any:
        self._held.check_open(self._chain.table)
        try:
            return plain(self, *arguments, **options)
        except Exception as error:
            if self._held.failure is not None and error is not self._held.failure:
                raise self._held.failure from error
            raise

    return method


wrap(
    Table,
    "scanner to_table to_batches to_pandas count_rows take _take_rows take_blobs read_blobs head sample slice "
    "get_fragments get_fragment sql join to_batch_records to_stream_reader delta",
    reading,
)
wrap(
    Table,
    "insert update delete merge_insert merge add_columns alter_columns drop_columns truncate_table restore "
    "create_index create_scalar_index drop_index commit_existing_index_segments update_config delete_config_keys "
    "update_metadata update_schema_metadata update_field_metadata replace_schema_metadata replace_field_metadata",
    changing,
)
