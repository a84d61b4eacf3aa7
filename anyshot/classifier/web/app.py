"""The HTTP interface of the page. Each upload is the body of one request and stays in memory."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from anyshot.classifier.web.changes import BATCH_NAME, CHANGES, Change, parse_json
from anyshot.classifier.web.limits import Limits, RequestRefused
from anyshot.classifier.web.memory import PhotoMemory
from anyshot.classifier.web.project_file import project_zip
from anyshot.classifier.web.request_guard import RequestGuard
from anyshot.classifier.web.sessions import Sessions
from anyshot.classifier.web.uploads import UploadReader
from anyshot.classifier.web.workspace import Workspace
from anyshot.core.errors import AnyshotError

STATIC = Path(__file__).parent / "static"
JSON_BYTES = 400_000  # of a request that carries no photo: the ids of all photos
Endpoint = Callable[[Request], Awaitable[Response]]


def make_app(
    reader: UploadReader, limits: Limits | None = None, names: frozenset[str] = frozenset()
) -> Starlette:
    """Create the app; ``names`` are those of this computer besides localhost."""
    page = Page(reader, limits or Limits())
    return Starlette(
        routes=[
            Route("/", _home),
            Mount("/static", StaticFiles(directory=STATIC)),
            Route("/api/state", page.state),
            Route("/api/state", page.leave, methods=["DELETE"]),
            Route("/api/pictures", page.upload, methods=["POST"]),
            Route("/api/pictures/{key}", page.thumbnail),
            Route("/api/project", page.project),
            Route("/api/answers.csv", page.answers),
            Route("/api/tradeoff", page.tradeoff),
            *(
                Route(path, page.make_endpoint(change), methods=[method])
                for (method, path), change in CHANGES.items()
            ),
        ],
        middleware=[Middleware(RequestGuard, names=names)],
        exception_handlers={AnyshotError: _error_response},
    )


class Page:
    """The endpoints. Slow work and waiting happen on threads, so visitors do not block each other.

    A visitor gets a session, and with it one of the limited places, only when the first change or
    upload was accepted.
    """

    def __init__(self, reader: UploadReader, limits: Limits) -> None:
        self.reader = reader
        self.limits = limits
        self.sessions = Sessions(limits)
        self.memory = PhotoMemory(limits)
        self.held_bytes = 0  # of uploads that are not read yet
        self.facts = {
            "backbone": reader.backbone.name,
            "limits": asdict(limits) | {"bytes": limits.upload_bytes},
        }

    async def state(self, request: Request) -> Response:
        """All that the page shows."""
        return await self.state_response(self.find(request) or self.new_workspace())

    async def leave(self, request: Request) -> Response:
        """Forget everything of this visitor."""
        self.sessions.remove(_secret(request))
        return await self.state_response(self.new_workspace())

    async def upload(self, request: Request) -> Response:
        """Add one image, the request's body; ?target= is a class or the pool, ?name= the file.

        Uploads with the same ?batch= are undone together. With ?confirmed=1 the label is right even
        if it looks wrong.
        """
        target = request.query_params.get("target", "")
        batch = request.query_params.get("batch", "")[:BATCH_NAME]
        name = request.query_params.get("name", "")[:200] or "The image"
        confirmed = request.query_params.get("confirmed") == "1"
        workspace = self.find_or_create(request)
        await run_in_threadpool(workspace.check_room, target)
        too_long = f"{name} is larger than {self.limits.megabytes} MB, the most for an image."
        with self.count_upload() as count:
            data = await self.read_body(request, self.limits.upload_bytes, too_long, count)
            await run_in_threadpool(workspace.add_photo, name, data, target, batch, confirmed)
        return self.remember(request, workspace, Response(status_code=204))

    async def thumbnail(self, request: Request) -> Response:
        """The thumbnail of a photo."""
        workspace = self.find(request) or self.new_workspace()
        photo = await run_in_threadpool(workspace.photo, request.path_params["key"])
        return Response(photo.thumbnail, media_type="image/jpeg")

    async def project(self, request: Request) -> Response:
        """All classes and photos as a zip file, which ``project.js`` opens."""
        workspace = self.find(request) or self.new_workspace()
        parts = project_zip(*await run_in_threadpool(workspace.snapshot))
        return StreamingResponse(parts, headers=_download("anyshot project.zip"))

    async def answers(self, request: Request) -> Response:
        """The answers for the photos without a class as CSV."""
        workspace = self.find(request) or self.new_workspace()
        text = await run_in_threadpool(workspace.answers_csv)
        return Response(text, headers=_download("answers.csv"), media_type="text/csv")

    async def tradeoff(self, request: Request) -> Response:
        """What thresholds for photos of none of the classes cost and find."""
        workspace = self.find(request) or self.new_workspace()
        return JSONResponse(await run_in_threadpool(workspace.tradeoff))

    def make_endpoint(self, change: Change) -> Endpoint:
        """The endpoint that makes a change and returns the new state."""

        async def endpoint(request: Request) -> Response:
            workspace = self.find_or_create(request)
            body = await self.read_body(request, JSON_BYTES, "The request is too long.")
            key = request.path_params.get("key", "")
            await run_in_threadpool(change, workspace, key, parse_json(body))
            return self.remember(request, workspace, await self.state_response(workspace))

        return endpoint

    # ---------- sessions
    def new_workspace(self) -> Workspace:
        """An empty workspace without a session."""
        return Workspace(self.reader, self.limits, self.memory)

    def find(self, request: Request) -> Workspace | None:
        """The workspace of a visitor with a session."""
        return self.sessions.find(_secret(request))

    def find_or_create(self, request: Request) -> Workspace:
        """The visitor's workspace; a new one, still without a session, if there is room."""
        workspace = self.find(request)
        if workspace is None:
            self.sessions.check_room()
            workspace = self.new_workspace()
        return workspace

    def remember(self, request: Request, workspace: Workspace, response: Response) -> Response:
        """Give a visitor whose request was accepted a session."""
        if self.find(request) is not workspace:
            secret = self.sessions.add(workspace)
            response.set_cookie(_cookie(request), secret, httponly=True, samesite="strict")
        return response

    async def state_response(self, workspace: Workspace) -> Response:
        """The state of a workspace as JSON."""
        return await run_in_threadpool(lambda: JSONResponse(self.facts | workspace.state()))

    @contextmanager
    def count_upload(self) -> Iterator[Callable[[int], None]]:
        """Yield a function that counts the bytes of an upload, which are held during the block."""
        held = 0

        def count(size: int) -> None:
            nonlocal held
            if self.held_bytes + size > self.limits.memory_bytes:
                raise RequestRefused(
                    "The page is reading too many other photos; try again in a minute.", 503
                )
            held += size
            self.held_bytes += size

        try:
            yield count
        finally:
            self.held_bytes -= held

    async def read_body(
        self,
        request: Request,
        most: int,
        too_long: str,
        count: Callable[[int], None] = lambda size: None,
    ) -> bytes:
        """Read a request's body into memory; refuse one that is too long or too slow.

        ``count`` is called with the length of each part before it is kept.
        """
        if int(request.headers.get("content-length", "0")) > most:
            raise RequestRefused(too_long, 413)
        data = bytearray()
        deadline = time.monotonic() + self.limits.request_seconds
        chunks = request.stream()
        try:
            while True:
                seconds = min(self.limits.stall_seconds, deadline - time.monotonic())
                chunk = await asyncio.wait_for(anext(chunks, None), seconds)
                if chunk is None:
                    return bytes(data)
                if len(data) + len(chunk) > most:
                    raise RequestRefused(too_long, 413)
                count(len(chunk))
                data += chunk
        except asyncio.TimeoutError:  # its own class before Python 3.11
            raise RequestRefused("The request came too slowly and was stopped.", 408) from None
        except ClientDisconnect:
            raise RequestRefused("The request ended before it was complete.") from None


async def _home(request: Request) -> Response:
    return FileResponse(STATIC / "index.html")


async def _error_response(request: Request, error: Exception) -> Response:
    """The page shows the message of an error."""
    status = getattr(error, "status", 400)
    # A request that is not complete would otherwise keep its connection.
    headers = {"Connection": "close"} if status in (408, 413, 503) else None
    return JSONResponse({"error": str(error)}, status, headers=headers)


def _download(name: str) -> dict[str, str]:
    return {"Content-Disposition": f'attachment; filename="{name}"'}


def _secret(request: Request) -> str:
    return request.cookies.get(_cookie(request), "")


def _cookie(request: Request) -> str:
    """The cookie's name; browsers share cookies between ports, but two pages must not."""
    return f"anyshot-{request.url.port or 80}"
