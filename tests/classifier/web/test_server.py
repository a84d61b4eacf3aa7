from __future__ import annotations

import asyncio
import socket
from contextlib import ExitStack
from queue import Queue
from threading import Event

import httpx2
import pytest
from starlette.responses import PlainTextResponse

from anyshot.classifier.web import server
from anyshot.classifier.web.server import (
    CONNECTIONS,
    TimedProtocol,
    host_names,
    is_loopback,
    open_socket,
    url_of,
)
from anyshot.core.errors import AnyshotError

LOOPBACK = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0))
NETWORK = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.168.1.7", 0))


@pytest.mark.parametrize(
    ("addresses", "expected"),
    [([LOOPBACK], True), ([NETWORK], False), ([LOOPBACK, NETWORK], False)],
)
def test_a_name_is_loopback_only_if_all_its_addresses_are(monkeypatch, addresses, expected):
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, port: addresses)
    assert is_loopback("computer") is expected


class ImpatientProtocol(TimedProtocol):
    header_seconds = 0.5


def connect(url: str) -> socket.socket:
    host, _, port = url.rstrip("/").partition("//")[2].partition(":")
    return socket.create_connection((host, int(port)), timeout=20)


@pytest.mark.parametrize("sent", [b"", b"GET /api/state HT", b"GET / HTTP/1.1\r\nHost: loc"])
def test_half_sent_requests_are_closed(page, served, sent):
    with served(page(), protocol=ImpatientProtocol) as url:
        connections = [connect(url) for _ in range(CONNECTIONS)]
        for connection in connections:
            connection.sendall(sent)
        for connection in connections:
            assert connection.recv(1000) == b""  # closed by the server
            connection.close()
        assert httpx2.get(f"{url}api/state").status_code == 200


UPLOAD = (
    b"POST /api/pictures?target=pool HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\n"
)


@pytest.mark.parametrize(
    "sent",
    [b"", b"GET / HTTP/1.1\r\nHost: loc", UPLOAD + b"Content-Length: 20000000\r\n\r\nx"],
    ids=["nothing", "headers", "upload"],
)
def test_half_sent_requests_do_not_keep_others_out(page, served, sent):
    with served(page()) as url, ExitStack() as stack:
        for _ in range(3 * CONNECTIONS):
            connection = stack.enter_context(connect(url))
            connection.sendall(sent)
        for _ in range(3):
            assert httpx2.get(f"{url}api/state", timeout=5).status_code == 200
        with pytest.raises(TimeoutError):  # the last ones are still open
            connection.settimeout(0.1)
            connection.recv(1)


def waiting_app(started: Queue, go_on: Event):
    """An app that reports each request and answers it when it may go on."""

    async def app(scope, receive, send):
        if scope["type"] == "http":
            started.put(scope)
            await asyncio.to_thread(go_on.wait)
            await PlainTextResponse("done")(scope, receive, send)

    return app


def test_a_request_that_is_being_answered_is_not_closed_for_a_new_one(served):
    started, go_on = Queue(), Event()
    with served(waiting_app(started, go_on)) as url, ExitStack() as stack:
        stack.callback(go_on.set)
        first = stack.enter_context(connect(url))
        first.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        started.get(timeout=20)
        others = [stack.enter_context(connect(url)) for _ in range(CONNECTIONS + 10)]
        assert others[0].recv(1) == b""  # the one that waits longest is closed
        go_on.set()
        assert first.recv(100).startswith(b"HTTP/1.1 200")


def test_a_connection_too_many_is_closed_when_all_are_being_answered(served, monkeypatch):
    monkeypatch.setattr(server, "CONNECTIONS", 2)
    started, go_on = Queue(), Event()
    with served(waiting_app(started, go_on)) as url, ExitStack() as stack:
        stack.callback(go_on.set)
        answered = []
        for _ in range(4):
            answered.append(connection := stack.enter_context(connect(url)))
            connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            started.get(timeout=20)
        assert stack.enter_context(connect(url)).recv(1) == b""  # closed by the server
        go_on.set()
        for connection in answered:
            assert connection.recv(100).startswith(b"HTTP/1.1 200")


def test_a_half_sent_second_request_is_closed(page, served):
    with served(page(), protocol=ImpatientProtocol) as url, connect(url) as connection:
        request = b"GET /static/icon.svg HTTP/1.1\r\nHost: localhost\r\n\r\n"
        connection.sendall(request)
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
        connection.sendall(request[:20])
        while connection.recv(100_000):
            pass


def test_a_complete_request_may_take_longer_than_its_headers(page, served):
    with served(page(), protocol=ImpatientProtocol) as url, connect(url) as connection:
        origin = url.rstrip("/")
        head = f"POST /api/classes HTTP/1.1\r\nHost: {origin[7:]}\r\nOrigin: {origin}\r\n"
        connection.sendall(f"{head}Content-Length: 15\r\n\r\n".encode())
        with pytest.raises(TimeoutError):
            connection.settimeout(1)
            connection.recv(1)
        connection.sendall(b'{"name": "red"}')
        assert connection.recv(100).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "localhost"), ("::1", "[::1]"), ("::", "localhost")],
)
def test_the_address_can_be_opened_on_this_computer(host, expected):
    try:
        listening = open_socket(host, 0)
    except AnyshotError:
        pytest.skip(f"{host} is not available")
    with listening:
        port = listening.getsockname()[1]
        assert url_of(listening) == f"http://{expected}:{port}/"


def test_a_port_that_is_taken_is_named():
    with open_socket("127.0.0.1", 0) as listening:
        listening.listen()
        port = listening.getsockname()[1]
        with pytest.raises(AnyshotError, match=f"127.0.0.1 port {port}"):
            open_socket("127.0.0.1", port)


@pytest.mark.parametrize("host", ["192.0.2.1", "no such host"])
def test_an_address_of_another_computer_is_an_error_about_the_host(host):
    with pytest.raises(AnyshotError, match=f"{host} .*--host"):
        open_socket(host, 0)


def test_a_computer_that_others_reach_is_known_by_its_names(monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "Mill")
    monkeypatch.setattr(socket, "getfqdn", lambda: "Mill.Example")
    assert host_names("127.0.0.1") == frozenset()
    assert host_names("0.0.0.0") == {"0.0.0.0", "mill", "mill.local", "mill.example"}


def test_a_lost_connection_is_no_longer_waited_for(page, served):
    protocols = []

    class ObservedProtocol(TimedProtocol):
        def connection_lost(self, exc):
            super().connection_lost(exc)
            protocols.append(self)

    with served(page(), protocol=ObservedProtocol) as url:
        connect(url).close()
        assert httpx2.get(f"{url}api/state").status_code == 200
    assert len(protocols) == 2
    assert {protocol.timer for protocol in protocols} == {None}
