"""One party under one load: started, looked at, warmed up, measured, ended."""

import contextlib
import dataclasses
import http.client
import statistics
import sys
import time

import loads
import loads.arrow
import parties
from machine import CATALOG_CORES, CORES, PARTY_CORE, Disturbed, Failed, Server, free_port
from loads import http2
from parties import nginx
from quota import Quota
from sites import Site


@dataclasses.dataclass
class Sample:
    """Of one round; µs and MiB, and a second."""

    user: float
    system: float
    cpu: float
    rate: float
    p50: float | None
    p99: float | None
    p999: float | None
    calm: float | None
    memory: float
    # KiB that each unit keeps, where that is asked for.
    each: float | None
    # Of its cores.
    busy: float


class Measured:
    """The rounds of one line."""

    def __init__(self):
        self.samples = []

    def add(self, sample):
        self.samples.append(sample)

    def median(self, figure):
        values = [getattr(sample, figure) for sample in self.samples]
        return None if None in values else statistics.median(values)

    def rounds(self):
        return [dataclasses.asdict(sample) for sample in self.samples]


# How often a measurement is made when it is disturbed each time.
TRIES = 4


def measure(subject, seconds, folder, keys):
    for left in reversed(range(TRIES)):
        try:
            return measure_once(subject, seconds, folder, keys)
        except Disturbed as disturbed:
            if not left:
                raise
            print(f"again: {disturbed}", file=sys.stderr, flush=True)


def measure_once(subject, seconds, folder, keys):
    with contextlib.ExitStack() as running:
        server = start(subject, folder, keys, running)
        check(server, parties.ALL[subject.party][1])
        subject.load.run(server, 1, warm_up=True)
        user, system = server.cpu()
        done = subject.load.run(server, seconds)
        after = server.cpu()
        user, system = after[0] - user, after[1] - system
        whole = isinstance(subject.load, loads.arrow.Arrow) and server.party
        return Sample(
            user / done.units * 1e6, system / done.units * 1e6, (user + system) / done.units * 1e6, done.rate,
            done.p50, done.p99, done.p999, done.calm, server.memory("VmHWM" if whole else "VmRSS"),
            getattr(server, "each", None),
            (user + system) * done.rate / done.units,
        )


def start(subject, folder, keys, running):
    """The catalog, and the party before it; all of them end with `running`."""
    cores = CORES if subject.quota else None
    catalog = free_port()
    if hasattr(subject.load, "catalog"):
        command = subject.load.catalog(catalog, folder)
    else:
        command = nginx.catalog(folder, catalog, subject.site.get("catalog_http2", False))
    behind = running.enter_context(Server("catalog", command, catalog, cores or CATALOG_CORES, folder))
    site = Site(folder, free_port(), catalog, keys, **subject.site, admin=free_port())
    begin, _ = parties.ALL[subject.party]
    if begin is None:
        # The catalog itself, which tells what the load could have done.
        server, server.party = behind, False
    else:
        quota = running.enter_context(Quota(subject.quota)) if subject.quota else None
        # Some keep what they learned in the home folder.
        home = {"HOME": folder, "XDG_DATA_HOME": folder, "XDG_CONFIG_HOME": folder}
        party = Server(subject.party, begin(site), site.port, cores or PARTY_CORE, folder, home)
        server = running.enter_context(party)
        server.party = True
        if quota:
            quota.hold(server)
    server.site = site
    return server


def check(server, claims):
    """Nobody's figure counts who lets a forged token in, or keeps a good one out."""
    token = server.site.tokens(1)[0]
    middle = len(token) - 40
    forged = token[:middle] + ("A" if token[middle] != "A" else "B") + token[middle + 1:]
    # Ready is who answers, some time after it listens.
    for _ in range(100):
        if status(server, token) == 200:
            break
        time.sleep(0.1)
    else:
        raise Failed(f"{server.name} refuses a good token: {status(server, token)}")
    if claims:
        for bad in (forged, None):
            if status(server, bad) not in (401, 403):
                raise Failed(f"{server.name} answers {status(server, bad)} without a good token")


def status(server, token):
    if server.site.http2:
        return http2.status(server, token)
    path, body = loads.DESCRIBE
    headers = {"Content-Type": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    try:
        connection.request("POST", path, body, headers)
        return connection.getresponse().status
    finally:
        connection.close()
