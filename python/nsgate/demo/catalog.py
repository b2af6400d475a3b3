"""A real catalog with a table engine, on loopback.

usage: catalog.py ROOT [PORT]

Prints its port and serves until standard input closes, so that it never
outlives what started it.
"""

import sys
from typing import Any

from lance.namespace import RestAdapter


def main() -> None:
    """Serve the folder of the first argument."""
    root = sys.argv[1]
    port = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    properties = {"root": root, "table_version_tracking_enabled": "true"}
    adapter: Any = RestAdapter("dir", properties, port=port)
    adapter.start()
    print("port", adapter.port, flush=True)
    sys.stdin.read()
    adapter.stop()


if __name__ == "__main__":
    main()
