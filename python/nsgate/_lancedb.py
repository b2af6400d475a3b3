"""The lancedb connection and tables of a transaction."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Callable, Dict, List, Optional

import lance
from lancedb.namespace import LanceNamespaceDBConnection
from lancedb.table import LanceTable

from ._held import Chain, Held, TableId, named
from ._table import AUTO_CLEANUP, ReadOnly, at_once, changing, compacting, refuse, wrap
from .errors import NotAtomic

# An age that no version has: lancedb's `optimize` prunes what is older.
NEVER = timedelta(days=36500)


class Table(LanceTable):
    """A lancedb table whose changes are part of a transaction."""

    _chain: Chain
    _held: Held

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

    def open_table(self, name: str, *, namespace_path: Optional[List[str]] = None, **options: Any) -> Any:
        """Open a table for changes; the same handle each time."""
        table: TableId = (*(namespace_path or ()), name)
        if options.get("branch") is not None or options.get("version") is not None:
            raise NotAtomic(
                f"{named(table)}: inside of a transaction lancedb opens the latest version of the main branch; for a "
                "branch use `tx.table(…, branch=…)`"
            )
        if table not in self._tables:
            described = self._client.describe(table)
            opened: Any = self._inner.open_table(name, namespace_path=namespace_path, **options)
            chain = self._chain_of(table, None, "lancedb")
            chain.opened = opened.version
            # lancedb does not tell which rows a change depends on.
            chain.read = True
            chain.location = described.location
            config = lance.dataset(namespace_client=self._client.client, table_id=list(table)).config()
            chain.cleans_up = any(key.startswith(AUTO_CLEANUP) for key in config)
            opened.__class__ = Table
            opened._chain = chain
            opened._held = self._client
            self._tables[table] = opened
        return self._tables[table]

    def create_table(self, name: str, *arguments: Any, **options: Any) -> Any:
        """Create a table that appears with the commit."""
        table: TableId = (*(options.pop("namespace_path", None) or ()), name)

        def write(client: Any, temporary: TableId) -> Any:
            connection = LanceNamespaceDBConnection(client)
            return connection.create_table(temporary[-1], *arguments, namespace_path=list(temporary[:-1]), **options)

        self._tables[table] = self._create(table, write)
        return self._tables[table]

    def __getattr__(self, name: str) -> Any:
        if name in ("drop_table", "rename_table", "drop_all_tables", "drop_database", "create_namespace"):
            raise NotAtomic(f"`lancedb.{name}` acts at once and cannot be undone; do it outside of the transaction")
        return getattr(self._inner, name)
