"""Rows that carry the number of their write, and how a reader counts them."""

import collections

import lance
import pyarrow as pa


def numbered(number, count):
    return pa.table({"number": pa.array([number] * count, pa.int64()), "row": pa.array(range(count), pa.int64())})


def counted(rows):
    return collections.Counter(rows.column("number").to_pylist())


def seen(client, id, branch=None):
    """Counts the rows of each write in a table, or in a branch of it."""
    dataset = lance.dataset(namespace_client=client, table_id=id)
    if branch is not None:
        dataset = dataset.checkout_version((branch, None))
    return counted(dataset.to_table(columns=["number"]))
