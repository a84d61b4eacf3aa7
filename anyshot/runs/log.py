"""Who is told how training goes: the run's log, and whoever else wants to know."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anyshot.core.errors import AnyshotError
from anyshot.core.files import os_errors_as_messages
from anyshot.core.parallel.ranks import rank_zero_only
from anyshot.runs.run import Run

Callback = Callable[[dict[str, Any]], None]


class TrainingLog:
    """Records of a training, each a line of the run's log, told to a callback and to TensorBoard as well."""

    def __init__(self, run: Run, callback: Callback | None = None) -> None:
        self.run, self.callback = run, callback
        self.board: Any = None

    @rank_zero_only
    def open_board(self, step: int, wanted: bool | None) -> None:
        """Event files for TensorBoard, unless they are not wanted or, where nobody asked for them, it is not installed;
        what an interrupted run wrote after ``step`` is dropped."""
        if wanted is False:
            return
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            if wanted:
                raise AnyshotError(
                    "TensorBoard is not installed; run: pip install 'anyshot[tensorboard]'"
                ) from error
            return
        place = self.run.folder / "tensorboard"
        with os_errors_as_messages("write", place):
            self.board = SummaryWriter(str(place), purge_step=step + 1)

    @rank_zero_only
    def add(self, record: dict[str, Any], step: int) -> None:
        """To the log, to TensorBoard and to the callback."""
        self.run.log(record)
        if self.callback:
            self.callback(dict(record))
        if self.board:
            for key, value in record.items():
                if isinstance(value, float):
                    self.board.add_scalar(f"{record['kind']}/{key}", value, step)

    def close(self) -> None:
        """No more records."""
        if self.board:
            self.board.close()
