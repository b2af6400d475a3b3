"""Every operation of pylance and lancedb, over two catalogs: hidden before the commit, there after."""

import lance
import pytest
from conftest import rows

import nsgate


def fragments(gateway, table):
    """Three more fragments, so that there is something to compact."""
    for number in range(3):
        gateway.table(*table).insert(rows(1000 + 10 * number, 10))


def indexed(gateway, table):
    gateway.table(*table).create_scalar_index("id", "BTREE")
    fragments(gateway, table)


def unprepared(gateway, table):
    pass


UPSERT = rows(295, 10)

# Name, preparation, the change, and what a reader finds afterwards.
PYLANCE = [
    ("append", unprepared, lambda t: t.insert(rows(300, 10)), lambda t: t.count_rows() == 310),
    ("overwrite", unprepared, lambda t: t.insert(rows(5, 3), mode="overwrite"), lambda t: t.count_rows() == 3),
    ("delete", unprepared, lambda t: t.delete("id < 10"), lambda t: t.count_rows() == 290),
    (
        "update",
        unprepared,
        lambda t: t.update({"value": "value + 1000"}, where="id = 3"),
        lambda t: t.count_rows("value = 1003") == 1,
    ),
    (
        "merge_insert",
        unprepared,
        lambda t: t.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(UPSERT),
        lambda t: t.count_rows() == 305,
    ),
    ("add_columns", unprepared, lambda t: t.add_columns({"twice": "value * 2"}), lambda t: "twice" in t.schema.names),
    (
        "alter_columns",
        unprepared,
        lambda t: t.alter_columns({"path": "value", "name": "worth"}),
        lambda t: "worth" in t.schema.names,
    ),
    ("drop_columns", unprepared, lambda t: t.drop_columns(["value"]), lambda t: "value" not in t.schema.names),
    (
        "restore",
        fragments,
        lambda t: t.checkout_version(1).restore(),
        lambda t: t.count_rows() == 300 and t.version == 5,
    ),
    ("config", unprepared, lambda t: t.update_config({"owner": "me"}), lambda t: t.config()["owner"] == "me"),
    (
        "schema metadata",
        unprepared,
        lambda t: t.update_schema_metadata({"unit": "m"}),
        lambda t: t.schema.metadata[b"unit"] == b"m",
    ),
    (
        "scalar index",
        unprepared,
        lambda t: t.create_scalar_index("id", "BTREE"),
        lambda t: len(t.describe_indices()) == 1,
    ),
    (
        "vector index",
        unprepared,
        lambda t: t.create_index("vector", "IVF_PQ", num_partitions=1, num_sub_vectors=2),
        lambda t: len(t.describe_indices()) == 1,
    ),
    ("drop index", indexed, lambda t: t.drop_index("id_idx"), lambda t: not t.describe_indices()),
    (
        "compaction",
        fragments,
        lambda t: t.optimize.compact_files(),
        lambda t: len(t.get_fragments()) == 1 and t.count_rows() == 330,
    ),
    (
        "compaction with an index",
        indexed,
        lambda t: t.optimize.compact_files(),
        # Rows in the index and rows outside of it stay apart.
        lambda t: len(t.get_fragments()) == 2 and t.count_rows("id = 1005") == 1 and t.count_rows("id = 5") == 1,
    ),
    (
        "optimize indexes",
        indexed,
        lambda t: t.optimize.optimize_indices(),
        lambda t: t.stats.index_stats("id_idx")["num_unindexed_rows"] == 0,
    ),
    ("truncate", unprepared, lambda t: t.truncate_table(), lambda t: t.count_rows() == 0),
    (
        "several changes",
        fragments,
        lambda t: (
            t.insert(rows(5000, 10)),
            t.update({"value": "7"}, where="id = 5000"),
            t.delete("id = 5001"),
            t.add_columns({"twice": "value * 2"}),
            t.optimize.compact_files(),
            t.create_scalar_index("id", "BTREE"),
        ),
        lambda t: t.count_rows() == 339 and t.count_rows("twice = 14 AND id = 5000") == 1,
    ),
]


def add_and_optimize(table):
    table.add(rows(5000, 10))
    table.update(where="id = 5000", values={"value": 7.0})
    table.delete("id = 5001")
    table.optimize()
    table.create_scalar_index("id")


LANCEDB = [
    ("add", unprepared, lambda t: t.add(rows(300, 10)), lambda t: t.count_rows() == 310),
    ("overwrite", unprepared, lambda t: t.add(rows(5, 3), mode="overwrite"), lambda t: t.count_rows() == 3),
    ("delete", unprepared, lambda t: t.delete("id < 10"), lambda t: t.count_rows() == 290),
    (
        "update",
        unprepared,
        lambda t: t.update(where="id = 3", values={"value": 1003.0}),
        lambda t: t.count_rows("value = 1003") == 1,
    ),
    (
        "merge_insert",
        unprepared,
        lambda t: t.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(UPSERT),
        lambda t: t.count_rows() == 305,
    ),
    ("add_columns", unprepared, lambda t: t.add_columns({"twice": "value * 2"}), lambda t: "twice" in t.schema.names),
    (
        "alter_columns",
        unprepared,
        lambda t: t.alter_columns({"path": "value", "rename": "worth"}),
        lambda t: "worth" in t.schema.names,
    ),
    ("drop_columns", unprepared, lambda t: t.drop_columns(["value"]), lambda t: "value" not in t.schema.names),
    ("restore", fragments, lambda t: t.restore(1), lambda t: t.count_rows() == 300 and t.version == 5),
    (
        "scalar index",
        unprepared,
        lambda t: t.create_scalar_index("id"),
        lambda t: len(t.describe_indices()) == 1,
    ),
    (
        "vector index",
        unprepared,
        lambda t: t.create_index(vector_column_name="vector", num_partitions=1, num_sub_vectors=2),
        lambda t: len(t.describe_indices()) == 1,
    ),
    (
        "optimize",
        fragments,
        lambda t: t.optimize(),
        lambda t: len(t.get_fragments()) == 1 and t.count_rows() == 330,
    ),
    (
        "several changes",
        fragments,
        add_and_optimize,
        lambda t: t.count_rows() == 339 and t.count_rows("value = 7 AND id = 5000") == 1,
    ),
]

CASES = [("pylance", *case) for case in PYLANCE] + [("lancedb", *case) for case in LANCEDB]


@pytest.mark.parametrize("library, name, prepare, change, holds", CASES, ids=[f"{case[0]} {case[1]}" for case in CASES])
def test_an_operation_is_hidden_before_the_commit_and_there_after(
    gateway, tables, library, name, prepare, change, holds
):
    for table in tables:
        prepare(gateway, table)
    before = gateway.versions(*tables)
    with gateway.transaction() as tx:
        for table in tables:
            if library == "pylance":
                handle = tx.table(*table)
            else:
                handle = tx.lancedb.open_table(table[-1], namespace_path=list(table[:-1]))
            change(handle)
        assert gateway.versions(*tables) == before
        planned = tx.dry_run()
    after = gateway.versions(*tables)
    assert [change.version for change in planned] == after
    assert all(new > old for new, old in zip(after, before))
    for table in tables:
        dataset = gateway.table(*table)
        dataset.validate()
        assert holds(dataset), name
    assert tx.result.transaction_id


def test_an_own_change_is_seen_by_its_handle_only(gateway, tables):
    with gateway.transaction() as tx:
        table = tx.table(*tables[0])
        table.insert(rows(300, 10))
        assert table.count_rows() == 310
        assert tx.table(*tables[0]) is table
        assert gateway.table(*tables[0]).count_rows() == 300
    assert gateway.table(*tables[0]).count_rows() == 310


def test_a_branch_is_changed_with_its_table(gateway, tables):
    main = gateway.table(*tables[0])
    main.create_branch("dev")
    with gateway.transaction() as tx:
        tx.table(*tables[0], branch="dev").insert(rows(300, 10))
        tx.table(*tables[0]).delete("id < 100")
        tx.table(*tables[1]).insert(rows(300, 1))
        assert gateway.table(*tables[0]).checkout_version(("dev", None)).count_rows() == 300
    assert gateway.table(*tables[0]).checkout_version(("dev", None)).count_rows() == 310
    assert gateway.table(*tables[0]).count_rows() == 200
    assert gateway.table(*tables[1]).count_rows() == 301


AT_ONCE = [
    lambda t: t.tags.create("v1", 1),
    lambda t: t.tags.delete("v1"),
    lambda t: t.branches.delete("dev"),
    lambda t: t.create_branch("dev"),
    lambda t: t.cleanup_old_versions(),
    lambda t: t.shallow_clone("elsewhere", 1),
    lambda t: t.migrate_manifest_paths_v2(),
    lambda t: t.optimize.enable_auto_cleanup({"interval": 1, "older_than_seconds": 0}),
    lambda t: t.update_config({"lance.auto_cleanup.interval": "1"}),
    lambda t: t.__reduce__(),
]


@pytest.mark.parametrize("number", range(len(AT_ONCE)))
def test_what_acts_at_once_is_refused(gateway, tables, number):
    with gateway.transaction() as tx:
        table = tx.table(*tables[0])
        with pytest.raises(nsgate.NotAtomic):
            AT_ONCE[number](table)
        table.insert(rows(300, 1))
    dataset = gateway.table(*tables[0])
    assert dataset.count_rows() == 301
    assert not dataset.tags.list()
    assert not dataset.branches.list()


def test_lancedb_refuses_what_acts_at_once(gateway, tables):
    *namespace, name = tables[0]
    with gateway.transaction() as tx:
        table = tx.lancedb.open_table(name, namespace_path=namespace)
        for act in (
            lambda: table.tags.create("v1", 1),
            lambda: table.branches.create("dev"),
            lambda: table.cleanup_old_versions(),
            lambda: table.optimize(delete_unverified=True),
            lambda: tx.lancedb.drop_table(name, namespace_path=namespace),
        ):
            with pytest.raises(nsgate.NotAtomic):
                act()
    assert gateway.table(*tables[0]).count_rows() == 300


def test_a_second_handle_of_a_table_is_refused(gateway, tables):
    *namespace, name = tables[0]
    with pytest.raises(nsgate.NotAtomic, match="opened through pylance"):
        with gateway.transaction() as tx:
            tx.table(*tables[0]).insert(rows(300, 1))
            tx.lancedb.open_table(name, namespace_path=namespace).add(rows(301, 1))
    assert gateway.versions(tables[0]) == [1]


def test_a_second_handle_that_pylance_makes_is_refused(gateway, tables):
    with pytest.raises(nsgate.NotAtomic, match="another handle"):
        with gateway.transaction() as tx:
            table = tx.table(*tables[0])
            table.insert(rows(300, 1))
            table.checkout_version(1).insert(rows(400, 1))
    assert gateway.versions(tables[0]) == [1]


def test_a_table_that_cleans_up_by_itself_is_not_lost(gateway, tables):
    """Two changes of it would delete the published version before the commit."""
    gateway.table(*tables[0]).update_config({"lance.auto_cleanup.interval": "1", "lance.auto_cleanup.older_than": "0s"})
    with pytest.raises(nsgate.NotAtomic, match="auto_cleanup"):
        with gateway.transaction() as tx:
            tx.table(*tables[0]).insert(rows(300, 1))
            tx.table(*tables[0]).insert(rows(301, 1))
    assert gateway.table(*tables[0]).count_rows() == 300
    with gateway.transaction() as tx:
        tx.table(*tables[0]).insert(rows(300, 1))
    assert gateway.table(*tables[0]).count_rows() == 301


def test_optimize_of_an_old_table_keeps_the_published_version(gateway, tables, monkeypatch):
    """lancedb's `optimize` prunes versions older than 7 days: with a staged version, the published one is old."""
    import datetime

    import nsgate._lancedb

    *namespace, name = tables[0]
    fragments(gateway, tables[0])
    with pytest.raises(ZeroDivisionError):
        with gateway.transaction() as tx:
            table = tx.lancedb.open_table(name, namespace_path=namespace)
            table.add(rows(300, 1))
            table.optimize()
            assert datetime.timedelta(days=9999) < nsgate._lancedb.NEVER
            raise ZeroDivisionError
    assert gateway.table(*tables[0]).count_rows() == 330
    assert len(gateway.table(*tables[0]).versions()) == 4


def test_an_unmanaged_table_is_refused_before_anything_is_written(gateway, tables, monkeypatch):
    client = type(gateway.namespace_client)
    plain = client.describe_table

    def unmanaged(self, request):
        answer = plain(self, request)
        answer.managed_versioning = None
        return answer

    monkeypatch.setattr(client, "describe_table", unmanaged)
    with gateway.transaction() as tx:
        with pytest.raises(nsgate.Unmanaged, match="managed_versioning"):
            tx.table(*tables[0])
        with pytest.raises(nsgate.Unmanaged):
            tx.lancedb.open_table(tables[0][-1], namespace_path=list(tables[0][:-1]))
    assert lance.__version__


def test_restore_on_a_branch(gateway, tables):
    gateway.table(*tables[0]).create_branch("dev").insert(rows(300, 5))
    with gateway.transaction() as tx:
        branch = tx.table(*tables[0], branch="dev")
        branch.insert(rows(400, 5))
        branch.checkout_version(("dev", 1)).restore()
        branch.insert(rows(500, 1))
        assert branch.count_rows() == 301
    assert gateway.table(*tables[0]).checkout_version(("dev", None)).count_rows() == 301
    assert gateway.table(*tables[0]).count_rows() == 300
