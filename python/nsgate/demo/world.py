"""Processes on this machine: two catalogs, and a gateway in front of them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import IO, Any, Dict, List, Optional

from ..__main__ import program

ISSUER = "https://quickstart.nsgate.test"
CONFIGURATION = Path(__file__).with_name("gateway.yaml")
# How long a process may take to answer for the first time.
PATIENCE = 60.0
# Ends the gateway when this process is gone, however it ended.
GUARD = "import os, signal, sys; sys.stdin.read(); os.kill(int(sys.argv[1]), signal.SIGTERM)"


class Failed(Exception):
    """A process that did not start."""


class Catalog:
    """A catalog in a folder, at an address that stays the same when it is started again."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder / name
        self.log = folder / f"{name}.log"
        self.port = 0
        self._process: Optional[subprocess.Popen[bytes]] = None

    @property
    def uri(self) -> str:
        """The address."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the catalog and wait for its port."""
        self.folder.mkdir(parents=True, exist_ok=True)
        script = Path(__file__).with_name("catalog.py")
        command = [sys.executable, "-W", "ignore", str(script), str(self.folder)]
        if self.port:
            command.append(str(self.port))
        with open(self.log, "wb") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        stdout: Optional[IO[bytes]] = self._process.stdout
        line = stdout.readline().decode() if stdout else ""
        found = re.fullmatch(r"port (\d+)\s*", line)
        if not found:
            raise Failed(f"the catalog {self.name} did not start; its log: {self.log}")
        self.port = int(found[1])

    def kill(self) -> None:
        """End the catalog at once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


class World:
    """The catalogs ``warehouse`` (at ``prod``) and ``lake`` (at ``research.lake``), and a gateway."""

    def __init__(self, folder: Path, *, port: int = 0, admin_port: int = 0, nsgate: Optional[str] = None) -> None:
        self.folder = folder.resolve()
        self.nsgate = nsgate or program()
        self.warehouse = Catalog("warehouse", self.folder)
        self.lake = Catalog("lake", self.folder)
        self.port, self.admin_port = port, admin_port
        self.log = self.folder / "gateway.log"
        self.token = ""
        self._process: Optional[subprocess.Popen[bytes]] = None
        self._guard: Optional[subprocess.Popen[bytes]] = None

    @property
    def uri(self) -> str:
        """The gateway's address."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def admin_uri(self) -> str:
        """The address of the gateway's status page and metrics."""
        return f"http://127.0.0.1:{self.admin_port}"

    @property
    def configuration(self) -> Path:
        """The gateway's configuration file."""
        return self.folder / "gateway.yaml"

    def start(self) -> None:
        """Start everything and wait until the gateway is ready."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for catalog in self.catalogs:
            catalog.start()
        command = [self.nsgate, "dev-token", "--dir", str(self.folder), "--issuer", ISSUER]
        command += ["--audience", "catalog", "--subject", "quickstart", "--ttl", "24h"]
        self.token = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
        self.start_gateway()

    @property
    def catalogs(self) -> List[Catalog]:
        """Both catalogs."""
        return [self.warehouse, self.lake]

    def start_gateway(self) -> None:
        """Start the gateway, at the same addresses as before, and wait until it is ready."""
        text = CONFIGURATION.read_text()
        text = text.replace("127.0.0.1:8080", f"127.0.0.1:{self.port}")
        text = text.replace("127.0.0.1:9090", f"127.0.0.1:{self.admin_port}")
        self.configuration.write_text(text)
        environment: Dict[str, str] = {
            **os.environ,
            "NSGATE_QUICKSTART_DIR": str(self.folder),
            "WAREHOUSE_URI": self.warehouse.uri,
            "LAKE_URI": self.lake.uri,
        }
        # The log begins anew: its first lines tell the addresses.
        with open(self.log, "wb") as log:
            command = [self.nsgate, "serve", "--config", str(self.configuration)]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        guard = [sys.executable, "-c", GUARD, str(self._process.pid)]
        # In a session of its own: Ctrl-C is for this process, which stops the gateway in order.
        self._guard = subprocess.Popen(guard, stdin=subprocess.PIPE, start_new_session=True)
        deadline = time.monotonic() + PATIENCE
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise Failed(f"the gateway did not start: {self.log.read_text()[-2000:]}\nits log: {self.log}")
            time.sleep(0.05)

    def _is_ready(self) -> bool:
        log = self.log.read_text(errors="replace")
        addresses = dict(re.findall(r"nsgate (listening|admin) on http://127\.0\.0\.1:(\d+)", log))
        if len(addresses) < 2:
            return False
        self.port, self.admin_port = int(addresses["listening"]), int(addresses["admin"])
        try:
            with urllib.request.urlopen(f"{self.admin_uri}/ready", timeout=5):
                return True
        except (urllib.error.URLError, OSError):
            return False

    def kill_gateway(self) -> None:
        """End the gateway at once, as a crash would."""
        self._leave_alone()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _leave_alone(self) -> None:
        if self._guard is not None:
            self._guard.kill()
            self._guard.wait()
            self._guard = None

    def wait(self) -> int:
        """Wait until the gateway ends; its exit code."""
        return self._process.wait() if self._process is not None else 0

    def stop(self) -> None:
        """Stop everything."""
        self._leave_alone()
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self._process.kill()
            self._process = None
        for catalog in self.catalogs:
            catalog.kill()

    def __enter__(self) -> World:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()
