"""Writers and readers, whose gateway and catalogs are killed while they work.

usage: kills.py URIS ADMIN_URIS TOKEN SEED

URIS and ADMIN_URIS are addresses of gateways with `,` between them. Each
request goes to any of them.

Reads orders, each a line of JSON `[name, arguments…]`, and answers each with a
line `answer N {…}`:

    make [[names, backend, catalog's uri, catalog's names]…]   new tables, used from now on
    load      starts the writers, renamers and readers
    rest      stops them; answers what they did
    judge QUIET [[backend, catalog's name]…]
              compares what they saw with what is there; answers what is wrong. QUIET: no request is under way to a
              catalog any more. The named tables have a version that waits for an operator
    remember  compares all former tables with what was there when they were last read

Every write has a number, and every row it adds carries that number. So a reader
sees which writes are in a table.
"""

import collections
import concurrent.futures
import contextlib
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

from leaving import leave
from numbered import numbered, seen
from staging import Staging, connect, stream
from writes import Line, Read, Table, Write, judged_reads, judged_transactions, judged_writes

BATCH = "/v1/table/version/batch-create"
BRANCH = "b"
# The maximum age, in seconds, of a version that was built on an undecided one: it must reach the gateway while the
# number below is in cool-down.
FRESH = 1
PATIENCE = 60


class World:
    def __init__(self, uris, admins, token, seed):
        self.uris, self.admins, self.token = uris.split(","), admins.split(","), token
        self.random = random.Random(seed)
        self.numbers = itertools.count(1)
        self.tables, self.writes, self.reads, self.old = [], [], [], {}
        # The batches that the admin address showed: their ids, and the versions that they create.
        self.shown = {}
        self.counts = collections.Counter()
        # The time of the batch that took longest, in seconds.
        self.slowest = 0
        # Errors that say that a client could not read an answer.
        self.odd = []
        self.going = threading.Event()
        self.kinds = [
            *[self.batches] * 4,
            *[self.look] * 2,
            *[self.appends, self.inserts, self.branch_appends, self.renames, self.leaves, self.watch],
        ]
        self.pool = concurrent.futures.ThreadPoolExecutor(len(self.kinds))
        self.running = []

    @property
    def uri(self):
        return random.choice(self.uris)

    @property
    def admin(self):
        return random.choice(self.admins)

    def client(self):
        return connect(self.uri, {"Authorization": f"Bearer {self.token}"})

    def headers(self, more):
        return {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json", **more}

    def post(self, path, body, **more):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(self.uri + path, data, self.headers(more), method="POST")
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def lines(self):
        return [Line(table, branch) for table in self.tables for branch in (None, BRANCH)]

    # Orders.

    def make(self, tables):
        self.tables = [Table(*table) for table in tables]
        self.writes, self.reads, self.shown = [], [], {}
        client = self.client()
        for table in self.tables:
            for depth in range(1, len(table.id)):
                request = ln.CreateNamespaceRequest(id=table.id[:depth])
                patient(lambda request=request: once(client.create_namespace, request))
            patient(lambda table=table: create(client, table.id))
            request = ln.CreateTableBranchRequest(id=table.id, name=BRANCH)
            patient(lambda request=request: once(client.create_table_branch, request))

    def load(self):
        self.counts.clear()
        self.slowest, self.odd = 0, []
        self.going.set()
        self.running = [self.pool.submit(work, random.Random(self.random.random())) for work in self.kinds]

    def rest(self):
        self.going.clear()
        for work in self.running:
            work.result()
        return {"counts": self.counts, "slowest": self.slowest, "odd": self.odd}

    def judge(self, quiet, stuck):
        self.repeat()
        stuck = {tuple(table) for table in stuck}
        wrong = [found for table in self.tables for found in self.misnamed(table, quiet)]
        if wrong:
            return {"counts": self.counts, "wrong": wrong}
        lines = self.lines()
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            there = dict(zip(lines, pool.map(lambda line: self.settled(line, quiet, stuck), lines)))
        wrong += judged_writes(self.writes, there)
        wrong += judged_reads(self.writes, self.reads, there)
        wrong += judged_transactions(
            self.writes, self.shown, there, self.described, passed_on=len(self.uris) > 1
        )
        # A write whose result was unknown has it now, and may not change it later.
        for write in self.writes:
            told = "committed" if write.whole(there) else "refused"
            if write.told == "unknown" and (quiet or told == "committed" or len(write.entries) > 1):
                self.counts[f"{'batch' if write.entries else 'single write'} unknown, in the end {told}"] += 1
                write.told, write.answered = told, time.monotonic()
        if quiet:
            self.old |= there
        return {"counts": self.counts, "wrong": wrong}

    def remember(self):
        wrong = [f"{line} has changed since" for line, numbers in self.old.items() if self.read(line) != numbers]
        return {"wrong": wrong, "tables": len(self.old)}

    # The work of writers and readers.

    def read(self, line):
        return seen(self.client(), line.table.id, line.branch)

    def write(self, line, number, count, client):
        """Writes with a client of the contract that commits a version, or only stages it."""
        data, id = numbered(number, count), line.table.id
        if line.branch is None:
            lance.write_dataset(data, namespace_client=client, table_id=id, mode="append")
        else:
            dataset = lance.dataset(namespace_client=client, table_id=id)
            lance.write_dataset(data, dataset.checkout_version((line.branch, None)), mode="append")

    def staged(self, random):
        """Stages a batch. Returns None if that failed or took too long."""
        tables = random.sample(self.tables, random.choice([2, 2, 3]))
        lines = [Line(table, random.choice([None, None, None, None, BRANCH])) for table in tables]
        write = Write(next(self.numbers), {line: random.randint(1, 3) for line in lines}, repeatable=True)
        begun = time.monotonic()
        try:
            for line, count in write.rows.items():
                staging = Staging(self.client())
                self.write(line, write.number, count, staging)
                (entry,) = staging.entries
                write.entries.append(entry)
                write.repeatable &= entry["version"] == staging.latest + 1
        except Exception as error:
            return self.missed("stage", error)
        if write.repeatable or time.monotonic() - begun < FRESH:
            self.writes.append(write)
            return write

    def batches(self, random):
        while self.going.is_set():
            if write := self.staged(random):
                self.send(write)

    def send(self, write):
        write.sent += 1
        begun = time.monotonic()
        try:
            status, answer = self.post(BATCH, {"entries": write.entries}, **{"Idempotency-Key": str(write.number)})
        except (OSError, http.client.HTTPException):
            self.counts["batch unknown: no answer"] += 1
            return
        finally:
            self.slowest = max(self.slowest, time.monotonic() - begun)
        write.transaction = answer.get("transaction_id")
        write.told = "committed" if status == 200 else "refused" if 400 <= status < 500 else "unknown"
        write.answered = time.monotonic()
        self.counts[f"batch {write.told}: {said(status, answer)}"] += 1

    def appends(self, random):
        self.single("append", None, random)

    def branch_appends(self, random):
        self.single("append to a branch", BRANCH, random)

    def single(self, what, branch, random):
        while self.going.is_set():
            line = Line(random.choice(self.tables), branch)
            write = Write(next(self.numbers), {line: 1})
            self.writes.append(write)
            try:
                self.write(line, write.number, 1, self.client())
                write.told, write.answered = "committed", time.monotonic()
                self.counts[f"{what}: done"] += 1
            except Exception as error:
                self.missed(what, error)
            time.sleep(0.02)

    def insert(self, random):
        """Prepares an insert: the catalog appends. This catalog ignores a branch and appends to the main line."""
        line = Line(random.choice(self.tables))
        write = Write(next(self.numbers), {line: 1})
        self.writes.append(write)
        branch = random.choice(["", "", f"&branch={BRANCH}"])
        path = f"{route(line.table)}/insert?mode=append&delimiter=%24{branch}"
        return write, path, stream(numbered(write.number, 1))

    def inserts(self, random):
        while self.going.is_set():
            write, path, rows = self.insert(random)
            try:
                status, answer = self.post(path, rows, **{"Content-Type": "application/vnd.apache.arrow.stream"})
            except (OSError, http.client.HTTPException, ValueError) as error:
                self.missed("insert", error)
                continue
            if status == 200:
                write.told, write.answered = "committed", time.monotonic()
            self.counts[f"insert: {said(status, answer)}"] += 1
            time.sleep(0.05)

    def renames(self, random):
        tables = [table for table in self.tables if len(table.names) > 1]
        while self.going.is_set():
            time.sleep(random.uniform(0.1, 0.4))
            table = random.choice(tables)
            *namespace, name = table.names[1 - table.at].split("$")
            table.told = None
            try:
                status, answer = self.post(f"{route(table)}/rename", {"new_table_name": name, "new_namespace_id": namespace})
            except (OSError, http.client.HTTPException) as error:
                self.missed("rename", error)
                status, answer = 0, {}
            self.counts[f"rename: {said(status, answer)}"] += 1
            if status == 200:
                table.at = table.told = 1 - table.at
            else:
                self.find(table)

    def find(self, table):
        """Finds out the present name of a table, if possible."""
        try:
            named = self.named(self.client(), table.names)
        except Exception as error:
            return self.missed("find", error)
        if sum(named) == 1:
            table.at = named.index(True)

    def named(self, client, names):
        def exists(name):
            try:
                client.table_exists(ln.TableExistsRequest(id=name.split("$")))
            except ln.TableNotFoundError:
                return False
            return True

        return [exists(name) for name in names]

    def leaves(self, random):
        """Sends requests and does not wait for the answer; some are left before all of the body is sent."""
        while self.going.is_set():
            if random.random() < 0.6:
                write, path, body = self.insert(random)
                headers = {"Content-Type": "application/vnd.apache.arrow.stream"}
            elif write := self.staged(random):
                path, body = BATCH, json.dumps({"entries": write.entries}).encode()
                headers = {"Idempotency-Key": str(write.number)}
            else:
                continue
            write.sent += 1
            sent = len(body) if random.random() < 0.8 else random.randrange(len(body))
            if sent < len(body):
                write.told, write.answered = "refused", time.monotonic()
            try:
                leave(self.uri + path, self.headers(headers), body, sent, random)
            except OSError as error:
                self.missed("leave", error)
            self.counts["left"] += 1
            time.sleep(random.uniform(0.05, 0.2))

    def look(self, random):
        while self.going.is_set():
            line = random.choice(self.lines())
            begun = time.monotonic()
            try:
                numbers = self.read(line)
            except Exception as error:
                self.missed("read", error)
                continue
            self.reads.append(Read(begun, time.monotonic(), line, numbers))
            self.counts["read: done"] += 1

    def watch(self, random):
        names = {(table.backend, name): str(table) for table in self.tables for name in table.stored}
        while self.going.is_set():
            try:
                with urllib.request.urlopen(f"{self.admin}/batches", timeout=PATIENCE) as answer:
                    open = json.loads(answer.read())["batches"]
            except OSError:
                open = []
            for batch in open:
                # Ignores batches on older tables, which may still be watched, and renames.
                if all((e["backend"], e["table"]) in names and "version" in e for e in batch["entries"]):
                    self.shown[batch["id"]] = frozenset(
                        (names[e["backend"], e["table"]], e.get("branch"), e["version"]) for e in batch["entries"]
                    )
            time.sleep(0.01)

    def missed(self, what, error):
        self.counts[f"{what}: {type(error).__name__}"] += 1
        if isinstance(error, (TypeError, ValueError)):
            self.odd.append(f"{what}: {error!r}")
        time.sleep(0.01)

    # The checks.

    def repeat(self):
        """Repeats half of the batches whose result is unknown, as the same request."""
        for write in self.writes:
            if write.told == "unknown" and write.repeatable and self.random.random() < 0.5:
                self.send(write)
                self.counts["batch: repeated"] += 1

    def misnamed(self, table, quiet):
        """Checks that a table has one name, the one that a client was told last, also at the catalog in the end."""
        end = time.monotonic() + PATIENCE
        while True:
            shown = patient(lambda: self.named(self.client(), table.names))
            stored = self.named(connect(table.uri), table.stored) if quiet else shown
            if (shown == stored and sum(shown) == 1) or time.monotonic() > end:
                break
            time.sleep(0.1)
        if sum(shown) != 1 or shown != stored:
            return (yield f"of the names {table.names} {shown} are shown, and {stored} are there")
        table.at = shown.index(True)
        if table.told not in (None, table.at):
            yield f"{table} was renamed to {table.names[table.told]}, and is called {table.name}"

    def settled(self, line, quiet, stuck):
        """Returns a line as readers see it, and waits until storage holds nothing else."""
        table, end = line.table, time.monotonic() + PATIENCE
        is_stuck = any((table.backend, name) in stuck for name in table.stored)
        while True:
            shown = patient(lambda: self.read(line))
            if not quiet or is_stuck:
                return shown
            stored = seen(connect(table.uri), table.stored_id, line.branch)
            if shown == stored:
                self.counts["looked at last"] += 1
                return shown
            if time.monotonic() > end:
                return collections.Counter({"never settled": 1})
            time.sleep(0.1)

    def described(self, id):
        self.counts["described"] += 1
        end = time.monotonic() + PATIENCE
        while True:
            status, answer = self.post(f"/v1/transaction/{id}/describe", {"id": [id]})
            if status == 200:
                return answer["status"]
            # On a busy machine a gateway loses its contact to the log once more.
            if status != 503 or time.monotonic() > end:
                return f"{status} {answer}"
            time.sleep(0.05)


def patient(ask):
    """Asks until the service is available: the breaker of a restarted catalog stays open for a moment, a gateway loses
    its contact to the log on a busy machine, and uncertain versions are not shown."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return ask()
        except (ln.errors.ServiceUnavailableError, OSError, ValueError) as error:
            # Where pylance asks for a version itself, the error is in words only.
            told = isinstance(error, ln.errors.ServiceUnavailableError) or "Service unavailable" in str(error)
            if not told or time.monotonic() > end:
                raise
            time.sleep(0.05)


def once(make, request):
    with contextlib.suppress(ln.NamespaceAlreadyExistsError, ln.errors.TableBranchAlreadyExistsError):
        make(request)


def create(client, id):
    """Creates a table with one row. It may be there already, if an earlier try had no answer."""
    try:
        lance.write_dataset(numbered(0, 1), namespace_client=client, table_id=id, mode="create")
    except (ln.TableAlreadyExistsError, OSError, ValueError) as error:
        if "already exists" not in str(error):
            raise
        lance.write_dataset(numbered(0, 1), namespace_client=client, table_id=id, mode="overwrite")


def said(status, answer):
    """Returns the status, with the words of an error of the gateway."""
    return status if status < 500 else f"{status} {answer.get('error', '')[:120]}"


def route(table):
    return f"/v1/table/{urllib.parse.quote(table.name, safe='')}"


def main():
    uris, admins, token, seed = sys.argv[1:]
    world = World(uris, admins, token, int(seed))
    orders = {"make": world.make, "load": world.load, "rest": world.rest, "judge": world.judge, "remember": world.remember}
    for number, line in enumerate(sys.stdin):
        name, *arguments = json.loads(line)
        print("answer", number, json.dumps(orders[name](*arguments)), flush=True)


main()
