"""A real Chromium that shows a page, asked through a pipe by its DevTools protocol: no driver, no port."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from compose.install import browser

CHROMIUM = browser.found()
"""Where the browser is; None: nowhere on the path."""
LONGEST = 60.0
"""Seconds after which an answer that has not come is an error."""


class Shown:
    """A page that the browser shows: what it asked for, and what went wrong in it."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser, self._session = browser, session
        self.requests: list[str] = []
        self.errors: list[str] = []

    def send(self, method: str, **params: Any) -> Any:
        """A command of the protocol to the page."""
        return self._browser.send(method, params, self._session, self._heard)

    def until(self, method: str) -> None:
        """Wait for an event."""
        self._browser.until(method, self._heard)

    def evaluate(self, script: str) -> Any:
        """The value of an expression in the page."""
        found = self.send("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def press(self, key: str, code: int) -> None:
        """Press a key and let it go."""
        for what in ("rawKeyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=what, key=key, code=key, windowsVirtualKeyCode=code)

    def point(self, selector: str, *, click: bool = False) -> None:
        """Move the mouse to the middle of the first element that fits, and maybe click it."""
        self.evaluate(f"document.querySelector({json.dumps(selector)}).scrollIntoView({{block: 'center'}})")
        at = self.evaluate(
            f"(r => ({{x: r.x + r.width / 2, y: r.y + r.height / 2}}))(document.querySelector({json.dumps(selector)})"
            ".getBoundingClientRect())"
        )
        self.send("Input.dispatchMouseEvent", type="mouseMoved", **at)
        for what in ("mousePressed", "mouseReleased") if click else ():
            self.send("Input.dispatchMouseEvent", type=what, button="left", clickCount=1, **at)

    def _heard(self, method: str, params: Any) -> None:
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.errors.append(str(params["exceptionDetails"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(str(params["entry"]["text"]))


class Browser:
    """A running Chromium without a window."""

    def __init__(self, scratch: Path) -> None:
        assert CHROMIUM is not None
        ours, theirs = os.pipe(), os.pipe()  # what it reads, what it writes: its file descriptors 3 and 4
        self._in, self._out = ours[1], theirs[0]
        self._count, self._left = 0, b""
        self._events: list[dict[str, Any]] = []
        flags = ("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
        pipe = f"exec {CHROMIUM} {' '.join(flags)} --user-data-dir='{scratch}' --remote-debugging-pipe 3<&{ours[0]} 4>&{theirs[1]}"
        self._process = subprocess.Popen(
            ["bash", "-c", pipe],
            pass_fds=(ours[0], theirs[1]),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(ours[0])
        os.close(theirs[1])

    def close(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait(LONGEST)
        os.close(self._in)
        os.close(self._out)

    @contextmanager
    def page(self, path: Path, *, width: int = 1000, dark: bool = False, scripts: bool = True) -> Iterator[Shown]:
        """A page that is loaded, in a tab of its own."""
        target = self.send("Target.createTarget", {"url": "about:blank"})["targetId"]
        session = self.send("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        shown = Shown(self, session)
        for domain in ("Page", "Runtime", "Network", "Log"):
            shown.send(f"{domain}.enable")
        shown.send("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        shown.send("Emulation.setEmulatedMedia", features=[scheme])
        shown.send("Emulation.setScriptExecutionDisabled", value=not scripts)
        shown.send("Page.navigate", url=path.resolve().as_uri())
        shown.until("Page.loadEventFired")
        yield shown
        self.send("Target.closeTarget", {"targetId": target})

    def send(self, method: str, params: Any, session: str | None = None, heard: Any = None) -> Any:
        """A command, and its answer; ``heard`` is told the events that come before it."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": params} | ({"sessionId": session} if session else {})
        os.write(self._in, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + LONGEST
        while True:
            answer = self._next(end)
            if answer.get("id") == self._count:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            self._event(answer, heard)

    def until(self, method: str, heard: Any) -> None:
        """Wait for an event, unless it came already."""
        end = time.monotonic() + LONGEST
        while all(e["method"] != method for e in self._events):
            self._event(self._next(end), heard)
        self._events.clear()

    def _event(self, message: dict[str, Any], heard: Any) -> None:
        if "method" in message:
            self._events.append(message)
            if heard is not None:
                heard(message["method"], message.get("params"))

    def _next(self, end: float) -> dict[str, Any]:
        while b"\0" not in self._left:
            ready, _, _ = select.select([self._out], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"Chromium did not answer within {LONGEST} s"
            found = os.read(self._out, 1 << 16)
            assert found, "Chromium ended"
            self._left += found
        message, _, self._left = self._left.partition(b"\0")
        decoded: dict[str, Any] = json.loads(message)
        return decoded
