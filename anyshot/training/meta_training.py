"""Meta-training: stages over one run folder, each a loop of steps with a log and checkpoints.

Everything random is a function of (seed, iteration), and a checkpoint holds everything else, so a run that was killed
goes on to bit for bit the parameters of one that was not.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from anyshot.core.errors import AnyshotError
from anyshot.core.parallel import collectives, ranks
from anyshot.core.progress import progress
from anyshot.core.settings import Settings
from anyshot.data import ImageSet
from anyshot.data.tasks import Task, TaskIndices, TaskStream
from anyshot.evaluation.evaluate_tasks import evaluate
from anyshot.evaluation.metrics import Summary
from anyshot.evaluation.temperature import calibrate_temperature
from anyshot.methods import Method
from anyshot.runs.checkpoint import Checkpoint
from anyshot.runs.log import Callback, TrainingLog
from anyshot.runs.run import Run
from anyshot.runs.start import InitialBody, open_or_create_run
from anyshot.runs.training_lock import exclusive_training
from anyshot.training.optimizer import Optimizer

log = logging.getLogger(__name__)

MOST_SKIPPED = 100  #: non-finite steps in a row that end a run


@dataclass
class State:
    """Where meta-training stands, besides its tensors."""

    iteration: int = 0  #: finished ones
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
    device: str = "cpu",
) -> Run:
    """Train until the settings' last iteration, or go on with the run in ``folder`` from its newest checkpoint.

    Image sets are opened by the settings' names unless they are given; a run that goes on uses the classes and splits
    that it began with, and images that have changed since end it with a sentence. Nothing is left behind by a call that
    fails before its first iteration.

    ``callback(record)`` is told every line of the log as it is written (``{"kind": "iteration", "loss": …}``): for
    Weights & Biases and the like. ``tensorboard`` writes event files; None does so where TensorBoard is installed.
    ``device`` is where to compute ("cpu", "cuda", "mps" or "auto"); a run may go on elsewhere. Inside
    :func:`anyshot.core.parallel.ranks.joined` the processes that torchrun started train one run together, to the same bits.
    """
    if settings.warm is not None:
        raise AnyshotError(
            f"The settings of '{folder}' are those of a warm start; anyshot warm takes them."
        )
    with (
        ranks.on_rank_zero(exclusive_training(folder)),
        torch.inference_mode(False),
        torch.enable_grad(),
    ):
        run, sources, origin = open_or_create_run(settings, folder, imagesets, ood, command)
        for sentence in sources.describe():
            log.info("%s", sentence)
        training = MetaTraining(run, sources.images, sources.ood, workers, callback, device)
        if origin:
            training.load_body(origin)
        for stream in (training.stream, *training.validation.values(), *training.ood.values()):
            for sentence in stream.size_warnings():
                log.warning("%s", sentence)
        return training.train(tensorboard)


class MetaTraining:
    """One run in progress: the method, its optimiser, where it stands, and the streams it reads."""

    def __init__(
        self,
        run: Run,
        imagesets: Sequence[ImageSet],
        ood: Sequence[ImageSet] = (),
        workers: int | None = None,
        callback: Callback | None = None,
        device: str = "cpu",
    ) -> None:
        self.run, self.settings, self.workers, self.state = run, run.settings, workers, State()
        self.journal, s, t = TrainingLog(run, callback), self.settings, self.settings.train
        self.method = run.new_method(device)
        task = run.resolve_settings().task
        self.optimiser = Optimizer(self.method, t)
        self.stream = TaskStream(
            imagesets, "train", task, t.seed, s.mixing, t.meta_batch, t.augment
        )
        self.validation = {
            i.name: TaskStream(i, "validation", task, t.seed)
            for i in imagesets
            if "validation" in i.splits
        }
        self.ood = {i.name: TaskStream(i, "validation", task, t.seed) for i in ood}
        if t.calibrate and not self.validation:
            raise AnyshotError(
                "There are no classes to validate on, so there is nothing to calibrate with; leave it."
            )

    def load_body(self, origin: InitialBody) -> None:
        """Start with a body that was trained before."""
        for method in {self.method, self.optimiser.kept}:
            origin.load_into(method)

    def train(self, tensorboard: bool | None = False) -> Run:
        """All iterations that are left."""
        t, resumed = self.settings.train, self.restore()
        self.journal.open_board(self.state.iteration, tensorboard)
        if not resumed:
            self.checkpoint()  # from here on the run has begun
        state = self.state
        with progress(
            f"Meta-training {self.method.name}", t.iterations, done=state.iteration
        ) as advance:
            while not self.is_done():
                started = time.perf_counter()
                record = self.step()
                speed = t.meta_batch / (time.perf_counter() - started)
                if (
                    state.iteration % (t.validate_every or t.iterations) == 0
                    or state.iteration == t.iterations
                ):
                    self.validate()
                if state.iteration % t.checkpoint_every == 0 or self.is_done():
                    self.checkpoint()
                advance(1, _note(record, speed, state.skipped))
        if t.calibrate:
            self.calibrate()
        self.journal.close()
        return self.run

    def is_done(self) -> bool:
        """All iterations done, or too many validations without a new best."""
        t = self.settings.train
        return self.state.iteration >= t.iterations or 0 < t.patience <= self.state.stale

    # ------------------------------------------------------------------------------------------------ one iteration
    def step(self) -> dict[str, Any]:
        """One meta-iteration; a loss or gradient that is not finite changes no parameter, but is counted."""
        t, state = self.settings.train, self.state
        order = 1 if state.iteration < t.first_order_until else self.settings.method.order
        self.method.settings = replace(self.method.settings, order=order)
        first = state.iteration * t.meta_batch
        draws = [self.stream.sample_indices(first + i) for i in range(t.meta_batch)]

        def one(draw: TaskIndices) -> tuple[list[Tensor], dict[str, float]]:
            return task_gradients(self.method, self.stream.load_task(draw))

        sums, infos = collectives.map_and_sum_gradients(
            one, draws, list(self.method.parameters()), self.workers, size=len
        )
        gradients = [total / t.meta_batch for total in sums]
        record: dict[str, Any] = {
            k: sum(info[k] for info in infos) / t.meta_batch for k in infos[0]
        }
        state.iteration += 1
        if math.isfinite(record["loss"] + record["penalty"]) and all(
            g.isfinite().all() for g in gradients
        ):
            state.skipped_in_a_row = 0
            self.optimiser.step(gradients, state.iteration - 1)
        else:
            state.skipped += 1
            state.skipped_in_a_row += 1
        record = {
            "kind": "iteration",
            "iteration": state.iteration,
            **record,
            "skipped": state.skipped,
        }
        self.journal.add(record, state.iteration)
        if state.skipped_in_a_row >= MOST_SKIPPED:
            raise AnyshotError(
                f"{MOST_SKIPPED} steps in a row had a loss or gradient that is not finite, at iteration "
                f"{state.iteration}; start a new run with a lower rate (now {t.rate}) or inner step size."
            )
        return record

    def validate(self) -> None:
        """Predictions on the validation classes; the best parameters so far are kept apart. Without such classes the
        last ones are."""
        s, state = self.settings.train, self.state
        sets = {**self.validation, **(self.ood if s.select == "id+ood" else {})}
        if not sets:
            state.best_iteration = state.iteration
            return self.save_best(None, "last")
        with progress("Validating", s.validation_tasks * len(sets)) as advance:
            summaries = {
                name: evaluate(
                    self.optimiser.kept,
                    stream,
                    s.validation_tasks,
                    prediction=s.validate_by,
                    workers=self.workers,
                    advance=advance,
                )
                for name, stream in sets.items()
            }
        chosen_by = self.selection_score(summaries)
        state.stale += 1
        if chosen_by > state.best:
            state.best, state.best_iteration, state.stale = chosen_by, state.iteration, 0
            self.save_best(chosen_by, s.select)
        accuracies = {name: summary.accuracy for name, summary in summaries.items()}
        record = {
            "kind": "validation",
            "iteration": state.iteration,
            "selection": chosen_by,
            **accuracies,
        }
        self.journal.add(record, state.iteration)

    def save_best(self, selection: float | None, by: str) -> None:
        """These parameters are the ones to use, until better ones come."""
        state = {"iteration": self.state.iteration, "selection": selection, "by": by}
        self.run.save_best(Checkpoint(state, dict(self.optimiser.kept.state_dict())))

    def calibrate(self) -> None:
        """Fit the temperature of the chosen parameters to the validation tasks of the sets trained on, unless the log
        says that it is."""
        t, best = self.settings.train, collectives.broadcast_from_rank_zero(self.run.best)
        done = collectives.broadcast_from_rank_zero(lambda: list(self.run.records("calibration")))
        if any(record["iteration"] == best.state["iteration"] for record in done):
            return
        method = self.run.load_method(self.method.reference_tensor.device.type, best)
        method.temperature = 1.0
        with progress("Calibrating", t.validation_tasks * len(self.validation)) as advance:
            streams = list(self.validation.values())
            temperature = calibrate_temperature(
                method, streams, t.validation_tasks, t.validate_by, self.workers, advance
            )
        record = {
            "kind": "calibration",
            "iteration": best.state["iteration"],
            "temperature": temperature,
        }
        self.journal.add(record, self.state.iteration)
        self.run.save_best(Checkpoint({**best.state, "temperature": temperature}, best.tensors))
        self.checkpoint()  # with this line of the log

    def selection_score(self, summaries: dict[str, Summary]) -> float:
        """Mean accuracy over the image sets trained on, plus that over the out-of-distribution ones."""

        def mean(names: Sequence[str]) -> float:
            return sum(summaries[name].accuracy for name in names) / len(names) if names else 0.0

        return mean(list(self.validation)) + mean([name for name in self.ood if name in summaries])

    # ------------------------------------------------------------------------------------------------ checkpoints
    def checkpoint(self) -> None:
        """Everything that the next iteration depends on."""
        collectives.broadcast_tensors(self.optimiser.state_tensors().values())
        if work := ranks.utilisation():
            self.journal.add(
                {"kind": "ranks", "iteration": self.state.iteration, **work}, self.state.iteration
            )
        self.state.log_lines = self.run.log_lines()
        checkpoint = Checkpoint(asdict(self.state), self.optimiser.state_tensors())
        self.run.save_checkpoint(f"meta-{self.state.iteration:07d}", checkpoint)

    def restore(self) -> bool:
        """Go on from the newest checkpoint, if there is one."""
        checkpoint = collectives.broadcast_from_rank_zero(self.run.latest_checkpoint)
        if checkpoint is None:
            self.run.truncate_log(0)
            return False
        with self.run.matching_tensors("The newest checkpoint"):
            self.state = State(**checkpoint.state)
            self.optimiser.load(checkpoint.tensors)
        self.run.truncate_log(self.state.log_lines)
        return True


def task_gradients(method: Method, task: Task) -> tuple[list[Tensor], dict[str, float]]:
    """Gradients of one task's objective for all meta-parameters, and the numbers to show."""
    objective = method.objective(task, task.noise())
    parameters = list(method.parameters())
    gradients = torch.autograd.grad(
        objective.loss + objective.penalty, parameters, allow_unused=True, materialize_grads=True
    )
    loss, penalty = (
        float(torch.as_tensor(part).detach()) for part in (objective.loss, objective.penalty)
    )
    return list(gradients), {
        "loss": loss,
        "penalty": penalty,
        "kl": objective.kl,
        "accuracy": objective.accuracy,
    }


def _note(record: dict[str, Any], speed: float, skipped: int) -> str:
    note = f"loss {record['loss']:.3f}  KL {record['kl']:.1f}  accuracy {record['accuracy']:.1%}  {speed:.1f} tasks/s"
    return note + (f"  skipped {skipped}" if skipped else "")
