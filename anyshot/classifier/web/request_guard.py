"""Requests that other sites forge in a visitor's browser are refused, and the page asks nothing of other sites.

A site can send a browser's requests here in two ways. Under our own name, as a request to this address from a page
elsewhere: browsers then send that page's Origin with whatever could change something. Or under its own name, pointed to
this address once its page is loaded (DNS rebinding): the Host is then its name, which is neither an address nor ours.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HARMLESS = ("GET", "HEAD")
POLICY = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",  # browsers, too, keep nothing on disk
}


class Guard:
    """Lets through what this page itself has sent; `names` are those of this computer besides localhost."""

    def __init__(self, app: ASGIApp, names: frozenset[str]) -> None:
        self.app, self.names = app, names | {"localhost"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request of HTTP, or say why not; there are no websockets."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(POLICY)
            await send(message)

        sentence = self.objection(scope["method"], Headers(scope=scope))
        answer = JSONResponse({"error": sentence}, 403) if sentence else self.app
        await answer(scope, receive, guarded)

    def objection(self, method: str, headers: Headers) -> str:
        """Why a request is refused; empty if it is not."""
        host = headers.get("host", "")
        if not self.is_ours(host):
            return f"This page does not go by the name of {host or 'nothing'}; open it by the address that was printed."
        if method not in HARMLESS and headers.get("origin", "") not in (
            f"http://{host}",
            f"https://{host}",
        ):
            return "The request did not come from this page, and was refused."
        return ""

    def is_ours(self, host: str) -> bool:
        """Whether a Host header is an address, which nobody can point elsewhere, or a name of this computer."""
        try:
            name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
            if name in self.names:
                return True
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True
