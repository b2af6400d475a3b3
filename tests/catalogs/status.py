"""Uses the status page as an operator does, in a headless browser.

usage: status.py BROWSER AXE ADMIN_URI TOKEN GATEWAY_URI BEARER FOLDER

Opens the page, enters a wrong token and the right one, and watches the page while requests come in. Takes screenshots
for a desktop and a phone, in light and in dark. Prints `gone?` when the gateway is to be stopped, waits for a line,
watches the page without the gateway, and prints the observations as JSON.
"""

import json
import os
import pathlib
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "support"))

from browser import SCREENS, Browser


def keep_asking(uri, bearer, stop):
    """Sends requests until `stop` is set: some succeed and some do not."""
    asked = 0
    while not stop.is_set():
        asked += 1
        target, token = [("/v1/namespace/$/list", bearer), ("/v1/namespace/prod/table/list", bearer),
                         ("/v1/table/prod$nothing/exists", bearer), ("/v1/namespace/$/list", "no.such.token"), ("/v1/namespace/research%24%3Cimg%20src%3Dx%20onerror%3Dalert%281%29%3E/list", bearer)][asked % 5]
        post = target.endswith("/exists")
        request = urllib.request.Request(uri + target, data=b"{}" if post else None, method="POST" if post else "GET",
                                         headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"})
        try:
            urllib.request.urlopen(request, timeout=10).read()
        except urllib.error.HTTPError as error:
            error.read()
        except OSError:
            pass  # the gateway is gone
        time.sleep(0.01)


def main():
    program, axe, admin, token, gateway, bearer, folder = sys.argv[1:]
    with open(axe, encoding="utf-8") as file:
        axe = file.read()
    stop = threading.Event()
    traffic = threading.Thread(target=keep_asking, args=(gateway, bearer, stop), daemon=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(program, profile)
        try:
            seen = look(browser, axe, admin, token, folder, traffic)
            print("gone?", flush=True)
            sys.stdin.readline()
            browser.wait("!document.getElementById('silent').hidden")
            seen["silent"] = browser.text("#silent")
            seen["state_when_silent"] = browser.text("#state")
            browser.picture(f"{folder}/status-silent.png", 1280, 800, "light")
        finally:
            stop.set()
            browser.end()
    print("seen " + json.dumps(seen), flush=True)


def look(browser, axe, admin, token, folder, traffic):
    browser.ask("Page.navigate", url=admin + "/")
    seen = {}
    if token:
        browser.wait("document.getElementById('ask') && !document.getElementById('ask').hidden")
        seen["locked"] = browser.text("#state")
        seen["axe"] = browser.findings(axe)
        give = "document.getElementById('token').value = {}; document.querySelector('#ask button').click()"
        browser.value(give.format(json.dumps("wrong")))
        browser.wait("!document.getElementById('wrong').hidden")
        browser.value(give.format(json.dumps(token)))
    browser.wait("document.querySelector('#catalogs td') !== null")
    traffic.start()
    time.sleep(float(os.environ.get("NSGATE_LOOK_SECONDS", "4")))
    browser.wait("document.querySelector('#operations td') !== null")
    browser.wait("document.querySelector('#failed td') !== null && document.querySelector('#refused td') !== null")
    for part in ("tiles", "catalogs", "operations", "batches", "keys", "configuration", "state", "version", "updated", "findings",
                 "failed", "refused", "certificates", "process"):
        seen[part] = browser.text(f"#{part}")
    seen["shown"] = browser.value("!document.getElementById('main').hidden && document.getElementById('ask').hidden")
    seen["images"] = browser.value("document.querySelectorAll('main img, main script').length")
    seen["stored"] = browser.value("[Object.keys(sessionStorage), Object.keys(localStorage), document.cookie]")
    seen["fits"] = []
    for name, width, height, scheme in SCREENS:
        seen["fits"].append(browser.picture(f"{folder}/status-traffic-{name}.png", width, height, scheme))
        seen["axe"] += browser.findings(axe)
    seen["outside"], seen["faults"] = browser.outside([admin + "/"]), browser.faults()
    return seen


main()
