"""The work of real clients around a batch.

usage: batches.py make TOKEN [URI TABLE]...      makes tables of three rows
       batches.py append TOKEN [URI TABLE]...    publishes a version of each
       batches.py stage TOKEN [URI TABLE]...     stages a version of each; prints the entries
       batches.py look TOKEN [URI TABLE]...      prints a reader's view of each
       batches.py versions TOKEN [URI TABLE]...  prints the versions of each
       batches.py list TOKEN [URI TABLE]...      prints the tables beside each

A TABLE is spelled with `$`.
"""

import json
import sys

import lance
import lance_namespace as ln

from staging import connect, rows, stage


def make(client, id):
    for depth in range(1, len(id)):
        try:
            client.create_namespace(ln.CreateNamespaceRequest(id=id[:depth]))
        except ln.NamespaceAlreadyExistsError:
            pass
    lance.write_dataset(rows(0, 3), namespace_client=client, table_id=id, mode="create")


def append(client, id):
    lance.write_dataset(rows(100, 1), namespace_client=client, table_id=id, mode="append")


def look(client, id):
    dataset = lance.dataset(namespace_client=client, table_id=id)
    return {"version": dataset.version, "rows": dataset.count_rows(), "versions": versions(client, id)}


def versions(client, id):
    return [version.version for version in client.list_table_versions(ln.ListTableVersionsRequest(id=id)).versions]


def tables_beside(client, id):
    return sorted(client.list_tables(ln.ListTablesRequest(id=id[:-1])).tables)


def stage_rows(client, id):
    return stage(client, id, rows(3, 2))


def main():
    action, token, tables = sys.argv[1], sys.argv[2], sys.argv[3:]
    actions = {"make": make, "append": append, "stage": stage_rows, "look": look, "versions": versions, "list": tables_beside}
    headers = {"Authorization": f"Bearer {token}"}
    pairs = zip(tables[::2], tables[1::2])
    print(json.dumps([actions[action](connect(uri, headers), table.split("$")) for uri, table in pairs]))


main()
