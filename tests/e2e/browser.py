# SPDX-License-Identifier: LGPL-2.1-only OR BSD-2-Clause
"""Headless Chromium for tests and screenshots, over its DevTools pipe: no driver, no port, no package.

    with browser.open(path, 1280, 800) as page:
        page.js("document.title")
        page.click(100, 200)
        page.errors          what the console and the page complained of

Without Chromium, open() raises mt.Skip. The network is off, so that a page that asks for anything fails; for a URL it is on.
"""
import base64
import contextlib
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time

import mt

NAMES = ("chromium", "chromium-browser", "google-chrome")


def find():
    program = os.environ.get("MT_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if not program:
        raise mt.Skip("Chromium is missing: tools/install-deps page")
    return program


class Page:
    def __init__(self, width, height, dark):
        self.profile = tempfile.TemporaryDirectory(prefix="mt-chromium-", ignore_cleanup_errors=True)
        to_read, self.to = os.pipe()
        self.got, from_write = os.pipe()

        def fds():
            # 3 and 4 are what --remote-debugging-pipe reads and writes; first out of their way.
            a, b = os.dup2(to_read, 200), os.dup2(from_write, 201)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self.popen = subprocess.Popen(
            [find(), "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--hide-scrollbars",
             "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
             "--disable-dev-shm-usage", f"--user-data-dir={self.profile.name}", "about:blank"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, preexec_fn=fds, close_fds=False)
        os.close(to_read)
        os.close(from_write)
        self.buffer, self.number, self.session = b"", 0, None
        self.errors, self.requests = [], []
        targets = self.call("Target.getTargets")["targetInfos"]
        target = next(t["targetId"] for t in targets if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.size(width, height)

    def _message(self, timeout):
        end = time.monotonic() + timeout * mt.PATIENCE
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.got], [], [], max(0, end - time.monotonic()))
            if not ready:
                raise AssertionError(f"Chromium said nothing for {timeout * mt.PATIENCE:g} s")
            data = os.read(self.got, 1 << 20)
            if not data:
                raise AssertionError("Chromium has ended")
            self.buffer += data
        line, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(line)
        self._hear(message.get("method"), message.get("params", {}))
        return message

    def _hear(self, method, params):
        if method == "Runtime.exceptionThrown":
            self.errors.append(params["exceptionDetails"].get("exception", {}).get("description") or str(params))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.errors.append(" ".join(str(a.get("value", a.get("description"))) for a in params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.errors.append(f'{params["entry"]["text"]} {params["entry"].get("url", "")}')
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    def call(self, method, timeout=60, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._message(timeout)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise AssertionError(f'{method}: {answer["error"]}')
                return answer["result"]

    def size(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def load(self, path):
        is_url = str(path).startswith("http://")
        if is_url:
            self.call("Network.emulateNetworkConditions", offline=False, latency=0, downloadThroughput=-1, uploadThroughput=-1)
        self.load_url(str(path) if is_url else pathlib.Path(path).resolve().as_uri())

    def load_url(self, url):
        self.call("Page.navigate", url=url)
        end = time.monotonic() + 60 * mt.PATIENCE
        while self.js("document.readyState") != "complete" or self.js("location.href") == "about:blank":
            if time.monotonic() > end:
                raise AssertionError(f"{url} did not load")
            time.sleep(0.02)
        self.settle()

    def js(self, code):
        done = self.call("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in done:
            raise AssertionError(f'{code}: {done["exceptionDetails"]["exception"].get("description")}')
        return done["result"].get("value")

    def settle(self):
        """Two frames: whatever was asked for is drawn."""
        self.js("new Promise(r => requestAnimationFrame(() => requestAnimationFrame(() => r(1))))")

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x, y):
        self.drag(x, y, x, y)

    def drag(self, x1, y1, x2, y2):
        self.mouse("mouseMoved", x1, y1)
        self.mouse("mousePressed", x1, y1, button="left", buttons=1, clickCount=1)
        if (x1, y1) != (x2, y2):
            self.mouse("mouseMoved", (x1 + x2) / 2, (y1 + y2) / 2, button="left", buttons=1)
            self.mouse("mouseMoved", x2, y2, button="left", buttons=1)
        self.mouse("mouseReleased", x2, y2, button="left", buttons=0, clickCount=1)
        self.settle()

    def key(self, key):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key)
        self.settle()

    def box(self, selector):
        """x, y, width, height in the window, scrolled to."""
        return self.js(f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: 'center'}});"
                       "const r = e.getBoundingClientRect(); return [r.x, r.y, r.width, r.height]; })()")

    def press(self, selector):
        x, y, width, height = self.box(selector)
        self.click(x + width / 2, y + height / 2)

    def screenshot(self, path, whole=True):
        pathlib.Path(path).write_bytes(base64.b64decode(
            self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]))

    def close(self):
        with contextlib.suppress(OSError):
            os.close(self.to)
            os.close(self.got)
        self.popen.terminate()
        try:
            self.popen.wait(10)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()
        self.profile.cleanup()


@contextlib.contextmanager
def open(path, width=1280, height=800, dark=False):
    page = Page(width, height, dark)
    try:
        if path:
            page.load(path)
        yield page
    finally:
        page.close()
