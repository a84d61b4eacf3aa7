"""Meta-training: stages over one run folder, each a loop of steps with a log and checkpoints.

Everything random is a function of (seed, iteration), and a checkpoint holds everything else, so a run that was killed
goes on to bit for bit the parameters of one that was not.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from anyshot.checkpoints import Checkpoint
from anyshot.errors import AnyshotError
from anyshot.files import explained
from anyshot.images import ImageSet
from anyshot.methods import Method
from anyshot.metrics import Summary
from anyshot.parallel import map_tasks
from anyshot.progress import progress
from anyshot.runs import Run, training_in
from anyshot.settings import Settings
from anyshot.sources import open_sources
from anyshot.tasks import Task, TaskStream
from anyshot.testing import evaluate
from anyshot.warm import warm_start

log = logging.getLogger(__name__)

Callback = Callable[[dict[str, Any]], None]
MOST_SKIPPED = 100  #: non-finite steps in a row that end a run


@dataclass
class State:
    """Where meta-training stands, besides its tensors."""

    iteration: int = 0  #: finished ones
    warm: bool = False  #: the warm start, if any, is over
    skipped: int = 0  #: steps with a non-finite loss or gradient
    skipped_in_a_row: int = 0
    best: float = -1.0  #: accuracy that chose the best parameters; below any at the start
    best_iteration: int = 0
    stale: int = 0  #: validations since then
    log_lines: int = 0


def train(
    settings: Settings,
    folder: str | Path,
    *,
    imagesets: Sequence[ImageSet] | None = None,
    ood: Sequence[ImageSet] | None = None,
    workers: int | None = None,
    command: str = "",
    callback: Callback | None = None,
    tensorboard: bool | None = None,
) -> Run:
    """Train until the settings' last iteration, or go on with the run in ``folder`` from its newest checkpoint.

    Image sets are opened by the settings' names unless they are given; a run that goes on uses the classes and splits
    that it began with, and images that have changed since end it with a sentence. Nothing is left behind by a call that
    fails before its first iteration.

    ``callback(record)`` is told every line of the log as it is written (``{"kind": "iteration", "loss": …}``): for
    Weights & Biases and the like. ``tensorboard`` writes event files; None does so where TensorBoard is installed.
    """
    with training_in(folder), torch.inference_mode(False), torch.enable_grad():
        begun = Run.find(folder)
        sources = open_sources(settings, begun.sets if begun else (), imagesets, ood)
        run = Run.create(folder, sources.named(settings), sources.size, command, sources.records)
        for sentence in sources.sentences():
            log.info("%s", sentence)
        training = MetaTraining(run, sources.images, sources.ood, workers, callback)
        return training.finish(tensorboard)


class MetaTraining:
    """One run in progress: the method, its optimiser, where it stands, and the streams it reads."""

    def __init__(
        self,
        run: Run,
        imagesets: Sequence[ImageSet],
        ood: Sequence[ImageSet] = (),
        workers: int | None = None,
        callback: Callback | None = None,
    ) -> None:
        self.run, self.settings, self.workers, self.state = run, run.settings, workers, State()
        self.callback = callback
        self.imagesets, s, t = imagesets, self.settings, self.settings.train
        self.method = run.new_method()
        self.optimiser = adam(self.method, t.rate)
        self.stream = TaskStream(imagesets, "train", s.task, t.seed, s.mixing, t.meta_batch)
        self.validation = {
            i.name: TaskStream(i, "validation", s.task, t.seed) for i in imagesets if "validation" in i.splits
        }
        self.ood = {i.name: TaskStream(i, "validation", s.task, t.seed) for i in ood}
        self.board: Any = None

    def finish(self, tensorboard: bool | None = False) -> Run:
        """All iterations that are left."""
        t, resumed = self.settings.train, self.restore()
        self.board = _tensorboard(self.run.folder, self.state.iteration, tensorboard)
        if not resumed:
            self.checkpoint()  # from here on the run has begun
        if t.warm_epochs and not self.state.warm:
            self.warm()
        state = self.state
        with progress(f"Meta-training {self.method.name}", t.iterations, done=state.iteration) as advance:
            while not self.ended():
                started = time.perf_counter()
                record = self.step()
                speed = t.meta_batch / (time.perf_counter() - started)
                if state.iteration % (t.validate_every or t.iterations) == 0 or state.iteration == t.iterations:
                    self.validate()
                if state.iteration % t.checkpoint_every == 0 or self.ended():
                    self.checkpoint()
                advance(1, _note(record, speed, state.skipped))
        if self.board:
            self.board.close()
        return self.run

    def ended(self) -> bool:
        """All iterations done, or too many validations without a new best."""
        t = self.settings.train
        return self.state.iteration >= t.iterations or 0 < t.patience <= self.state.stale

    # ------------------------------------------------------------------------------------------------ one iteration
    def step(self) -> dict[str, Any]:
        """One meta-iteration; a loss or gradient that is not finite changes no parameter, but is counted."""
        t, state = self.settings.train, self.state
        first = state.iteration * t.meta_batch
        tasks = [self.stream.task(first + i) for i in range(t.meta_batch)]
        results = map_tasks(lambda task: task_gradients(self.method, task), tasks, self.workers, size=len)
        gradients = [sum(parts) / t.meta_batch for parts in zip(*(g for g, _ in results), strict=True)]
        record: dict[str, Any] = {k: sum(info[k] for _, info in results) / t.meta_batch for k in results[0][1]}
        state.iteration += 1
        if math.isfinite(record["loss"] + record["penalty"]) and all(g.isfinite().all() for g in gradients):
            state.skipped_in_a_row = 0
            self.apply(gradients)
        else:
            state.skipped += 1
            state.skipped_in_a_row += 1
        record = {"kind": "iteration", "iteration": state.iteration, **record, "skipped": state.skipped}
        self.log(record)
        if state.skipped_in_a_row >= MOST_SKIPPED:
            raise AnyshotError(
                f"{MOST_SKIPPED} steps in a row had a loss or gradient that is not finite, at iteration "
                f"{state.iteration}; start a new run with a lower rate (now {t.rate}) or inner step size."
            )
        return record

    def apply(self, gradients: list[Tensor]) -> None:
        """Adam on the clipped gradients."""
        t = self.settings.train
        decay = 0.5 + 0.5 * math.cos(math.pi * (self.state.iteration - 1) / t.iterations) if t.decay == "cosine" else 1
        for group in self.optimiser.param_groups:
            group["lr"] = t.rate * decay * group["factor"]
        for parameter, gradient in zip(self.method.parameters(), gradients, strict=True):
            parameter.grad = gradient.clamp_(-t.clip, t.clip)
        self.optimiser.step()

    def validate(self) -> None:
        """Naive prediction on the validation classes; the best parameters so far are kept apart. Without such classes
        the last ones are."""
        s, state = self.settings.train, self.state
        sets = {**self.validation, **(self.ood if s.select == "id+ood" else {})}
        if not sets:
            state.best_iteration = state.iteration
            return self.keep(None, "last")
        with progress("Validating", s.validation_tasks * len(sets)) as advance:
            summaries = {
                name: evaluate(
                    self.method, stream, s.validation_tasks, prediction="naive", workers=self.workers, advance=advance
                )
                for name, stream in sets.items()
            }
        chosen_by = self.chosen_by(summaries)
        state.stale += 1
        if chosen_by > state.best:
            state.best, state.best_iteration, state.stale = chosen_by, state.iteration, 0
            self.keep(chosen_by, s.select)
        accuracies = {name: summary.accuracy for name, summary in summaries.items()}
        self.log({"kind": "validation", "iteration": state.iteration, "selection": chosen_by, **accuracies})

    def keep(self, selection: float | None, by: str) -> None:
        """These parameters are the ones to use, until better ones come."""
        state = {"iteration": self.state.iteration, "selection": selection, "by": by}
        self.run.save_best(Checkpoint(state, dict(self.method.state_dict())))

    def chosen_by(self, summaries: dict[str, Summary]) -> float:
        """Mean accuracy over the image sets trained on, plus that over the out-of-distribution ones."""

        def mean(names: Sequence[str]) -> float:
            return sum(summaries[name].accuracy for name in names) / len(names) if names else 0.0

        return mean(list(self.validation)) + mean([name for name in self.ood if name in summaries])

    def log(self, record: dict[str, Any]) -> None:
        """To the log, to TensorBoard and to whoever else wants to know."""
        self.run.log(record)
        if self.callback:
            self.callback(dict(record))
        if self.board:
            for key, value in record.items():
                if isinstance(value, float):
                    self.board.add_scalar(f"{record['kind']}/{key}", value, self.state.iteration)

    # ------------------------------------------------------------------------------------------------ stages
    def warm(self) -> None:
        """The stage before: plain classification of the training classes."""
        t = self.settings.train
        warm_start(self.method, self.imagesets, t.warm_epochs, t.seed, self.log)
        self.state.warm = True
        self.checkpoint()

    def checkpoint(self) -> None:
        """Everything that the next iteration depends on."""
        self.state.log_lines = self.run.log_lines()
        tensors = {f"method.{name}": value for name, value in self.method.state_dict().items()}
        for i, values in self.optimiser.state_dict()["state"].items():
            tensors |= {f"adam.{i}.{key}": value for key, value in values.items()}
        self.run.save_checkpoint(f"meta-{self.state.iteration:07d}", Checkpoint(asdict(self.state), tensors))

    def restore(self) -> bool:
        """Go on from the newest checkpoint, if there is one."""
        checkpoint = self.run.latest_checkpoint()
        if checkpoint is None:
            self.run.rewind_log(0)
            return False
        tensors, moments = checkpoint.tensors, dict[int, dict[str, Tensor]]()
        for key, value in tensors.items():
            if key.startswith("adam."):
                _, i, name = key.split(".")
                moments.setdefault(int(i), {})[name] = value
        with self.run.fitting("The newest checkpoint"):
            self.state = State(**checkpoint.state)
            self.method.load_state_dict(
                {k.removeprefix("method."): v for k, v in tensors.items() if k.startswith("method.")}
            )
            self.optimiser.load_state_dict({**self.optimiser.state_dict(), "state": moments})
        self.run.rewind_log(self.state.log_lines)
        return True


def adam(method: Method, rate: float) -> torch.optim.Adam:
    """Adam with one group for each parameter, since a method may ask for other rates for some."""
    factors = method.rate_factors()
    return torch.optim.Adam(
        [{"params": [p], "lr": rate, "factor": factors.get(name, 1.0)} for name, p in method.named_parameters()]
    )


def task_gradients(method: Method, task: Task) -> tuple[list[Tensor], dict[str, float]]:
    """Gradients of one task's objective for all meta-parameters, and the numbers to show."""
    objective = method.objective(task)
    parameters = list(method.parameters())
    gradients = torch.autograd.grad(
        objective.loss + objective.penalty, parameters, allow_unused=True, materialize_grads=True
    )
    loss, penalty = (float(torch.as_tensor(part).detach()) for part in (objective.loss, objective.penalty))
    return list(gradients), {"loss": loss, "penalty": penalty, "kl": objective.kl, "accuracy": objective.accuracy}


def _note(record: dict[str, Any], speed: float, skipped: int) -> str:
    note = f"loss {record['loss']:.3f}  KL {record['kl']:.1f}  accuracy {record['accuracy']:.1%}  {speed:.1f} tasks/s"
    return note + (f"  skipped {skipped}" if skipped else "")


def _tensorboard(folder: Path, iteration: int, wanted: bool | None) -> Any:
    """A writer, or None if it is not wanted or, where nobody asked for it, not installed; what an interrupted run wrote
    after ``iteration`` is dropped."""
    if wanted is False:
        return None
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        if wanted:
            raise AnyshotError("TensorBoard is not installed; run: pip install 'anyshot[tensorboard]'") from error
        return None
    place = folder / "tensorboard"
    with explained("write", place):
        return SummaryWriter(str(place), purge_step=iteration + 1)
