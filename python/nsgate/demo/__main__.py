"""``nsgate demo``: two real catalogs, the gateway in front of them, and a tour."""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Optional, Sequence


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Run the demo; 0 if all went as promised."""
    parser = argparse.ArgumentParser(
        prog="nsgate demo",
        description="Start two real catalogs and the gateway in front of them, on this machine, and walk a tour.",
    )
    parser.add_argument("--serve", action="store_true", help="serve after the tour, until Ctrl-C")
    parser.add_argument("--dir", type=Path, help="where the data are kept (default: nowhere, they are deleted)")
    parser.add_argument("--port", type=int, default=0, help="the gateway's port (default: a free one)")
    parser.add_argument("--admin-port", type=int, default=0, help="the port of its status page (default: a free one)")
    chosen = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    os.environ.setdefault("LANCE_LOG", "error")
    try:
        import lancedb  # noqa: F401

        from .tour import BOLD, PLAIN, Tour
        from .world import Failed, World
    except ImportError as error:
        return fail(f"{error.name} is missing: pip install 'nsgate[client]'")
    for port in filter(None, (chosen.port, chosen.admin_port)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                return fail(f"port {port} is in use; choose another one with --port and --admin-port")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, ended)
    with tempfile.TemporaryDirectory(prefix="nsgate-demo-") as temporary:
        folder = chosen.dir or Path(temporary)
        world = World(folder, port=chosen.port, admin_port=chosen.admin_port)
        try:
            with world:
                print(f"warehouse  {world.warehouse.uri}  (prod…)")
                print(f"lake       {world.lake.uri}  (research.lake…)")
                print(f"nsgate     {world.uri}, status page {world.admin_uri}, log {world.log}", flush=True)
                if not Tour(world.uri, world.admin_uri, world.token).walk():
                    return 1
                if chosen.serve:
                    print(f"\n{BOLD}Now yours{PLAIN}")
                    print(yours(world.uri, world.admin_uri, world.token, sys.executable, folder), flush=True)
                    world.wait()
        except Failed as failed:
            return fail(str(failed))
        except FileNotFoundError as error:
            return fail(str(error))
        except KeyboardInterrupt:
            print()
    return 0


def ended(number: int, _: object) -> None:
    """End as a signal asks, with everything that was started."""
    sys.exit(128 + number)


def yours(uri: str, admin_uri: str, token: str, python: str, folder: Path) -> str:
    """Return what a visitor can try next."""
    return f"""\
Address  {uri}        Status page  {admin_uri}
Token    (a day)
{token}

  export TOKEN=…            # the token above
  curl -H "Authorization: Bearer $TOKEN" '{uri}/v1/namespace/$/list'
  curl -H "Authorization: Bearer $TOKEN" '{uri}/v1/namespace/prod/table/list'

  # {python}
  import os, nsgate
  gateway = nsgate.connect("{uri}", token=os.environ["TOKEN"])
  with gateway.transaction() as tx:
      tx.table("prod", "stock").update({{"left": "left - 1"}}, where="sku = 'A'")
  print(gateway.table("prod", "stock").to_table())

Serving until Ctrl-C. The data are in {folder}."""


def fail(problem: str) -> int:
    """Print the problem; 1."""
    print(f"nsgate demo: {problem}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
