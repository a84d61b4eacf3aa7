"""The workspaces of all visitors, each found by a secret in a cookie."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from anyshot.classifier.web.limits import Limits, RequestRefused
from anyshot.classifier.web.workspace import Workspace


@dataclass(eq=False)
class _Session:
    workspace: Workspace
    last_seen: float


class Sessions:
    """Workspaces by secret: a limited number, forgotten after a time without requests."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self.clock = clock
        self.lock = threading.Lock()
        self.sessions: dict[str, _Session] = {}

    def find(self, secret: str) -> Workspace | None:
        """Return the workspace of a known visitor."""
        with self.lock:
            self._forget_idle()
            session = self.sessions.get(secret)
            if session is None:
                return None
            session.last_seen = self.clock()
            return session.workspace

    def check_room(self) -> None:
        """Refuse a new visitor if there are too many."""
        with self.lock:
            self._check_room()

    def add(self, workspace: Workspace) -> str:
        """Add a new visitor's workspace; return its secret."""
        secret = secrets.token_urlsafe(24)
        with self.lock:
            self._check_room()
            self.sessions[secret] = _Session(workspace, self.clock())
        return secret

    def remove(self, secret: str) -> None:
        """Forget a visitor with all photos."""
        with self.lock:
            self.sessions.pop(secret, None)

    def _check_room(self) -> None:
        self._forget_idle()
        if len(self.sessions) >= self.limits.visitors:
            raise RequestRefused(
                f"The page already has {len(self.sessions)} visitors, the most for one page; "
                "try again later.",
                503,
            )

    def _forget_idle(self) -> None:
        oldest = self.clock() - 3600 * self.limits.idle_hours
        self.sessions = {
            secret: session
            for secret, session in self.sessions.items()
            if session.last_seen >= oldest
        }
