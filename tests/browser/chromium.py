"""A headless Chromium over the DevTools protocol: open a file, evaluate, resize, print, and hear what went wrong."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import websocket

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-port=0",
    "--remote-allow-origins=*",
)
_PATIENCE = 60.0


def executable() -> str | None:
    """Debian's Chromium, if it is there."""
    return shutil.which("chromium")


class Page:
    """One tab. ``requests``, ``complaints`` and ``dialogs`` collect what the page did since it was opened."""

    def __init__(self, address: str) -> None:
        """Listen at a DevTools address."""
        self._socket = websocket.create_connection(address, timeout=_PATIENCE)
        self._number = 0
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.dialogs: list[str] = []
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method and wait for its answer, listening to events meanwhile."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv())
            if message.get("id") == self._number:
                assert "error" not in message, (method, message["error"])
                answer: dict[str, Any] = message["result"]
                return answer
            self._hear(message)

    def _hear(self, message: dict[str, Any]) -> None:
        method, parameters = message.get("method"), message.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(parameters["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in {"error", "warning", "assert"}:
            self.complaints.append(json.dumps(parameters["args"]))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in {"error", "warning"}:
            self.complaints.append(json.dumps(parameters["entry"]))
        elif method == "Page.javascriptDialogOpening":
            self.dialogs.append(parameters["message"])

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression; promises are awaited."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def size(self, width: int, height: int = 900) -> None:
        """Lay the page out at this size, and let it draw."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.settle()

    def settle(self) -> None:
        """Wait for two frames."""
        self.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def scheme(self, name: str) -> None:
        """Prefer a light or a dark page."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])
        self.settle()

    def press(self, key: str, code: int, text: str = "") -> None:
        """A key, down and up."""
        typed = {"text": text} if text else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, windowsVirtualKeyCode=code, **typed)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key, windowsVirtualKeyCode=code)

    def open(self, path: Path) -> None:
        """Open a file from disk and wait until its script has run."""
        self.requests.clear()
        self.complaints.clear()
        self.dialogs.clear()
        self.call("Page.navigate", url=path.as_uri())
        deadline = time.monotonic() + _PATIENCE
        while not self.evaluate(
            "document.readyState === 'complete' && document.documentElement.dataset.ready === 'true'"
        ):
            assert time.monotonic() < deadline, ("the page is not ready", self.complaints)
            time.sleep(0.05)
        self.settle()

    def screenshot(self, path: Path) -> None:
        """The whole page as a PNG."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 8000), "scale": 1}
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(answer["data"]))

    def pdf(self) -> bytes:
        """The page on paper."""
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])

    def close(self) -> None:
        """Hang up."""
        self._socket.close()


@contextmanager
def browser(profile: Path) -> Iterator[Page]:
    """Chromium with a fresh profile, and its first tab."""
    program = executable()
    assert program is not None
    process = subprocess.Popen(
        [program, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        page = Page(_address(profile / "DevToolsActivePort"))
        try:
            yield page
        finally:
            page.close()
    finally:
        process.terminate()
        process.wait(timeout=_PATIENCE)


def _address(written: Path) -> str:
    deadline = time.monotonic() + _PATIENCE
    while not (written.exists() and written.read_text().count("\n")):
        assert time.monotonic() < deadline, "chromium did not start"
        time.sleep(0.05)
    port = written.read_text().splitlines()[0]
    with urlopen(f"http://127.0.0.1:{port}/json/list", timeout=_PATIENCE) as answer:
        tabs = json.load(answer)
    address: str = next(tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page")
    return address
