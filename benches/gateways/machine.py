"""Processes of ours: started on their cores, asked what they used, ended by their own id."""

import os
import re
import resource
import socket
import subprocess
import time

TICKS = os.sysconf("SC_CLK_TCK")
CORES = sorted(os.sched_getaffinity(0))
# The party has a core of its own; the load and the catalog have the next two, or share one where there is no third.
PARTY_CORE = CORES[:1]
LOAD_CORES = CORES[1:2] or CORES[:1]
CATALOG_CORES = CORES[2:3] or LOAD_CORES
START_TIMEOUT = 60


class Failed(Exception):
    """A measurement that would mean nothing."""


class Disturbed(Failed):
    """The machine did something else meanwhile, which says nothing of the party: it can be measured again."""


def allow_many_files():
    """Thousands of connections, in this process and in those that it starts."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def pinned(command, cores):
    return ["taskset", "-c", ",".join(map(str, cores)), *command]


class Server:
    """A process that listens; `with` ends it."""

    def __init__(self, name, command, port, cores, folder, environment=None):
        self.name, self.port = name, port
        self.log = f"{folder}/{name}.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                pinned(command, cores), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={**os.environ, **(environment or {})},
            )
        try:
            self._await_port()
        except BaseException:
            self.end()
            raise

    def _await_port(self):
        end = time.monotonic() + START_TIMEOUT
        while time.monotonic() < end and self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), 0.2).close()
                return
            except OSError:
                time.sleep(0.05)
        with open(self.log, errors="replace") as log:
            raise Failed(f"{self.name} does not listen: {log.read()[-2000:]}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        self.process.terminate()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def family(self):
        """The process and all below it: nginx has workers."""
        found, ahead = [], [self.process.pid]
        while ahead:
            pid = ahead.pop()
            found.append(pid)
            try:
                with open(f"/proc/{pid}/task/{pid}/children") as children:
                    ahead += map(int, children.read().split())
            except OSError:
                pass
        return found

    def cpu(self):
        """Seconds in user space and in the kernel, since the start."""
        user = system = 0
        for pid in self.family():
            try:
                with open(f"/proc/{pid}/stat") as stat:
                    fields = stat.read().rsplit(")", 1)[1].split()
            except OSError:
                continue
            user, system = user + int(fields[11]), system + int(fields[12])
        return user / TICKS, system / TICKS

    def memory(self, line="VmRSS"):
        """Resident MiB now, or with `VmHWM` at the most."""
        total = 0
        for pid in self.family():
            try:
                with open(f"/proc/{pid}/status") as status:
                    total += int(re.search(line + r":\s+(\d+)", status.read())[1])
            except (OSError, TypeError):
                pass
        return total / 1024

    def forget_most(self):
        """From here on the most resident memory is counted anew."""
        for pid in self.family():
            try:
                with open(f"/proc/{pid}/clear_refs", "w") as refs:
                    refs.write("5")
            except OSError:
                pass
