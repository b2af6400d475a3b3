"""HTTP/1.1 by wrk: as many requests as the party can take, over connections that stay open."""

import json
import os
import subprocess

from loads import DESCRIBE, Done
from machine import LOAD_CORES, Failed, pinned

# A second, at the least, so that the party has seen each token often enough to remember it.
SEEN = 3_000
SCRIPT = os.path.join(os.path.dirname(__file__), "plain.lua")


class Plain:
    """Each request takes the next token and the next target, and begins again after the last."""

    unit = "request"

    def __init__(self, connections=64, tokens=1, targets=(DESCRIBE,), fresh=False, cores=None):
        self.connections, self.tokens, self.targets, self.fresh = connections, tokens, targets, fresh
        self.cores = cores or LOAD_CORES

    def run(self, server, seconds, warm_up=False):
        site = server.site
        # What warms the party up must not show it the tokens that it has to see for the first time.
        tokens = site.tokens(1 if self.fresh and warm_up else self.tokens)
        if warm_up:
            seconds = max(seconds, len(tokens) // SEEN)
        site.write("tokens", "\n".join(tokens))
        site.write("targets", "\n".join("\t".join(target) for target in self.targets))
        threads = max(1, min(len(self.cores), self.connections))
        command = ["wrk", f"-t{threads}", f"-c{max(self.connections, threads)}", f"-d{seconds}s", "-s", SCRIPT,
                   f"http://127.0.0.1:{server.port}", "--", f"{site.folder}/tokens", f"{site.folder}/targets"]
        ran = subprocess.run(pinned(command, self.cores), capture_output=True, text=True, timeout=seconds + 60)
        try:
            said = json.loads(ran.stdout.splitlines()[-1])
        except (IndexError, ValueError):
            raise Failed(f"{server.name}: wrk said: {ran.stdout[-500:]} {ran.stderr[-500:]}") from None
        if said["failed"] or said["refused"] or not said["requests"]:
            raise Failed(f"{server.name}: of {said['requests']:.0f} requests {said['refused']:.0f} were refused, "
                         f"{said['failed']:.0f} broke")
        if self.fresh and not warm_up and said["requests"] > len(tokens):
            raise Failed(f"{server.name}: the {len(tokens)} tokens ran out; measure for fewer seconds")
        rate = said["requests"] / said["micros"] * 1e6
        return Done(said["requests"], rate, said["p50"] / 1e3, said["p99"] / 1e3)
