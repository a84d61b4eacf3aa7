"""The socket and the server of ``anyshot serve``."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from anyshot.core.errors import AnyshotError

CONNECTIONS = 100  # at once; of more, the one that has waited longest for its client is closed
HEADER_SECONDS = 10.0  # for the line and headers of a request


def open_socket(host: str, port: int) -> socket.socket:
    """Open a listening socket; port 0 takes any free port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except (OSError, OverflowError) as error:
        listening.close()
        reason = getattr(error, "strerror", None) or error
        remedy = "choose another port with --port, or any free port with --port 0"
        unknown_host = isinstance(error, socket.gaierror)
        if unknown_host or getattr(error, "errno", None) == errno.EADDRNOTAVAIL:
            remedy = "--host is an address of this computer, or 0.0.0.0 for all of them"
        raise AnyshotError(
            f"The page cannot be served on {host} port {port} ({reason}); {remedy}."
        ) from error
    return listening


def url_of(listening: socket.socket) -> str:
    """The address to open in a browser on this computer."""
    host, port = listening.getsockname()[:2]
    if ipaddress.ip_address(host).is_unspecified:
        host = "localhost"
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def host_names(host: str) -> frozenset[str]:
    """The names by which other computers may know this one; none if they cannot reach it."""
    if is_loopback(host):
        return frozenset()
    name = socket.gethostname().lower()
    return frozenset({host.lower(), name, f"{name}.local", socket.getfqdn().lower()})


def is_loopback(host: str) -> bool:
    """Whether only this computer can reach an address: all addresses of the name are loopback."""
    return all(
        ipaddress.ip_address(entry[4][0]).is_loopback for entry in socket.getaddrinfo(host, None)
    )


class TimedProtocol(H11Protocol):
    """HTTP that closes a connection whose request line and headers do not arrive in time.

    uvicorn has no such limit, so a hundred half-sent requests would occupy all connections. They
    also make room for a new connection before their time is over. uvicorn's own limit
    (``limit_concurrency``) is off: it also counts requests of closed connections until the loop
    has ended them, and would refuse others meanwhile.
    """

    header_seconds = HEADER_SECONDS
    timer: asyncio.TimerHandle | None = None
    last_data = 0.0  #: time of the loop

    def connection_made(self, transport: Any) -> None:
        """Start to wait for the first request."""
        super().connection_made(transport)
        self.last_data = self.loop.time()
        self._make_room()
        self._wait_for_request()

    def data_received(self, data: bytes) -> None:
        """Stop waiting when the headers are complete; a later request gets its own time."""
        self.last_data = self.loop.time()
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()
        elif self.timer is None:
            self._wait_for_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _waits_for_client(self) -> bool:
        """Whether there is nothing to do until more of a request arrives."""
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

    def _make_room(self) -> None:
        """If there are too many connections, close the one that has waited longest.

        If none waits, all are being answered, and the new one is closed when there are twice as
        many.
        """
        others = [
            other
            for other in self.connections
            if isinstance(other, TimedProtocol) and other is not self and other._waits_for_client()
        ]
        if len(self.connections) > CONNECTIONS and others:
            oldest = min(others, key=lambda other: other.last_data)
            self.connections.discard(oldest)  # it would be counted until the loop's next turn
            oldest.transport.abort()
        elif len(self.connections) > 2 * CONNECTIONS:
            self.transport.abort()

    def _wait_for_request(self) -> None:
        self.timer = self.loop.call_later(self.header_seconds, self.transport.close)

    def _stop_waiting(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class Server(uvicorn.Server):
    """Serves an app on a given socket and calls ``ready`` once it answers requests."""

    def __init__(
        self,
        app: ASGIApp,
        ready: Callable[[], None],
        protocol: type[asyncio.Protocol] = TimedProtocol,
    ) -> None:
        config = uvicorn.Config(
            app,
            http=protocol,
            log_level="warning",
            server_header=False,
        )
        super().__init__(config)
        self.ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen."""
        await super().startup(sockets)
        self.ready()


def run(app: ASGIApp, listening: socket.socket, ready: Callable[[], None]) -> None:
    """Serve until Ctrl-C; ``ready`` is called once requests are answered."""
    with suppress(KeyboardInterrupt):
        Server(app, ready).run(sockets=[listening])
