"""The gateway and its peers side by side; `run` beside this file starts it. See ../README.md."""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import cases
import machine
import table
from measure import Measured, measure


def arguments():
    parser = argparse.ArgumentParser(
        prog="benches/gateways/run", description="The gateway and its peers, side by side.",
        epilog="cases: " + "; ".join(f"{name}: {what}" for name, (what, _) in cases.ALL.items()))
    parser.add_argument("cases", nargs="*", metavar="CASE", help="all of them if none is named")
    parser.add_argument("--seconds", type=int, default=4, help="how long each is measured in each round")
    parser.add_argument("--rounds", type=int, default=3, help="of which the medians are taken")
    parser.add_argument("--only", metavar="PARTY,…", help="leave the other parties out")
    parser.add_argument("--nsgate", metavar="BIN", help="this build, instead of building it")
    parser.add_argument("--before", metavar="BIN", help="another build of the gateway to compare with")
    parser.add_argument("--json", metavar="FILE", help="every figure of every round")
    asked = parser.parse_args()
    for name in asked.cases:
        if name not in cases.ALL:
            parser.error(f"`{name}` is none of: {' '.join(cases.ALL)}")
    return asked


def keys():
    """Keys and tokens, made once and anew before they expire."""
    folder = f"{os.environ['NSGATE_PEERS_FOLDER']}/keys"
    if not os.path.exists(folder) or time.time() - os.path.getmtime(folder) > 5 * 24 * 3600:
        print(f"making {cases.FRESH_TOKENS:,} tokens", file=sys.stderr)
        mint = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mint.py")
        python = f"{os.environ['NSGATE_PEERS_VENV']}/bin/python"
        # In its place when it is whole: this may be ended, and others may run beside it.
        with tempfile.TemporaryDirectory(dir=os.path.dirname(folder)) as made:
            subprocess.run([python, mint, f"{made}/keys", str(cases.FRESH_TOKENS)], check=True)
            shutil.rmtree(folder, ignore_errors=True)
            os.rename(f"{made}/keys", folder)
    return folder


def chosen(subjects, asked):
    only = asked.only.split(",") if asked.only else None
    return [subject for subject in subjects
            if (subject.party != "before" or asked.before)
            and (only is None or subject.party in only or subject.party in ("nsgate", "before"))]


def run_case(name, asked, folder, tokens):
    what, build = cases.ALL[name]
    subjects, bounds = build()
    subjects = chosen(subjects, asked)
    measured = {subject.label: Measured() for subject in subjects}
    for number in range(asked.rounds):
        # Whoever comes first this time comes later next time.
        turn = number * len(subjects) // asked.rounds
        for subject in subjects[turn:] + subjects[:turn]:
            measured[subject.label].add(measure(subject, asked.seconds, folder, tokens))
    table.show(name, what, subjects, measured, bounds, asked)
    return {label: of.rounds() for label, of in measured.items()}


def main():
    asked = arguments()
    # Ended from outside, everything that was started ends too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if asked.nsgate:
        os.environ["NSGATE_BUILT"] = os.path.abspath(asked.nsgate)
    if asked.before:
        os.environ["NSGATE_BEFORE"] = os.path.abspath(asked.before)
    machine.allow_many_files()
    tokens = keys()
    os.sched_setaffinity(0, machine.LOAD_CORES)
    table.show_machine()
    found, failures = {}, []
    with tempfile.TemporaryDirectory(prefix="gateways-") as folder:
        for name in asked.cases or cases.ALL:
            try:
                found[name] = run_case(name, asked, folder, tokens)
            except machine.Failed as failed:
                failures.append(name)
                print(f"\n[{name}] no figures: {failed}", flush=True)
    if asked.json:
        with open(asked.json, "w") as file:
            json.dump(found, file, indent=1)
    if failures:
        sys.exit(f"no figures of: {' '.join(failures)}")


main()
