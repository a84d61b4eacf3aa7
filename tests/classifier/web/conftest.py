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
from anyshot.classifier.web.server import Server, open_socket, url_of
from anyshot.classifier.web.uploads import UploadReader


class Visitor(TestClient):
    """A visitor's browser: its own cookies, and the page's Origin in every request."""

    def __init__(self, app: Any) -> None:
        super().__init__(app, base_url="http://localhost", headers={"Origin": "http://localhost"})

    def state(self) -> dict[str, Any]:
        return self.get("/api/state").raise_for_status().json()

    def add(self, name: str, *files: bytes) -> str:
        """Add a class with photos; return its id."""
        state = self.post("/api/classes", json={"name": name}).raise_for_status().json()
        key = state["classes"][-1]["id"]
        for file in files:
            self.upload(key, file).raise_for_status()
        return key

    def upload(self, target: str, file: bytes, name: str = "a.png") -> Any:
        return self.post("/api/pictures", params={"target": target, "name": name}, content=file)

    def move(self, target: str, *photos: str) -> Any:
        return self.post("/api/pictures/move", json={"photos": photos, "target": target})

    def remove(self, *photos: str) -> Any:
        return self.post("/api/pictures/remove", json={"photos": photos})


@pytest.fixture(scope="session")
def reader() -> UploadReader:
    return UploadReader(colours, side=8)


@contextmanager
def serve_on_thread(app: Any, **options: Any) -> Iterator[str]:
    """Serve an app on a thread; the value is its address."""
    listening = open_socket("127.0.0.1", 0)
    ready = threading.Event()
    server = Server(app, ready.set, **options)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        assert ready.wait(20)
        yield url_of(listening)
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="session")
def served() -> Callable[..., Any]:
    return serve_on_thread


@pytest.fixture
def page(reader) -> Callable[..., Any]:
    """An app with other limits."""
    return lambda **limits: make_app(reader, Limits(**limits))


@pytest.fixture(scope="session")
def visit() -> type[Visitor]:
    """The class of visitors of an app."""
    return Visitor


@pytest.fixture
def visitor(page) -> Visitor:
    return Visitor(page())


@pytest.fixture(scope="session")
def teach() -> Callable[[Visitor], Visitor]:
    """Add three photos of red, one of green, and two to classify."""

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
