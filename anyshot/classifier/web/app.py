"""Addresses and answers of the page; uploads come one a request, as they are, and stay in memory."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from anyshot.classifier.web.limits import Limits, Refused
from anyshot.classifier.web.request_guard import Guard
from anyshot.classifier.web.sessions import Sessions
from anyshot.classifier.web.uploads import UploadReader
from anyshot.classifier.web.workspace import Workspace
from anyshot.core.errors import AnyshotError

STATIC = Path(__file__).parent / "static"
SHORT = 10_000  # bytes of a request that carries no picture
Endpoint = Callable[[Request], Awaitable[Response]]
Change = Callable[[Workspace, str, dict[str, Any]], None]

# what a request does to a workspace, given the key in its address and the values in its body
CHANGES: dict[tuple[str, str], Change] = {
    ("POST", "/api/classes"): lambda w, key, given: w.add_class(_text(given, "name")),
    ("PATCH", "/api/classes/{key}/name"): lambda w, key, given: w.rename_class(
        key, _text(given, "name")
    ),
    ("PATCH", "/api/classes/{key}/used"): lambda w, key, given: w.use(key, _count(given, "used")),
    ("DELETE", "/api/classes/{key}"): lambda w, key, given: w.remove_class(key),
    ("PATCH", "/api/pictures/{key}"): lambda w, key, given: w.move_photo(
        key, _text(given, "place")
    ),
    ("DELETE", "/api/pictures/{key}"): lambda w, key, given: w.remove_photo(key),
}


def make_app(
    darkroom: UploadReader, limits: Limits | None = None, names: frozenset[str] = frozenset()
) -> Starlette:
    """The page over a darkroom; `names` are what this computer is called besides localhost."""
    page = Page(darkroom, limits or Limits())
    return Starlette(
        routes=[
            Route("/", _home),
            Mount("/static", StaticFiles(directory=STATIC)),
            Route("/api/state", page.state),
            Route("/api/state", page.leave, methods=["DELETE"]),
            Route("/api/pictures", page.upload, methods=["POST"]),
            Route("/api/pictures/{key}", page.picture),
            *(
                Route(path, page.changed_by(change), methods=[method])
                for (method, path), change in CHANGES.items()
            ),
        ],
        middleware=[Middleware(Guard, names=names)],
        exception_handlers={AnyshotError: _sentence},
    )


class Page:
    """The endpoints. All that takes time, or waits for it, is on threads: visitors do not wait for each other."""

    def __init__(self, darkroom: UploadReader, limits: Limits) -> None:
        self.visitors, self.limits = Sessions(darkroom, limits), limits
        self.about = {
            "backbone": darkroom.backbone.name,
            "limits": asdict(limits) | {"bytes": limits.bytes},
        }

    async def state(self, request: Request) -> Response:
        """All that the page shows."""
        workspace = self.visitors.find(_secret(request))
        return await self.answer(workspace or Workspace(self.visitors.darkroom, self.limits))

    async def leave(self, request: Request) -> Response:
        """Forget everything of this visitor."""
        self.visitors.leave(_secret(request))
        return await self.answer(Workspace(self.visitors.darkroom, self.limits))

    async def upload(self, request: Request) -> Response:
        """One picture as the request's body; ?place= is a class or the pool, ?name= the file's name."""
        secret, workspace = self.enter(request)
        place, name = (
            request.query_params.get("place", ""),
            request.query_params.get("name", "")[:200] or "The picture",
        )
        await run_in_threadpool(workspace.check_room, place)
        data = await _body(
            request,
            self.limits.bytes,
            f"{name} is larger than {self.limits.megabytes} MB, the most.",
        )
        await run_in_threadpool(workspace.add_photo, name, data, place)
        return _remembered(request, Response(status_code=204), secret)

    async def picture(self, request: Request) -> Response:
        """A thumbnail."""
        workspace = self.visitors.find(_secret(request))
        if workspace is None:
            raise Refused("That picture is not here any more; reload the page.", 404)
        photo = await run_in_threadpool(workspace.photo, request.path_params["key"])
        return Response(photo.thumbnail, media_type="image/jpeg")

    def changed_by(self, change: Change) -> Endpoint:
        """The endpoint that makes a change and answers with the state after it."""

        async def endpoint(request: Request) -> Response:
            secret, workspace = self.enter(request)
            given = _values(await _body(request, SHORT, "The request is too long."))
            await run_in_threadpool(change, workspace, request.path_params.get("key", ""), given)
            return _remembered(request, await self.answer(workspace), secret)

        return endpoint

    def enter(self, request: Request) -> tuple[str, Workspace]:
        """A visitor's secret and workspace; new ones if there are none."""
        secret = _secret(request)
        workspace = self.visitors.find(secret)
        return (secret, workspace) if workspace else self.visitors.enter()

    async def answer(self, workspace: Workspace) -> Response:
        """The state as JSON."""
        state = await run_in_threadpool(workspace.state)
        return JSONResponse(self.about | state)


async def _home(request: Request) -> Response:
    return FileResponse(STATIC / "index.html")


async def _sentence(request: Request, error: Exception) -> Response:
    """The page shows the sentence of an error."""
    return JSONResponse({"error": str(error)}, getattr(error, "status", 400))


async def _body(request: Request, most: int, sentence: str) -> bytes:
    """What a request brings, in memory; refused as soon as it is known to be too much."""
    if int(request.headers.get("content-length", "0")) > most:
        raise Refused(sentence, 413)
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > most:
            raise Refused(sentence, 413)
    return bytes(data)


def _values(body: bytes) -> dict[str, Any]:
    try:
        given = json.loads(body or b"{}")
    except ValueError:
        given = None
    if not isinstance(given, dict):
        raise Refused("The request's body is not a JSON object.")
    return given


def _text(given: dict[str, Any], key: str) -> str:
    if not isinstance(given.get(key), str):
        raise Refused(f"The request lacks the text {key!r}.")
    return given[key].encode(errors="replace").decode()  # JSON may hold halves of characters


def _count(given: dict[str, Any], key: str) -> int:
    if type(given.get(key)) is not int:
        raise Refused(f"The request lacks the whole number {key!r}.")
    return given[key]


def _secret(request: Request) -> str:
    return request.cookies.get(_cookie(request), "")


def _cookie(request: Request) -> str:
    """Cookies are shared by all ports of a computer; two pages on it must not share theirs."""
    return f"anyshot-{request.url.port or 80}"


def _remembered(request: Request, response: Response, secret: str) -> Response:
    if _secret(request) != secret:
        response.set_cookie(_cookie(request), secret, httponly=True, samesite="strict")
    return response
