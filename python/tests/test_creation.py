"""New tables: they appear with the commit, or never."""

import lance_namespace as ln
import pytest
from conftest import rows

import nsgate


def names(gateway, *namespace):
    return gateway.namespace_client.list_tables(ln.ListTablesRequest(id=list(namespace))).tables


def exists(gateway, *table):
    try:
        gateway.namespace_client.describe_table(ln.DescribeTableRequest(id=list(table)))
    except ln.TableNotFoundError:
        return False
    return True


def catalog_names(world, *namespace):
    """What the warehouse itself lists."""
    warehouse = nsgate.connect(world.warehouse.uri)
    return warehouse.namespace_client.list_tables(ln.ListTablesRequest(id=list(namespace))).tables


@pytest.fixture
def name(tables):
    return tables[0][-1] + "new"


def test_a_new_table_appears_with_the_changes_of_others(gateway, tables, name):
    with gateway.transaction() as tx:
        created = tx.create("prod", name, data=rows(0, 5))
        assert tx.table("prod", name) is created
        tx.create("research", "lake", "daily", name, data=rows(0, 6))
        tx.table(*tables[0]).insert(rows(300, 1))
        assert [str(change) for change in tx.dry_run()] == [
            f"prod.{tables[0][-1]}: 1 -> 2 (Append)",
            f"prod.{name}: created",
            f"research.lake.daily.{name}: created",
        ]
        assert not exists(gateway, "prod", name)
        assert name not in names(gateway, "prod")
        assert not [other for other in names(gateway, "prod") if other.startswith("__nsgate")]
    assert gateway.table("prod", name).count_rows() == 5
    assert gateway.table("research", "lake", "daily", name).count_rows() == 6
    assert gateway.table(*tables[0]).count_rows() == 301
    assert name in names(gateway, "prod")
    gateway.table("prod", name).insert(rows(5, 1))
    assert gateway.versions(["prod", name]) == [2]


def test_a_new_table_may_be_changed_before_it_appears(gateway, tables, name):
    with gateway.transaction() as tx:
        created = tx.create("prod", name, data=rows(0, 5))
        created.insert(rows(5, 5))
        created.create_scalar_index("id", "BTREE")
        assert not exists(gateway, "prod", name)
    dataset = gateway.table("prod", name)
    assert dataset.count_rows() == 10
    assert dataset.version == 3


def test_lancedb_creates_a_table(gateway, tables, name):
    with gateway.transaction() as tx:
        created = tx.lancedb.create_table(name, rows(0, 5), namespace_path=["prod"])
        created.add(rows(5, 5))
        assert tx.lancedb.open_table(name, namespace_path=["prod"]) is created
        assert not exists(gateway, "prod", name)
    assert gateway.lancedb.open_table(name, namespace_path=["prod"]).count_rows() == 10


def test_a_rollback_leaves_nothing(world, gateway, tables, name):
    before = set(catalog_names(world, "prod"))
    with pytest.raises(KeyError):
        with gateway.transaction() as tx:
            tx.create("prod", name, data=rows(0, 5))
            assert len(set(catalog_names(world, "prod")) - before) == 1, "under its temporary name"
            raise KeyError
    assert set(catalog_names(world, "prod")) == before
    assert not exists(gateway, "prod", name)


def test_a_conflict_of_another_table_leaves_nothing(world, gateway, tables, name):
    before = set(catalog_names(world, "prod"))
    tx = gateway.transaction(rebase=False)
    tx.create("prod", name, data=rows(0, 5))
    tx.table(*tables[1]).insert(rows(300, 1))
    gateway.table(*tables[1]).insert(rows(300, 1))
    with pytest.raises(nsgate.Conflict) as raised:
        tx.commit()
    assert raised.value.table == tables[1]
    assert set(catalog_names(world, "prod")) == before


def test_a_new_table_moves_with_the_changes_of_others(gateway, tables, name):
    tx = gateway.transaction()
    tx.create("prod", name, data=rows(0, 5))
    tx.table(*tables[1]).insert(rows(300, 1))
    gateway.table(*tables[1]).insert(rows(301, 1))
    tx.commit()
    assert gateway.table("prod", name).count_rows() == 5
    assert gateway.table(*tables[1]).count_rows() == 302


def test_a_name_that_somebody_else_takes_is_a_conflict(world, gateway, tables, name):
    before = set(catalog_names(world, "prod"))
    tx = gateway.transaction()
    tx.create("prod", name, data=rows(0, 5))
    tx.table(*tables[1]).insert(rows(300, 1))
    with gateway.transaction() as other:
        other.create("prod", name, data=rows(0, 7))
    with pytest.raises(nsgate.Conflict) as raised:
        tx.commit()
    assert raised.value.table == ("prod", name)
    assert gateway.table("prod", name).count_rows() == 7
    assert gateway.versions(tables[1]) == [1]
    assert set(catalog_names(world, "prod")) == before | {name}


def test_leftovers_of_a_client_that_died_are_found(world, gateway, tables, name, monkeypatch):
    import datetime

    monkeypatch.setattr(nsgate.Transaction, "_drop", lambda *_: None)
    tx = gateway.transaction()
    tx.create("prod", name, data=rows(0, 5))
    tx.rollback()
    warehouse = nsgate.connect(world.warehouse.uri)
    assert warehouse.leftovers("prod") == [], "it is younger than a day"
    (left,) = warehouse.leftovers("prod", older_than=datetime.timedelta(0))
    assert gateway.leftovers("prod", older_than=datetime.timedelta(0)) == [], "a gateway leaves it out of its listings"
    gateway.namespace_client.drop_table(ln.DropTableRequest(id=list(left)))
    assert warehouse.leftovers("prod", older_than=datetime.timedelta(0)) == []


def test_a_table_is_created_once_in_a_transaction(gateway, tables, name):
    tx = gateway.transaction()
    tx.create("prod", name, data=rows(0, 1))
    with pytest.raises(nsgate.NotAtomic, match="already"):
        tx.create("prod", name, data=rows(0, 1))
    tx.rollback()
