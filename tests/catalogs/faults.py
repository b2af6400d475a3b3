"""Real clients around a request that is late, lost or repeated.

Reads orders, each a line of JSON `[token, name, uri, table, arguments…]`, carries
out several at a time, and answers each with a line `answer N {…}`. The answer to a
write is `{"ms": …}` with the result of the client, or with `error`.
A table is spelled with `$`; every row carries the number of its write.

    make URI TABLE              a table with one row of write 0, and the namespaces above it
    append URI TABLE N COUNT    pylance appends
    branch URI TABLE NAME       a branch of the latest version
    append_branch URI TABLE NAME N COUNT
    insert URI TABLE N COUNT    the catalog appends
    stage URI TABLE N COUNT     a version is staged; answers the entry
    look URI TABLE              versions, and the rows of each write, as pylance reads them
    sizes URI TABLE             the sizes of the versions' manifests
    query URI TABLE             the rows of each write, as the catalog reads them
    count URI TABLE             the rows, as the catalog counts them
    rename URI TABLE NEW · register URI TABLE PLACE · declare · deregister · describe · exists · detail
"""

import concurrent.futures
import json
import sys
import threading
import time

import lance
import lance_namespace as ln
import pyarrow as pa

from numbered import counted, numbered, seen
from staging import Staging, connect, stream


def make(client, id):
    for depth in range(1, len(id)):
        try:
            client.create_namespace(ln.CreateNamespaceRequest(id=id[:depth]))
        except ln.NamespaceAlreadyExistsError:
            pass
    return create(client, id, 0, 1)


def create(client, id, number, count):
    made = lance.write_dataset(numbered(number, count), namespace_client=client, table_id=id, mode="create")
    return {"version": made.version}


def append(client, id, number, count):
    made = lance.write_dataset(numbered(number, count), namespace_client=client, table_id=id, mode="append")
    return {"version": made.version}


def branch(client, id, name):
    client.create_table_branch(ln.CreateTableBranchRequest(id=id, name=name))
    return {}


def append_branch(client, id, name, number, count):
    line = lance.dataset(namespace_client=client, table_id=id).checkout_version((name, None))
    return {"version": lance.write_dataset(numbered(number, count), line, mode="append").version}


def insert(client, id, number, count):
    request = ln.InsertIntoTableRequest(id=id, mode="append")
    return {"version": client.insert_into_table(request, stream(numbered(number, count))).version}


def look(client, id):
    return {"versions": versions(client, id), "rows": seen(client, id)}


def versions(client, id):
    return [version.version for version in client.list_table_versions(ln.ListTableVersionsRequest(id=id)).versions]


def sizes(client, id):
    found = client.list_table_versions(ln.ListTableVersionsRequest(id=id)).versions
    return {"sizes": [version.manifest_size for version in found]}


def query(client, id):
    columns = ln.QueryTableRequestColumns(column_names=["number"])
    vector = ln.QueryTableRequestVector()
    file = client.query_table(ln.QueryTableRequest(id=id, columns=columns, vector=vector, k=1000))
    return {"rows": counted(pa.ipc.open_file(file).read_all())}


def count(client, id):
    return {"count": client.count_table_rows(ln.CountTableRowsRequest(id=id)).count}


def rename(client, id, new):
    *namespace, name = new.split("$")
    client.rename_table(ln.RenameTableRequest(id=id, new_table_name=name, new_namespace_id=namespace))
    return {}


def declare(client, id):
    return {"location": client.declare_table(ln.DeclareTableRequest(id=id)).location}


def deregister(client, id):
    return {"location": client.deregister_table(ln.DeregisterTableRequest(id=id)).location}


def register(client, id, location):
    return {"location": client.register_table(ln.RegisterTableRequest(id=id, location=location)).location}


def describe(client, id):
    return {"location": client.describe_table(ln.DescribeTableRequest(id=id)).location}


def exists(client, id):
    try:
        client.table_exists(ln.TableExistsRequest(id=id))
    except ln.TableNotFoundError:
        return {"exists": False}
    return {"exists": True}


def detail(client, id):
    request = ln.DescribeTableRequest(id=id, load_detailed_metadata=True)
    return {"version": client.describe_table(request).version}


def stage_rows(client, id, number, count):
    # Builds on the latest version in storage, as clients do that know nothing of batches.
    staging = Staging(client)
    lance.write_dataset(numbered(number, count), namespace_client=staging, table_id=id, mode="append")
    (entry,) = staging.entries
    return {"entry": entry}


def carry_out(token, name, uri, table, *arguments):
    action = {"stage": stage_rows}.get(name) or globals()[name]
    begun = time.monotonic()
    try:
        answer = action(connect(uri, {"Authorization": f"Bearer {token}"}), table.split("$"), *arguments)
    except Exception as error:  # noqa: BLE001: the error is the answer
        answer = {"error": f"{type(error).__name__}: {error}"}
    return {"ms": round((time.monotonic() - begun) * 1000), **answer}


def main():
    printing = threading.Lock()

    def answer(number, order):
        answered = json.dumps(carry_out(*order))
        with printing:
            print("answer", number, answered, flush=True)

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        for number, line in enumerate(sys.stdin):
            pool.submit(answer, number, json.loads(line))


main()
