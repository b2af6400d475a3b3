"""Drives a headless Chromium, and looks at one page.

usage: browser.py BROWSER AXE URL FOLDER NAME

Opens the status page at URL, takes screenshots in light, in dark and as on a phone (FOLDER/NAME-….png), has axe-core
look for what shuts people out, and prints the observations as JSON.
"""

import base64
import json
import os
import subprocess
import sys
import tempfile
import time

PATIENCE = 60
SCREENS = (("light", 1280, 800, "light"), ("dark", 1280, 800, "dark"), ("phone", 390, 844, "light"), ("phone-dark", 390, 844, "dark"))

# What is wider than its card, and so cut at its edge, or than the screen.
CUT = """[...document.querySelectorAll("main *")].filter((node) => {
    const card = node.closest("table, .tile, figure, .facts, .finding, .empty, form") || document.body;
    return node.getBoundingClientRect().right > card.getBoundingClientRect().right + 1;
}).map((node) => node.outerHTML.slice(0, 200))"""


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
        """Takes a screenshot of the whole page. Returns True if nothing is wider than the screen, or cut at its edge."""
        mobile = width < 600
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=2 if mobile else 1, mobile=mobile)
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        time.sleep(0.2)
        size = self.value("[document.documentElement.scrollWidth, document.documentElement.scrollHeight]")
        clip = {"x": 0, "y": 0, "width": width, "height": max(size[1], height), "scale": 1}
        shot = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        with open(file, "wb") as out:
            out.write(base64.b64decode(shot["data"]))
        cut = self.value(CUT)
        return size[0] <= width and not cut or [size[0], *cut[:3]]

    def findings(self, axe):
        """Returns what axe-core finds in the page as it is now."""
        self.value(f"{axe};0")
        return self.value("axe.run().then((run) => run.violations.map((one) => `${one.id}: ${one.help}: ${one.nodes[0].html}`))")

    def outside(self, inside):
        """Returns the addresses that were requested, but for those that begin with one of `inside`."""
        requests = [event["params"]["request"]["url"] for event in self.events if event.get("method") == "Network.requestWillBeSent"]
        return [url for url in requests if not url.startswith((*inside, "data:"))]

    def faults(self):
        """Returns the errors that the browser has reported."""
        kinds = ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled")
        params = [event["params"] for event in self.events if event.get("method") in kinds]
        return [one.get("entry", {}).get("text") or json.dumps(one)[:500] for one in params]

    def end(self):
        self.process.kill()
        self.process.wait()


def main():
    program, axe, url, folder, name = sys.argv[1:]
    with open(axe, encoding="utf-8") as file:
        axe = file.read()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(program, profile)
        try:
            browser.ask("Page.navigate", url=url + "/")
            browser.wait("document.querySelector('#catalogs td') !== null")
            seen = {"title": browser.value("document.title"), "state": browser.text("#state"), "page": browser.text("main")}
            seen["levels"] = browser.value("[...document.querySelectorAll('h1, h2, h3')].map((head) => Number(head.tagName[1]))")
            seen["links"] = browser.value("[...document.querySelectorAll('a')].map((link) => link.getAttribute('href'))")
            seen["fits"], seen["axe"] = [], {}
            for screen, width, height, scheme in SCREENS:
                seen["fits"].append(browser.picture(f"{folder}/status-{name}-{screen}.png", width, height, scheme))
                seen["axe"][screen] = browser.findings(axe)
            seen["outside"], seen["faults"] = browser.outside([url + "/"]), browser.faults()
        finally:
            browser.end()
    print("seen " + json.dumps(seen), flush=True)


if __name__ == "__main__":
    main()
