"""Whose workspace is whose: a secret in a cookie leads to it; so many at most, and forgotten when they lie idle."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from anyshot.classifier.web.limits import Limits, Refused
from anyshot.classifier.web.uploads import UploadReader
from anyshot.classifier.web.workspace import Workspace


@dataclass(eq=False)
class _Visitor:
    workspace: Workspace
    seen: float


class Sessions:
    """Workspaces by secret."""

    def __init__(
        self, darkroom: UploadReader, limits: Limits, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.darkroom, self.limits, self.clock = darkroom, limits, clock
        self.lock = threading.Lock()
        self.known: dict[str, _Visitor] = {}

    def find(self, secret: str) -> Workspace | None:
        """The workspace of a visitor who has been here."""
        with self.lock:
            self._forget_idle()
            visitor = self.known.get(secret)
            if visitor is None:
                return None
            visitor.seen = self.clock()
            return visitor.workspace

    def enter(self) -> tuple[str, Workspace]:
        """A new visitor's secret and workspace."""
        with self.lock:
            self._forget_idle()
            if len(self.known) >= self.limits.visitors:
                raise Refused(
                    f"{len(self.known)} visitors are at work, the most for one page; try again later.",
                    503,
                )
            secret = secrets.token_urlsafe(24)
            visitor = _Visitor(Workspace(self.darkroom, self.limits), self.clock())
            self.known[secret] = visitor
            return secret, visitor.workspace

    def leave(self, secret: str) -> None:
        """Forget a visitor and all pictures of theirs."""
        with self.lock:
            self.known.pop(secret, None)

    def _forget_idle(self) -> None:
        oldest = self.clock() - 3600 * self.limits.idle_hours
        self.known = {
            secret: visitor for secret, visitor in self.known.items() if visitor.seen >= oldest
        }
