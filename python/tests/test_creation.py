"""New tables: they appear with the commit, or never."""

import contextlib
import datetime

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


NOW = datetime.timedelta(0)


@pytest.fixture
def left(gateway, name, monkeypatch):
    """What a client that died has left: a table under a temporary name. Returns the name and the location."""
    with monkeypatch.context() as patch:
        patch.setattr(nsgate.Transaction, "_drop", lambda *_, **__: None)
        tx = gateway.transaction()
        tx.create("prod", name, data=rows(0, 5))
        (created,) = tx._created.values()
        tx.rollback()
    request = ln.DescribeTableRequest(id=list(created.temporary))
    yield created.temporary, gateway.namespace_client.describe_table(request).location
    with contextlib.suppress(ln.TableNotFoundError):
        gateway.namespace_client.deregister_table(ln.DeregisterTableRequest(id=list(created.temporary)))


def is_listed(world, gateway, left):
    """Whether the catalog lists it as a leftover. Other tests may have left others."""
    return left[0] in nsgate.connect(world.warehouse.uri).leftovers("prod", through=gateway, older_than=NOW)


def test_leftovers_of_a_client_that_died_are_found(world, gateway, left):
    assert nsgate.connect(world.warehouse.uri).leftovers("prod", through=gateway) == [], "it is younger than a day"
    assert is_listed(world, gateway, left)
    assert gateway.leftovers("prod", through=gateway, older_than=NOW) == [], "a gateway leaves it out of its listings"
    gateway.namespace_client.drop_table(ln.DropTableRequest(id=list(left[0])))
    assert not is_listed(world, gateway, left)


@pytest.mark.parametrize("namespace", [["prod"], ["prod", "deep", "deeper"], ["not-in-the-gateway"]])
def test_a_leftover_whose_data_a_table_of_the_catalog_uses_is_not_listed(world, gateway, left, name, namespace):
    warehouse = nsgate.connect(world.warehouse.uri)
    for depth in range(1, len(namespace) + 1):
        with contextlib.suppress(ln.NamespaceAlreadyExistsError):
            warehouse.namespace_client.create_namespace(ln.CreateNamespaceRequest(id=namespace[:depth]))
    # As after a commit whose last step was lost: the new name is there, and the old one was not removed.
    place = left[1].rsplit("/", 1)[1]
    request = ln.RegisterTableRequest(id=[*namespace, name], location=place)
    warehouse.namespace_client.register_table(request)
    assert not is_listed(world, gateway, left)
    assert warehouse.table(*namespace, name).count_rows() == 5
    warehouse.namespace_client.deregister_table(ln.DeregisterTableRequest(id=[*namespace, name]))
    assert is_listed(world, gateway, left)


@pytest.mark.parametrize("below", ["", "/", "/tables/one"])
def test_a_leftover_whose_data_a_table_of_another_catalog_uses_is_not_listed(world, gateway, left, tables, below):
    """Whatever catalog it is in: the gateway knows all of them."""
    client = gateway.namespace_client

    class Moved(type(client)):
        """The gateway, where the table of the lake is at the place of the leftover."""

        def describe_table(self, request):
            answer = super().describe_table(request)
            if tuple(request.id) == tables[1]:
                answer.location = left[1] + below
            return answer

    client.__class__ = Moved
    assert not is_listed(world, gateway, left)
    client.__class__ = Moved.__base__
    assert is_listed(world, gateway, left)


def test_leftovers_are_not_listed_where_it_cannot_be_seen_who_uses_their_data(world, gateway, left):
    warehouse, stranger = nsgate.connect(world.warehouse.uri), nsgate.connect(world.uri, token="not.a.token")
    with pytest.raises(ln.UnauthenticatedError):
        warehouse.leftovers("prod", through=stranger, older_than=NOW)


def test_a_table_is_created_once_in_a_transaction(gateway, tables, name):
    tx = gateway.transaction()
    tx.create("prod", name, data=rows(0, 1))
    with pytest.raises(nsgate.NotAtomic, match="already"):
        tx.create("prod", name, data=rows(0, 1))
    tx.rollback()


@pytest.mark.parametrize(
    "said",
    [
        "Namespace error: Internal error: Failed to execute request: reqwest::Error",
        "Wrapped error: Commit result for version 1 is unknown",
    ],
)
def test_a_gateway_that_is_gone_while_a_table_is_staged_is_unavailable(gateway, name, said):
    """Lance wraps the error of its client in one of its own; `run` begins again only after the package's."""

    def write(client, temporary):
        raise OSError(said)

    tx = gateway.transaction()
    with pytest.raises(nsgate.Unavailable, match="does not answer"):
        tx._create(("prod", name), write)
    tx.rollback()
    assert not exists(gateway, "prod", name)


def test_an_error_of_the_data_is_not_the_gateways(gateway, name):
    def write(client, temporary):
        raise OSError("the disk is full")

    tx = gateway.transaction()
    with pytest.raises(OSError, match="the disk is full"):
        tx._create(("prod", name), write)
    tx.rollback()


@pytest.mark.parametrize("namespace", ["größe", "日本", "100%", "a&b"])
def test_a_table_is_created_in_a_namespace_of_any_name(gateway, name, namespace):
    """A catalog's location is a URL, and the name below its root is not."""
    gateway.namespace_client.create_namespace(ln.CreateNamespaceRequest(id=["prod", namespace], mode="exist_ok"))
    with gateway.transaction() as tx:
        tx.create("prod", namespace, name, data=rows(0, 3))
    assert gateway.table("prod", namespace, name).count_rows() == 3
