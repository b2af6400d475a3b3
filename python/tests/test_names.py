"""Names that another table has got meanwhile: by renames, or because a table was dropped and created anew."""

import urllib.parse
from types import SimpleNamespace

import lance_namespace as ln
import pytest
from conftest import make, rows

import nsgate
from nsgate.gateway import _is_anothers


def rename(gateway, old, new):
    to = {"new_namespace_id": list(new[:-1]), "new_table_name": new[-1]}
    gateway.namespace_client.rename_table(ln.RenameTableRequest(id=list(old), **to))


def exchange(gateway, one, other):
    between = (*one[:-1], one[-1] + "_between")
    rename(gateway, one, between)
    rename(gateway, other, one)
    rename(gateway, between, other)


def ids(gateway, table):
    return gateway.table(*table).to_table(columns=["id"])["id"].to_pylist()


CHANGES = {
    "pylance": lambda tx, table: tx.table(*table).insert(rows(900, 1)),
    "lancedb": lambda tx, table: tx.lancedb.open_table(table[-1], namespace_path=list(table[:-1])).delete("id >= 500"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_goes_to_the_table_that_has_the_name_at_the_commit(gateway, tables, change):
    """Both have one version, so that only their data tell them apart."""
    table, beside = tables
    other = make(gateway, (*table[:-1], table[-1] + "_other"), rows(500, 2))
    ran = []

    def both(tx):
        ran.append(tx)
        CHANGES[change](tx, table)
        tx.table(*beside).insert(rows(900, 1))
        if len(ran) == 1:
            exchange(gateway, table, other)

    gateway.run(both)
    assert len(ran) == 2, "it has begun again"
    assert ids(gateway, table) == ([500, 501, 900] if change == "pylance" else [])
    assert ids(gateway, other) == list(range(300)), "the table that the first time was made for"
    assert gateway.versions(beside) == [2]


def test_a_change_of_one_table_goes_to_no_other_one(gateway, tables):
    table = tables[0]
    other = make(gateway, (*table[:-1], table[-1] + "_other"), rows(500, 2))
    tx = gateway.transaction()
    tx.table(*table).insert(rows(900, 1))
    exchange(gateway, table, other)
    with pytest.raises(nsgate.Conflict, match="dropped, renamed or created anew"):
        tx.commit()
    assert ids(gateway, table) == [500, 501]


def test_a_table_that_has_no_name_any_more_is_a_conflict(gateway, tables):
    tx = gateway.transaction()
    for table in tables:
        tx.table(*table).insert(rows(900, 1))
    rename(gateway, tables[0], (*tables[0][:-1], tables[0][-1] + "_away"))
    with pytest.raises(nsgate.Conflict, match="dropped, renamed or created anew"):
        tx.commit()
    assert gateway.versions(tables[1]) == [1]


def renamed(gateway, table):
    rename(gateway, table, (*table[:-1], table[-1] + "_old"))


def dropped(gateway, table):
    gateway.namespace_client.drop_table(ln.DropTableRequest(id=list(table)))


@pytest.mark.parametrize("away", [renamed, dropped])
def test_what_a_forgotten_commit_made_may_be_elsewhere(world, relay, gateway, tables, away):
    """A table of its name without its version is another one, and says nothing."""
    table = tables[0]
    gateway.table(*table).insert(rows(400, 1))
    relay.lose = ["after"] * 100
    tx = nsgate.connect(relay.address, token=world.token).transaction(timeout=1)
    tx.table(*table).insert(rows(900, 1))
    with pytest.raises(nsgate.Unknown) as raised:
        tx.commit()
    away(gateway, table)
    make(gateway, table)
    relay.lose = ["forgotten"] * 100
    with pytest.raises(nsgate.Unknown):
        raised.value.wait(timeout=5)
    # So says a commit that is repeated by itself.
    with pytest.raises(nsgate.Unknown, match="Gone, cleaned up or renamed for example: prod"):
        raised.value._pending.settle(5)


def test_a_commit_that_is_known_to_be_refused_is_never_made(world, relay, gateway, tables):
    """What was in its way may go before a copy of its request arrives."""
    new = (*tables[0][:-1], tables[0][-1] + "_new")
    relay.lose = ["before"] * 100
    tx = nsgate.connect(relay.address, token=world.token).transaction(timeout=0.5)
    tx.create(*new, data=rows(0, 1))
    tx.table(*tables[1]).insert(rows(900, 1))
    with pytest.raises(nsgate.Unknown) as raised:
        tx.commit()
    relay.lose = []
    make(gateway, new)
    with pytest.raises(nsgate.Conflict, match="already exists"):
        raised.value.wait(timeout=20)
    gateway.namespace_client.drop_table(ln.DropTableRequest(id=list(new)))
    pending = raised.value._pending
    status, answer, _ = gateway._http.post(
        pending.path, pending.body, headers={"Idempotency-Key": pending.key}, timeout=30
    )
    assert status in (400, 404), answer
    assert gateway.versions(tables[1]) == [1]


def test_a_new_table_that_was_renamed_keeps_its_data(world, relay, gateway, tables):
    """Its commit is forgotten, and its name is another table's: what looks like a conflict must delete nothing."""
    new = (*tables[0][:-1], tables[0][-1] + "_new")
    relay.lose = ["after", "forgotten"]
    tx = nsgate.connect(relay.address, token=world.token).transaction(timeout=20)
    created = tx.create(*new, data=rows(0, 7))
    temporary = tx._created[new].temporary
    sent = nsgate.connect(relay.address, token=world.token)._http.post

    def meanwhile(*arguments, **options):
        try:
            return sent(*arguments, **options)
        finally:
            if len(relay.batches) == 1:
                rename(gateway, new, (*new[:-1], new[-1] + "_moved"))
                make(gateway, new)
                # The removal of its first name was not done yet.
                request = ln.RegisterTableRequest(id=list(temporary), location=location(created))
                gateway.namespace_client.register_table(request)

    tx._gateway._http.post = meanwhile
    with pytest.raises(nsgate.Conflict, match="already exists"):
        tx.commit()
    assert gateway.table(*new[:-1], new[-1] + "_moved").count_rows() == 7


def location(dataset):
    """Where a table's data are, below the root of its catalog."""
    return dataset.uri.rstrip("/").rpartition("/")[2]


@pytest.mark.parametrize("folder", ["a%41", "a%20b", "plain"])
def test_a_snapshot_of_a_table_whose_folder_looks_encoded(gateway, tables, folder):
    version = {"version": 1, "manifest_path": f"store/{folder}/_versions/1.manifest"}
    for uri in (f"file:///store/{folder}", f"file:///store/{urllib.parse.quote(folder)}"):
        assert not _is_anothers(version, SimpleNamespace(uri=uri))
    assert _is_anothers(version, SimpleNamespace(uri="file:///store/other"))


def test_a_snapshot_begins_again_if_a_version_is_not_there_any_more(gateway, tables, monkeypatch):
    """The other table has fewer versions."""
    table, beside = tables
    other = make(gateway, (*table[:-1], table[-1] + "_other"), rows(500, 2))
    gateway.table(*table).insert(rows(900, 1))
    latest = nsgate.Gateway._latest
    asked = []

    def then_exchanged(self, tables):
        asked.append(latest(self, tables))
        if len(asked) == 1:
            exchange(gateway, table, other)
        return asked[-1]

    monkeypatch.setattr(nsgate.Gateway, "_latest", then_exchanged)
    assert [dataset.version for dataset in gateway.snapshot(table, beside)] == [1, 1]


def test_a_snapshot_begins_again_if_a_name_moves(gateway, tables, monkeypatch):
    table, beside = tables
    other = make(gateway, (*table[:-1], table[-1] + "_other"), rows(500, 2))
    latest = nsgate.Gateway._latest
    asked = []

    def then_exchanged(self, tables):
        found = latest(self, tables)
        asked.append(found)
        if len(asked) == 1:
            gateway.table(*beside).insert(rows(900, 1))
            exchange(gateway, table, other)
        return found

    monkeypatch.setattr(nsgate.Gateway, "_latest", then_exchanged)
    one, two = gateway.snapshot(table, beside)
    assert len(asked) == 2
    assert (one.count_rows(), two.version) == (2, 2), "after the exchange, and so after the insert"
