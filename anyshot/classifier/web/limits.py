"""What one page bears, and the refusal of anything beyond."""

from __future__ import annotations

from dataclasses import dataclass

from anyshot.core.errors import AnyshotError


@dataclass(frozen=True)
class Limits:
    """At most so much; a picture takes some 40 kB of memory once it is read, so 20 full workspaces take 800 MB."""

    megabytes: int = 20  #: of one upload
    pictures: int = 1000  #: of one visitor
    classes: int = 50  #: of one visitor; the learner was measured up to these
    name: int = 60  #: characters of a class's name
    visitors: int = 20
    idle_hours: float = 6  #: after which a visitor's pictures are forgotten

    @property
    def bytes(self) -> int:
        """Of one upload."""
        return self.megabytes * 1_000_000


class Refused(AnyshotError):
    """What the page cannot do, as a sentence, with the status of HTTP that says so to a program."""

    def __init__(self, sentence: str, status: int = 400) -> None:
        super().__init__(sentence)
        self.status = status
