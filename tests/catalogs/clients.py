"""Runs a fixed list of steps with each real client against one address.

usage: clients.py URI TOKEN NAME...

NAME... is the namespace to work below (none: the root). Prints a JSON list of
[step, result]; an exception is a result too. The same steps against the
catalog itself and against the gateway in front of it must print the same.
"""

import json
import re
import sys

import lance
import lance_namespace as ln
import lancedb
import pyarrow as pa
from lance_namespace_urllib3_client.models import QueryTableRequestVector

from staging import connect, rows, stream

VOLATILE_KEYS = {"context", "e_tag", "manifest_size", "timestamp_millis", "createdAt", "create_at", "created_at"}
VOLATILE_TEXT = [
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "UUID"),
    (re.compile(r"[^\s\"']*/[0-9a-f]{8}_([^\s\"']*?)(?=/|$|[\s\"'])"), r"ROOT/HASH_\1"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.\d]*"), "TIME"),
]


def steady(value, below):
    """Returns `value` as JSON, without the parts that differ from run to run or depend on the mount."""
    if hasattr(value, "model_dump"):
        value = value.model_dump(exclude_none=True)
    if isinstance(value, pa.Table):
        value = value.to_pylist()
    if isinstance(value, dict):
        return {str(key): steady(item, below) for key, item in value.items() if key not in VOLATILE_KEYS}
    if isinstance(value, (list, tuple)):
        names = list(value)
        if below and names[: len(below)] == below:
            names = names[len(below) :]
        return [steady(item, below) for item in names]
    if value is None or isinstance(value, (bool, int, float)):
        return value
    text = str(value)
    for pattern, replacement in VOLATILE_TEXT:
        text = pattern.sub(replacement, text)
    return text.replace("$".join(below + [""]), "") if below else text


class Diary:
    """Runs steps and records their results."""

    def __init__(self, below):
        self.below = below
        self.pages = []

    def step(self, name, action):
        try:
            outcome = action()
            self.pages.append([name, steady(outcome, self.below)])
        except Exception as error:  # noqa: BLE001: the error is the result
            raised = {"raised": type(error).__name__, "code": getattr(error, "code", None), "message": str(error)}
            self.pages.append([name, steady(raised, self.below)])


def namespace_client(diary, uri, headers, below):
    """Runs the namespace interface of pylance, as lance-namespace defines it."""
    client = connect(uri, headers)
    home = below + ["plain"]
    table = home + ["books"]
    step = diary.step

    step("create namespace", lambda: client.create_namespace(ln.CreateNamespaceRequest(id=home, properties={"owner": "me"})))
    step("create it again", lambda: client.create_namespace(ln.CreateNamespaceRequest(id=home)))
    step("describe namespace", lambda: client.describe_namespace(ln.DescribeNamespaceRequest(id=home)))
    step("describe missing namespace", lambda: client.describe_namespace(ln.DescribeNamespaceRequest(id=below + ["none"])))
    step("namespace exists", lambda: client.namespace_exists(ln.NamespaceExistsRequest(id=home)))
    step("missing namespace exists", lambda: client.namespace_exists(ln.NamespaceExistsRequest(id=below + ["none"])))
    step("list namespaces", lambda: client.list_namespaces(ln.ListNamespacesRequest(id=below)))
    step("create table", lambda: client.create_table(ln.CreateTableRequest(id=table), stream(rows(0, 8))))
    step("create table again", lambda: client.create_table(ln.CreateTableRequest(id=table), stream(rows(0, 8))))
    step("create table below no namespace", lambda: client.create_table(ln.CreateTableRequest(id=below + ["none", "t"]), stream(rows(0, 1))))
    step("list tables", lambda: client.list_tables(ln.ListTablesRequest(id=home)))
    step("table exists", lambda: client.table_exists(ln.TableExistsRequest(id=table)))
    step("missing table exists", lambda: client.table_exists(ln.TableExistsRequest(id=home + ["none"])))
    step("describe table", lambda: client.describe_table(ln.DescribeTableRequest(id=table, with_table_uri=True)))
    step("describe table in detail", lambda: client.describe_table(ln.DescribeTableRequest(id=table, load_detailed_metadata=True)))
    step("describe missing table", lambda: client.describe_table(ln.DescribeTableRequest(id=home + ["none"])))
    step("count", lambda: client.count_table_rows(ln.CountTableRowsRequest(id=table)))
    step("count some", lambda: client.count_table_rows(ln.CountTableRowsRequest(id=table, predicate="id > 3")))
    step("insert", lambda: client.insert_into_table(ln.InsertIntoTableRequest(id=table, mode="append"), stream(rows(8, 4))))
    step(
        "merge insert",
        lambda: client.merge_insert_into_table(
            ln.MergeInsertIntoTableRequest(id=table, on=["id"], when_matched_update_all=True, when_not_matched_insert_all=True),
            stream(rows(10, 4)),
        ),
    )
    step("update", lambda: client.update_table(ln.UpdateTableRequest(id=table, predicate="id = 1", updates=[["name", "'first'"]])))
    step("update bad column", lambda: client.update_table(ln.UpdateTableRequest(id=table, updates=[["none", "1"]])))
    step("delete", lambda: client.delete_from_table(ln.DeleteFromTableRequest(id=table, predicate="id = 2")))
    query = ln.QueryTableRequest(id=table, k=20, vector=QueryTableRequestVector(single_vector=[1.0, 0.5, 1.0, 0.0]))
    step("query", lambda: pa.ipc.open_file(client.query_table(query).data).read_all())
    step("versions", lambda: client.list_table_versions(ln.ListTableVersionsRequest(id=table)))
    step("latest version", lambda: client.list_table_versions(ln.ListTableVersionsRequest(id=table, descending=True, limit=1)))
    step("describe version", lambda: client.describe_table_version({"id": table, "version": 2}))
    step("describe missing version", lambda: client.describe_table_version({"id": table, "version": 99}))
    step("create tag", lambda: client.create_table_tag(ln.CreateTableTagRequest(id=table, tag="blue", version=2)))
    step("create tag again", lambda: client.create_table_tag(ln.CreateTableTagRequest(id=table, tag="blue", version=2)))
    step("tag version", lambda: client.get_table_tag_version(ln.GetTableTagVersionRequest(id=table, tag="blue")))
    step("missing tag version", lambda: client.get_table_tag_version(ln.GetTableTagVersionRequest(id=table, tag="red")))
    step("update tag", lambda: client.update_table_tag(ln.UpdateTableTagRequest(id=table, tag="blue", version=3)))
    step("tags", lambda: client.list_table_tags(ln.ListTableTagsRequest(id=table)))
    step("delete tag", lambda: client.delete_table_tag(ln.DeleteTableTagRequest(id=table, tag="blue")))
    step("create branch", lambda: client.create_table_branch(ln.CreateTableBranchRequest(id=table, name="draft")))
    step("branches", lambda: client.list_table_branches(ln.ListTableBranchesRequest(id=table)))
    step("delete branch", lambda: client.delete_table_branch(ln.DeleteTableBranchRequest(id=table, name="draft")))
    step("stats", lambda: client.get_table_stats(ln.GetTableStatsRequest(id=table)))
    step("create index", lambda: client.create_table_scalar_index(ln.CreateTableIndexRequest(id=table, column="id", index_type="BTREE", name="by_id")))
    step("indices", lambda: client.list_table_indices(ln.ListTableIndicesRequest(id=table)))
    step("index stats", lambda: client.describe_table_index_stats(ln.DescribeTableIndexStatsRequest(id=table, index_name="by_id")))
    step("restore", lambda: client.restore_table(ln.RestoreTableRequest(id=table, version=1)))
    step("count restored", lambda: client.count_table_rows(ln.CountTableRowsRequest(id=table)))
    step("drop full namespace", lambda: client.drop_namespace(ln.DropNamespaceRequest(id=home)))
    step("drop table", lambda: client.drop_table(ln.DropTableRequest(id=table)))
    step("drop table again", lambda: client.drop_table(ln.DropTableRequest(id=table)))
    step("drop namespace", lambda: client.drop_namespace(ln.DropNamespaceRequest(id=home)))
    step("drop namespace again", lambda: client.drop_namespace(ln.DropNamespaceRequest(id=home)))


def dataset(diary, uri, headers, below):
    """Runs pylance's own reader and writer, which commit through the namespace."""
    client = connect(uri, headers)
    home = below + ["lake"]
    table = home + ["events"]
    step = diary.step

    def opened(**options):
        return lance.dataset(namespace_client=client, table_id=table, **options)

    def written(data, mode):
        return lance.write_dataset(data, namespace_client=client, table_id=table, mode=mode).version

    step("create namespace", lambda: client.create_namespace(ln.CreateNamespaceRequest(id=home)))
    step("open missing", lambda: opened().version)
    step("write", lambda: written(rows(0, 5), "create"))
    step("write again", lambda: written(rows(0, 5), "create"))
    step("append", lambda: written(rows(5, 5), "append"))
    step("open", lambda: (opened().version, opened().count_rows()))
    step("read", lambda: opened().to_table(filter="id < 3"))
    step("open old", lambda: (opened(version=1).version, opened(version=1).count_rows()))
    step("open missing version", lambda: opened(version=77).version)
    step("update", lambda: opened().update({"name": "'new'"}, where="id = 4"))
    step("delete", lambda: opened().delete("id = 0"))
    step(
        "merge insert",
        lambda: opened().merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows(8, 4)),
    )
    step("search", lambda: opened().to_table(nearest={"column": "vector", "q": [8.0, 4.0, 1.0, 0.0], "k": 2}))
    step("versions", lambda: [version["version"] for version in opened().versions()])
    step("tag", lambda: opened().tags.create("first", 1))
    step("tags", lambda: opened().tags.list())
    step("checkout tag", lambda: opened(version="first").count_rows())
    step("overwrite", lambda: written(rows(100, 3), "overwrite"))
    step("read overwritten", lambda: opened().to_table())
    step("drop", lambda: client.drop_table(ln.DropTableRequest(id=table)))
    step("drop namespace", lambda: client.drop_namespace(ln.DropNamespaceRequest(id=home)))


def database(diary, uri, headers, below):
    """Runs lancedb, connected to the namespace."""
    properties = {"uri": uri, **{f"headers.{name}": value for name, value in headers.items()}}
    db = lancedb.connect_namespace("rest", properties)
    home = below + ["shop"]
    step = diary.step

    def opened():
        return db.open_table("orders", namespace_path=home)

    step("create namespace", lambda: db.create_namespace(home))
    step("create namespace again", lambda: db.create_namespace(home))
    step("list namespaces", lambda: db.list_namespaces(below))
    step("create table", lambda: db.create_table("orders", rows(0, 6), namespace_path=home).count_rows())
    step("create table again", lambda: db.create_table("orders", rows(0, 6), namespace_path=home).count_rows())
    step("create table over it", lambda: db.create_table("orders", rows(0, 7), mode="overwrite", namespace_path=home).count_rows())
    step("table names", lambda: list(db.table_names(namespace_path=home)))
    step("open table", lambda: opened().count_rows())
    step("open missing table", lambda: db.open_table("none", namespace_path=home).count_rows())
    step("schema", lambda: str(opened().schema))
    step("add", lambda: (opened().add(rows(7, 3)), opened().count_rows())[1])
    step("update", lambda: (opened().update(where="id = 1", values={"name": "changed"}), opened().search().where("id = 1").to_arrow())[1])
    step("delete", lambda: (opened().delete("id = 2"), opened().count_rows())[1])
    step("search", lambda: opened().search([3.0, 1.5, 1.0, 0.0]).limit(3).to_arrow())
    step(
        "merge insert",
        lambda: (
            opened().merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows(8, 4)),
            opened().count_rows(),
        )[1],
    )
    step("version", lambda: opened().version)
    step("versions", lambda: [version["version"] for version in opened().list_versions()])
    step("drop table", lambda: db.drop_table("orders", namespace_path=home))
    step("drop table again", lambda: db.drop_table("orders", namespace_path=home))
    step("drop namespace", lambda: db.drop_namespace(home))
    step("drop namespace again", lambda: db.drop_namespace(home))


def main():
    uri, token, below = sys.argv[1], sys.argv[2], sys.argv[3:]
    headers = {"Authorization": f"Bearer {token}"}
    pages = []
    for work in (namespace_client, dataset, database):
        diary = Diary(below)
        work(diary, uri, headers, below)
        pages += [[f"{work.__name__}: {name}", result] for name, result in diary.pages]
    print(json.dumps(pages, indent=1))


if __name__ == "__main__":
    main()
