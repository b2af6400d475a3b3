"""Two real catalogs and a gateway in front of them, for all tests of the package.

Needs the program: NSGATE_BIN, or an installed package.
"""

import http.server
import itertools
import json
import re
import tempfile
import threading
import time
import urllib.error
import urllib.request
import uuid
from pathlib import Path

import lance
import lance_namespace as ln
import pyarrow as pa
import pytest

import nsgate
from nsgate.demo.world import World

NAMES = itertools.count()


def rows(first, count):
    """`count` rows whose values follow from `first`."""
    numbers = range(first, first + count)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "value": pa.array([float(number) for number in numbers]),
            "vector": pa.array([[float(number), 0.0, 1.0, 2.0] for number in numbers], pa.list_(pa.float32(), 4)),
        }
    )


def make(gateway, table, data=None):
    """A table with 300 rows."""
    data = rows(0, 300) if data is None else data
    lance.write_dataset(data, namespace_client=gateway.namespace_client, table_id=list(table), mode="create")
    return table


@pytest.fixture(scope="session")
def world():
    with tempfile.TemporaryDirectory() as folder, World(Path(folder)) as world:
        gateway = nsgate.connect(world.uri, token=world.token)
        for namespace in (["prod"], ["research", "lake", "daily"]):
            gateway.namespace_client.create_namespace(ln.CreateNamespaceRequest(id=namespace))
        yield world
        # Its end in order waits for the clients that tests have left without an answer.
        world.kill_gateway()


@pytest.fixture
def gateway(world):
    return nsgate.connect(world.uri, token=lambda: world.token)


@pytest.fixture
def tables(gateway):
    """One table in each catalog."""
    number = next(NAMES)
    return make(gateway, ("prod", f"a{number}")), make(gateway, ("research", "lake", "daily", f"b{number}"))


class Relay(http.server.ThreadingHTTPServer):
    """A proxy before the gateway that loses answers to batches: `lose` names what happens to the next ones.

    A number is a status that the gateway answers with, of its own accord; `locked` is a 503 that names a lock.
    So is `late`, and the request arrives at the gateway all the same.
    `undone` is a 409 because the gateway stopped before the decision, `ended as it was` one because an operator has
    ended the batch.
    `forgotten` is a repeat whose first time the gateway's log does not know any more: it comes with another key.
    `is_down` cuts every other request, and those with `hangs` in their path get no answer at all. To those
    with `has_no_route` a router says 404. With `other_tags`, a
    catalog gives what it publishes another tag than it had when it was staged. One that `lies` does not find a version
    when it is first asked for one of its table; one that is `busy` answers 429 so many times when it is asked for one.
    """

    daemon_threads = True

    def __init__(self, uri, port=0):
        self.uri = uri
        self.lose = []
        self.batches = []
        self.is_down = False
        self.hangs = self.has_no_route = None
        self.other_tags = False
        self.lies = False
        self.busy = 0
        self.lied, self.told = 0, set()
        super().__init__(("127.0.0.1", port), RelayHandler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_port}"

    def is_new(self, path):
        is_first = path not in self.told
        self.told.add(path)
        self.lied += is_first
        return is_first


class RelayHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = None
        if "/batch-c" in self.path:
            self.server.batches.append(self.headers["Idempotency-Key"])
            fault = self.server.lose.pop(0) if self.server.lose else None
        elif self.server.is_down:
            fault = "before"
        while self.server.hangs is not None and self.server.hangs in self.path:
            time.sleep(0.05)
        if isinstance(fault, int) or fault in ("locked", "late"):
            said = {"error": f"refused with {fault}", "code": 17, "detail": "", "instance": ""}
            if fault in ("locked", "late"):
                said["entry"] = 0
                said["locked_by"] = "01a1fe32-b018-7749-b091-c787866bc41d"
            if fault == "late":
                copy = {"Content-Type": "application/json"}
                copy.update({name: self.headers[name] for name in ("Authorization", "Idempotency-Key")})
                urllib.request.urlopen(urllib.request.Request(self.server.uri + self.path, body, copy)).close()
            self.answer(fault if isinstance(fault, int) else 503, json.dumps(said).encode(), "application/json")
            return
        if self.server.has_no_route and self.server.has_no_route in self.path:
            self.answer(404, b"404 page not found", "text/plain")
            return
        if fault in ("undone", "ended as it was"):
            code = 14 if fault == "undone" else 19
            said = {"error": f"it was {fault}", "code": code, "detail": "", "instance": ""}
            self.answer(409, json.dumps(said).encode(), "application/json")
            return
        if self.server.busy and self.path.split("?")[0].endswith("/version/describe"):
            self.server.busy -= 1
            said = {"error": "slow down", "code": 21, "detail": "", "instance": self.path}
            self.answer(429, json.dumps(said).encode(), "application/json")
            return
        if fault == "before":
            self.close_connection = True
            return
        if fault == "page":
            self.answer(502, b"<html>bad gateway</html>", "text/html")
            return
        headers = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "connection")}
        if fault == "forgotten":
            headers["Idempotency-key"] = str(uuid.uuid4())
        request = urllib.request.Request(self.server.uri + self.path, body, headers, method=self.command)
        try:
            with urllib.request.urlopen(request) as response:
                status, text = response.status, response.read()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read()
        if self.server.lies and self.path.split("?")[0].endswith("/version/describe") and self.server.is_new(self.path):
            said = {"error": "Table version not found", "code": 11, "detail": "", "instance": self.path}
            status, text = 404, json.dumps(said).encode()
        if self.server.other_tags:
            text = re.sub(rb'("e_tag": ?)"(\\.|[^"\\])*"', rb'\1"another"', text)
        if fault == "after":
            self.close_connection = True
        elif fault == "page after":
            self.answer(504, b"<html>gateway timeout</html>", "text/html")
        elif fault == "code after":
            self.answer(504, b'{"code": 504, "message": "upstream request timeout"}', "application/json")
        elif fault == "undecided after":
            said = {"error": "the owner died", "code": 17, "detail": "", "instance": self.path, "undecided": True}
            self.answer(503, json.dumps(said).encode(), "application/json")
        else:
            self.answer(status, text, "application/json")

    do_GET = do_POST

    def answer(self, status, body, kind):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def relay(world):
    relay = Relay(world.uri)
    yield relay
    relay.hangs = None
    relay.shutdown()
    relay.server_close()
