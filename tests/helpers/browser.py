"""Control a headless Chromium by its DevTools protocol over a pipe, without driver or port."""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

PROGRAM = next(
    (
        path
        for name in ("chromium", "chromium-browser", "google-chrome")
        if (path := shutil.which(name))
    ),
    None,
)
PATIENCE = 60.0  # seconds
OPTIONS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--disable-gpu",
    "--hide-scrollbars",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--use-fake-device-for-media-stream",  # a camera with a moving picture
    "--use-fake-ui-for-media-stream",
)
# without them, a headless browser has neither mouse nor finger
MOUSE = (
    "--blink-settings=primaryHoverType=2,availableHoverTypes=2,primaryPointerType=4,"
    "availablePointerTypes=4"
)

# position of the middle of an element, once it has not moved for two frames
MIDDLE = """new Promise((found) => {
  const look = (before) => requestAnimationFrame(() => {
    const { x, y, width, height } = document.querySelector(%s).getBoundingClientRect();
    const place = [x + width / 2, y + height / 2];
    String(place) === before ? found(place) : look(String(place));
  });
  look("");
})"""


class Browser:
    """One page of one browser."""

    def __init__(self, profile: Path, *options: str) -> None:
        to_browser, self.to = os.pipe()
        self.back, from_browser = os.pipe()
        # the browser reads its file 3 and writes its file 4
        script = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        command = [
            PROGRAM,
            *OPTIONS,
            *options,
            f"--user-data-dir={profile}",
            *(["--no-sandbox"] * (os.geteuid() == 0)),
        ]
        self.process = subprocess.Popen(
            ["bash", "-c", script, "bash", *command],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self.pending, self.numbers, self.session = b"", itertools.count(1), ""
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "DOM", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and return its result; store events that arrive in between."""
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.to, data) :]
        while True:
            answer = self._read()
            if answer.get("id") == number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            self.events.append(answer)

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self.pending:
            chunk = os.read(self.back, 1 << 20)
            assert chunk, "the browser has ended"
            self.pending += chunk
        message, self.pending = self.pending.split(b"\0", 1)
        return json.loads(message)

    def close(self) -> None:
        """End the browser that this object started."""
        try:
            self.session = ""
            self.call("Browser.close")
        except (AssertionError, OSError):
            self.process.kill()
        self.process.wait(10)
        os.close(self.to)
        os.close(self.back)

    # ---------------------------------------------------------------------- looking
    def open(
        self,
        address: str,
        *,
        width: int = 1280,
        height: int = 900,
        phone: bool = False,
        dark: bool = False,
    ) -> None:
        """Open a page at a window size, in light or dark mode."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=phone,
        )
        self.call("Emulation.setTouchEmulationEnabled", enabled=phone)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.events.clear()
        self.call("Page.navigate", url=address)
        self.wait("document.readyState === 'complete'")

    def js(self, expression: str) -> Any:
        """Return the value of an expression in the page."""
        found = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait(self, expression: str) -> Any:
        """Wait until an expression is true and return its value."""
        end = time.monotonic() + PATIENCE
        while True:
            found = self.call(
                "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
            )
            value = found.get("result", {}).get("value")
            if value and "exceptionDetails" not in found:
                return value
            assert time.monotonic() < end, (
                f"timeout of {expression}; the page shows:\n{self.text()}"
            )
            time.sleep(0.03)

    def text(self) -> str:
        """Return the visible text of the page."""
        return str(self.js("document.body.innerText"))

    def complaints(self) -> list[str]:
        """Return script errors and content policy violations since the page was opened."""
        self.js("0")  # let events arrive
        found = []
        for event in self.events:
            if event.get("method") == "Runtime.exceptionThrown":
                found.append(json.dumps(event["params"]["exceptionDetails"])[:400])
            entry = event.get("params", {}).get("entry", {})
            if (
                event.get("method") == "Log.entryAdded"
                and entry["level"] == "error"
                and entry["source"] != "network"
            ):
                found.append(entry["text"])
        return found

    def picture(self, path: Path, whole: bool = False) -> None:
        """Save a screenshot."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))

    # ---------------------------------------------------------------------- acting
    def choose(self, selector: str, *files: Path) -> None:
        """Choose files in a file input."""
        handle = self.call(
            "Runtime.evaluate", expression=f"document.querySelector({json.dumps(selector)})"
        )
        node = self.call("DOM.describeNode", objectId=handle["result"]["objectId"])["node"][
            "backendNodeId"
        ]
        self.call("DOM.setFileInputFiles", files=[str(f) for f in files], backendNodeId=node)

    def drop(self, selector: str, *files: Path) -> None:
        """Drop files on the middle of an element."""
        x, y = self.middle(selector)
        data = {"items": [], "files": [str(f) for f in files], "dragOperationsMask": 1}
        for kind in ("dragEnter", "dragOver", "drop"):
            self.call("Input.dispatchDragEvent", type=kind, x=x, y=y, data=data)

    def middle(self, selector: str) -> tuple[float, float]:
        """Scroll to an element and return the position of its middle."""
        self.js(
            f"document.querySelector({json.dumps(selector)}).scrollIntoView({{block: 'center'}})"
        )
        x, y = self.js(MIDDLE % json.dumps(selector))
        return x, y

    def click(self, selector: str) -> None:
        """Click on the middle of an element."""
        x, y = self.middle(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key: str, text: str = "") -> None:
        """Press a key."""
        codes = {
            "Enter": 13,
            "Tab": 9,
            "Escape": 27,
            "ArrowLeft": 37,
            "ArrowRight": 39,
            " ": 32,
            "Home": 36,
        }
        text = {"Enter": "\r", " ": " "}.get(key, text)
        modifiers = 2 if key.startswith("Control+") else 0
        key = key.removeprefix("Control+")
        known = {
            "modifiers": modifiers,
            "key": key,
            "windowsVirtualKeyCode": codes.get(key, 0),
            "code": "Space" if key == " " else key,
        }
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **known)
        self.call("Input.dispatchKeyEvent", type="keyUp", **known)

    def type(self, text: str) -> None:
        """Type text into the focused element."""
        self.call("Input.insertText", text=text)
