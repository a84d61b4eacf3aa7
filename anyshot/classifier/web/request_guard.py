"""Refuse requests that other sites forge in a visitor's browser; load nothing from other sites.

A site can make a browser send requests to this page in two ways:

- from a page of its own to this address. The browser then adds that page's Origin to every request
  that could change something;
- under its own name, which it points to this address after its page was loaded (DNS rebinding). The
  Host is then its name, which is neither an IP address nor a name of this computer.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SAFE_METHODS = ("GET", "HEAD")
POLICY = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",  # the browser keeps no photos on disk
}


class RequestGuard:
    """Passes on the requests of this page only; ``names`` are those of this computer."""

    def __init__(self, app: ASGIApp, names: frozenset[str]) -> None:
        self.app = app
        self.names = names | {"localhost"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on an HTTP request or refuse it, and add the policy to the response."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_policy(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(POLICY)
            await send(message)

        refusal = self.refusal(scope["method"], Headers(scope=scope))
        answer = JSONResponse({"error": refusal}, 403) if refusal else self.app
        await answer(scope, receive, send_with_policy)

    def refusal(self, method: str, headers: Headers) -> str:
        """The reason to refuse a request; empty if there is none."""
        host = headers.get("host", "")
        if not self.is_known_host(host):
            return (
                f"This page is not known as {host or 'nothing'}; "
                "open it by the address that anyshot serve printed."
            )
        origins = (f"http://{host}", f"https://{host}")
        if method not in SAFE_METHODS and headers.get("origin", "") not in origins:
            return "The request did not come from this page and was refused."
        return ""

    def is_known_host(self, host: str) -> bool:
        """Whether a Host header is an IP address, which no site can redirect, or a known name."""
        try:
            name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
            if name in self.names:
                return True
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True
