"""Drives headless Chromium by its DevTools protocol through a pipe, without a library or a port.

The protocol: JSON messages that end with NUL, commands on the browser's descriptor 3, answers and events on 4.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
"""What the browser is called; the first that is there is taken."""
FLAGS = (
    "--headless=new",
    "--no-sandbox",  # it runs as root in containers, on pages that we wrote ourselves
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)


class PageError(Exception):
    """Raised if a script throws, in the page or evaluated in it, or if the browser does not answer."""


class Chromium:
    """A browser with one page, for a with statement that removes its processes and files at the end."""

    def __init__(
        self, path: str | None = None, width: int = 1280, height: int = 900, dark: bool = False
    ) -> None:
        self._path = path or next(filter(None, map(shutil.which, NAMES)), NAMES[0])
        self._size, self._dark = (width, height), dark
        self._folder = tempfile.TemporaryDirectory(prefix="pagecheck-", ignore_cleanup_errors=True)
        self._number = 0
        self._buffer = b""
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Chromium:
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        self._answers = select.poll()  # select takes no descriptor above 1,023
        self._answers.register(self._read, select.POLLIN)

        def descriptors() -> None:  # runs in the child: its 3 and 4 are the pipe's ends
            ours = os.dup(to_read), os.dup(to_write)
            os.dup2(ours[0], 3)
            os.dup2(ours[1], 4)

        size = f"--window-size={self._size[0]},{self._size[1]}"
        self._process = subprocess.Popen(
            [self._path, *FLAGS, size, f"--user-data-dir={self._folder.name}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            close_fds=False,
            start_new_session=True,
            preexec_fn=descriptors,
        )
        os.close(to_read)
        os.close(to_write)
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        self.send("Emulation.setFocusEmulationEnabled", enabled=True)  # as the window that a user looks at
        self.look(*self._size, dark=self._dark)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        try:
            self._session = None
            self.send("Browser.close", patience_s=5)
        except (PageError, OSError):
            pass
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._read)
        os.close(self._write)
        self._folder.cleanup()

    def open(self, page: Path | str, patience_s: float = 60) -> None:
        """Loads a file or an address, and waits for its load event."""
        self.events.clear()
        self.send("Page.navigate", url=page if isinstance(page, str) else page.resolve().as_uri())
        self.wait_for(
            lambda: any(event["method"] == "Page.loadEventFired" for event in self.events), patience_s
        )

    def look(self, width: int, height: int, *, dark: bool = False, paper: bool = False) -> None:
        """Shows the page at another size, in CSS pixels, and as another medium, without animation: see `settle`."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        still = {"name": "prefers-reduced-motion", "value": "reduce"}
        self.send("Emulation.setEmulatedMedia", media="print" if paper else "", features=[scheme, still])

    def settle(self) -> None:
        """Waits until everything requested is drawn, and no style is in transition."""
        self.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        self.evaluate("Promise.allSettled(document.getAnimations().map((one) => one.finished)).then(() => 0)")

    def go_to(self, fragment: str) -> None:
        """Changes the address's fragment, as a link does, and waits until the page has noticed."""
        self.evaluate(
            "new Promise((done) => { const before = location.hash; "
            "addEventListener('hashchange', () => done(), { once: true }); "
            f"location.hash = {json.dumps(fragment)}; if (location.hash === before) done(); }})"
        )

    def evaluate(self, expression: str, patience_s: float = 60) -> Any:
        """The value of an expression in the page, as JSON; waits for a promise. Raises PageError if it throws."""
        answer = self.send(
            "Runtime.evaluate",
            expression=expression,
            awaitPromise=True,
            returnByValue=True,
            patience_s=patience_s,
        )
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise PageError(details.get("exception", {}).get("description") or details["text"])
        return answer["result"].get("value")

    def click(self, x: float, y: float) -> None:
        """Clicks the mouse at a place in the window, in CSS pixels."""
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y, button="left", clickCount=1)
        self.mouse("mouseReleased", x, y, button="left", clickCount=1)

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        """Sends one mouse event."""
        self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def type(self, text: str) -> None:
        """Types text into the focused element, key by key."""
        for character in text:
            self.send("Input.dispatchKeyEvent", type="char", text=character)

    def press(self, key: str) -> None:
        """Presses a special key: Enter, Tab, Escape, ArrowLeft, the space."""
        more: dict[str, Any] = {"windowsVirtualKeyCode": {"Enter": 13, "Tab": 9, " ": 32}.get(key, 0)}
        text = {"Enter": "\r", " ": " "}.get(key, "")
        self.send("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, text=text, **more)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key, code=key, **more)

    def screenshot(self, file: Path, whole: bool = False) -> None:
        """A PNG of the window, or of the whole page."""
        data = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        file.write_bytes(base64.b64decode(data))

    def pdf(self, file: Path) -> None:
        """The page as it prints."""
        data = self.send("Page.printToPDF", printBackground=True, patience_s=120)["data"]
        file.write_bytes(base64.b64decode(data))

    def complaints(self) -> list[str]:
        """Errors and warnings on the console, and exceptions of scripts, since the page was opened."""
        self._messages(0.05)
        found = []
        for event in self.events:
            said = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                found.append(
                    said["exceptionDetails"].get("exception", {}).get("description")
                    or said["exceptionDetails"]["text"]
                )
            elif event["method"] == "Runtime.consoleAPICalled" and said["type"] in (
                "error",
                "warning",
                "assert",
            ):
                found.append(" ".join(str(one.get("value", one.get("description"))) for one in said["args"]))
            elif event["method"] == "Log.entryAdded" and said["entry"]["level"] in ("error", "warning"):
                found.append(said["entry"]["text"])
        return found

    def requests(self) -> list[str]:
        """Every address requested since the page was opened, except its own and data URLs."""
        self._messages(0.05)
        asked = [
            event["params"]["request"]["url"]
            for event in self.events
            if event["method"] == "Network.requestWillBeSent"
        ]
        return [url for url in asked[1:] if not url.startswith("data:")]

    def dialogs(self) -> list[str]:
        """Messages of alert() and similar dialogs since the page was opened."""
        self._messages(0.05)
        return [
            event["params"]["message"]
            for event in self.events
            if event["method"] == "Page.javascriptDialogOpening"
        ]

    def wait_for(self, condition: Callable[[], bool], patience_s: float = 30) -> None:
        """Waits until the condition holds, while handling events. Raises PageError after the time limit."""
        until = time.monotonic() + patience_s
        while not condition():
            if time.monotonic() > until:
                raise PageError(f"nothing came within {patience_s:g} s")
            self._messages(0.02)

    def send(self, method: str, patience_s: float = 60, **parameters: Any) -> dict[str, Any]:
        """Sends a command of the protocol, and returns its result. Raises PageError if it fails."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + patience_s
        while True:
            for answer in self._messages(max(0.0, until - time.monotonic())):
                if answer.get("id") == self._number:
                    if "error" in answer:
                        raise PageError(f"{method}: {answer['error']['message']}")
                    result: dict[str, Any] = answer["result"]
                    return result
            if time.monotonic() > until:
                raise PageError(f"{method}: no answer within {patience_s:g} s")

    def _messages(self, seconds: float) -> list[dict[str, Any]]:
        """The messages within this time; stores events, returns answers."""
        if b"\0" not in self._buffer and self._answers.poll(1000 * seconds):
            data = os.read(self._read, 1 << 20)
            if not data:
                raise PageError("the browser has ended")
            self._buffer += data
        *whole, self._buffer = self._buffer.split(b"\0")
        found = [json.loads(one) for one in whole]
        self.events += [one for one in found if "method" in one]
        return [one for one in found if "id" in one]
