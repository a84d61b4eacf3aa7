from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from starlette.testclient import TestClient
from support import colours, noise_png

from anyshot.classifier.web.app import make_app
from anyshot.classifier.web.limits import Limits
from anyshot.classifier.web.server import Server, address, open_socket
from anyshot.classifier.web.uploads import UploadReader


class Visitor(TestClient):
    """A visitor's browser: cookies of its own, and the Origin of the page on every request."""

    def __init__(self, app: Any) -> None:
        super().__init__(app, base_url="http://localhost", headers={"Origin": "http://localhost"})

    def state(self) -> dict[str, Any]:
        return self.get("/api/state").raise_for_status().json()

    def add(self, name: str, *files: bytes) -> str:
        """A class with pictures; its key."""
        state = self.post("/api/classes", json={"name": name}).raise_for_status().json()
        key = state["classes"][-1]["id"]
        for file in files:
            self.upload(key, file).raise_for_status()
        return key

    def upload(self, place: str, file: bytes, name: str = "a.png") -> Any:
        return self.post("/api/pictures", params={"place": place, "name": name}, content=file)


@pytest.fixture(scope="session")
def darkroom() -> UploadReader:
    return UploadReader(colours, side=8)


@contextmanager
def really_served(app: Any) -> Iterator[str]:
    """The address at which a server on a thread answers for an app."""
    listening, ready = open_socket("127.0.0.1", 0), threading.Event()
    server = Server(app, ready.set)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        assert ready.wait(20)
        yield address(listening)
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="session")
def served() -> Callable[[Any], Any]:
    return really_served


@pytest.fixture
def page(darkroom) -> Callable[..., Any]:
    """An app with limits of one's own."""
    return lambda **limits: make_app(darkroom, Limits(**limits))


@pytest.fixture(scope="session")
def visit() -> type[Visitor]:
    """A visitor for an app."""
    return Visitor


@pytest.fixture
def visitor(page) -> Visitor:
    return Visitor(page())


@pytest.fixture(scope="session")
def teach() -> Callable[[Visitor], Visitor]:
    """Three pictures of red, one of green, and two to classify."""

    def teach(visitor: Visitor) -> Visitor:
        visitor.add("red", *(noise_png(0, i) for i in range(3)))
        visitor.add("green", noise_png(1, 0))
        for channel in (0, 1):
            visitor.upload("pool", noise_png(channel, 50)).raise_for_status()
        return visitor

    return teach


@pytest.fixture
def busy(visitor, teach) -> Visitor:
    return teach(visitor)
