"""What others do at the worst moment: rivals, threads, cancellations. Nothing is lost or doubled."""

import asyncio
import gc
import os
import pickle
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import lance
import lance_namespace as ln
import pyarrow as pa
import pytest
from conftest import make, rows

import nsgate
from nsgate._held import Held
from nsgate._http import _proxy
from nsgate.gateway import UNTESTED

# -- rivals -------------------------------------------------------------------------------------------------------


def test_the_main_branch_by_its_name_is_the_table(gateway, tables):
    tx = gateway.transaction()
    table = tx.table(*tables[0], branch="main")
    assert table is tx.table(*tables[0])
    assert table.count_rows() == 300
    gateway.table(*tables[0]).update({"value": "7.0"})
    with pytest.raises(nsgate.Conflict):
        table.insert(rows(0, 1), mode="overwrite")
    tx.rollback()
    assert gateway.table(*tables[0]).count_rows("value = 7.0") == 300


def test_another_branch_is_not_changed_through_a_handle_of_this_one(gateway, tables):
    gateway.table(*tables[0]).create_branch("dev")
    with gateway.transaction() as tx:
        with pytest.raises(nsgate.NotAtomic, match="branch='dev'"):
            tx.table(*tables[0]).checkout_version(("dev", None))


def upsert(table, value):
    new = pa.table({"id": pa.array([900], pa.int64()), "value": [value], "vector": [[0.0] * 4]}, rows(0, 1).schema)
    table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(new)


def test_two_upserts_of_one_key_leave_one_row(gateway, tables):
    tx = gateway.transaction()
    upsert(tx.table(*tables[0]), 1.0)
    upsert(gateway.table(*tables[0]), 2.0)
    with pytest.raises(nsgate.Conflict, match="merge_insert"):
        tx.commit()
    gateway.run(lambda tx: upsert(tx.table(*tables[0]), 1.0))
    assert gateway.table(*tables[0]).to_table(filter="id = 900")["value"].to_pylist() == [1.0]


def test_an_upsert_moves_over_an_append(gateway, tables):
    tx = gateway.transaction()
    upsert(tx.table(*tables[0]), 1.0)
    gateway.table(*tables[0]).insert(rows(500, 1))
    tx.commit()
    assert gateway.table(*tables[0]).count_rows() == 302


def test_a_primary_key_is_not_staged_anew_without_its_check(gateway, tables):
    key = pa.field("id", pa.int64(), nullable=False, metadata={"lance-schema:unenforced-primary-key": "true"})
    keyed = make(gateway, (*tables[0][:-1], tables[0][-1] + "k"), pa.table([[1, 2]], pa.schema([key])))
    new = pa.table([[9]], pa.schema([key]))
    tx = gateway.transaction()
    tx.table(*keyed).merge_insert("id").when_not_matched_insert_all().execute(new)
    gateway.table(*keyed).insert(pa.table([[5]], pa.schema([key])))
    with pytest.raises(nsgate.Conflict, match="primary key"):
        tx.commit()


def test_rows_do_not_move_under_other_columns(gateway, tables):
    tx = gateway.transaction()
    tx.table(*tables[0]).insert(rows(300, 1))
    gateway.table(*tables[0]).alter_columns({"path": "id", "data_type": pa.int32()})
    with pytest.raises(nsgate.Conflict, match="other columns"):
        tx.commit()
    assert gateway.table(*tables[0]).count_rows() == 300


@pytest.mark.parametrize("moment", ["before staging", "before the commit"])
def test_a_table_that_was_dropped_and_created_anew_is_another_one(gateway, tables, moment):
    tx = gateway.transaction()
    table = tx.table(*tables[0])
    if moment == "before the commit":
        table.insert(rows(300, 1))
    gateway.namespace_client.drop_table(ln.DropTableRequest(id=list(tables[0])))
    make(gateway, tables[0], rows(0, 5))
    with pytest.raises(nsgate.Conflict, match="created anew"):
        if moment == "before staging":
            table.insert(rows(300, 1))
        tx.commit()
    assert gateway.table(*tables[0]).to_table().num_rows == 5


def test_metadata_of_a_table_survives_a_conflict_elsewhere(gateway, tables):
    gateway.table(*tables[0]).update_schema_metadata({"owner": "me"})
    tx = gateway.transaction()
    tx.table(*tables[0]).add_columns({"twice": "value * 2"})
    tx.table(*tables[1]).insert(rows(300, 1))
    gateway.table(*tables[1]).insert(rows(500, 1))
    tx.commit()
    assert gateway.table(*tables[0]).schema.metadata == {b"owner": b"me"}


def test_metadata_that_would_be_lost_is_a_conflict(gateway, tables):
    owned = rows(0, 1).replace_schema_metadata({"owner": "me"})
    tx = gateway.transaction()
    tx.table(*tables[0]).insert(owned, mode="overwrite")
    gateway.table(*tables[0]).insert(rows(500, 1))
    with pytest.raises(nsgate.Conflict, match="metadata"):
        tx.commit()
    gateway.run(lambda tx: tx.table(*tables[0]).insert(owned, mode="overwrite"))
    assert gateway.table(*tables[0]).schema.metadata == {b"owner": b"me"}


def test_a_rival_that_turns_cleanup_on_does_not_make_the_transaction_delete_what_is_published(gateway, tables):
    tx = gateway.transaction()
    table = tx.table(*tables[0])
    cleanup = {"lance.auto_cleanup.interval": "1", "lance.auto_cleanup.older_than": "0s"}
    gateway.table(*tables[0]).update_config(cleanup)
    table.insert(rows(300, 1))
    with pytest.raises(nsgate.NotAtomic, match="deletes old versions"):
        table.insert(rows(301, 1))
    assert gateway.table(*tables[0]).count_rows() == 300
    tx.rollback()
    assert gateway.table(*tables[0]).count_rows() == 300


def test_a_compaction_of_a_table_with_an_index(gateway, tables):
    plain = gateway.table(*tables[0])
    plain.create_scalar_index("id", "BTREE")
    for number in range(3):
        plain.insert(rows(300 + number, 1))
    folder = plain.uri.replace("file://", "") + "/_versions"
    with gateway.transaction() as tx:
        table = tx.table(*tables[0])
        table.optimize.compact_files()
        assert table.count_rows() == 303
        assert [change.version for change in tx.dry_run()] == [6]
    assert len(gateway.table(*tables[0]).get_fragments()) == 2, "indexed rows, and others"
    assert not [name for name in os.listdir(folder) if ".manifest-" in name]


def manifests(gateway, table):
    """The names of the staged manifests of a table."""
    folder = gateway.table(*table).uri.replace("file://", "") + "/_versions"
    return {name for name in os.listdir(folder) if ".manifest-" in name}


@pytest.mark.parametrize("end", ["rollback", "commit"])
def test_the_end_of_a_transaction_removes_the_manifests_that_it_has_staged_itself_and_no_others(gateway, tables, end):
    """Two transactions stage the same version of the same table, from the same rows."""
    one, other = gateway.transaction(), gateway.transaction()
    one.table(*tables[0]).insert(rows(300, 1))
    (of_one,) = manifests(gateway, tables[0])
    other.table(*tables[0]).insert(rows(300, 1))
    (of_other,) = manifests(gateway, tables[0]) - {of_one}
    assert of_one.split("-")[0] == of_other.split("-")[0], "of the same version"
    if end == "rollback":
        other.rollback()
        assert manifests(gateway, tables[0]) == {of_one}
        one.commit()
    else:
        one.commit()
        assert of_other in manifests(gateway, tables[0])
        # It is staged anew, upon the version of the first.
        other.commit()
    assert manifests(gateway, tables[0]) == set()
    assert gateway.table(*tables[0]).count_rows() == (301 if end == "rollback" else 302)
    gateway.table(*tables[0]).validate()


# -- lancedb ------------------------------------------------------------------------------------------------------


def test_a_restore_through_lancedb_is_alone(gateway, tables):
    gateway.table(*tables[0]).insert(rows(300, 1))
    with gateway.transaction() as tx:
        table = tx.lancedb.open_table(tables[0][-1], namespace_path=list(tables[0][:-1]))
        table.restore(1)
        for use in (table.count_rows, lambda: table.add(rows(0, 1)), lambda: table.restore(2)):
            with pytest.raises(nsgate.NotAtomic, match="only thing"):
                use()
    assert gateway.table(*tables[0]).count_rows() == 300


def test_pylance_behind_a_lancedb_table_is_part_of_the_transaction(gateway, tables):
    with gateway.transaction() as tx:
        handle = tx.lancedb.open_table(tables[0][-1], namespace_path=list(tables[0][:-1]))
        table = handle.to_lance()
        for act in (lambda: table.tags.create("now", 1), table.cleanup_old_versions):
            with pytest.raises(nsgate.NotAtomic):
                act()
        table.insert(rows(300, 1))
        assert gateway.table(*tables[0]).count_rows() == 300
        with pytest.raises(nsgate.NotAtomic, match="call it first"):
            handle.to_lance()
    assert gateway.table(*tables[0]).count_rows() == 301


def test_a_lancedb_table_that_is_there_is_not_created_over(gateway, tables):
    with gateway.transaction() as tx:
        for options in ({"mode": "overwrite"}, {"exist_ok": True}):
            with pytest.raises(TypeError, match="open_table"):
                tx.lancedb.create_table("new", rows(0, 1), namespace_path=["prod"], **options)


def test_threads_get_one_lancedb_table(gateway, tables):
    with gateway.transaction() as tx:
        found = []
        name, path = tables[0][-1], list(tables[0][:-1])
        threads = [
            threading.Thread(target=lambda: found.append(tx.lancedb.open_table(name, namespace_path=path)))
            for _ in range(6)
        ]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert len(found) == 6 and len({id(table) for table in found}) == 1


@pytest.mark.parametrize("name", ["drop_table", "drop_table_async", "drop_namespace", "create_view", "rename_table"])
def test_what_a_lancedb_connection_does_at_once_is_refused(gateway, name):
    with gateway.transaction() as tx:
        with pytest.raises(nsgate.NotAtomic):
            getattr(tx.lancedb, name)


# -- threads, tasks, callbacks ------------------------------------------------------------------------------------


def test_a_change_that_another_thread_stages_during_the_end_is_refused(gateway, tables, monkeypatch):
    tx = gateway.transaction()
    first, second = (tx.table(*table) for table in tables)
    first.insert(rows(300, 1))
    latest = Held.latest

    def ended_meanwhile(held, chain):
        monkeypatch.setattr(Held, "latest", latest)
        found = latest(held, chain)
        end = threading.Thread(target=tx.commit)
        end.start()
        end.join()
        return found

    monkeypatch.setattr(Held, "latest", ended_meanwhile)
    with pytest.raises(nsgate.Finished):
        second.insert(rows(300, 1))
    assert gateway.versions(*tables) == [2, 1]


def test_a_commit_does_not_publish_a_table_that_is_being_written(gateway, tables):
    tx = gateway.transaction()
    tx.table(*tables[0]).insert(rows(300, 1))
    writing, ended = threading.Event(), threading.Event()

    def batches():
        writing.set()
        ended.wait(30)
        yield from rows(0, 3).to_batches()

    new = (*tables[0][:-1], tables[0][-1] + "n")
    reader = pa.RecordBatchReader.from_batches(rows(0, 1).schema, batches())
    raised = []

    def create():
        try:
            tx.create(*new, data=reader)
        except nsgate.Finished as error:
            raised.append(error)

    thread = threading.Thread(target=create)
    thread.start()
    writing.wait(30)
    with pytest.raises(nsgate.NotAtomic, match="still being written"):
        tx.commit()
    ended.set()
    thread.join()
    assert len(raised) == 1
    assert gateway.versions(tables[0]) == [1]
    with pytest.raises(nsgate.Refused):
        gateway.versions(new)


def test_a_callback_that_raises_changes_nothing(gateway, tables, caplog):
    def broken(progress):
        raise nsgate.Conflict(f"no {progress.step}")

    gateway.run(lambda tx: tx.table(*tables[0]).insert(rows(300, 1)), progress=broken)
    assert gateway.table(*tables[0]).count_rows() == 301
    assert "the callback raised an exception at the step 'committed'" in caplog.text


def slowed(gateway, monkeypatch):
    """Let a commit take its time; the event is set when it was sent."""
    post, sent = gateway._http.post, threading.Event()

    def slow(path, *arguments, **options):
        sent.set()
        time.sleep(0.5)
        return post(path, *arguments, **options)

    monkeypatch.setattr(gateway._http, "post", slow)
    return sent


def both_forms(gateway, table, seen):
    """The same change through `run_async` and `async with`; `seen` gets its transactions."""

    def insert(tx):
        seen.append(tx)
        tx.table(*table).insert(rows(300, 1))
        return "done"

    async def with_block():
        async with gateway.transaction(rebase=False) as tx:
            insert(tx)
        return "done"

    return {"run_async": lambda: gateway.run_async(insert, rebase=False), "async with": with_block}


async def cancelled(change, moment, times=1):
    """Cancel a change at a moment; return its cancellation. Everything else that it raises is a failure."""
    task = asyncio.ensure_future(change())
    await asyncio.to_thread(moment.wait, 30)
    for _ in range(times):
        task.cancel()
        await asyncio.sleep(0.05)
    with pytest.raises(asyncio.CancelledError) as raised:
        await task
    return raised.value


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("form", ["run_async", "async with"])
def test_a_cancellation_during_the_commit_waits_for_it_and_goes_on(gateway, tables, monkeypatch, form, times):
    sent, seen = slowed(gateway, monkeypatch), []

    async def main():
        await cancelled(both_forms(gateway, tables[0], seen)[form], sent, times)
        assert seen[0].result is not None, "the cancellation was raised before the end of the commit"

    asyncio.run(main())
    assert gateway.table(*tables[0]).count_rows() == 301


@pytest.mark.parametrize("form", ["run_async", "async with"])
def test_a_cancellation_during_a_commit_that_fails_is_raised_and_ends_it(gateway, tables, monkeypatch, form):
    sent, seen = slowed(gateway, monkeypatch), []
    change = both_forms(gateway, tables[0], seen)[form]
    folder = gateway.table(*tables[0]).uri.replace("file://", "") + "/_versions"
    staged, post = [], gateway._http.post

    def beaten(*arguments, **options):
        staged.extend(name for name in os.listdir(folder) if ".manifest-" in name)
        nsgate.connect(gateway._http.uri, token=gateway._http._token).table(*tables[0]).insert(rows(400, 1))
        return post(*arguments, **options)

    monkeypatch.setattr(gateway._http, "post", beaten)
    error = asyncio.run(cancelled(change, sent))
    assert isinstance(error.__cause__, nsgate.Conflict)
    assert len(seen) == 1, "it did not start again"
    assert gateway.table(*tables[0]).count_rows() == 301
    assert staged and not [name for name in os.listdir(folder) if ".manifest-" in name], "rolled back"


@pytest.mark.parametrize("form", ["run_async", "async with"])
def test_the_end_of_an_event_loop_waits_for_a_commit(gateway, tables, monkeypatch, form):
    sent, seen, results = slowed(gateway, monkeypatch), [], []

    async def change():
        try:
            await both_forms(gateway, tables[0], seen)[form]()
        finally:
            results.append(seen[0].result)

    async def main():
        task = asyncio.ensure_future(change())
        await asyncio.to_thread(sent.wait, 30)
        return task

    task = asyncio.run(main())
    assert task.cancelled() and results[0] is not None
    assert gateway.table(*tables[0]).count_rows() == 301


def test_a_cancellation_ends_a_coroutine_function(gateway, tables):
    begun, ended = threading.Event(), []

    async def change(tx):
        tx.table(*tables[0]).insert(rows(300, 1))
        begun.set()
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            ended.append(tx)
            raise

    asyncio.run(cancelled(lambda: gateway.run_async(change), begun))
    assert len(ended) == 1
    with pytest.raises(nsgate.Finished):
        ended[0].commit()
    assert gateway.versions(tables[0]) == [1]


def test_a_cancellation_does_not_wait_for_threads_that_are_busy(gateway, tables):
    begun, go_on, seen = threading.Event(), threading.Event(), []

    def change(tx):
        seen.append(tx)
        tx.table(*tables[0]).insert(rows(300, 1))
        begun.set()
        go_on.wait(30)

    async def main():
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        task = asyncio.ensure_future(gateway.run_async(change))
        while not begun.is_set():
            await asyncio.sleep(0.01)
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=10)
        assert done, "it waits for the change"
        assert task.cancelled()
        with pytest.raises(nsgate.Finished):
            seen[0].commit()
        go_on.set()

    try:
        asyncio.run(main())
    finally:
        go_on.set()
    assert gateway.versions(tables[0]) == [1]


def test_a_cancelled_run_does_not_start_again_between_its_attempts(gateway, tables, monkeypatch):
    seen, conflicts = [], threading.Event()

    def change(tx):
        seen.append(tx)
        tx.table(*tables[0]).update({"value": "value + 1"}, where="id = 3")
        gateway.table(*tables[0]).update({"value": "value + 10"}, where="id = 3")

    def told(progress):
        if progress.step == "starting again":
            conflicts.set()
            time.sleep(0.5)

    error = asyncio.run(cancelled(lambda: gateway.run_async(change, progress=told), conflicts))
    assert isinstance(error.__cause__, nsgate.Conflict)
    assert len(seen) == 1
    assert gateway.table(*tables[0]).count_rows("value = 13 AND id = 3") == 1


@pytest.mark.parametrize("form", ["run_async", "async with"])
def test_a_cancellation_before_the_commit_rolls_back(gateway, tables, form):
    begun, go_on = threading.Event(), threading.Event()

    async def change():
        if form == "run_async":

            def insert(tx):
                tx.table(*tables[0]).insert(rows(300, 1))
                begun.set()
                go_on.wait(30)

            return await gateway.run_async(insert)
        async with gateway.transaction() as tx:
            tx.table(*tables[0]).insert(rows(300, 1))
            begun.set()
            await asyncio.sleep(30)
        return None

    async def main():
        await cancelled(change, begun)
        go_on.set()

    asyncio.run(main())
    assert gateway.versions(tables[0]) == [1]


def test_run_does_not_lose_a_coroutine(gateway, tables):
    async def change(tx):
        tx.table(*tables[0]).insert(rows(300, 1))

    with pytest.raises(TypeError, match="run_async"):
        gateway.run(change)
    assert gateway.versions(tables[0]) == [1]


# -- the rest -----------------------------------------------------------------------------------------------------


def test_a_transaction_that_is_gone_holds_nothing(gateway, tables):
    gone, open_files = [], []
    for _ in range(12):
        tx = gateway.transaction()
        tx.table(*tables[0]).insert(rows(300, 1))
        tx.lancedb.open_table(tables[1][-1], namespace_path=list(tables[1][:-1]))
        tx.rollback()
        gone.append(weakref.ref(tx))
        open_files.append(len(os.listdir("/proc/self/fd")))
    del tx
    gc.collect()
    assert [found for found in gone if found() is not None] == []
    assert open_files[-1] < open_files[3] + 5


def test_errors_and_connections_reach_other_processes(gateway, tables):
    unmanaged = pickle.loads(pickle.dumps(nsgate.Unmanaged(("a", "b"))))
    assert unmanaged.table == ("a", "b") and str(unmanaged).startswith("a.b:")
    conflict = pickle.loads(pickle.dumps(nsgate.Conflict("no", table=["a"], expected=3)))
    assert (conflict.table, conflict.expected) == (("a",), 3)
    plain = nsgate.connect(gateway._http.uri, token=gateway._http._token(), timeout=7)
    again = pickle.loads(pickle.dumps(plain))
    assert again.versions(*tables) == [1, 1] and again._http.timeout == 7


@pytest.mark.parametrize("wrong", ["127.0.0.1:8080", "catalog.example"])
def test_an_address_has_a_scheme(wrong):
    with pytest.raises(ValueError, match="http://"):
        nsgate.connect(wrong)


def test_wrong_arguments_are_refused_before_any_work(gateway, tables):
    for call in (lambda: gateway.transaction(timeout=0), lambda: nsgate.connect("http://x", timeout=0)):
        with pytest.raises(ValueError, match="timeout"):
            call()
    with gateway.transaction() as tx:
        with pytest.raises(ValueError, match="blank"):
            tx.create("prod", "a b", data=rows(0, 1))


@pytest.mark.parametrize(
    "name, found, is_new",
    [
        ("pylance", "14.9.3", False),
        ("pylance", "15.0.0b1", True),
        ("pylance", "100.0.0", True),
        ("lancedb", "0.40.7", False),
        ("lancedb", "0.41.0", True),
        ("lancedb", "1.0.0", True),
        ("lance-namespace", "0.13.9", False),
        ("lance-namespace", "0.14.0", True),
    ],
)
def test_a_library_that_was_not_tested_is_said(monkeypatch, recwarn, name, found, is_new):
    monkeypatch.setattr("nsgate.gateway.version", {**dict.fromkeys(UNTESTED, "0.1"), name: found}.__getitem__)
    nsgate.connect("http://127.0.0.1:9")
    said = [str(warning.message) for warning in recwarn if "not tested" in str(warning.message)]
    assert len(said) == is_new
    if said:
        assert said[0].startswith(f"{name} {found} ") and f"pip install '{name}<" in said[0]
        assert recwarn[0].filename == __file__


def test_the_libraries_of_these_tests_are_tested_ones(recwarn):
    nsgate.connect("http://127.0.0.1:9")
    assert not [warning for warning in recwarn if "not tested" in str(warning.message)]


def test_the_proxy_is_the_environments(monkeypatch):
    for name in ("NO_PROXY", "no_proxy", "http_proxy", "https_proxy", "all_proxy", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.example:3128")
    assert _proxy("http://catalog.example") == "http://proxy.example:3128"
    assert _proxy("https://catalog.example") is None
    monkeypatch.setenv("NO_PROXY", "catalog.example")
    assert _proxy("http://catalog.example") is None


def test_a_plain_dataset_is_still_pylances(gateway, tables):
    assert type(gateway.table(*tables[0])) is lance.LanceDataset
