"""The lancedb connection and tables of a transaction."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any, Callable, Dict, List, Optional

import lance
from lancedb.namespace import LanceNamespaceDBConnection
from lancedb.table import LanceTable

from ._held import Chain, Held, TableId, cleans_up, named
from ._table import ReadOnly, at_once, changing, compacting, refuse, wrap
from ._table import Table as Dataset
from .errors import NotAtomic

# An age that no version has: lancedb's `optimize` prunes what is older.
NEVER = timedelta(days=36500)


class Table(LanceTable):
    """A lancedb table whose changes are part of a transaction."""

    _chain: Chain
    _held: Held
    _is_restored = False

    def restore(self, *arguments: Any, **options: Any) -> None:
        """Restore an older version. It must be the only change of the table: lancedb does not see it afterwards."""
        if self._chain.entries:
            raise NotAtomic(self._alone())
        super().restore(*arguments, **options)
        self._is_restored = True

    def to_lance(self, **options: Any) -> Any:
        """Return a pylance dataset of the table, as ``Transaction.table`` does. Only before the first change."""
        if self._chain.entries:
            raise NotAtomic(
                f"{self._chain.name}: `to_lance` does not see what was changed through lancedb in this transaction; "
                "call it first, and make all changes there"
            )
        return Dataset._of(super().to_lance(**options), self._chain, self._held)

    def check(self) -> None:
        """Raise the error for what comes after `restore`."""
        if self._is_restored:
            raise NotAtomic(self._alone())

    def _alone(self) -> str:
        return (
            f"{self._chain.name}: `restore` through lancedb is the only thing that can be done to a table in a "
            "transaction. For more, use pylance's: `tx.table(…).checkout_version(…).restore()`."
        )

    def optimize(self, **options: Any) -> Any:
        """Compact files and update indexes; old versions stay."""
        if options.get("cleanup_older_than") is not None or options.get("delete_unverified"):
            refuse(self._chain, "`optimize(cleanup_older_than=…)`")
        # Without an age, `optimize` deletes versions older than 7 days, and before the commit the published one may be
        # one of those.
        options["cleanup_older_than"] = NEVER
        with compacting(self._chain):
            return super().optimize(**options)

    def checkout_latest(self) -> None:
        """Stay where the transaction is: its own changes are the latest version here."""

    @property
    def tags(self) -> Any:
        """The table's tags, to read."""
        return ReadOnly(super().tags, self._chain, "tags")

    @property
    def branches(self) -> Any:
        """The table's branches, to list."""
        return ReadOnly(super().branches, self._chain, "branches")

    cleanup_old_versions = at_once("cleanup_old_versions")
    compact_files = at_once("compact_files")
    migrate_v2_manifest_paths = at_once("migrate_v2_manifest_paths")
    set_lsm_write_spec = at_once("set_lsm_write_spec")
    unset_lsm_write_spec = at_once("unset_lsm_write_spec")


wrap(
    Table,
    "add update delete merge merge_insert add_columns alter_columns drop_columns restore create_index "
    "create_scalar_index create_fts_index drop_index optimize replace_field_metadata update_field_metadata",
    changing,
)


def seeing(plain: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that is refused where it would not see what the transaction has done."""

    def method(self: Any, *arguments: Any, **options: Any) -> Any:
        self.check()
        return plain(self, *arguments, **options)

    return method


wrap(
    Table,
    "add update delete merge merge_insert add_columns alter_columns drop_columns restore create_index "
    "create_scalar_index create_fts_index drop_index optimize replace_field_metadata update_field_metadata "
    "count_rows head search to_arrow to_batches to_lance to_pandas to_polars take_offsets take_row_ids",
    seeing,
)


class Connection:
    """A lancedb connection of a transaction: ``open_table`` and ``create_table``, as lancedb's own.

    Everything else is asked of the gateway and does not see the transaction.
    """

    def __init__(
        self,
        client: Held,
        chain_of: Callable[[TableId, Optional[str], str], Chain],
        create: Callable[[TableId, Callable[[Any, TableId], Any]], Any],
    ) -> None:
        self._client = client
        self._inner = LanceNamespaceDBConnection(client)
        self._chain_of = chain_of
        self._create = create
        self._tables: Dict[TableId, Any] = {}
        self._lock = threading.Lock()

    def open_table(self, name: str, *, namespace_path: Optional[List[str]] = None, **options: Any) -> Any:
        """Open a table for changes; the same handle each time."""
        table: TableId = (*(namespace_path or ()), name)
        if options.get("branch") is not None or options.get("version") is not None:
            raise NotAtomic(
                f"{named(table)}: inside of a transaction lancedb opens the latest version of the main branch; for a "
                "branch use `tx.table(…, branch=…)`"
            )
        with self._lock:
            return self._tables.get(table) or self._opened(table, options)

    def _opened(self, table: TableId, options: Dict[str, Any]) -> Any:
        described = self._client.describe(table)
        with self._client.plainly(table):
            opened: Any = self._inner.open_table(table[-1], namespace_path=list(table[:-1]), **options)
            same = lance.dataset(namespace_client=self._client.client, table_id=list(table), version=opened.version)
        chain = self._chain_of(table, None, "lancedb")
        chain.opened = opened.version
        chain.opened_as = self._client.seen(chain, opened.version)
        # lancedb does not tell which rows a change depends on.
        chain.read = True
        chain.location = described.location
        chain.cleans_up = cleans_up(same.config())
        opened.__class__ = Table
        opened._chain = chain
        opened._held = self._client
        self._tables[table] = opened
        return opened

    def create_table(self, name: str, *arguments: Any, **options: Any) -> Any:
        """Create a table that appears with the commit."""
        table: TableId = (*(options.pop("namespace_path", None) or ()), name)
        if options.get("mode", "create") != "create" or options.get("exist_ok"):
            raise TypeError("`create_table` makes a new table; change an existing one with `open_table`")

        def write(client: Any, temporary: TableId) -> Any:
            connection = LanceNamespaceDBConnection(client)
            return connection.create_table(temporary[-1], *arguments, namespace_path=list(temporary[:-1]), **options)

        self._tables[table] = self._create(table, write)
        return self._tables[table]

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("drop_", "rename_", "create_")):
            raise NotAtomic(f"`lancedb.{name}` acts at once and cannot be undone; do it outside of the transaction")
        return getattr(self._inner, name)
