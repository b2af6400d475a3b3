"""Runs the scripts beside it, one after the other, in one process: loading their libraries takes a second.

Reads an order from each line: `[SCRIPT, [ARGUMENT, ...]]`. Prints `answer NUMBER` and JSON: what the script printed, or
what it raised.
"""

import contextlib
import io
import json
import runpy
import sys
import traceback
from pathlib import Path

for number, line in enumerate(sys.stdin):
    script, arguments = json.loads(line)
    sys.argv = [script, *arguments]
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            runpy.run_path(str(Path(__file__).parent / script), run_name="__main__")
        answer = {"printed": json.loads(printed.getvalue())}
    except BaseException:
        answer = {"raised": traceback.format_exc() + printed.getvalue()}
    print(f"answer {number} {json.dumps(answer)}", flush=True)
