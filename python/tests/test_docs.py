"""Every example of the documentation runs: docstrings, the package's README and the project's."""

import doctest
import importlib
import os
import pkgutil
import pydoc
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import lance_namespace as ln
import pyarrow as pa
import pytest
from conftest import make

import nsgate

ROOT = Path(__file__).parents[2]
MODULES = [f"nsgate.{module.name}" for module in pkgutil.iter_modules(nsgate.__path__) if module.name != "__main__"]


def orders(first, count):
    numbers = range(first, first + count)
    return pa.table({"number": pa.array(numbers, pa.int64()), "sku": ["A"] * count})


@pytest.fixture
def names(world, gateway, monkeypatch):
    """What the examples may use: a token, and some tables and rows. Every address in them is the gateway's."""
    connect = nsgate.connect

    def connected(uri, **options):
        assert re.fullmatch(r"https?://[\w.:-]+", uri)
        options["token"] = world.token
        return connect(world.uri, **options)

    monkeypatch.setattr(nsgate, "connect", connected)
    monkeypatch.setenv("TOKEN", world.token)
    for table, data in EXAMPLE_TABLES.items():
        try:
            make(gateway, table, data)
        except ln.TableAlreadyExistsError:
            gateway.table(*table).insert(data, mode="overwrite")
    return {
        "nsgate": nsgate,
        "gateway": gateway,
        "TOKEN": world.token,
        "CATALOG": world.warehouse.uri,
        "orders": orders(10, 2),
        "visits": pa.table({"number": pa.array([7], pa.int64())}),
        "report": pa.table({"day": ["2026-11-23"], "sold": pa.array([2], pa.int64())}),
        "pa": pa,
    }


EXAMPLE_TABLES = {
    ("prod", "orders"): orders(0, 3),
    ("prod", "stock"): pa.table({"sku": ["A", "B"], "left": pa.array([1000, 1000], pa.int64())}),
    ("research", "lake", "daily", "visits"): pa.table({"number": pa.array([1], pa.int64())}),
}


@pytest.mark.parametrize("name", ["nsgate", *MODULES])
def test_the_examples_of_docstrings(name, names):
    module = importlib.import_module(name)
    finder = doctest.DocTestFinder(exclude_empty=True)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for test in finder.find(module, name, globs=dict(names)):
        runner.run(test)
    results = runner.summarize(verbose=False)
    assert results.failed == 0
    if name in ("nsgate", "nsgate.gateway", "nsgate.transaction"):
        assert results.attempted > 0


@pytest.mark.parametrize("page", ["README.md", "python/README.md"])
def test_the_examples_of_a_page(page, names):
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)
    assert blocks, page
    scope = dict(names)
    for number, block in enumerate(blocks):
        exec(compile(block, f"{page}, example {number + 1}", "exec"), scope)


def test_everything_public_is_documented():
    text = pydoc.plain(pydoc.render_doc(nsgate))
    for name in nsgate.__all__:
        thing = getattr(nsgate, name)
        assert name in text
        assert thing.__doc__, name
        for attribute, value in vars(thing).items() if isinstance(thing, type) else ():
            if not attribute.startswith("_") and (callable(value) or isinstance(value, property)):
                assert value.__doc__, f"{name}.{attribute}"


def test_ctrl_c_ends_the_demo_in_order(tmp_path):
    """A terminal sends the signal to every process of the demo."""
    command = [sys.executable, "-W", "ignore", "-m", "nsgate.demo", "--dir", str(tmp_path)]
    command += ["--port", "0", "--admin-port", "0", "--serve"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=subprocess.STDOUT, text=True, start_new_session=True) as demo:
        said = []
        for line in demo.stdout:
            said.append(line)
            if line.startswith("Serving until Ctrl-C"):
                os.killpg(demo.pid, signal.SIGINT)
    text = "".join(said)
    assert demo.returncode == 0, text
    assert "The tour is complete" in text and "Traceback" not in text, text
    gateway = re.search(r"^nsgate +(http://\S+),", text, re.MULTILINE)[1]
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(gateway, timeout=5)
