"""HTTP/2 without TLS by h2load: requests side by side on few connections."""

import re
import subprocess

from loads import DESCRIBE, Done
from machine import LOAD_CORES, Failed, pinned


class Http2:
    """The same description of a table, `streams` at a time on each connection."""

    unit = "request"

    def __init__(self, connections=8, streams=8):
        self.connections, self.streams = connections, streams

    def run(self, server, seconds, warm_up=False):
        site = server.site
        path, body = DESCRIBE
        log = f"{site.folder}/h2load.log"
        # It appends.
        open(log, "w").close()
        command = ["h2load", "-t1", f"-c{self.connections}", f"-m{self.streams}", f"-D{seconds}",
                   f"--log-file={log}", "-d", site.write("body", body), "-H", "content-type: application/json",
                   "-H", f"authorization: Bearer {site.tokens(1)[0]}", "-H", "x-ns-ctx-team: ml",
                   f"http://127.0.0.1:{server.port}{path}"]
        ran = subprocess.run(pinned(command, LOAD_CORES), capture_output=True, text=True, timeout=seconds + 60)
        good = re.search(r"status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx", ran.stdout)
        if not good or int(good[1]) == 0 or any(int(good[i]) for i in (2, 3, 4)):
            raise Failed(f"{server.name}: h2load said: {ran.stdout[-800:]} {ran.stderr[-500:]}")
        count = int(good[1])
        with open(log) as lines:
            times = sorted(int(line.split("\t")[2]) for line in lines)
        return Done(count, count / seconds, times[len(times) // 2] / 1e3, times[len(times) * 99 // 100] / 1e3)


def status(server, token):
    """What one request is answered, as near as h2load tells."""
    path, body = DESCRIBE
    known = ["-H", f"authorization: Bearer {token}"] if token else []
    command = ["h2load", "-n1", "-c1", "-d", server.site.write("body", body), "-H", "content-type: application/json",
               *known, f"http://127.0.0.1:{server.port}{path}"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=30)
    counts = re.search(r"status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx", ran.stdout)
    answered = zip((200, 300, 401, 500), counts.groups() if counts else ())
    return next((code for code, count in answered if count == "1"), 0)
