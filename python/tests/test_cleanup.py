"""Tables whose old versions are deleted while a commit is under way: by Lance itself at each commit, or by a job.

A version that is not decided yet is in storage already. Lance takes it for the latest one.
"""

import json
import os
import threading
import time
import urllib.request
from datetime import timedelta

import lance
import lance_namespace as ln
import pytest
from conftest import NAMES, Relay, make, rows

import nsgate
from nsgate.demo.world import Catalog, World

CLEANUP = {"lance.auto_cleanup.interval": "1", "lance.auto_cleanup.older_than": "0s"}


class Relayed(Catalog):
    """A catalog behind a relay."""

    relay = None

    @property
    def uri(self):
        return self.relay.address if self.relay else super().uri

    def start(self):
        super().start()
        self.relay = Relay(f"http://127.0.0.1:{self.port}")


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    """A gateway whose catalogs keep it waiting, or are busy."""
    world = World(tmp_path_factory.mktemp("slow"))
    world.warehouse = Relayed("warehouse", world.folder)
    world.lake = Relayed("lake", world.folder)
    with world:
        client = nsgate.connect(world.uri, token=world.token).namespace_client
        for namespace in (["prod"], ["research", "lake", "daily"]):
            client.create_namespace(ln.CreateNamespaceRequest(id=namespace))
        yield world


@pytest.fixture
def gateway(slow):
    yield nsgate.connect(slow.uri, token=slow.token)
    for catalog in slow.catalogs:
        catalog.relay.hangs, catalog.relay.busy = None, 0


@pytest.fixture
def tables(gateway):
    number = next(NAMES)
    return make(gateway, ("prod", f"c{number}")), make(gateway, ("research", "lake", "daily", f"d{number}"))


def stored(gateway, table):
    """The number of versions of a table in storage."""
    folder = gateway.table(*table).uri.replace("file://", "") + "/_versions"
    return len([name for name in os.listdir(folder) if name.endswith(".manifest")])


class Prepared:
    """A commit that waits for the lake, while its version of the other table is in storage."""

    def __init__(self, slow, gateway, tables, **options):
        self.lake = slow.lake.relay
        self.lake.hangs, self.lake.busy_at = "/version/create", "/version/create"
        self.error = None
        self.tx = gateway.transaction(**options)
        for table in tables:
            self.tx.table(*table).insert(rows(300, 1))
        before = stored(gateway, tables[0])
        self.thread = threading.Thread(target=self.commit)
        self.thread.start()
        deadline = time.monotonic() + 30
        while stored(gateway, tables[0]) == before:
            assert time.monotonic() < deadline
            time.sleep(0.005)

    def commit(self):
        try:
            self.tx.commit()
        except Exception as error:
            self.error = error

    def go_on(self, busy):
        """Let the lake answer, with 429 so many times."""
        self.lake.busy = busy
        self.lake.hangs = None
        self.thread.join(60)
        assert not self.thread.is_alive()


def test_a_table_that_cleans_up_outlives_a_commit_that_is_refused_elsewhere(slow, gateway, tables):
    gateway.table(*tables[0]).update_config(CLEANUP)
    slow.lake.relay.busy, slow.lake.relay.busy_at = 1, "/version/create"
    # The version that is undone stays in storage until the change is about to be staged again for the second time.
    slow.warehouse.relay.hangs = "/version/delete"
    rebasing = []

    def progress(step):
        if step.step == "rebasing":
            rebasing.append(step)
            if len(rebasing) > 1:
                slow.warehouse.relay.hangs = None

    try:
        with gateway.transaction(progress=progress) as tx:
            for table in tables:
                tx.table(*table).insert(rows(300, 1))
    finally:
        slow.warehouse.relay.hangs = None
        for table in tables:
            assert gateway.table(*table).to_table().num_rows >= 300
    assert len(rebasing) > 1
    assert [gateway.table(*table).count_rows() for table in tables] == [301, 301]


@pytest.mark.parametrize("since", ["before", "after"])
@pytest.mark.parametrize("library", ["pylance", "lancedb"])
def test_nothing_is_staged_upon_an_undecided_version_of_a_table_that_cleans_up(slow, gateway, tables, since, library):
    """Another writer may have turned it on after the transaction has opened the table."""
    if since == "before":
        gateway.table(*tables[0]).update_config(CLEANUP)
    tx = gateway.transaction()
    *namespace, name = tables[0]
    table = tx.table(*tables[0]) if library == "pylance" else tx.lancedb.open_table(name, namespace_path=namespace)
    if since == "after":
        gateway.table(*tables[0]).update_config(CLEANUP)
    prepared = Prepared(slow, gateway, tables)
    with pytest.raises(nsgate.Unavailable, match="not decided yet"):
        table.insert(rows(400, 1)) if library == "pylance" else table.add(rows(400, 1))
    tx.rollback()
    assert gateway.table(*tables[0]).to_table().num_rows == 300
    prepared.go_on(busy=1)
    assert prepared.error is None
    assert [gateway.table(*table).to_table().num_rows for table in tables] == [301, 301]


def test_a_table_that_does_not_clean_up_is_changed_upon_an_undecided_version(slow, gateway, tables):
    prepared = Prepared(slow, gateway, tables)
    tx = gateway.transaction()
    tx.table(*tables[0]).insert(rows(400, 1))
    prepared.go_on(busy=0)
    tx.commit()
    assert gateway.table(*tables[0]).to_table().num_rows == 302


def test_a_job_that_cleans_up_storage_while_a_commit_is_prepared_does_not_cost_the_table(slow, gateway, tables):
    folder = gateway.table(*tables[0]).uri
    prepared = Prepared(slow, gateway, tables, rebase=False)
    job = lance.dataset(folder)
    assert job.version == 2
    assert job.cleanup_old_versions(older_than=timedelta(0)).old_versions == 1
    prepared.go_on(busy=1)
    assert isinstance(prepared.error, nsgate.Unavailable)
    deadline = time.monotonic() + 30
    while not (hazards := [it for it in batches(slow) if it["state"] == "hazard"]):
        assert time.monotonic() < deadline, batches(slow)
        time.sleep(0.02)
    assert "no other version any more" in hazards[0]["entries"][0]["hazard"]
    assert lance.dataset(folder).to_table().num_rows == 301, "all that is left"
    # An operator keeps it.
    resolve = {"decision": "commit", "who": "ada", "why": "its older versions are gone"}
    batches(slow, f"/{hazards[0]['id']}/resolve", resolve)
    assert gateway.table(*tables[0]).to_table().num_rows == 301
    assert gateway.table(*tables[1]).to_table().num_rows == 300


def batches(slow, path="", body=None):
    """The unfinished batches, as an operator sees them."""
    headers = {"Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{slow.admin_uri}/batches{path}", data, headers)) as answer:
        return json.load(answer).get("batches")
