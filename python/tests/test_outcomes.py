"""How transactions end: committed, moved on top, in conflict, rolled back; and snapshots beside them."""

import asyncio
import json
import os
import threading
import time

import pytest
from conftest import make, rows

import nsgate

PYLANCE = {
    "append": lambda t: t.insert(rows(900, 10)),
    "overwrite": lambda t: t.insert(rows(900, 10), mode="overwrite"),
    "delete": lambda t: t.delete("id < 10"),
    "update": lambda t: t.update({"value": "value + 1"}, where="id = 3"),
    "merge_insert": lambda t: t.merge_insert("id").when_matched_update_all().execute(rows(3, 1)),
    "add_columns": lambda t: t.add_columns({"twice": "value * 2"}),
    "scalar index": lambda t: t.create_scalar_index("id", "BTREE"),
    "config": lambda t: t.update_config({"owner": "me"}),
    "compaction": lambda t: t.optimize.compact_files(materialize_deletions_threshold=0.0),
}
RIVALS = {
    "append": lambda t: t.insert(rows(700, 7)),
    "update of the same row": lambda t: t.update({"value": "value + 10"}, where="id = 3"),
}
# What Lance can put on top of what: seen with pylance 14.0.2.
MOVES = {
    ("append", "append"),
    ("append", "update of the same row"),
    ("overwrite", "append"),
    ("overwrite", "update of the same row"),
    ("delete", "append"),
    ("update", "append"),
    ("merge_insert", "append"),
    ("scalar index", "append"),
    ("scalar index", "update of the same row"),
    ("config", "append"),
    ("config", "update of the same row"),
}


def data_files(gateway, table):
    folder = gateway.table(*table).uri.replace("file://", "") + "/data"
    return len(os.listdir(folder))


@pytest.mark.parametrize("rival", RIVALS)
@pytest.mark.parametrize("change", PYLANCE)
def test_a_change_moves_on_top_of_another_writers_where_lance_allows_it(gateway, tables, change, rival):
    if change == "compaction":
        gateway.table(*tables[0]).delete("id = 299")
    steps = []
    tx = gateway.transaction(progress=lambda progress: steps.append(progress.step))
    PYLANCE[change](tx.table(*tables[0]))
    tx.table(*tables[1]).insert(rows(900, 1))
    RIVALS[rival](gateway.table(*tables[0]))
    files = data_files(gateway, tables[0])
    before = gateway.versions(*tables)
    if (change, rival) in MOVES:
        tx.commit()
        assert "rebasing" in steps
        assert gateway.versions(*tables) == [version + 1 for version in before]
        assert data_files(gateway, tables[0]) <= files + (1 if change == "scalar index" else 0), (
            "data were written again"
        )
    else:
        with pytest.raises(nsgate.Conflict) as raised:
            tx.commit()
        assert raised.value.table == tables[0]
        assert gateway.versions(*tables) == before
    gateway.table(*tables[0]).validate()


def test_rows_that_were_read_and_changed_do_not_move(gateway, tables):
    tx = gateway.transaction()
    table = tx.table(*tables[0])
    table.insert(table.to_table(filter="id < 10"), mode="overwrite")
    gateway.table(*tables[0]).insert(rows(700, 7))
    with pytest.raises(nsgate.Conflict, match="were read"):
        tx.commit()
    assert gateway.table(*tables[0]).count_rows() == 307


def test_rows_that_were_read_before_a_change_that_lance_moves_by_itself(gateway, tables):
    """`update` looks for the latest version when it runs, which may be later than the one that was read."""
    tx = gateway.transaction()
    table = tx.table(*tables[0])
    assert table.count_rows() == 300
    gateway.table(*tables[0]).insert(rows(700, 7))
    with pytest.raises(nsgate.Conflict):
        table.insert(rows(800, 1))
    with pytest.raises(nsgate.Conflict):
        tx.commit()
    assert gateway.table(*tables[0]).count_rows() == 307


@pytest.mark.parametrize("others", [1, 2, 3])
@pytest.mark.parametrize("library", ["pylance", "lancedb"])
def test_a_second_change_of_a_table_that_others_have_changed_meanwhile_starts_again(gateway, tables, library, others):
    ran = []

    def change(tx):
        if library == "pylance":
            insert = tx.table(*tables[0]).insert
        else:
            insert = tx.lancedb.open_table(tables[0][-1], namespace_path=["prod"]).add
        ran.append(insert(rows(900, 1)))
        for _ in range(others if len(ran) == 1 else 0):
            gateway.table(*tables[0]).insert(rows(700, 1))
        insert(rows(901, 1))

    gateway.run(change)
    assert len(ran) == 2
    assert gateway.table(*tables[0]).count_rows() == 302 + others


def test_without_rebase_every_change_of_another_is_a_conflict(gateway, tables):
    tx = gateway.transaction(rebase=False)
    tx.table(*tables[0]).insert(rows(900, 1))
    gateway.table(*tables[0]).insert(rows(700, 7))
    with pytest.raises(nsgate.Conflict) as raised:
        tx.commit()
    assert raised.value.table == tables[0]
    assert (raised.value.status, raised.value.entry) == (409, 0)
    assert raised.value.code == 14
    assert raised.value.expected == 2
    assert raised.value.found == 2


def test_an_exception_rolls_back_and_leaves_no_manifest(gateway, tables):
    folder = gateway.table(*tables[0]).uri.replace("file://", "") + "/_versions"
    before = sorted(os.listdir(folder))
    with pytest.raises(KeyError, match="mine"):
        with gateway.transaction() as tx:
            tx.table(*tables[0]).insert(rows(300, 1))
            tx.table(*tables[1]).insert(rows(300, 1))
            assert sorted(os.listdir(folder)) != before
            raise KeyError("mine")
    assert gateway.versions(*tables) == [1, 1]
    assert sorted(os.listdir(folder)) == before


def test_a_transaction_ends_once(gateway, tables):
    with gateway.transaction() as tx:
        table = tx.table(*tables[0])
        table.insert(rows(300, 1))
    for act in (tx.commit, tx.dry_run, lambda: tx.table(*tables[0])):
        with pytest.raises(nsgate.Finished):
            act()
    tx.rollback()
    with pytest.raises(nsgate.Finished):
        table.insert(rows(301, 1))
    assert gateway.versions(tables[0]) == [2]


def test_a_transaction_without_changes_sends_nothing(gateway, tables):
    with gateway.transaction() as tx:
        assert tx.table(*tables[0]).count_rows() == 300
    assert tx.result == nsgate.Committed(None, ())


def test_wrong_use_is_refused_in_words(gateway):
    with pytest.raises(TypeError, match="path"):
        gateway.transaction().table()
    with pytest.raises(TypeError, match="list"):
        gateway.versions("prod.orders")
    with pytest.raises(TypeError, match="mode"):
        gateway.transaction().create("prod", "t", data=rows(0, 1), mode="append")
    with pytest.raises(ValueError, match="attempts"):
        gateway.run(lambda tx: None, attempts=0)


def test_run_starts_again_where_changes_conflict(gateway, tables):
    tries = []

    def change(tx):
        tries.append(tx)
        tx.table(*tables[0]).update({"value": "value + 1"}, where="id = 3")
        tx.lancedb.open_table(tables[1][-1], namespace_path=list(tables[1][:-1])).add(rows(900, 1))
        if len(tries) < 3:
            gateway.table(*tables[0]).update({"value": "value + 10"}, where="id = 3")
        return "done"

    assert gateway.run(change) == "done"
    assert len(tries) == 3
    assert gateway.table(*tables[0]).count_rows("id = 3 AND value = 24") == 1
    assert gateway.table(*tables[1]).count_rows() == 301


def test_run_gives_up_after_its_attempts(gateway, tables):
    tries = []

    def change(tx):
        tries.append(tx)
        tx.table(*tables[0]).update({"value": "value + 1"}, where="id = 3")
        gateway.table(*tables[0]).update({"value": "value + 10"}, where="id = 3")

    with pytest.raises(nsgate.Conflict):
        gateway.run(change, attempts=3)
    assert len(tries) == 3
    assert gateway.table(*tables[0]).count_rows("id = 3 AND value = 33") == 1


def test_run_does_not_repeat_other_errors(gateway, tables):
    tries = []

    def change(tx):
        tries.append(tx)
        tx.table(*tables[0]).insert(rows(300, 1))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        gateway.run(change)
    assert len(tries) == 1


def test_the_async_forms(gateway, tables):
    async def change(tx):
        await asyncio.sleep(0)
        tx.table(*tables[0]).insert(rows(300, 1))
        return 5

    async def main():
        async with gateway.transaction() as tx:
            tx.table(*tables[1]).insert(rows(300, 1))
        assert await gateway.run_async(change) == 5
        one, other = await gateway.snapshot_async(*tables)
        with pytest.raises(ZeroDivisionError):
            async with gateway.transaction() as tx:
                tx.table(*tables[1]).insert(rows(300, 1))
                raise ZeroDivisionError
        return one.count_rows(), other.count_rows()

    assert asyncio.run(main()) == (301, 301)
    assert gateway.table(*tables[1]).count_rows() == 301


def test_a_refused_token_is_said(world, tables):
    stranger = nsgate.connect(world.uri, token="not.a.token")
    with pytest.raises(nsgate.Refused) as raised:
        stranger.versions(tables[0])
    assert raised.value.status == 401
    assert raised.value.code == 16
    assert "token" in str(raised.value)


def test_many_threads_lose_no_update(gateway, tables):
    """Threads that change the same row of the same tables: all but one of them must begin again, each time."""
    threads_count, each = int(os.environ.get("NSGATE_THREADS", "8")), int(os.environ.get("NSGATE_EACH", "8"))
    for table in tables:
        gateway.table(*table).insert(rows(0, 1), mode="overwrite")
    again, failures = [], []

    def change(tx):
        for table in tables:
            tx.table(*table).update({"value": "value + 1"}, where="id = 0")

    def work():
        for _ in range(each):
            try:
                gateway.run(
                    change,
                    attempts=1000,
                    progress=lambda progress: again.append(1) if progress.step == "starting again" else None,
                )
            except Exception as error:
                failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(threads_count)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.monotonic() - began
    total = threads_count * each
    print(f"{total} transactions in {seconds:.1f} s: {total / seconds:.1f} a second, {len(again)} started again")
    assert not failures, failures[:3]
    for table in tables:
        assert gateway.table(*table).to_table()["value"].to_pylist() == [float(total)]


def test_snapshots_are_never_torn(gateway, tables):
    """Three tables of two catalogs, under writers that change them together and one by one."""
    reads = int(os.environ.get("NSGATE_SNAPSHOTS", "300"))
    third = make(gateway, ("prod", tables[0][-1] + "c"))
    all_tables = [*tables, third]
    stop, commits = threading.Event(), []

    def together():
        while not stop.is_set():
            tx = gateway.transaction()
            try:
                for table in all_tables:
                    tx.table(*table).update_config({"round": str(len(commits))})
                commits.append(tuple(change.version for change in tx.commit().changes))
            except (nsgate.Conflict, nsgate.Unavailable):
                pass

    writer = threading.Thread(target=together)
    writer.start()
    requests = []
    post = gateway._http.post
    gateway._http.post = lambda *arguments, **options: requests.append(arguments[0]) or post(*arguments, **options)
    seen = [tuple(gateway.versions(*all_tables)) for _ in range(reads)]
    stop.set()
    writer.join()
    # All three are changed together only, so their versions rise together.
    steps = {(version, version, version) for version in range(1, len(commits) + 2)}
    torn = [versions for versions in seen if versions not in steps]
    print(f"{reads} snapshots beside {len(commits)} transactions, {len(torn)} torn")
    assert not torn, torn[:5]
    assert seen == sorted(seen)
    assert len(set(seen)) > 1
    assert json.dumps(requests).count("/nsgate/v1/snapshot") == reads
