"""A walk through the gateway: what is asked and what is answered.

It runs against the data it finds, the first time and every time after, and
fails where an answer is not the one that was promised.

usage: tour.py URI ADMIN_URI TOKEN
"""

from __future__ import annotations

import base64
import json
import sys
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Dict, List, Optional, Tuple

import lance
import lance_namespace as ln
import pyarrow as pa

import nsgate

ORDERS = ("prod", "orders")
STOCK = ("prod", "stock")
VISITS = ("research", "lake", "daily", "visits")
BOLD, DIM, PLAIN = ("\033[1m", "\033[2m", "\033[0m") if sys.stdout.isatty() else ("", "", "")


class Broken(Exception):
    """A promise that was not kept."""


def say(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)


def promise(kept: bool, text: str) -> None:
    """Say what holds, or end the tour."""
    if not kept:
        raise Broken(text)
    say(f"   ok: {text}")


def code(*lines: str) -> None:
    """Show what a program says."""
    for number, line in enumerate(lines):
        say(f"   {DIM}{'>>>' if not number else '...'} {line}{PLAIN}")


def rows(first: int, count: int) -> pa.Table:
    """Return some rows of orders or visits."""
    numbers = range(first, first + count)
    return pa.table({"number": pa.array(numbers, pa.int64()), "note": [f"note {n}" for n in numbers]})


def items() -> pa.Table:
    """Return the stock of a shop."""
    return pa.table({"sku": ["A", "B"], "left": pa.array([1000, 1000], pa.int64())})


class Tour:
    """The chapters, in order."""

    def __init__(self, uri: str, admin_uri: str, token: str) -> None:
        self.uri, self.admin_uri, self.token = uri, admin_uri, token
        self.gateway = nsgate.connect(uri, token=token)
        self.number = 0

    def walk(self) -> bool:
        """Walk through all chapters; False if a promise was not kept."""
        try:
            self.namespaces()
            self.tables()
            self.committed()
            self.rolled_back()
            self.moved_on_top()
            self.started_again()
            self.snapshot()
            self.created()
            self.forged()
            self.metrics()
        except Broken as broken:
            say(f"\n{BOLD}The tour ends here: not so: {broken}{PLAIN}")
            return False
        say(f"\n{BOLD}The tour is complete.{PLAIN}")
        return True

    def chapter(self, title: str) -> None:
        """Begin a chapter."""
        self.number += 1
        say(f"\n{BOLD}{self.number}. {title}{PLAIN}")

    def ask(self, method: str, path: str, body: Any = None, token: Optional[str] = None) -> Tuple[int, Any]:
        """Send one request and show it with its answer; status and JSON."""
        say(f"   {DIM}>{PLAIN} {method} {path}")
        headers = {"Authorization": f"Bearer {token or self.token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.uri + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                status, text = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read()
        value = json.loads(text or b"null")
        say(f"   {DIM}<{PLAIN} {status} {json.dumps(value)}")
        return status, value

    def state(self, *tables: Tuple[str, ...]) -> Dict[str, Tuple[int, int]]:
        """Return version and number of rows of tables, as every reader sees them, and show them."""
        seen = {}
        for table in tables or (ORDERS, STOCK, VISITS):
            dataset = self.gateway.table(*table)
            seen[".".join(table)] = (dataset.version, dataset.count_rows())
        say("   " + ", ".join(f"{name}: version {version}, {count} rows" for name, (version, count) in seen.items()))
        return seen

    def namespaces(self) -> None:
        """Show the tree of names over both catalogs."""
        self.chapter("One tree over two catalogs")
        for id in (["prod"], list(VISITS[:-1])):
            spelled = urllib.parse.quote("$".join(id), safe="")
            status, _ = self.ask("POST", f"/v1/namespace/{spelled}/create", {"id": id})
            promise(status in (200, 409), f"{'.'.join(id)} {'is made' if status == 200 else 'is there, from before'}")
        _, answer = self.ask("GET", "/v1/namespace/%24/list")
        promise(answer == {"namespaces": ["prod", "research"]}, "prod is at the warehouse, research leads to the lake")
        _, answer = self.ask("GET", "/v1/namespace/research%24lake/list")
        promise("daily" in answer["namespaces"], "what the lake calls daily is research.lake.daily here")

    def tables(self) -> None:
        """Make tables, or take those of the tour before."""
        self.chapter("Real tables in both catalogs, written by pylance")
        client = self.gateway.namespace_client
        for table in (ORDERS, STOCK, VISITS):
            try:
                client.table_exists(ln.TableExistsRequest(id=list(table)))
            except ln.TableNotFoundError:
                data = items() if table == STOCK else rows(0, 3)
                lance.write_dataset(data, namespace_client=client, table_id=list(table), mode="create")
        self.state()

    def committed(self) -> None:
        """Change three tables in two catalogs together."""
        self.chapter("A transaction: three tables, two catalogs, pylance and lancedb")
        code(
            "with gateway.transaction() as tx:",
            '    tx.table("prod", "orders").insert(orders)',
            '    tx.table("prod", "stock").update({"left": "left - 1"}, where="sku = \'A\'")',
            '    tx.lancedb.open_table("visits", namespace_path=["research", "lake", "daily"]).add(visits)',
        )
        before = self.state()
        with self.gateway.transaction() as tx:
            tx.table(*ORDERS).insert(rows(10, 2))
            tx.table(*STOCK).update({"left": "left - 1"}, where="sku = 'A'")
            tx.lancedb.open_table("visits", namespace_path=list(VISITS[:-1])).add(rows(10, 2))
            for change in tx.dry_run():
                say(f"     staged   {change}")
            promise(self.state() == before, "before the commit nobody sees any of it")
        promise(tx.result is not None, f"committed, as transaction {tx.result and tx.result.transaction_id}")
        after = self.state()
        grown = {
            name: (version + 1, count + (0 if "stock" in name else 2)) for name, (version, count) in before.items()
        }
        promise(after == grown, "after it everybody sees all of it")

    def rolled_back(self) -> None:
        """Leave a transaction by an exception."""
        self.chapter("An exception: nothing happened")
        before = self.state()
        try:
            with self.gateway.transaction() as tx:
                tx.table(*ORDERS).delete("true")
                tx.table(*STOCK).update({"left": "0"})
                raise KeyError("a mistake")
        except KeyError:
            pass
        promise(self.state() == before, "the orders and the stock are as before")

    def moved_on_top(self) -> None:
        """Append beside another writer."""
        self.chapter("Somebody else appends meanwhile: the same data are committed on top")
        tx = self.gateway.transaction(progress=lambda step: say(f"     {step.step}"))
        tx.table(*ORDERS).insert(rows(20, 1))
        tx.table(*VISITS).insert(rows(20, 1))
        self.gateway.table(*VISITS).insert(rows(30, 1))
        before = self.state(ORDERS, VISITS)
        tx.commit()
        after = self.state(ORDERS, VISITS)
        promise(
            all(after[name] == (version + 1, count + 1) for name, (version, count) in before.items()),
            "nothing is lost, neither theirs nor ours",
        )

    def started_again(self) -> None:
        """Change a row that somebody else changes, too."""
        self.chapter("Somebody else sells the same item: `run` starts again")
        code(
            "def sell(tx):",
            '    tx.table("prod", "stock").update({"left": "left - 1"}, where="sku = \'B\'")',
            '    tx.table("prod", "orders").insert(order)',
            "gateway.run(sell)",
        )
        tries: List[int] = []

        def left() -> int:
            return int(self.gateway.table(*STOCK).to_table(filter="sku = 'B'")["left"][0].as_py())

        def sell(tx: nsgate.Transaction) -> None:
            tries.append(1)
            tx.table(*STOCK).update({"left": "left - 1"}, where="sku = 'B'")
            tx.table(*ORDERS).insert(rows(40, 1))
            if len(tries) == 1:
                self.gateway.table(*STOCK).update({"left": "left - 1"}, where="sku = 'B'")

        before = left()
        self.gateway.run(sell)
        promise(left() == before - 2, f"{before} left, two sold by two, {left()} left, after {len(tries)} tries")

    def snapshot(self) -> None:
        """Read several tables of one moment."""
        self.chapter("A snapshot: several tables of one moment, with one request")
        code(
            'orders, visits = gateway.snapshot(["prod", "orders"], ["research", "lake", "daily", "visits"])',
        )
        orders, visits = self.gateway.snapshot(ORDERS, VISITS)
        seen = self.state(ORDERS, VISITS)
        promise(
            [orders.version, visits.version] == [version for version, _ in seen.values()],
            f"versions {orders.version} and {visits.version} were the latest together",
        )

    def created(self) -> None:
        """Create a table in a transaction."""
        self.chapter("A new table that appears with the changes of another one")
        name = f"report-{self.gateway.table(*ORDERS).version}"
        code(
            "with gateway.transaction() as tx:",
            f'    tx.create("prod", "{name}", data=report)',
            '    tx.table("prod", "orders").delete("number = 40")',
        )

        def names() -> List[str]:
            return list(self.gateway.namespace_client.list_tables(ln.ListTablesRequest(id=["prod"])).tables)

        with self.gateway.transaction() as tx:
            tx.create("prod", name, data=rows(0, 5))
            tx.table(*ORDERS).delete("number = 40")
            before = names()
        promise(name not in before, f"before the commit: {', '.join(sorted(before))}")
        promise(name in names(), f"after it: {', '.join(sorted(names()))}")
        promise(self.gateway.table("prod", name).count_rows() == 5, "with its rows")

    def forged(self) -> None:
        """Send a token with another subject."""
        self.chapter("A forged token, refused")
        head, claims, signature = self.token.split(".")
        content = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
        content["sub"] = "the-boss"
        claims = base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()
        say(f'   {DIM}the same token, its subject changed to "the-boss"{PLAIN}')
        forged = f"{head}.{claims}.{signature}"
        status, _ = self.ask("POST", "/v1/table/prod%24orders/describe", {"id": list(ORDERS)}, token=forged)
        promise(status == 401, "refused before any catalog heard of it")

    def metrics(self) -> None:
        """Show what the gateway counts."""
        self.chapter("What the gateway says of itself")
        say(f"   {DIM}>{PLAIN} GET {self.admin_uri}/metrics")
        with urllib.request.urlopen(f"{self.admin_uri}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        for name in ("nsgate_batches_total", "nsgate_authentication_failures_total", "nsgate_backend_up"):
            found = [line for line in lines if line.startswith(name) and not line.endswith(" 0")]
            promise(bool(found), f"{name} counts")
            for line in found:
                say(f"   {DIM}<{PLAIN} {line}")


if __name__ == "__main__":
    sys.exit(0 if Tour(*sys.argv[1:]).walk() else 1)
