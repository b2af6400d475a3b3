"""Real table versions, staged but not published.

A client that writes through `Staging` puts its data and the manifest of the
new version into storage, and hands over what it would have asked the catalog
to create: an entry of a batch-create request.
"""

import time

import lance
import pyarrow as pa
from lance.namespace import RestNamespace
from lance_namespace import LanceNamespace


# How often a write is staged that was built on a version which nobody has decided on yet.
TRIES = 50


class Staging(LanceNamespace):
    """A namespace client that keeps version creations instead of sending them."""

    def __init__(self, client):
        self.client = client
        self.entries = []
        # The latest version when the write began.
        self.latest = None

    def namespace_id(self):
        return self.client.namespace_id()

    def describe_table(self, request):
        return self.client.describe_table(request)

    def list_table_versions(self, request):
        answer = self.client.list_table_versions(request)
        self.latest = max([version.version for version in answer.versions], default=self.latest)
        return answer

    def describe_table_version(self, request):
        return self.client.describe_table_version(request)

    def create_table_version(self, request):
        entry = {key: value for key, value in dict(request).items() if value is not None}
        self.entries.append(entry)
        return {"version": {"version": entry["version"], "manifest_path": entry["manifest_path"]}}


def connect(uri, headers=None):
    """A REST namespace client that sends `headers` with every request."""
    properties = {f"headers.{name}": value for name, value in (headers or {}).items()}
    return RestNamespace(uri=uri, **properties)


def stage(client, table_id, data):
    """Writes `data` as the table's next version, unpublished; its entry.

    A writer looks into storage, too, and may find there what another batch has
    made and nobody has decided on yet. What is built on that is staged again.
    """
    for _ in range(TRIES):
        staging = Staging(client)
        lance.write_dataset(data, namespace_client=staging, table_id=table_id, mode="append")
        (entry,) = staging.entries
        if entry["version"] == staging.latest + 1:
            return entry
        time.sleep(0.1)
    raise TimeoutError(f"a batch on {'.'.join(table_id)} is not decided yet; stage again later")


def rows(first, count):
    """`count` rows whose values follow from `first`."""
    numbers = list(range(first, first + count))
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "name": pa.array([f"row {n}" for n in numbers]),
            "vector": pa.array([[float(n), n / 2, 1.0, 0.0] for n in numbers], pa.list_(pa.float32(), 4)),
        }
    )


def stream(table):
    """`table` as Arrow stream bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()
