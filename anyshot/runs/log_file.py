"""The log of a run: one JSON object a line, in ``RUN/log.jsonl``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from anyshot.core.files import append_line, os_errors_as_messages, to_plain


class LogFile:
    """Append to a log, read it, and cut it back to where a checkpoint was written."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def exists(self) -> bool:
        """Return whether anything was logged."""
        return self.path.exists()

    def append(self, record: Mapping[str, Any]) -> None:
        """Add a line."""
        append_line(self.path, json.dumps(to_plain(record)))

    def records(self, kind: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield all records, or those of one kind; skip a line that a kill left incomplete."""
        if not self.exists():
            return
        with os_errors_as_messages("read", self.path):
            text = self.path.read_text(encoding="utf-8", errors="replace")
        for line in text.splitlines():
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if isinstance(record, dict) and "kind" in record and kind in (None, record["kind"]):
                yield record

    def truncate(self, lines: int) -> None:
        """Keep the first ``lines`` lines."""
        if self.exists():
            with os_errors_as_messages("write", self.path), open(self.path, "r+b") as file:
                for _ in range(lines):
                    file.readline()
                file.truncate(file.tell())

    def count_lines(self) -> int:
        """Return the number of complete lines."""
        if not self.exists():
            return 0
        with os_errors_as_messages("read", self.path):
            return self.path.read_bytes().count(b"\n")
