"""A table of many partitions, each a table of its own: one transaction, one snapshot."""

import itertools
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import lance_namespace as ln
import pytest
from conftest import make, rows

import nsgate

PARTITIONS = int(os.environ.get("NSGATE_PARTITIONS", "500"))


NAMES = itertools.count()


def partitions(gateway, count):
    """The partitions of one table, half of them in each catalog."""
    name = f"sales{next(NAMES)}"
    days = []
    for root in (["prod"], ["research", "lake"]):
        gateway.namespace_client.create_namespace(ln.CreateNamespaceRequest(id=[*root, name]))
        days += [(*root, name, f"day-{number:03}") for number in range(count // 2)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda day: make(gateway, day, rows(0, 1)), days))
    return days


def test_all_partitions_change_in_one_transaction_and_are_read_in_one_snapshot(gateway):
    days = partitions(gateway, PARTITIONS)
    assert gateway.versions(*days) == [1] * len(days)
    began = time.monotonic()
    with gateway.transaction() as tx, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda day: tx.table(*day).insert(rows(1, 1)), days))
        staged = time.monotonic()
    committed = time.monotonic()
    assert gateway.versions(*days) == [2] * len(days)
    read = time.monotonic()
    datasets = gateway.snapshot(*days)
    assert [dataset.version for dataset in datasets] == [2] * len(days)
    print(
        f"{len(days)} partitions: staged in {staged - began:.1f} s, committed in {committed - staged:.2f} s, "
        f"snapshot in {read - committed:.2f} s"
    )


def test_a_snapshot_beside_a_transaction_over_all_partitions_is_not_torn(gateway):
    days = partitions(gateway, PARTITIONS // 5)
    stop, seen = threading.Event(), []

    def read():
        while not stop.is_set():
            seen.append(set(gateway.versions(*days)))

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(2):
        with gateway.transaction() as tx, ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda day, tx=tx: tx.table(*day).update_config({"a": "b"}), days))
    with pytest.raises(ZeroDivisionError):
        with gateway.transaction() as tx:
            tx.table(*days[0]).insert(rows(1, 1))
            tx.table(*days[-1]).insert(rows(1, 1))
            raise ZeroDivisionError
    stop.set()
    reader.join()
    print(f"{len(seen)} snapshots of {len(days)} partitions")
    assert all(len(versions) == 1 for versions in seen), seen
    assert gateway.versions(*days) == [3] * len(days)


def test_a_conflict_in_one_partition_undoes_all(gateway):
    days = partitions(gateway, 6)
    tx = gateway.transaction(rebase=False)
    for day in (days[0], days[1], days[-1]):
        tx.table(*day).insert(rows(1, 1))
    gateway.table(*days[-1]).insert(rows(5, 1))
    with pytest.raises(nsgate.Conflict):
        tx.commit()
    assert gateway.versions(days[0], days[1], days[-1]) == [1, 1, 2]
