"""Two real catalogs and a gateway in front of them, for all tests of the package.

Needs the program: NSGATE_BIN, or an installed package.
"""

import itertools
import tempfile
from pathlib import Path

import lance
import lance_namespace as ln
import pyarrow as pa
import pytest

import nsgate
from nsgate.demo.world import World

NAMES = itertools.count()


def rows(first, count):
    """`count` rows whose values follow from `first`."""
    numbers = range(first, first + count)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "value": pa.array([float(number) for number in numbers]),
            "vector": pa.array([[float(number), 0.0, 1.0, 2.0] for number in numbers], pa.list_(pa.float32(), 4)),
        }
    )


def make(gateway, table, data=None):
    """A table with 300 rows."""
    data = rows(0, 300) if data is None else data
    lance.write_dataset(data, namespace_client=gateway.namespace_client, table_id=list(table), mode="create")
    return table


@pytest.fixture(scope="session")
def world():
    with tempfile.TemporaryDirectory() as folder, World(Path(folder)) as world:
        gateway = nsgate.connect(world.uri, token=world.token)
        for namespace in (["prod"], ["research", "lake", "daily"]):
            gateway.namespace_client.create_namespace(ln.CreateNamespaceRequest(id=namespace))
        yield world


@pytest.fixture
def gateway(world):
    return nsgate.connect(world.uri, token=lambda: world.token)


@pytest.fixture
def tables(gateway):
    """One table in each catalog."""
    number = next(NAMES)
    return make(gateway, ("prod", f"a{number}")), make(gateway, ("research", "lake", "daily", f"b{number}"))
