"""``python -m nsgate``: the program, wherever this package was installed."""

import os
import shutil
import sys
import sysconfig
from pathlib import Path


def program() -> str:
    """Return the path of the program ``nsgate``: ``NSGATE_BIN``, or the one that was installed with this package."""
    chosen = os.environ.get("NSGATE_BIN")
    if chosen:
        return chosen
    name = "nsgate" + (sysconfig.get_config_var("EXE") or "")
    for folder in (sysconfig.get_path("scripts"), os.path.dirname(sys.executable)):
        if folder and (Path(folder) / name).is_file():
            return str(Path(folder) / name)
    found = shutil.which(name)
    if found:
        return found
    raise FileNotFoundError(f"the program {name} was not installed with this package; set NSGATE_BIN to its path")


if __name__ == "__main__":
    path = program()
    os.execv(path, [path, *sys.argv[1:]])
