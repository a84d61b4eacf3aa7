"""`anyshot serve`: the page on an address of this computer, until it is stopped."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable
from contextlib import suppress

import uvicorn
from starlette.types import ASGIApp

from anyshot.core.errors import AnyshotError

AT_ONCE = 100  # connections; each may hold one upload in memory


def open_socket(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes any that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except (OSError, OverflowError) as error:
        listening.close()
        raise AnyshotError(
            f"The page cannot be served on {host} port {port} ({getattr(error, 'strerror', None) or error}); choose "
            "another by --port, or --port 0 for any that is free."
        ) from error
    return listening


def address(listening: socket.socket) -> str:
    """What to type into a browser on this computer."""
    host, port = listening.getsockname()[:2]
    if ipaddress.ip_address(host).is_unspecified:
        host = "localhost"
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def names_of(host: str) -> frozenset[str]:
    """What this computer is called by those who may reach it: nothing but localhost, if nobody else may."""
    if is_loopback(host):
        return frozenset()
    name = socket.gethostname().lower()
    return frozenset({host.lower(), name, f"{name}.local", socket.getfqdn().lower()})


def is_loopback(host: str) -> bool:
    """Whether only this computer reaches an address."""
    return all(
        ipaddress.ip_address(found[4][0]).is_loopback for found in socket.getaddrinfo(host, None)
    )


class Server(uvicorn.Server):
    """Serves an app on sockets of ours, and says when it answers."""

    def __init__(self, app: ASGIApp, ready: Callable[[], None]) -> None:
        super().__init__(
            uvicorn.Config(app, log_level="warning", limit_concurrency=AT_ONCE, server_header=False)
        )
        self.ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        self.ready()


def run(app: ASGIApp, listening: socket.socket, ready: Callable[[], None]) -> None:
    """Serve until Ctrl-C; `ready` is called once requests are answered."""
    with suppress(KeyboardInterrupt):
        Server(app, ready).run(sockets=[listening])
