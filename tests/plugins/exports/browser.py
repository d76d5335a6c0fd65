"""A real Chromium without a window, led over its debugging pipe (https://chromedevtools.github.io/devtools-protocol/)."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Self

PATIENCE = 60.0  # seconds that an answer may take


def find_chromium() -> str:
    """The program, "" where there is none."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next((found for name in names if (found := shutil.which(name))), "")


class Browser:
    """One browser, of which one page at a time is led. Ends with the block it is opened in."""

    def __init__(self, *, width: int = 1200, height: int = 900, script: bool = True) -> None:
        self._home = tempfile.mkdtemp(prefix="sagent-browser-")
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()
        command = [
            find_chromium(), "--headless=new", "--remote-debugging-pipe", "--no-first-run", "--no-sandbox",
            "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking", "--disable-extensions",
            f"--user-data-dir={self._home}", f"--window-size={width},{height}", "about:blank",
        ]  # fmt: skip
        place = 'exec 3<&"$0" 4>&"$1"; shift; exec "$@"'
        self._process = subprocess.Popen(
            ["bash", "-c", place, str(theirs_in), str(theirs_out), *command],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._in, self._out = ours_in, ours_out
        self._left = b""
        self._script = script
        self._number = 0
        self._session = ""
        self.events: list[dict] = []
        self._attach()
        if not script:
            self.call("Emulation.setScriptExecutionDisabled", value=True)

    def _attach(self) -> None:
        self._session = ""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log", "Accessibility"):
            self.call(f"{domain}.enable")
        self.call("Page.setLifecycleEventsEnabled", enabled=True)

    def open_tab(self, page: Path | str) -> str:
        """Load a page in another tab, which is led from now on; return what `switch` takes for the one before."""
        before = self._session
        self._attach()
        self.open(page)
        return before

    def switch(self, tab: str) -> str:
        """Lead another tab from now on; return what this takes for the one before."""
        before, self._session = self._session, tab
        return before

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._session = ""
        with suppress(Exception):
            self.call("Browser.close")
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(60)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, 9)
        self._process.wait()
        os.close(self._in)
        os.close(self._out)
        shutil.rmtree(self._home, ignore_errors=True)

    def call(self, method: str, **params: object) -> dict:
        """Ask for something and wait for the answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            self.events.append(answer)

    def open(self, page: Path | str) -> None:
        """Load a page, from a file or an address, to its end, and forget what was said of the one before."""
        self.call("Emulation.setEmulatedMedia", features=[])
        self.call("Emulation.clearDeviceMetricsOverride")
        self.call("Page.navigate", url="about:blank")
        self.events.clear()
        loader = self.call("Page.navigate", url=page if isinstance(page, str) else page.as_uri())["loaderId"]
        while not any(_has_loaded(event, loader) for event in self.events):  # this one, not the one before
            self.events.append(self._read())
        if self._script:
            self.run("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 50)))")

    def run(self, code: str) -> object:
        """What an expression comes to."""
        asked = {"expression": code, "awaitPromise": True, "returnByValue": True}
        answer = self.call("Runtime.evaluate", **asked)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key: str, text: str = "") -> None:
        """Press a key as a person does."""
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32}
        text = text or (key if len(key) == 1 else {"Enter": "\r"}.get(key, ""))
        kind = {"key": key, "windowsVirtualKeyCode": codes.get(key, ord(key[0].upper()))}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **kind)
        self.call("Input.dispatchKeyEvent", type="keyUp", **kind)

    def click(self, x: float, y: float) -> None:
        """Click at a place as a person does."""
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def size(self, width: int, height: int = 900) -> None:
        """Show it as wide and high."""
        given = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **given)

    def scheme(self, name: str) -> None:
        """Light or dark."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def findings(self, width: int, scheme: str) -> object:
        """What axe-core has to say against the page, everything on it opened, at a width, light or dark."""
        found = find_spec("axe_core_python")
        assert found is not None
        axe = Path(str(found.origin)).with_name("axe.min.js").read_text("utf-8")
        self.size(width)
        self.scheme(scheme)
        self.run("document.querySelectorAll('details').forEach((part) => (part.open = true))")
        self.run(f"{axe}; 0")
        told = "violations.map(({id, nodes}) => [id, nodes.map(({html}) => html)])"
        return self.run(f"axe.run().then(({{violations}}) => {told})")

    def picture(self, out: Path) -> None:
        """Take a screenshot."""
        out.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def requests(self) -> list[str]:
        """The addresses that were asked for."""
        sent = [event for event in self.events if event.get("method") == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in sent]

    def complaints(self) -> list[str]:
        """What the browser said against the page: errors, and what its policy refused."""
        said = [event["params"]["entry"]["text"] for event in self.events if event.get("method") == "Log.entryAdded"]
        thrown = [event for event in self.events if event.get("method") == "Runtime.exceptionThrown"]
        return [*said, *(json.dumps(event["params"]) for event in thrown)]

    def _read(self) -> dict:
        while b"\0" not in self._left:
            assert select.select([self._in], [], [], PATIENCE)[0], "the browser does not answer"
            piece = os.read(self._in, 1 << 20)
            assert piece, "the browser has ended"
            self._left += piece
        message, _, self._left = self._left.partition(b"\0")
        return json.loads(message)


def _has_loaded(event: dict, loader: str) -> bool:
    about = event.get("params", {})
    return event.get("method") == "Page.lifecycleEvent" and (about["name"], about["loaderId"]) == ("load", loader)
