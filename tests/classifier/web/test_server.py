from __future__ import annotations

import socket

import httpx2
import pytest

from anyshot.classifier.web.server import CONNECTIONS, TimedProtocol, is_loopback

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
