"""Staged changes upon a later version, without their data being written again."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, List, Optional

import lance
import pyarrow as pa
from lance.commit import CommitConflictError

from ._held import Chain, Held, cleans_up, named, recreated, translated
from ._table import latest, schema_of
from .errors import Conflict, Error, Refused, Unavailable

if TYPE_CHECKING:
    from .gateway import Gateway

# Lance's operations that may move to a later version as they are, if nothing was read through their handle.
MOVABLE = ("Append", "Overwrite", "Delete", "Update", "CreateIndex", "UpdateConfig")
# The operations of others that bring no key that a `merge_insert` could have missed. An append does, but it matches no
# keys, so it might as well have come after.
BESIDE_A_MERGE = ("Append", "Delete", "Rewrite", "ReserveFragments", "CreateIndex", "UpdateConfig")
# The operations whose records pylance reads without the metadata of the schema.
LOSSY = {"Merge", "Project", "Overwrite"}
# The most versions in between that are looked at for a `merge_insert`.
MOST_BETWEEN = 64
# How often a table is staged anew while others write it at the same time.
TRIES = 4


def is_intact(client: Held, chain: Chain, transactions: Optional[List[Any]]) -> bool:
    """Return whether staged changes can be sent again as they are: their table is the same, and has not changed.

    Only where storage is this machine's: a manifest may have been used up by
    a commit that was undone, and elsewhere that is not known.
    """
    paths = chain.staged_files()
    if paths is None or not all(map(os.path.exists, paths)):
        return False
    chain.listed = client.found(chain.table, lambda: client.latest(chain))
    return is_settled(client, chain, transactions) and client.is_as_opened(chain)


def is_settled(client: Held, chain: Chain, transactions: Optional[List[Any]]) -> bool:
    """Return whether staged changes may be committed as they are.

    They may not where they are built on a version that not everybody sees, or
    on another one than they were opened at, if that makes a difference.
    """
    if chain.listed != chain.base:
        return False
    if chain.base == chain.opened:
        return True
    kinds = [type(transaction.operation).__name__ for transaction in transactions or ()]
    at_base = latest(client, chain, chain.base)
    return client.is_as_opened(chain) and why_not(chain, kinds, at_base) is None


def why_not(chain: Chain, kinds: List[str], dataset: lance.LanceDataset) -> Optional[str]:
    """Return why changes that were made at ``chain.opened`` do not belong upon ``dataset``; None if they do."""
    version = dataset.version
    if version == chain.opened:
        return None
    since = f"is at version {version} by now"
    if chain.read:
        return f"{since}, and rows of version {chain.opened} were read"
    if set(kinds) <= {"Overwrite", "UpdateConfig"}:
        return None
    if schema_of(dataset) != chain.schema:
        return f"{since}, with other columns"
    if chain.merged:
        if version - chain.opened > MOST_BETWEEN:
            return f"{since}, too many versions after the one that `merge_insert` was made at"
        for between in range(chain.opened + 1, version + 1):
            record = dataset.read_transaction(between)
            kind = "a change" if record is None else type(record.operation).__name__
            if kind not in BESIDE_A_MERGE:
                return f"{since}: {kind} may have brought a key that `merge_insert` has not seen"
    return None


def rebased(
    gateway: Gateway,
    chain: Chain,
    transactions: Optional[List[Any]],
    schema: Optional[pa.Schema],
    allowed: bool,
    problem: Optional[Refused],
) -> Chain:
    """Stage a table's changes upon its latest version; the new chain.

    ``schema`` is what the transaction's own handle sees after its changes.
    Raises ``Conflict`` where they do not belong there, and ``Unavailable``
    where that cannot be found out.
    """
    if not allowed:
        raise conflict(chain, problem, "has changed since this transaction opened it")
    if not Held(gateway.namespace_client, chain.owner, lambda *_: chain).is_as_opened(chain):
        raise recreated(chain)
    if not transactions:
        if isinstance(problem, Unavailable):
            raise problem
        what = "through lancedb" if chain.owner == "lancedb" else "in a way that pylance cannot read again"
        raise conflict(chain, problem, f"was changed {what}; such a change does not move to a later version")
    for left in range(TRIES - 1, -1, -1):
        try:
            staged = _staged(gateway, chain, transactions, schema, problem)
        except Error:
            raise
        except Exception as error:
            raise unreachable(chain, error) from error
        if staged.listed == staged.base == staged.opened:
            return staged
        if left:
            time.sleep(0.02 * (TRIES - left))
    raise conflict(chain, problem, "has a version that is not decided yet, or changes all the time")


def _staged(
    gateway: Gateway,
    chain: Chain,
    transactions: List[Any],
    schema: Optional[pa.Schema],
    problem: Optional[Refused],
) -> Chain:
    client = Held(gateway.namespace_client, chain.owner, lambda *_: staged)
    # With a session of its own: the old one remembers the staged version under its number.
    dataset = latest(client, chain)
    kinds = [type(transaction.operation).__name__ for transaction in transactions]
    why = why_not(chain, kinds, dataset)
    if why is not None:
        raise conflict(chain, problem, why)
    if chain.merged and any(column.is_unenforced_primary_key() for column in dataset.lance_schema.fields()):
        # Lance compares the new keys of both writers, and pylance reads the record without them.
        raise conflict(chain, problem, "has a primary key, whose check would be lost if `merge_insert` was staged anew")
    if dataset.version != chain.base:
        since = f"is at version {dataset.version} by now"
        if len(kinds) > 1:
            raise conflict(chain, problem, f"{since}, and several changes of it do not move")
        if kinds[0] not in MOVABLE:
            raise conflict(chain, problem, f"{since}, and {kinds[0]} does not move")
    staged = Chain(chain.table, chain.branch, chain.owner, opened=dataset.version)
    staged.cleans_up = cleans_up(dataset.config())
    staged.opened_as, staged.schema = client.seen(chain, dataset.version), schema_of(dataset)
    for transaction in transactions:
        try:
            dataset = lance.LanceDataset.commit(dataset, transaction, max_retries=1)
        except CommitConflictError as error:
            raise conflict(chain, problem, f"was changed in the same place ({error})") from error
        except Exception as error:
            raise client.failure or error from error
    if LOSSY.intersection(kinds) and not (schema and dataset.schema.equals(schema, check_metadata=True)):
        raise conflict(chain, problem, "has metadata that pylance would lose if the change was staged anew")
    return staged


def unreachable(chain: Chain, error: Exception) -> Refused:
    """Return the error for a table whose latest version cannot be opened: nothing was committed."""
    known = translated(chain.table, error)
    if isinstance(known, Unavailable):
        return known
    return Conflict(
        f"{chain.name} cannot be opened again; nothing was committed. Look whether it is still there ({error})",
        table=chain.table,
        branch=chain.branch,
    )


def conflict(chain: Chain, problem: Optional[Refused], why: str) -> Conflict:
    """Return the error for changes that do not belong upon the latest version."""
    expected, found = (problem.expected, problem.found) if isinstance(problem, Conflict) else (None, None)
    because = f" ({problem})" if problem is not None else ""
    return Conflict(
        f"{named(chain.table, chain.branch)} {why}; start again, for example with `gateway.run`{because}",
        table=chain.table,
        branch=chain.branch,
        expected=expected,
        found=found,
        status=409,
    )
