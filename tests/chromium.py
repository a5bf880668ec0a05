"""Drives a headless Chromium through its debugging pipe: pages are opened, clicked in, looked at, and held to no requests.

The protocol is Chrome's DevTools Protocol: JSON messages, each with a zero byte behind it, on descriptors 3 and 4.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

needs_chromium = pytest.mark.skipif(PROGRAM is None, reason="no Chromium here")

_PATIENCE = 60.0  # seconds until a message is answered
_KEYS = {
    "Enter": ("\r", 13),
    "Tab": ("\t", 9),
    "Escape": ("", 27),
    "ArrowDown": ("", 40),
    "ArrowUp": ("", 38),
}


class Page:
    """A page that is open. errors: what it wrote to its console as one, or threw; requests: what it asked for but itself."""

    def __init__(self, browser: _Browser, session: str) -> None:
        self._browser, self._session = browser, session
        self.errors: list[str] = []
        self.requests: list[str] = []

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._browser.send(method, parameters, self._session)

    def open(self, path: Path) -> None:
        """Load a file, and wait until its scripts have run."""
        self.loaded = False
        self.send("Page.navigate", url=path.resolve().as_uri())
        self._browser.wait(lambda: self.loaded)

    def run(self, script: str) -> Any:
        """The value of an expression, as JSON has it; a promise is waited for. AssertionError for one that throws."""
        answer = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        """A key of _KEYS, or a character."""
        text, code = _KEYS.get(key, (key, ord(key[-1])))
        shared = {"key": key, "windowsVirtualKeyCode": code}
        self.send("Input.dispatchKeyEvent", type="keyDown", text=text, **shared)
        self.send("Input.dispatchKeyEvent", type="keyUp", **shared)

    def look(self, width: int = 1280, height: int = 900, *, dark: bool = False, paper: bool = False) -> None:
        """The size of the window in CSS pixels, and the media that the page is shown on."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", media="print" if paper else "", features=[scheme])

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"]))

    def pdf(self) -> bytes:
        """As the page is printed."""
        return base64.b64decode(self.send("Page.printToPDF", printBackground=True)["data"])

    def heard(self, method: str, said: Mapping[str, Any]) -> None:
        """An event of the page."""
        if method == "Page.loadEventFired":
            self.loaded = True
        elif method == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(said["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and said["type"] in ("error", "warning", "assert"):
            self.errors.append(json.dumps(said["args"]))
        elif method == "Log.entryAdded" and said["entry"]["level"] == "error":
            self.errors.append(json.dumps(said["entry"]))
        elif method == "Network.requestWillBeSent":
            url = said["request"]["url"]
            if said["type"] != "Document" and not url.startswith("data:"):
                self.requests.append(url)


class _Browser:
    def __init__(self, orders: int, answers: int) -> None:
        self._orders, self._answers = orders, answers
        self._rest = b""
        self._number = 0
        self._answered: dict[int, dict[str, Any]] = {}
        self.pages: dict[str, Page] = {}

    def send(self, method: str, parameters: Mapping[str, Any], session: str = "") -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        data = json.dumps(message | ({"sessionId": session} if session else {})).encode() + b"\0"
        while data:
            data = data[os.write(self._orders, data) :]
        self.wait(lambda: self._number in self._answered)
        answer = self._answered.pop(self._number)
        assert "error" not in answer, (method, answer["error"])
        result: dict[str, Any] = answer["result"]
        return result

    def wait(self, done: Any) -> None:
        """Read messages until that is true."""
        until = time.monotonic() + _PATIENCE
        while not done():
            ready, _, _ = select.select([self._answers], [], [], max(0.0, until - time.monotonic()))
            assert ready, "Chromium does not answer"
            data = os.read(self._answers, 1 << 20)
            assert data, "Chromium has ended"
            *messages, self._rest = (self._rest + data).split(b"\0")
            for one in map(json.loads, messages):
                if "id" in one:
                    self._answered[one["id"]] = one
                elif one.get("sessionId") in self.pages:
                    self.pages[one["sessionId"]].heard(one["method"], one["params"])


@contextlib.contextmanager
def chromium_page(profile: Path) -> Iterator[Page]:
    """An empty page of a Chromium that ends with the block. profile: an empty folder for what it writes."""
    assert PROGRAM is not None
    theirs_in, ours_out = _high_pipe()
    ours_in, theirs_out = _high_pipe()
    flags = (
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--remote-debugging-pipe",
    )
    pid = os.posix_spawn(
        PROGRAM,
        [PROGRAM, *flags, f"--user-data-dir={profile}", "about:blank"],
        os.environ | {"HOME": str(profile)},
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_DUP2, theirs_in, 3),
            (os.POSIX_SPAWN_DUP2, theirs_out, 4),
        ],
        setsid=True,
    )
    os.close(theirs_in)
    os.close(theirs_out)
    try:
        browser = _Browser(ours_out, ours_in)
        target = browser.send("Target.createTarget", {"url": "about:blank"})["targetId"]
        attached = browser.send("Target.attachToTarget", {"targetId": target, "flatten": True})
        session = attached["sessionId"]
        page = browser.pages[session] = Page(browser, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.send(f"{domain}.enable")
        page.look()
        yield page
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(ours_out)
        os.close(ours_in)


def _high_pipe() -> tuple[int, int]:
    """Read end and write end, neither of which is a descriptor that the child's are put on."""
    ends = os.pipe()
    moved = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends)
    for end in ends:
        os.close(end)
    return moved[0], moved[1]
