"""The fixed corpus of the differential run.

`OPERATIONS` has every operation of the contract with a valid body. `at_the_door`
sends each of them in all the ways that can go wrong. `story` uses each as it is
meant, in an order in which one builds on another.
"""

import json
from urllib.parse import quote, urlencode

from staging import rows, stream

ARROW = "application/vnd.apache.arrow.stream"
JSON = "application/json"

# operation: (method, path, body). `{}` stands for the identifier. A body that is a
# dict gets the identifier as its `id`, a text is sent as it is, None is no body, and
# bytes are Arrow.
OPERATIONS = {
    "create_namespace": ("POST", "/v1/namespace/{}/create", {"mode": "Create", "properties": {"owner": "me"}}),
    "list_namespaces": ("GET", "/v1/namespace/{}/list", None),
    "describe_namespace": ("POST", "/v1/namespace/{}/describe", {}),
    "drop_namespace": ("POST", "/v1/namespace/{}/drop", {"mode": "Fail"}),
    "namespace_exists": ("POST", "/v1/namespace/{}/exists", {}),
    "list_tables": ("GET", "/v1/namespace/{}/table/list", None),
    "list_all_tables": ("GET", "/v1/table", None),
    "register_table": ("POST", "/v1/table/{}/register", {"location": "elsewhere.lance"}),
    "describe_table": ("POST", "/v1/table/{}/describe", {"with_table_uri": True}),
    "table_exists": ("POST", "/v1/table/{}/exists", {}),
    "drop_table": ("POST", "/v1/table/{}/drop", None),
    "deregister_table": ("POST", "/v1/table/{}/deregister", {}),
    "restore_table": ("POST", "/v1/table/{}/restore", {"version": 1}),
    "rename_table": ("POST", "/v1/table/{}/rename", {"new_table_name": "renamed"}),
    "update_table_schema_metadata": ("POST", "/v1/table/{}/schema_metadata/update", '{"id": "a key"}'),
    "list_table_versions": ("POST", "/v1/table/{}/version/list", None),
    "create_table_version": ("POST", "/v1/table/{}/version/create", {"version": 2, "manifest_path": "t/_versions/2.x"}),
    "describe_table_version": ("POST", "/v1/table/{}/version/describe", {"version": 1}),
    "batch_delete_table_versions": (
        "POST",
        "/v1/table/{}/version/delete",
        {"ranges": [{"start_version": 1, "end_version": 2}]},
    ),
    "batch_create_table_versions": (
        "POST",
        "/v1/table/version/batch-create",
        {"entries": [{"id": ["absent", "thing"], "version": 2, "manifest_path": "m"}]},
    ),
    "batch_commit_tables": (
        "POST",
        "/v1/table/batch-commit",
        {"operations": [{"deregister_table": {"id": ["absent", "thing"]}}]},
    ),
    "alter_table_alter_columns": ("POST", "/v1/table/{}/alter_columns", {"alterations": [{"path": "name", "rename": "title"}]}),
    "update_field_metadata": ("POST", "/v1/table/{}/update_field_metadata", {"updates": [{"path": "id", "metadata": {"a": "b"}}]}),
    "alter_table_drop_columns": ("POST", "/v1/table/{}/drop_columns", {"columns": ["double"]}),
    "get_table_stats": ("POST", "/v1/table/{}/stats", {}),
    "insert_into_table": ("POST", "/v1/table/{}/insert?mode=append", stream(rows(20, 3))),
    "merge_insert_into_table": (
        "POST",
        "/v1/table/{}/merge_insert?on=id&when_matched_update_all=true&when_not_matched_insert_all=true",
        stream(rows(22, 3)),
    ),
    "update_table": ("POST", "/v1/table/{}/update", {"predicate": "id = 1", "updates": [["name", "'changed'"]]}),
    "delete_from_table": ("POST", "/v1/table/{}/delete", {"predicate": "id = 2"}),
    "query_table": (
        "POST",
        "/v1/table/{}/query",
        {"k": 3, "vector": {"single_vector": [1.0, 0.5, 1.0, 0.0]}, "vector_column": "vector"},
    ),
    "count_table_rows": ("POST", "/v1/table/{}/count_rows", {}),
    "create_table": ("POST", "/v1/table/{}/create", stream(rows(0, 9))),
    "explain_table_query_plan": ("POST", "/v1/table/{}/explain_plan", {"query": {"k": 3, "filter": "id > 1", "vector": {}}}),
    "analyze_table_query_plan": ("POST", "/v1/table/{}/analyze_plan", {"k": 3, "filter": "id > 1", "vector": {}}),
    "alter_table_add_columns": ("POST", "/v1/table/{}/add_columns", {"new_columns": [{"name": "double", "expression": "id * 2"}]}),
    "alter_table_backfill_columns": ("POST", "/v1/table/{}/backfill_column", {"column": "name"}),
    "refresh_materialized_view": ("POST", "/v1/materialized_view/{}/refresh", {"src_version": 1}),
    "create_materialized_view": (
        "POST",
        "/v1/materialized_view/{}/create",
        {"kind": "query", "source_query": "q", "output_schema": "s"},
    ),
    "create_table_index": (
        "POST",
        "/v1/table/{}/create_index",
        {"column": "vector", "index_type": "IVF_FLAT", "name": "by_vector", "distance_type": "l2", "num_partitions": 1},
    ),
    "create_table_scalar_index": (
        "POST",
        "/v1/table/{}/create_scalar_index",
        {"column": "id", "index_type": "BTREE", "name": "by_id"},
    ),
    "list_table_indices": ("POST", "/v1/table/{}/index/list", {}),
    "describe_table_index_stats": ("POST", "/v1/table/{}/index/by_id/stats", {}),
    "drop_table_index": ("POST", "/v1/table/{}/index/by_id/drop", None),
    "list_table_tags": ("POST", "/v1/table/{}/tags/list", None),
    "get_table_tag_version": ("POST", "/v1/table/{}/tags/version", {"tag": "blue"}),
    "declare_table": ("POST", "/v1/table/{}/declare", {"vend_credentials": False, "properties": {"a": "b"}}),
    "create_table_tag": ("POST", "/v1/table/{}/tags/create", {"tag": "blue", "version": 1}),
    "delete_table_tag": ("POST", "/v1/table/{}/tags/delete", {"tag": "blue"}),
    "update_table_tag": ("POST", "/v1/table/{}/tags/update", {"tag": "blue", "version": 2}),
    "list_table_branches": ("POST", "/v1/table/{}/branches/list", None),
    "create_table_branch": ("POST", "/v1/table/{}/branches/create", {"name": "draft"}),
    "delete_table_branch": ("POST", "/v1/table/{}/branches/delete", {"name": "draft"}),
    "describe_transaction": ("POST", "/v1/transaction/{}/describe", {}),
    "alter_transaction": (
        "POST",
        "/v1/transaction/{}/alter",
        {"actions": [{"setStatusAction": {"status": "Canceled"}}]},
    ),
}


class Case:
    """One request: an operation on an identifier, as in `OPERATIONS` except for `changed`."""

    def __init__(self, operation, name, id, **changed):
        self.operation, self.name, self.id = operation, name, id
        self.changed = changed

    def request(self, below):
        """Returns (method, path and query, content type, body), for a catalog mounted at `below`."""
        said = self.changed
        method, path, body = OPERATIONS[self.operation]
        method = said.get("method", method)
        delimiter = said.get("delimiter", "$")
        path = path.replace("{}", spelled(below + self.id, delimiter))
        query = said.get("query", {})
        if query is not None:
            path += ("&" if "?" in path else "?") + urlencode({"delimiter": delimiter, **query})
        body = said.get("body", body)
        if callable(body):
            body = body()
        content_type = said.get("content_type", ARROW if isinstance(body, bytes) else JSON)
        if isinstance(body, dict):
            body = json.dumps(identified(body, self.operation, below, self.id)).encode()
        elif isinstance(body, str):
            body = body.encode()
        return method, path, content_type if body is not None else None, body


def identified(body, operation, below, id):
    """Returns `body` with its identifiers, each below the mount."""
    if operation == "batch_create_table_versions":
        entries = [{**entry, "id": below + entry["id"]} if "id" in entry else entry for entry in body.get("entries", [])]
        return {**body, "entries": entries} if "entries" in body else body
    if operation == "batch_commit_tables":
        operations = [
            {kind: {**request, "id": below + request["id"]} for kind, request in entry.items()}
            for entry in body["operations"]
        ]
        return {**body, "operations": operations}
    if "new_namespace_id" in body:
        body = {**body, "new_namespace_id": below + body["new_namespace_id"]}
    if body.get("id", ()) is None:
        return {key: value for key, value in body.items() if key != "id"}
    if isinstance(body.get("id", []), list):
        return {"id": below + body.get("id", id), **{key: value for key, value in body.items() if key != "id"}}
    return body


def spelled(names, delimiter):
    """Returns an identifier as a path segment."""
    return quote(delimiter.join(names) if names else delimiter, safe="")


def at_the_door():
    """Yields every operation, on an absent object and in wrong ways."""
    for operation, (method, path, body) in OPERATIONS.items():
        gone = [f"absent_{operation}", "thing"]

        def case(name, id=gone, operation=operation, **changed):
            return Case(operation, name, id, **changed)

        if "{}" in path:
            yield case("of what is absent")
            yield case("another delimiter", delimiter=".")
            yield case("a long delimiter", delimiter="::")
            yield case("no delimiter said", query=None)
            yield case("odd names", id=[f"absent {operation}", "ü/?#%41 x"])
            yield case("an empty name", id=["absent", "", "thing"])
            yield case("the root", id=[])
        yield case("another method", method="PUT")
        yield case("an unknown query key", query={"colour": "blue"})
        if isinstance(body, bytes):
            yield case("no Arrow", body=b"junk")
            yield case("an empty body", body=b"")
            yield case("Arrow cut short", body=body[: len(body) // 2])
        if body is None and method == "POST":
            yield case("a null body", body="null")
            yield case("an object for a body", body="{}")
        if isinstance(body, (dict, str)):
            yield case("malformed JSON", body='{"id": [')
            yield case("a list for a body", body="[1]")
            yield case("a null body", body="null")
            yield case("no body", body=None)
            yield case("a plain text body", content_type="text/plain")
        if isinstance(body, dict):
            yield case("unknown fields", body={**body, "colour": "blue", "big": 12345678901234567890})
            if "{}" in path:
                yield case("no id in the body", body={**body, "id": None})
                yield case("another id in the body", body={**body, "id": ["other", "thing"]})
                yield case("a text for an id", body={**body, "id": "thing"})
                yield case("an id twice", body='{"id":["other"],"id":["other"]}')


def story(stage):
    """Yields every operation as it is meant. `stage(id)` returns the entry of a staged version."""
    home, table = ["home"], ["home", "books"]
    other = ["home", "plain"]
    made = {}

    def staged(id, **changed):
        def body():
            made[tuple(id)] = {**stage(id), "id": id}
            return {**made[tuple(id)], **changed}

        return body

    def again(id, **changed):
        return lambda: {**made[tuple(id)], **changed}

    yield Case("create_namespace", "makes one", home)
    yield Case("create_namespace", "that exists", home)
    yield Case("create_namespace", "that may exist", home, body={"mode": "ExistOk"})
    yield Case("create_namespace", "with a bad mode", ["bad"], body={"mode": "Perhaps"})
    yield Case("create_namespace", "below one", ["home", "deep"])
    yield Case("create_namespace", "at the root", [])
    yield Case("list_namespaces", "of the root", [])
    yield Case("list_namespaces", "below one", home)
    yield Case("list_namespaces", "two a page", [], query={"limit": 2})
    yield Case("list_namespaces", "none a page", [], query={"limit": 0})
    yield Case("list_namespaces", "with a limit that is no number", [], query={"limit": "many"})
    yield Case("list_namespaces", "with a strange page token", [], query={"page_token": "zzz"})
    yield Case("describe_namespace", "that exists", home)
    yield Case("describe_namespace", "of the root", [])
    yield Case("namespace_exists", "that exists", home)
    yield Case("namespace_exists", "of the root", [])
    yield Case("create_table", "makes one", table)
    yield Case("create_table", "that exists", table)
    yield Case("create_table", "over one", table, query={"mode": "overwrite"})
    yield Case("create_table", "with properties", other, query={"properties": '{"a":"b"}'})
    yield Case("create_table", "at the root", ["top"])
    yield Case("declare_table", "makes one", ["home", "declared"])
    yield Case("declare_table", "that exists", ["home", "declared"])
    yield Case("declare_table", "a number for a location", ["home", "bad"], body={"location": 3})
    yield Case("declare_table", "a text for vend_credentials", ["home", "bad"], body={"vend_credentials": "yes"})
    yield Case("declare_table", "a list for properties", ["home", "bad"], body={"properties": ["a"]})
    yield Case("list_tables", "of a namespace", home)
    yield Case("list_tables", "two a page", home, query={"limit": 2})
    yield Case("list_tables", "the next page", home, query={"limit": 2, "page_token": "declared"})
    yield Case("list_tables", "without the declared", home, query={"include_declared": "false"})
    yield Case("list_tables", "of the root", [])
    yield Case("list_all_tables", "everything", [])
    yield Case("list_all_tables", "two a page", [], query={"limit": 2})
    yield Case("describe_table", "that exists", table)
    yield Case("describe_table", "at the root", ["top"])
    yield Case("describe_table", "in detail", table, query={"load_detailed_metadata": "true"}, body={"load_detailed_metadata": True})
    yield Case("describe_table", "only declared", ["home", "declared"], query={"check_declared": "true"}, body={"check_declared": True})
    yield Case("describe_table", "an old version", table, body={"version": 1})
    yield Case("describe_table", "a missing version", table, body={"version": 99})
    yield Case("table_exists", "that exists", table)
    yield Case("count_table_rows", "of a table", table)
    yield Case("count_table_rows", "some", table, body={"predicate": "id > 3"})
    yield Case("count_table_rows", "of a bad predicate", table, body={"predicate": "nothing > 3"})
    yield Case("insert_into_table", "appends", table)
    yield Case("insert_into_table", "of another shape", table, body=stream(rows(0, 2).select(["name"])))
    yield Case("merge_insert_into_table", "merges", table)
    yield Case("update_table", "changes a row", table)
    yield Case("update_table", "without updates", table, body={"predicate": "id = 1"})
    yield Case("update_table", "with no updates", table, body={"updates": []})
    yield Case("update_table", "a single text for a pair", table, body={"updates": [["name"]]})
    yield Case("update_table", "three texts for a pair", table, body={"updates": [["name", "'a'", "'b'"]]})
    yield Case("update_table", "a number in a pair", table, body={"updates": [["name", 3]]})
    yield Case("update_table", "of a missing column", table, body={"updates": [["none", "1"]]})
    yield Case("delete_from_table", "drops a row", table)
    yield Case("delete_from_table", "without a predicate", table, body={})
    yield Case("query_table", "the nearest", table)
    yield Case("query_table", "by a filter", table, body={"k": 10, "vector": {}, "filter": "id < 4", "columns": {"column_names": ["id", "name"]}})
    yield Case("query_table", "an old version", table, body={"k": 10, "vector": {}, "version": 1})
    yield Case("query_table", "without k", table, body={"vector": {}})
    yield Case("query_table", "of a missing column", table, body={"k": 1, "vector": {}, "filter": "none = 1"})
    yield Case("explain_table_query_plan", "of a filter", table)
    yield Case("analyze_table_query_plan", "of a filter", table)
    yield Case("get_table_stats", "of a table", table)
    yield Case("list_table_versions", "all", table)
    yield Case("list_table_versions", "the latest", table, query={"descending": "true", "limit": 1})
    yield Case("list_table_versions", "two a page", table, query={"limit": 2})
    yield Case("list_table_versions", "a null body", table, body="null")
    yield Case("list_table_versions", "of a branch", table, query={"branch": "none"})
    yield Case("describe_table_version", "the first", table)
    yield Case("describe_table_version", "a missing one", table, body={"version": 99})
    yield Case("describe_table_version", "the latest", table, body={})
    yield Case("create_table_version", "the next", other, body=staged(other))
    yield Case("create_table_version", "once more", other, body=again(other))
    yield Case("create_table_version", "beyond the next", other, body=staged(other, version=9))
    yield Case("create_table_version", "one that is taken", other, body=again(other, version=1))
    yield Case("create_table_version", "without a staged manifest", other, body={"version": 3, "manifest_path": "none.manifest"})
    yield Case("create_table_version", "a negative version", other, body={"version": -1, "manifest_path": "m"})
    yield Case("create_table_version", "a text for a version", other, body={"version": "3", "manifest_path": "m"})
    yield Case("create_table_version", "without a manifest path", other, body={"version": 3})
    yield Case("batch_delete_table_versions", "the first", other)
    yield Case("batch_delete_table_versions", "without ranges", other, body={})
    yield Case("list_table_versions", "after a deletion", other)
    yield Case("create_table_tag", "makes one", table)
    yield Case("create_table_tag", "that exists", table)
    yield Case("create_table_tag", "of a missing version", table, body={"tag": "far", "version": 99})
    yield Case("get_table_tag_version", "that exists", table)
    yield Case("get_table_tag_version", "a missing one", table, body={"tag": "red"})
    yield Case("update_table_tag", "moves one", table)
    yield Case("update_table_tag", "a missing one", table, body={"tag": "red", "version": 1})
    yield Case("list_table_tags", "of a table", table)
    yield Case("list_table_tags", "one a page", table, query={"limit": 1})
    yield Case("describe_table", "at a tag", table, body={"tag": "blue"})
    yield Case("delete_table_tag", "drops one", table)
    yield Case("delete_table_tag", "a missing one", table)
    yield Case("create_table_branch", "makes one", table)
    yield Case("create_table_branch", "that exists", table)
    yield Case("insert_into_table", "into a branch", table, query={"branch": "draft"})
    yield Case("count_table_rows", "of a branch", table, body={"branch": "draft"})
    yield Case("list_table_versions", "of its own branch", table, query={"branch": "draft"})
    yield Case("list_table_branches", "of a table", table)
    yield Case("delete_table_branch", "drops one", table)
    yield Case("delete_table_branch", "a missing one", table)
    yield Case("create_table_scalar_index", "makes one", table)
    yield Case("create_table_scalar_index", "of a missing column", table, body={"column": "none", "index_type": "BTREE"})
    yield Case("create_table_index", "makes one", table)
    yield Case("create_table_index", "of a bad kind", table, body={"column": "id", "index_type": "MAGIC"})
    yield Case("list_table_indices", "of a table", table)
    yield Case("describe_table_index_stats", "of one", table)
    yield Case("describe_table_index_stats", "with its name in the body", table, body={"index_name": "by_id"})
    yield Case("describe_table_index_stats", "with another name in the body", table, body={"index_name": "by_name"})
    yield Case("drop_table_index", "drops one", table)
    yield Case("drop_table_index", "a missing one", table)
    yield Case("alter_table_add_columns", "adds one", table)
    yield Case("alter_table_add_columns", "of a bad expression", table, body={"new_columns": [{"name": "x", "expression": "none + 1"}]})
    yield Case("alter_table_alter_columns", "renames one", table)
    yield Case("alter_table_alter_columns", "a missing one", table)
    yield Case("alter_table_drop_columns", "drops one", table)
    yield Case("alter_table_drop_columns", "a missing one", table)
    yield Case("alter_table_backfill_columns", "of a table", table)
    yield Case("update_table_schema_metadata", "of a table", table)
    yield Case("update_field_metadata", "of a table", table)
    yield Case("restore_table", "an old version", table)
    yield Case("restore_table", "a missing version", table, body={"version": 99})
    yield Case("rename_table", "to a name that is taken", table, body={"new_table_name": other[-1]})
    yield Case("rename_table", "into a namespace that is absent", table, body={"new_table_name": "x", "new_namespace_id": ["home", "none"]})
    yield Case("create_materialized_view", "of a query", ["home", "view"])
    yield Case("refresh_materialized_view", "of a view", ["home", "view"])
    yield Case("describe_transaction", "an unknown one", ["00000000-0000-4000-8000-000000000000"])
    yield Case("alter_transaction", "an unknown one", ["00000000-0000-4000-8000-000000000000"])
    yield Case("batch_create_table_versions", "of one entry", [], body=lambda: {"entries": [{**stage(other), "id": other}]})
    yield Case("batch_create_table_versions", "without entries", [], body={})
    yield Case("batch_create_table_versions", "no list of entries", [], body='{"entries": 3}')
    yield Case("batch_create_table_versions", "an entry without an id", [], body={"entries": [{"version": 3, "manifest_path": "m"}]})
    yield Case("batch_commit_tables", "one operation", [], body={"operations": [{"deregister_table": {"id": ["home", "none"]}}]})
    yield Case("deregister_table", "that exists", other)
    yield Case("deregister_table", "that is gone", other)
    yield Case("register_table", "with a path from outside", other, body={"location": "../outside"})
    yield Case("register_table", "with a location of its own", other, body={"location": "other.lance"})
    yield Case("drop_namespace", "that is not empty", home)
    yield Case("drop_namespace", "with a bad mode", home, body={"mode": "Perhaps"})
    yield Case("drop_table", "that exists", table)
    yield Case("drop_table", "that is gone", table)
    yield Case("drop_table", "at the root", ["top"])
    yield Case("drop_namespace", "that is empty", ["home", "deep"])
    yield Case("drop_namespace", "that is gone", ["home", "deep"])
    yield Case("drop_namespace", "of the root", [])
    yield Case("list_all_tables", "at the end", [])
