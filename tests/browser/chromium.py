"""A headless chromium, driven over its own debugging protocol: open a page, look at it, ask it."""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--remote-debugging-port=0",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
)
SECONDS = 30


class Tab:
    """One tab. `asked` are the addresses that it has requested, `referrers` those that it told others of, `complaints`
    what it wrote to its console."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket, self._number = socket, 0
        self.asked: list[str] = []
        self.referrers: list[str] = []
        self.complaints: list[str] = []
        for domain in ("Page", "Network", "Log", "Runtime"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """The result of one command."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": params}))
        while True:
            message = self._hear()
            if message.get("id") == self._number:
                assert "error" not in message, message
                return dict(message["result"])

    def _hear(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self._socket.recv(timeout=SECONDS))
        if message.get("method") == "Network.requestWillBeSent":
            request = message["params"]["request"]
            self.asked.append(request["url"])
            told = [value for name, value in request["headers"].items() if name.lower() == "referer"]
            self.referrers += filter(None, told)
        elif message.get("method") == "Log.entryAdded":
            self.complaints.append(message["params"]["entry"]["text"])
        elif message.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(str(message["params"]))
        return message

    def show(self, url: str, *, width: int, dark: bool = False) -> None:
        """Open a page as a screen of this width sees it, and wait until it is there."""
        self.look(width=width, dark=dark)
        self.asked.clear()
        self.complaints.clear()
        self.send("Page.navigate", url=url)
        self.loaded()

    def look(self, *, width: int, dark: bool = False) -> None:
        """See the page that is open, and those to come, on a screen of this width."""
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=width < 600
        )
        self.send("Emulation.setEmulatedMedia", features=scheme)

    def click(self, selector: str) -> None:
        """Press a link or button, and wait for the page that it leads to."""
        self.ask(f"document.querySelector({json.dumps(selector)}).click()")
        self.loaded()

    def loaded(self) -> None:
        """Wait until a page is there."""
        while self._hear().get("method") != "Page.loadEventFired":
            continue

    def fill(self, **fields: str) -> None:
        """Write into fields, by their names."""
        for name, value in fields.items():
            self.ask(f"document.querySelector('[name={name}]').value = {json.dumps(value)}")

    def ask(self, script: str) -> Any:
        """The value of an expression in the page."""
        found = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def press(self, key: str) -> None:
        code = {"Tab": 9, "Enter": 13}[key]
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def picture(self, file: Path) -> None:
        """The whole page as a PNG."""
        shot = self.send("Page.captureScreenshot", captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(shot["data"]))


@contextlib.contextmanager
def chromium() -> Iterator[Tab]:
    """A tab in a browser of its own."""
    program = shutil.which("chromium")
    assert program, "chromium is not installed; run: apt-get install -y chromium"
    with tempfile.TemporaryDirectory(prefix="socialpub-chromium-", ignore_cleanup_errors=True) as profile:
        command = [program, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            try:
                with connect(_tab_address(process), max_size=None) as socket:
                    yield Tab(socket)
            finally:
                process.terminate()


def _tab_address(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    line = next(line for line in process.stderr if line.startswith("DevTools listening on "))
    origin = line.split()[-1].removeprefix("ws://").partition("/")[0]
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://{origin}/json/list", timeout=SECONDS) as answer:
        tabs = json.load(answer)
    return str(next(tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page"))
