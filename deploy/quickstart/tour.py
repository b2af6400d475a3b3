"""A walk through the gateway: what is asked and what is answered.

usage: tour.py URI ADMIN_URI TOKEN

Runs against the data it finds, the first time and every time after. Ends with
1 where an answer is not the one that was promised.
"""

import base64
import json
import sys
import urllib.error
import urllib.parse
import urllib.request

import lance
import lance_namespace as ln
import pyarrow as pa

from staging import connect, stage

ORDERS = ["prod", "orders"]
VISITS = ["research", "lake", "daily", "visits"]
BATCH = "/v1/table/version/batch-create"
BOLD, DIM, PLAIN = ("\033[1m", "\033[2m", "\033[0m") if sys.stdout.isatty() else ("", "", "")


class Broken(Exception):
    """A promise that was not kept."""


def say(text):
    print(text, flush=True)


def chapter(title):
    chapter.number += 1
    say(f"\n{BOLD}{chapter.number}. {title}{PLAIN}")


chapter.number = 0


def promise(kept, text):
    if not kept:
        raise Broken(text)
    say(f"   ok: {text}")


def short(value, indent=5):
    """JSON; what does not fit on a line is broken, and only that."""
    text = json.dumps(value)
    if len(text) + indent < 100 or not isinstance(value, (dict, list)):
        return text
    inner, outer = " " * (indent + 2), " " * indent
    if isinstance(value, dict):
        items = [f"{json.dumps(key)}: {short(item, indent + 2)}" for key, item in value.items()]
    else:
        items = [short(item, indent + 2) for item in value]
    start, end = "{}" if isinstance(value, dict) else "[]"
    return f"{start}\n{inner}" + f",\n{inner}".join(items) + f"\n{outer}{end}"


class Gateway:
    def __init__(self, uri, token):
        self.uri, self.token = uri, token

    def ask(self, method, path, body=None, token=None):
        """One request, shown with its answer; (status, JSON)."""
        say(f"   {DIM}>{PLAIN} {method} {path}" + (f"\n     {short(body)}" if body is not None else ""))
        headers = {"Authorization": f"Bearer {token or self.token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.uri + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                status, text = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read()
        answer = json.loads(text or b"null")
        say(f"   {DIM}<{PLAIN} {status} {short(answer)}")
        return status, answer

    def client(self):
        return connect(self.uri, {"Authorization": f"Bearer {self.token}"})


def spelled(id):
    return urllib.parse.quote("$".join(id), safe="")


def rows(first, count):
    numbers = range(first, first + count)
    return pa.table({"number": pa.array(numbers, pa.int64()), "note": [f"note {n}" for n in numbers]})


def written(client, id, data, mode):
    """A write by a real client, shown."""
    say(f'   {DIM}>{PLAIN} lance.write_dataset({data.num_rows} rows, namespace_client=…, table_id={id}, mode="{mode}")')
    dataset = lance.write_dataset(data, namespace_client=client, table_id=id, mode=mode)
    say(f"   {DIM}<{PLAIN} version {dataset.version}")


def state(client, id):
    """What a reader sees: version and rows."""
    dataset = lance.dataset(namespace_client=client, table_id=id)
    seen = {"version": dataset.version, "rows": dataset.count_rows()}
    say(f"   {DIM}>{PLAIN} lance.dataset(namespace_client=…, table_id={id})\n   {DIM}<{PLAIN} {seen}")
    return seen


def namespaces(gateway):
    chapter("One tree over two catalogs")
    for id in (["prod"], VISITS[:-1]):
        status, _ = gateway.ask("POST", f"/v1/namespace/{spelled(id)}/create?delimiter=%24", {"id": id})
        promise(status == 200 or status == 409, f"{'$'.join(id)} {'is made' if status == 200 else 'is there, from before'}")
    _, answer = gateway.ask("GET", "/v1/namespace/%24/list?delimiter=%24")
    promise(answer == {"namespaces": ["prod", "research"]}, "prod is at the warehouse, research leads to the lake")
    _, answer = gateway.ask("GET", f"/v1/namespace/{spelled(['research', 'lake'])}/list?delimiter=%24")
    promise("daily" in answer["namespaces"], "what the lake calls daily is research$lake$daily here")


def tables(client):
    chapter("A real client writes into both")
    for id in (ORDERS, VISITS):
        try:
            client.table_exists(ln.TableExistsRequest(id=id))
            mode = "append"
        except ln.TableNotFoundError:
            mode = "create"
        written(client, id, rows(0, 3), mode)


def staged(client):
    """Two more rows for each table: data and manifests in storage, no version yet."""
    say(f"   {DIM}staging two rows for each table: data and manifest are in storage, nothing is published{PLAIN}")
    return {"entries": [stage(client, id, rows(10, 2)) for id in (ORDERS, VISITS)]}


def committed(gateway, client):
    chapter("One batch across both catalogs, committed")
    before = [state(client, id) for id in (ORDERS, VISITS)]
    status, answer = gateway.ask("POST", BATCH, staged(client))
    promise(status == 200, f"committed, as transaction {answer.get('transaction_id')}")
    after = [state(client, id) for id in (ORDERS, VISITS)]
    grown = [{"version": table["version"] + 1, "rows": table["rows"] + 2} for table in before]
    promise(after == grown, "both tables show their new version")


def refused(gateway, client):
    chapter("One batch with a conflict, refused")
    batch = staged(client)
    say("   meanwhile, somebody else is faster:")
    written(client, VISITS, rows(20, 1), "append")
    before = [state(client, id) for id in (ORDERS, VISITS)]
    status, _ = gateway.ask("POST", BATCH, batch)
    promise(status == 409, "the version of visits is taken, so the batch is refused as a whole")
    after = [state(client, id) for id in (ORDERS, VISITS)]
    promise(after == before, "nothing changed, in either catalog")


def forged(gateway):
    chapter("A forged token, refused")
    head, claims, signature = gateway.token.split(".")
    content = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
    content["sub"] = "the-boss"
    claims = base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()
    say(f'   {DIM}the same token, its subject changed to "the-boss"{PLAIN}')
    path = f"/v1/table/{spelled(ORDERS)}/describe?delimiter=%24"
    status, _ = gateway.ask("POST", path, {"id": ORDERS}, token=f"{head}.{claims}.{signature}")
    promise(status == 401, "refused before any catalog heard of it")


def metrics(admin):
    chapter("What the gateway says of itself")
    say(f"   {DIM}>{PLAIN} GET {admin}/metrics")
    with urllib.request.urlopen(f"{admin}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    for name in ("nsgate_batches_total", "nsgate_authentication_failures_total", "nsgate_backend_up"):
        found = [line for line in lines if line.startswith(name) and not line.endswith(" 0")]
        promise(found, f"{name} counts")
        for line in found:
            say(f"   {DIM}<{PLAIN} {line}")


def main():
    uri, admin, token = sys.argv[1:]
    gateway = Gateway(uri, token)
    client = gateway.client()
    try:
        namespaces(gateway)
        tables(client)
        committed(gateway, client)
        refused(gateway, client)
        forged(gateway)
        metrics(admin)
    except Broken as broken:
        say(f"\n{BOLD}The tour ends here: not so: {broken}{PLAIN}")
        sys.exit(1)
    say(f"\n{BOLD}The tour is complete.{PLAIN}")


main()
