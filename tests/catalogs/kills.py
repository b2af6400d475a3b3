"""Writers and readers, to whom gateway and catalogs go away in the middle of things.

usage: kills.py URI ADMIN_URI TOKEN SEED

Takes orders, each a line of JSON `[name, arguments…]`, and answers each with a
line `answer N {…}`:

    make [[table, backend, catalog's uri, catalog's table]…]   new tables, used from now on
    load      writers and readers begin
    rest      they stop; answers what they did
    judge     what they saw against what is there; answers what is wrong
    remember  all tables that ever were against what was there when they were last looked at

Every write has a number, and every row it adds carries that number: a reader
sees whose rows are in a table.
"""

import collections
import concurrent.futures
import dataclasses
import http.client
import itertools
import json
import random
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import lance
import lance_namespace as ln

from numbered import numbered, seen
from staging import Staging, connect

BATCH = "/v1/table/version/batch-create"
BATCH_WRITERS, SINGLE_WRITERS, READERS = 4, 1, 2
# A version that was built on one that was not decided must reach the gateway while the number below it rests.
FRESH = 2
PATIENCE = 30


@dataclasses.dataclass(frozen=True)
class Table:
    name: str
    backend: str
    uri: str
    there: str

    @property
    def id(self):
        return self.name.split("$")


@dataclasses.dataclass
class Write:
    """Rows for one table or more, all or nothing."""

    number: int
    rows: dict  # of each table, how many
    # committed, refused, unknown
    told: str = "unknown"
    answered: float = float("inf")
    entries: list = dataclasses.field(default_factory=list)
    transaction: str | None = None
    repeatable: bool = False

    def __str__(self):
        versions = {"$".join(entry["id"]): entry["version"] for entry in self.entries}
        tables = {table.name: versions.get(table.name) for table in self.rows}
        return f"write {self.number} (told: {self.told}) of {tables}"


@dataclasses.dataclass(frozen=True)
class Read:
    begun: float
    ended: float
    table: Table
    numbers: collections.Counter


class Listed(Staging):
    """Remembers which version was the latest when a write began."""

    latest = None

    def list_table_versions(self, request):
        answer = super().list_table_versions(request)
        self.latest = max([version.version for version in answer.versions], default=self.latest)
        return answer


class World:
    def __init__(self, uri, admin, token, seed):
        self.uri, self.admin, self.token = uri, admin, token
        self.random = random.Random(seed)
        self.numbers = itertools.count(1)
        self.tables, self.writes, self.reads, self.old = [], [], [], {}
        # Batches as the admin address showed them: their names, and what they create.
        self.shown = {}
        self.counts = collections.Counter()
        self.going = threading.Event()
        self.pool = concurrent.futures.ThreadPoolExecutor(BATCH_WRITERS + SINGLE_WRITERS + READERS + 1)
        self.running = []

    def client(self):
        return connect(self.uri, {"Authorization": f"Bearer {self.token}"})

    def post(self, path, body, **headers):
        headers |= {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        request = urllib.request.Request(self.uri + path, json.dumps(body).encode(), headers, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    # Orders.

    def make(self, tables):
        self.tables = [Table(*table) for table in tables]
        self.writes, self.reads, self.shown = [], [], {}
        client = self.client()
        for table in self.tables:
            for depth in range(1, len(table.id)):
                try:
                    client.create_namespace(ln.CreateNamespaceRequest(id=table.id[:depth]))
                except ln.NamespaceAlreadyExistsError:
                    pass
            lance.write_dataset(numbered(0, 1), namespace_client=client, table_id=table.id, mode="create")

    def load(self):
        self.counts.clear()
        self.going.set()
        kinds = [(self.batches, BATCH_WRITERS), (self.singles, SINGLE_WRITERS), (self.look, READERS), (self.watch, 1)]
        self.running = [
            self.pool.submit(work, random.Random(self.random.random())) for work, count in kinds for _ in range(count)
        ]

    def rest(self):
        self.going.clear()
        for work in self.running:
            work.result()
        return {"counts": self.counts}

    def judge(self):
        self.repeat()
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            there = dict(zip(self.tables, pool.map(self.settled, self.tables)))
        wrong = [
            *self.judged_writes(there),
            *self.judged_reads(there),
            *self.judged_transactions(there),
        ]
        # Nothing may come of a write later that nothing came of until now, nor the other way round.
        for write in self.writes:
            told = "committed" if whole(write, there) else "refused"
            if write.told == "unknown":
                self.counts[f"{'batch' if write.entries else 'append'} unknown, in the end {told}"] += 1
                write.told, write.answered = told, time.monotonic()
        self.old |= {table: there[table] for table in self.tables}
        return {"counts": self.counts, "wrong": wrong}

    def remember(self):
        client = self.client()
        wrong = [f"{table.name} has changed since" for table, numbers in self.old.items() if seen(client, table.id) != numbers]
        return {"wrong": wrong, "tables": len(self.old)}

    # What writers and readers do.

    def batches(self, random):
        client = self.client()
        while self.going.is_set():
            tables = random.sample(self.tables, random.choice([2, 2, 3]))
            write = Write(next(self.numbers), {table: random.randint(1, 3) for table in tables}, repeatable=True)
            begun = time.monotonic()
            try:
                for table, count in write.rows.items():
                    listed = Listed(client)
                    data = numbered(write.number, count)
                    lance.write_dataset(data, namespace_client=listed, table_id=table.id, mode="append")
                    (entry,) = listed.entries
                    write.entries.append(entry)
                    write.repeatable &= entry["version"] == listed.latest + 1
            except Exception as error:
                self.missed("stage", error)
                continue
            if write.repeatable or time.monotonic() - begun < FRESH:
                self.writes.append(write)
                self.send(write)

    def send(self, write):
        try:
            status, answer = self.post(BATCH, {"entries": write.entries}, **{"Idempotency-Key": str(write.number)})
        except (OSError, http.client.HTTPException):
            self.counts["batch unknown: no answer"] += 1
            return
        write.transaction = answer.get("transaction_id")
        write.told = "committed" if status == 200 else "refused" if 400 <= status < 500 else "unknown"
        write.answered = time.monotonic()
        self.counts[f"batch {write.told}: {status}"] += 1

    def singles(self, random):
        client = self.client()
        while self.going.is_set():
            write = Write(next(self.numbers), {random.choice(self.tables): 1})
            self.writes.append(write)
            (table,) = write.rows
            try:
                lance.write_dataset(numbered(write.number, 1), namespace_client=client, table_id=table.id, mode="append")
                write.told, write.answered = "committed", time.monotonic()
                self.counts["append: done"] += 1
            except Exception as error:
                self.missed("append", error)

    def look(self, random):
        client = self.client()
        while self.going.is_set():
            table = random.choice(self.tables)
            begun = time.monotonic()
            try:
                numbers = seen(client, table.id)
            except Exception as error:
                self.missed("read", error)
                continue
            self.reads.append(Read(begun, time.monotonic(), table, numbers))
            self.counts["read: done"] += 1

    def watch(self, random):
        mine = {(table.backend, table.there) for table in self.tables}
        while self.going.is_set():
            try:
                with urllib.request.urlopen(f"{self.admin}/batches", timeout=PATIENCE) as answer:
                    open = json.loads(answer.read())["batches"]
            except OSError:
                open = []
            for batch in open:
                entries = frozenset((e["backend"], e["table"], e["version"]) for e in batch["entries"])
                # Batches on older tables may still be watched.
                if {entry[:2] for entry in entries} <= mine:
                    self.shown[batch["id"]] = entries
            time.sleep(0.01)

    def missed(self, what, error):
        self.counts[f"{what}: {type(error).__name__}"] += 1
        time.sleep(0.01)

    # What is judged.

    def repeat(self):
        """Half of those who do not know what became of their batch ask again, as the same request."""
        for write in self.writes:
            if write.told == "unknown" and write.repeatable and self.random.random() < 0.5:
                self.send(write)
                self.counts["batch: repeated"] += 1

    def settled(self, table):
        """A table as readers see it, once storage holds nothing else."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                shown = seen(self.client(), table.id)
            except ln.errors.ServiceUnavailableError:
                # The breaker of a catalog that was started again stays open for a moment.
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)
                continue
            stored = seen(connect(table.uri), table.there.split("$"))
            if shown == stored or time.monotonic() > end:
                self.counts["looked at last"] += 1
                return shown if shown == stored else collections.Counter({"never settled": 1})
            time.sleep(0.05)

    def judged_writes(self, there):
        for write in self.writes:
            counts = {table.name: there[table].get(write.number, 0) for table in write.rows}
            if not whole(write, there) and any(counts.values()):
                yield f"half of {write} is there: {counts}"
            elif write.told == "committed" and not whole(write, there):
                yield f"{write} was done, and is gone"
            elif write.told == "refused" and whole(write, there):
                yield f"{write} was refused, and is there"
        known = {0, *(write.number for write in self.writes)}
        for table, numbers in there.items():
            if strange := set(numbers) - known:
                yield f"{table.name} has rows of nobody: {strange}"

    def judged_reads(self, there):
        """A write shows in none of its tables, and from some moment on in all of them."""
        shows = collections.defaultdict(lambda: float("inf"))
        for read in self.reads:
            for number in read.numbers:
                shows[number] = min(shows[number], read.ended)
        writes = {table: [] for table in self.tables}
        for write in self.writes:
            since = min(shows[write.number], write.answered if write.told == "committed" else float("inf"))
            for table in write.rows:
                writes[table].append((write, since))
        for read in self.reads:
            for write, since in writes[read.table]:
                count = read.numbers.get(write.number, 0)
                if count and not whole(write, there):
                    yield f"{write} was seen in {read.table.name}, and is not there"
                elif count not in (0, write.rows[read.table]):
                    yield f"{count} rows of {write} were seen in {read.table.name}"
                elif not count and since < read.begun:
                    yield f"{write} was done or seen, and not seen in {read.table.name} {read.begun - since} s later"

    def judged_transactions(self, there):
        """What the gateway says of a batch is what became of it."""
        for write in self.writes:
            if write.transaction is not None:
                status = self.described(write.transaction)
                if status != ("Succeeded" if whole(write, there) else "Failed"):
                    yield f"{write} is described as {status}"
        alike = collections.defaultdict(list)
        for write in self.writes:
            alike[versions(write, self.tables)].append(write)
        for id, entries in self.shown.items():
            status = self.described(id)
            # Several may have asked for the same versions, and one of them has got them.
            done = [whole(write, there) for write in alike[entries]]
            if not {"Succeeded": any(done), "Failed": not all(done)}.get(status, False):
                yield f"{id} of {set(entries)} is described as {status}"

    def described(self, id):
        self.counts["described"] += 1
        status, answer = self.post(f"/v1/transaction/{id}/describe", {"id": [id]})
        return answer["status"] if status == 200 else f"{status} {answer}"


def whole(write, there):
    return all(there[table].get(write.number, 0) == count for table, count in write.rows.items())


def versions(write, tables):
    """What a batch asks for, as the gateway shows it."""
    there = {table.name: table for table in tables}
    found = [(there["$".join(entry["id"])], entry["version"]) for entry in write.entries]
    return frozenset((table.backend, table.there, version) for table, version in found)


def main():
    uri, admin, token, seed = sys.argv[1:]
    world = World(uri, admin, token, int(seed))
    orders = {"make": world.make, "load": world.load, "rest": world.rest, "judge": world.judge, "remember": world.remember}
    for number, line in enumerate(sys.stdin):
        name, *arguments = json.loads(line)
        print("answer", number, json.dumps(orders[name](*arguments)), flush=True)


main()
