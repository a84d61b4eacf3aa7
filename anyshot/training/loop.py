"""The resumable training loop that pre-training and meta-training share.

Everything random is a function of the seed and the step, and a checkpoint holds everything else. A
run that was killed therefore continues to bit for bit the parameters of one that was not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from anyshot.core.parallel import collectives, ranks
from anyshot.core.progress import Advance, progress
from anyshot.runs.checkpoint import Checkpoint
from anyshot.runs.run import Run
from anyshot.runs.training_log import Callback, TrainingLog


@dataclass(frozen=True)
class TrainContext:
    """What a training uses besides its settings; none of it changes the parameters."""

    workers: int | None = None  #: tasks at once; None: one for each core
    device: str = "cpu"
    callback: Callback | None = None  #: called with every record of the log
    tensorboard: bool | None = None  #: None: if TensorBoard is installed


NO_CONTEXT = TrainContext()


class TrainingLoop(ABC):
    """One stage of a run: repeats :meth:`step`, validates, logs and saves checkpoints.

    A subclass is one training objective. It counts its steps in ``finished_steps``, up to
    ``total``, and offers what the next step depends on as :meth:`state` and :meth:`tensors`.
    """

    counter: ClassVar[str]  #: what a step is called in the log and in checkpoints
    checkpoint_prefix: ClassVar[str]  #: of the names of checkpoint files

    def __init__(self, run: Run, context: TrainContext) -> None:
        self.run = run
        self.context = context
        self.log = TrainingLog(run, context.callback)
        self.method = run.new_method(context.device)

    @property
    @abstractmethod
    def finished_steps(self) -> int:
        """The number of finished steps."""

    @property
    @abstractmethod
    def total(self) -> int:
        """The number of steps of the whole training."""

    @property
    @abstractmethod
    def validate_every(self) -> int:
        """Steps between validations; 0: only at the end."""

    checkpoint_every = 1  #: steps between checkpoints

    @abstractmethod
    def step(self, advance: Advance) -> None:
        """Train one step, log it, and advance the progress bar."""

    @abstractmethod
    def validate(self) -> None:
        """Evaluate and log; save the parameters if they are the ones to use."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """The plain values that the next step depends on."""

    @abstractmethod
    def tensors(self) -> dict[str, Tensor]:
        """The tensors that the next step depends on, by name."""

    @abstractmethod
    def load(self, checkpoint: Checkpoint) -> None:
        """Continue from a checkpoint with :meth:`state` and :meth:`tensors`."""

    @abstractmethod
    def progress_bar(self) -> tuple[str, int, int]:
        """Title, length and finished part of the progress bar."""

    def is_done(self) -> bool:
        """Whether no step is left."""
        return self.finished_steps >= self.total

    def finish(self) -> None:  # noqa: B027 (not abstract: most objectives have nothing to add)
        """Called once, after the last step; a subclass may override it."""

    def train(self) -> Run:
        """Train all steps that are left, from the newest checkpoint if there is one."""
        resumed = self.restore()
        self.log.open_board(self.finished_steps, self.context.tensorboard)
        if not resumed:
            self.save_checkpoint()  # the run counts as started once it has a checkpoint
        title, length, finished = self.progress_bar()
        with progress(title, length, done=finished) as advance:
            while not self.is_done():
                self.step(advance)
                if (
                    self.finished_steps % (self.validate_every or self.total) == 0
                    or self.finished_steps == self.total
                ):
                    self.validate()
                if self.finished_steps % self.checkpoint_every == 0 or self.is_done():
                    self.save_checkpoint()
        self.finish()
        self.log.close()
        return self.run

    def save_checkpoint(self) -> None:
        """Save everything that the next step depends on."""
        collectives.broadcast_tensors(self.tensors().values())
        if work := ranks.utilisation():
            self.log.add(
                {"kind": "ranks", self.counter: self.finished_steps, **work}, self.finished_steps
            )
        state = {**self.state(), "log_lines": self.run.log_lines()}
        name = f"{self.checkpoint_prefix}-{self.finished_steps:07d}"
        self.run.save_checkpoint(name, Checkpoint(state, self.tensors()))

    def restore(self) -> bool:
        """Load the newest checkpoint and drop later log lines; False if there is no checkpoint."""
        checkpoint = collectives.broadcast_from_rank_zero(self.run.latest_checkpoint)
        if checkpoint is None:
            self.run.truncate_log(0)
            return False
        with self.run.matching_tensors("The newest checkpoint"):
            self.load(checkpoint)
        self.run.truncate_log(checkpoint.state["log_lines"])
        return True
