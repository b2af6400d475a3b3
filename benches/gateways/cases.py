"""What is measured: the parties of each case, what they are asked, and the bounds that the gateway must keep."""

import dataclasses

from loads.arrow import Arrow
from loads.http2 import Http2
from loads.idle import Idle
from loads.plain import Plain
from loads.steady import Steady
from machine import CORES

FRESH_TOKENS = 120_000
# Each worker's share of a core where two are compared with one: what is left is enough for the load and the catalog.
SHARE = 0.3


@dataclasses.dataclass(frozen=True)
class Subject:
    """A line of a case's table."""

    label: str
    party: str
    load: object
    # What the site is told beyond its defaults.
    site: dict = dataclasses.field(default_factory=dict)
    # Of the processor, in cores.
    quota: float | None = None


@dataclasses.dataclass(frozen=True)
class Bound:
    """A figure of one line over the same figure of another, or alone."""

    subject: str
    over: str | None
    bound: float | None
    figure: str = "cpu"
    at_least: bool = False


def describe(number, namespace="prod"):
    return (f"/v1/table/{namespace}%24t{number}/describe?delimiter=%24",
            f'{{"id":["{namespace}","t{number}"],"check_declared":false}}')


def both_builds(label, load, **more):
    """The gateway, and the build that it is compared with where there is one."""
    old = label.replace("nsgate", "before", 1)
    return [Subject(old, "before", load, **more), Subject(label, "nsgate", load, **more)]


def peers(names, load, **more):
    return [Subject(name, name, load, **more) for name in names]


def warm():
    load = Plain()
    names = ["direct", "nginx", "haproxy", "haproxy-jwt", "envoy", "envoy-jwt", "envoy-jwt-cache", "traefik", "caddy",
             "pingora", "bare-shared", "bare-cores"]
    return [*peers(names, load), *both_builds("nsgate", load)], [
        Bound("nsgate", "nginx", 1.10), Bound("nsgate", "haproxy-jwt", 0.45),
        Bound("nsgate", "envoy-jwt-cache", 0.42), Bound("nsgate", "pingora", 0.6),
        Bound("nsgate", "bare-shared", None), Bound("nsgate", "bare-cores", None),
        Bound("nsgate", "haproxy", None), Bound("nsgate", "envoy", None),
        Bound("nsgate", "traefik", None), Bound("nsgate", "caddy", None),
        Bound("nsgate", "before", None), Bound("nsgate", "haproxy", 1.0, "p99"), Bound("nsgate", "nginx", None, "p99"),
    ]


def steady():
    subjects, bounds = [], []
    # A label for each rate; 0 is the closed loop.
    for rate, label in ((10_000, "10,000"), (25_000, "25,000"), (0, "in turn")):
        # Who is left out does not keep up with the rate.
        names = ["nginx", "haproxy", *(["haproxy-jwt", "envoy-jwt-cache"] if rate == 10_000 else []),
                 *(["pingora"] if rate != 25_000 else []), "bare-cores", "before", "nsgate"]
        subjects += [Subject(f"{name}, {label}", name, Steady(rate)) for name in names]
        for name in ("haproxy", "nginx", "bare-cores"):
            bound = 1.0 if name == "haproxy" else None
            ours, theirs = f"nsgate, {label}", f"{name}, {label}"
            bounds += [Bound(ours, theirs, bound, "p99"), Bound(ours, theirs, None, "calm")]
    return subjects, bounds


def tokens():
    subjects = [
        *peers(["nginx", "haproxy-jwt", "envoy-jwt-cache"], Plain(tokens=1000)),
        *both_builds("nsgate", Plain()), *both_builds("nsgate, 1,000 tokens", Plain(tokens=1000)),
        *both_builds("nsgate, ES256", Plain(), site={"algorithm": "ES256"}),
        Subject("haproxy-jwt, ES256", "haproxy-jwt", Plain(), {"algorithm": "ES256"}),
        Subject("envoy-jwt-cache, ES256", "envoy-jwt-cache", Plain(), {"algorithm": "ES256"}),
    ]
    return subjects, [
        Bound("nsgate, 1,000 tokens", "nsgate", 1.10), Bound("nsgate, ES256", "nsgate", 1.10),
        Bound("nsgate, 1,000 tokens", "haproxy-jwt", None), Bound("nsgate, 1,000 tokens", "envoy-jwt-cache", None),
        Bound("nsgate, ES256", "haproxy-jwt, ES256", None), Bound("nsgate, ES256", "envoy-jwt-cache, ES256", None),
    ]


def many():
    one, load = "nsgate, 1 token", Plain(tokens=100_000)
    return [*peers(["envoy-jwt-cache"], load), *both_builds(one, Plain()),
            *both_builds("nsgate, 100,000 tokens", load)], [
        Bound("nsgate, 100,000 tokens", one, None), Bound("nsgate, 100,000 tokens", "envoy-jwt-cache", None),
    ]


def fresh():
    load = Plain(tokens=FRESH_TOKENS, fresh=True)
    return [*peers(["haproxy-jwt", "envoy-jwt", "envoy-jwt-cache"], load), *both_builds("nsgate", load)], [
        Bound("nsgate", "haproxy-jwt", 0.7), Bound("nsgate", "envoy-jwt", None),
    ]


def reroot():
    mounts = (("prod", "warehouse"),)
    moved = both_builds("nsgate, re-rooted", Plain(), site={"mounts": mounts})
    return [*both_builds("nsgate, kept", Plain()), *moved], [
        Bound("nsgate, re-rooted", "nsgate, kept", 1.25),
    ]


def mounts():
    def of(count):
        # A thousand tables spread over the mounts, so that neither finds its route still in the nearest cache.
        targets = [describe(number, f"m{number * (count // 10) % count}") for number in range(1000)]
        if count > 1000:
            targets = [describe(number, f"m{number * (count // 1000)}") for number in range(1000)]
        names = (("prod", "prod"), *((f"m{number}", f"m{number}") for number in range(count)))
        return both_builds(f"nsgate, {count:,} mounts", Plain(targets=targets), site={"mounts": names})
    return [*of(10), *of(100_000)], [Bound("nsgate, 100,000 mounts", "nsgate, 10 mounts", 1.05)]


def identifiers():
    deep = ["prod", *(f"n{level}" for level in range(30)), "t1"]

    def spelled(names, delimiter, encoded):
        ids = ",".join(f'"{name}"' for name in names)
        path = f"/v1/table/{encoded.join(names)}/describe?delimiter={encoded}"
        return [(path, f'{{"id":[{ids}],"check_declared":false}}')]

    return [
        *both_builds("nsgate, two names", Plain()),
        *both_builds("nsgate, 32 names", Plain(targets=spelled(deep, "$", "%24"))),
        *both_builds("nsgate, delimiter of 3", Plain(targets=spelled(["prod", "t1"], "::.", "%3A%3A."))),
    ], [
        Bound("nsgate, 32 names", "nsgate, two names", None),
        Bound("nsgate, delimiter of 3", "nsgate, two names", None),
    ]


def connections():
    subjects, bounds = [], []
    for count in (1, 8, 64, 512):
        for name in ("nginx", "haproxy", "pingora", "bare-cores", "before", "nsgate"):
            subjects.append(Subject(f"{name}, {count}", name, Plain(connections=count)))
        for other in (f"nginx, {count}", f"haproxy, {count}", f"bare-cores, {count}", "nsgate, 64"):
            bounds.append(Bound(f"nsgate, {count}", other, None))
    return subjects, bounds


def idle():
    load, more = Idle(), {"connections": 12_000}
    return [*peers(["nginx", "haproxy", "envoy", "pingora", "bare-cores"], load, site=more),
            *both_builds("nsgate", load, site=more)], [Bound("nsgate", None, 12.0, "each")]


def arrow():
    subjects, bounds = [], []
    for way, up in (("up", True), ("down", False)):
        for name in ("nginx", "haproxy", "bare-cores", "before", "nsgate"):
            subjects.append(Subject(f"{name}, {way}", name, Arrow(up), {"streaming": True}))
        large = f"nginx, 256k, {way}"
        subjects.append(Subject(large, "nginx", Arrow(up), {"streaming": True, "piece": "256k"}))
        bounds += [Bound(f"nsgate, {way}", f"nginx, {way}", 1.1), Bound(f"nsgate, {way}", large, 1.1),
                   Bound(f"nsgate, {way}", None, 64.0, "memory")]
    return subjects, bounds


def workers():
    subjects, bounds = [], []
    # On all cores: with a third and a fourth there would be no need of shares. Enough connections for no worker to run
    # out of requests while the other one has used up its share.
    load = Plain(256, cores=CORES)
    for name in ("nginx", "haproxy", "bare-shared", "bare-cores", "before", "nsgate"):
        for count in (1, 2):
            subjects.append(Subject(f"{name}, {count}", name, load, {"workers": count}, quota=count * SHARE))
        bounds.append(Bound(f"{name}, 2", f"{name}, 1", 1.7 if name == "nsgate" else None, "rate", at_least=True))
    return subjects, bounds


def http2():
    load, more = Http2(), {"http2": True}
    return [*peers(["nginx", "haproxy", "envoy", "envoy-jwt-cache", "pingora"], load, site=more),
            *both_builds("nsgate", load, site=more), *both_builds("nsgate, HTTP/1.1", Plain())], [
        Bound("nsgate", "nginx", None), Bound("nsgate", "haproxy", None), Bound("nsgate", "envoy", None),
        Bound("nsgate", "envoy-jwt-cache", None), Bound("nsgate", "nsgate, HTTP/1.1", None),
    ]


def catalog():
    """What speaks HTTP/2 to catalogs: nginx does not."""
    subjects, bounds = [], []
    for name in ("haproxy", "envoy", "before", "nsgate"):
        subjects += [Subject(f"{name}, HTTP/1.1", name, Plain()),
                     Subject(f"{name}, HTTP/2", name, Plain(), {"catalog_http2": True})]
        bounds.append(Bound(f"{name}, HTTP/2", f"{name}, HTTP/1.1", None))
    return subjects, [*bounds, *(Bound("nsgate, HTTP/2", f"{name}, HTTP/2", None) for name in ("haproxy", "envoy"))]


def log():
    more = {"access_log": True}
    names, without = ["nginx", "haproxy", "haproxy-jwt", "envoy-jwt-cache"], both_builds("nsgate, without", Plain())
    return [*peers(names, Plain(), site=more), *both_builds("nsgate", Plain(), site=more), *without], [
        Bound("nsgate", "nginx", None), Bound("nsgate", "haproxy", None), Bound("nsgate", "haproxy-jwt", 0.75),
        Bound("nsgate", "nsgate, without", None),
    ]


ALL = {
    "warm": ("describe-table, one token seen before, 64 connections", warm),
    "steady": ("so many requests a second, evenly: how long they take", steady),
    "tokens": ("describe-table with 1,000 tokens, and with ES256", tokens),
    "many": ("100,000 tokens in turn, each seen some times before", many),
    "fresh": ("every token seen for the first time", fresh),
    "reroot": ("a mount at another name of the catalog: path and body rewritten", reroot),
    "mounts": ("100,000 mounts instead of 10", mounts),
    "identifiers": ("long identifiers, other delimiters", identifiers),
    "connections": ("1 to 512 connections", connections),
    "idle": ("10,000 connections that wait", idle),
    "arrow": ("bodies of 1 GiB", arrow),
    "workers": (f"two workers, and {SHARE} of a core for each", workers),
    "http2": ("HTTP/2 from clients, 8 connections of 8 streams", http2),
    "catalog": ("HTTP/2 to the catalog", catalog),
    "log": ("an access log, into a file", log),
}
