"""The work of real clients with a table that is renamed.

usage: rename.py URI TOKEN OLD NEW

OLD and NEW are spelled with `$`, in the same namespace or in two. Makes OLD
with lancedb, in two versions, renames it, and goes on with NEW. Prints what it
saw at each step; an exception is a result too.
"""

import json
import sys

import lance
import lance_namespace as ln
import lancedb

from staging import connect, rows


def versions(client, id):
    return [version.version for version in client.list_table_versions(ln.ListTableVersionsRequest(id=id)).versions]


def attempt(action):
    try:
        return action()
    except Exception as error:  # noqa: BLE001: the error is the result
        return {"raised": type(error).__name__, "message": str(error)}


def main():
    uri, token = sys.argv[1:3]
    old, new = (name.split("$") for name in sys.argv[3:5])
    headers = {"Authorization": f"Bearer {token}"}
    client = connect(uri, headers)
    db = lancedb.connect_namespace("rest", {"uri": uri, **{f"headers.{name}": value for name, value in headers.items()}})
    for namespace in (old[:-1], new[:-1]):
        try:
            db.create_namespace(namespace)
        except Exception:  # noqa: BLE001: the namespace exists, or is a mount
            pass
    db.create_table(old[-1], rows(0, 6), namespace_path=old[:-1]).add(rows(6, 3))

    def names(namespace):
        return list(db.table_names(namespace_path=namespace))

    def renamed():
        db.rename_table(old[-1], new[-1], cur_namespace_path=old[:-1], new_namespace_path=new[:-1])
        return "renamed"

    def look(id):
        dataset = lance.dataset(namespace_client=client, table_id=id)
        return {"rows": dataset.count_rows(), "versions": versions(client, id)}

    seen = {"before": look(old), "rename": attempt(renamed)}
    seen["old"] = attempt(lambda: db.open_table(old[-1], namespace_path=old[:-1]).count_rows())
    seen["listed"] = [old[-1] in names(old[:-1]), new[-1] in names(new[:-1])]
    seen["new"] = attempt(lambda: look(new))
    seen["appended"] = attempt(lambda: lance.write_dataset(rows(9, 2), namespace_client=client, table_id=new, mode="append").version)
    seen["after"] = attempt(lambda: look(new))
    seen["lancedb"] = attempt(lambda: db.open_table(new[-1], namespace_path=new[:-1]).count_rows())
    print(json.dumps(seen))


main()
