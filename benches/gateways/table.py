"""What is printed: the figures of each line, and what the gateway has to keep."""

import os
import platform
import re
import subprocess

import machine
from parties import envoy

FIGURES = {"cpu": "CPU", "rate": "rate", "p99": "p99", "calm": "p99 calm", "each": "KiB each", "memory": "resident MiB"}


def show_machine():
    """Who is measured, and on what."""
    venv, here = os.environ["NSGATE_PEERS_VENV"], os.path.dirname(os.path.abspath(__file__))
    with open("/proc/cpuinfo") as info:
        model = re.search(r"model name\s*: (.*)", info.read())
    with open(f"{here}/peers/Cargo.lock") as lock:
        locked = dict(re.findall(r'name = "([^"]+)"\nversion = "([^"]+)"', lock.read()))
    cores = [machine.PARTY_CORE, machine.LOAD_CORES, machine.CATALOG_CORES]
    print(f"{model[1] if model else platform.machine()}, {len(machine.CORES)} cores, Linux {platform.release()}; "
          "party on core {}, load on {}, catalog on {}".format(*(core[0] for core in cores)))
    if cores[0] == cores[1]:
        print("one core for everything: rates and times mean little here")
    versions = [
        said(["nginx", "-v"], r"nginx/(\S+)", "nginx"), said(["haproxy", "-v"], r"version (\S+)", "HAProxy"),
        said([envoy.program(), "--version"], r"/(\d[\d.]+)/", "Envoy"),
        said([f"{venv}/bin/traefik", "version"], r"Version:\s+(\S+)", "Traefik"),
        said([f"{venv}/bin/caddy", "version"], r"v?(\S+)", "Caddy"), f"Pingora {locked.get('pingora-core')}",
        f"hyper {locked.get('hyper')}", said(["wrk", "-v"], r"wrk \S*?(\d\S+)", "wrk"),
        said(["h2load", "--version"], r"nghttp2/(\S+)", "h2load"),
    ]
    print(", ".join(versions))


def said(command, pattern, name):
    """The version of a program; some print it where errors go."""
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except OSError:
        return f"{name}: not found"
    found = re.search(pattern, ran.stdout + ran.stderr)
    return f"{name} {found[1] if found else '?'}"


def show(name, what, subjects, measured, bounds, asked):
    unit = subjects[0].load.unit if subjects else ""
    print(f"\n[{name}] {what}; {asked.rounds} rounds of {asked.seconds} s, medians")
    print(f"{'':24}{'CPU µs/' + unit:>14}{'user':>10}{'system':>10}{unit + 's/s':>14}{'p50 ms':>9}{'p99 ms':>9}"
          f"{'p99.9 ms':>10}{'calm ms':>9}{'MiB':>8}{'KiB each':>10}{'busy':>6}")
    for subject in subjects:
        median = measured[subject.label].median
        spread = f"{median('busy'):.0%}"
        print(f"{subject.label:24}{number(median('cpu')):>14}{number(median('user')):>10}{number(median('system')):>10}"
              f"{number(median('rate')):>14}{millis(median('p50')):>9}{millis(median('p99')):>9}"
              f"{millis(median('p999')):>10}{millis(median('calm')):>9}{number(median('memory')):>8}"
              f"{number(median('each')):>10}{spread:>6}")
    for bound in bounds:
        judge(bound, measured)
    print(flush=True)


def number(value, places=None):
    if value is None or value == 0:
        return "-"
    if places is None:
        places = 0 if value >= 1000 else 1
    return f"{value:,.{places}f}"


def millis(value):
    """Three digits or so, of tenths as of tens."""
    return number(value, 3 if value is not None and value < 1 else 2)


def judge(bound, measured):
    """One line: a ratio or a figure, its bound, and whether it was kept."""
    if bound.subject not in measured or (bound.over and bound.over not in measured):
        return
    figure = measured[bound.subject].median(bound.figure)
    if bound.over:
        figure /= measured[bound.over].median(bound.figure)
        text = f"{FIGURES[bound.figure]}: {bound.subject} / {bound.over}"
    else:
        text = f"{FIGURES[bound.figure]}: {bound.subject}"
    sign, verdict = "", ""
    if bound.bound is not None:
        kept = figure >= bound.bound if bound.at_least else figure <= bound.bound
        sign, verdict = f"{'≥' if bound.at_least else '≤'} {bound.bound:.2f}", "kept" if kept else "MISSED"
    print(f"  {text:60}{figure:>10.2f}{sign:>12}  {verdict}".rstrip())
