"""Records of a training: into the log of the run, to a callback, and to TensorBoard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anyshot.core.errors import SettingsError
from anyshot.core.files import os_errors_as_messages
from anyshot.core.parallel.ranks import rank_zero_only
from anyshot.runs.run import Run

Callback = Callable[[dict[str, Any]], None]


class TrainingLog:
    """Write each record to the log of a run, to a callback and to TensorBoard."""

    def __init__(self, run: Run, callback: Callback | None = None) -> None:
        self.run = run
        self.callback = callback
        self.board: Any = None

    @rank_zero_only
    def open_board(self, step: int, tensorboard: bool | None) -> None:
        """Start writing event files for TensorBoard.

        With ``tensorboard=None`` they are written if TensorBoard is installed. What an interrupted
        run wrote after ``step`` is dropped.
        """
        if tensorboard is False:
            return
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            if tensorboard:
                raise SettingsError(
                    "TensorBoard is not installed; run: pip install 'anyshot[tensorboard]'"
                ) from error
            return
        folder = self.run.folder / "tensorboard"
        with os_errors_as_messages("write", folder):
            self.board = SummaryWriter(str(folder), purge_step=step + 1)

    @rank_zero_only
    def add(self, record: dict[str, Any], step: int) -> None:
        """Write a record."""
        self.run.log(record)
        if self.callback:
            self.callback(dict(record))
        if self.board:
            for key, value in record.items():
                if isinstance(value, float):
                    self.board.add_scalar(f"{record['kind']}/{key}", value, step)

    def close(self) -> None:
        """Close the event files."""
        if self.board:
            self.board.close()
