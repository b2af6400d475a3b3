"""``python -m nsgate``: the program, wherever this package was installed."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig


def program() -> str:
    """Return the path of the program ``nsgate``: ``NSGATE_BIN``, or the one that was installed with this package."""
    chosen = os.environ.get("NSGATE_BIN")
    if chosen:
        return chosen
    name = "nsgate" + (sysconfig.get_config_var("EXE") or "")
    folders = [
        sysconfig.get_path("scripts"),
        sysconfig.get_path("scripts", f"{os.name}_user"),
        os.path.dirname(sys.executable),
    ]
    for folder in folders:
        path = os.path.join(folder, name)
        if os.access(path, os.X_OK):
            return path
    found = shutil.which(name)
    if found is None:
        raise FileNotFoundError(
            f"the program {name} is not in {', '.join(dict.fromkeys(folders))}, nor in PATH;"
            " install it (pip install --force-reinstall --no-deps nsgate), or set NSGATE_BIN to its path"
        )
    return found


def main() -> None:
    """Run the program instead of this process."""
    try:
        path = program()
    except FileNotFoundError as error:
        sys.exit(f"python -m nsgate: {error}")
    try:
        os.execv(path, [path, *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"python -m nsgate: cannot run {path}: {error.strerror}")


if __name__ == "__main__":
    main()
