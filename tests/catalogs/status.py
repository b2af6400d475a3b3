"""Uses the status page as an operator does, in a headless browser.

usage: status.py BROWSER ADMIN_URI TOKEN GATEWAY_URI BEARER FOLDER

Opens the page, enters a wrong token and the right one, and watches the page while requests come in. Takes screenshots
for a desktop and a phone, in light and in dark. Prints `gone?` when the gateway is to be stopped, waits for a line,
watches the page without the gateway, and prints the observations as JSON.
"""

import base64
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

PATIENCE = 60


class Browser:
    """The browser's own debugging protocol, over two pipes: messages of JSON, each ended by a zero byte."""

    def __init__(self, program, profile):
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()
        # The browser reads from descriptor 3 and writes to 4.
        def pipes():
            os.dup2(os.dup(theirs_in), 3)
            os.dup2(os.dup(theirs_out), 4)

        flags = ["--headless=new", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu", "--hide-scrollbars",
                 "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
                 f"--user-data-dir={profile}"]
        if os.geteuid() == 0:
            flags.append("--no-sandbox")
        self.process = subprocess.Popen([program, *flags], preexec_fn=pipes, close_fds=False,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(theirs_in)
        os.close(theirs_out)
        self.reads, self.writes = os.fdopen(ours_in, "rb"), os.fdopen(ours_out, "wb")
        self.number, self.session, self.events = 0, None, []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        self.writes.write(json.dumps(message).encode() + b"\0")
        self.writes.flush()
        while True:
            answer = json.loads(self.message())
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def message(self):
        read = bytearray()
        while (byte := self.reads.read(1)) != b"\0":
            if not byte:
                raise RuntimeError("the browser ended")
            read += byte
        return bytes(read)

    def value(self, expression):
        result = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait(self, expression):
        end = time.monotonic() + PATIENCE
        while not self.value(expression):
            if time.monotonic() > end:
                raise RuntimeError(f"never true: {expression}\n{self.value('document.body.innerText')}")
            time.sleep(0.1)

    def text(self, selector):
        return self.value(f"document.querySelector({json.dumps(selector)}).innerText")

    def picture(self, file, width, height, scheme):
        """Takes a screenshot of the whole page. Returns True if the page is not wider than the screen."""
        mobile = width < 600
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=2 if mobile else 1, mobile=mobile)
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        time.sleep(0.2)
        size = self.value("[document.documentElement.scrollWidth, document.documentElement.scrollHeight]")
        clip = {"x": 0, "y": 0, "width": width, "height": max(size[1], height), "scale": 1}
        shot = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        with open(file, "wb") as out:
            out.write(base64.b64decode(shot["data"]))
        return size[0] <= width

    def end(self):
        self.process.kill()
        self.process.wait()


def keep_asking(uri, bearer, stop):
    """Sends requests until `stop` is set: some succeed and some do not."""
    asked = 0
    while not stop.is_set():
        asked += 1
        target, token = [("/v1/namespace/$/list", bearer), ("/v1/namespace/prod/table/list", bearer),
                         ("/v1/table/prod$nothing/exists", bearer), ("/v1/namespace/$/list", "no.such.token")][asked % 4]
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
    program, admin, token, gateway, bearer, folder = sys.argv[1:]
    stop = threading.Event()
    traffic = threading.Thread(target=keep_asking, args=(gateway, bearer, stop), daemon=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(program, profile)
        try:
            seen = look(browser, admin, token, folder, traffic)
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


def look(browser, admin, token, folder, traffic):
    browser.ask("Page.navigate", url=admin + "/")
    seen = {}
    if token:
        browser.wait("document.getElementById('ask') && !document.getElementById('ask').hidden")
        seen["locked"] = browser.text("#state")
        give = "document.getElementById('token').value = {}; document.querySelector('#ask button').click()"
        browser.value(give.format(json.dumps("wrong")))
        browser.wait("!document.getElementById('wrong').hidden")
        browser.value(give.format(json.dumps(token)))
    browser.wait("document.querySelector('#catalogs td') !== null")
    traffic.start()
    time.sleep(float(os.environ.get("NSGATE_LOOK_SECONDS", "4")))
    browser.wait("document.querySelector('#operations td') !== null")
    for part in ("tiles", "catalogs", "operations", "batches", "keys", "configuration", "state", "version", "updated"):
        seen[part] = browser.text(f"#{part}")
    seen["shown"] = browser.value("!document.getElementById('main').hidden && document.getElementById('ask').hidden")
    seen["images"] = browser.value("document.querySelectorAll('main img, main script').length")
    seen["stored"] = browser.value("[Object.keys(sessionStorage), Object.keys(localStorage), document.cookie]")
    seen["fits"] = [browser.picture(f"{folder}/status-{name}.png", width, height, scheme) for name, width, height, scheme in (
        ("desk", 1280, 800, "light"), ("desk-dark", 1280, 800, "dark"), ("phone", 390, 844, "light"), ("phone-dark", 390, 844, "dark"))]
    requests = [event["params"]["request"]["url"] for event in browser.events if event.get("method") == "Network.requestWillBeSent"]
    seen["outside"] = [url for url in requests if not url.startswith((admin + "/", "data:"))]
    seen["faults"] = [fault(event) for event in browser.events if event.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled")]
    return seen


def fault(event):
    params = event["params"]
    return params.get("entry", {}).get("text") or json.dumps(params)[:500]


main()
