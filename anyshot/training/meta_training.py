"""Meta-training: learn from many tasks how to adapt to a new one."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from anyshot.core.errors import CodeError, RunError, SettingsError
from anyshot.core.parallel import collectives
from anyshot.core.progress import Advance, progress
from anyshot.data import ImageSet
from anyshot.data.tasks import Task, TaskIndices, TaskStream
from anyshot.evaluation.evaluate_tasks import evaluate
from anyshot.evaluation.metrics import Summary
from anyshot.evaluation.temperature import calibrate_temperature
from anyshot.methods import Method, Objective
from anyshot.runs.checkpoint import Checkpoint
from anyshot.runs.run import Run
from anyshot.training.gradient_check import GradientCheck
from anyshot.training.loop import NO_CONTEXT, TrainContext, TrainingLoop
from anyshot.training.optimizer import Optimizer

MOST_SKIPPED = 100  #: non-finite steps in a row that end a run


@dataclass
class State:
    """The plain values of meta-training; the field names are in checkpoints."""

    iteration: int = 0  #: finished iterations
    skipped: int = 0  #: steps with a non-finite loss or gradient
    skipped_in_a_row: int = 0
    best: float = -1.0  #: selection score of the best parameters; below any score at the start
    best_iteration: int = 0
    stale: int = 0  #: validations since the best one


class MetaTraining(TrainingLoop):
    """The meta-training stage; a step of the loop is a meta-batch of tasks."""

    counter = "iteration"
    checkpoint_prefix = "meta"

    def __init__(
        self,
        run: Run,
        imagesets: Sequence[ImageSet],
        ood: Sequence[ImageSet] = (),
        context: TrainContext = NO_CONTEXT,
    ) -> None:
        super().__init__(run, context)
        s = run.settings
        self.settings = s.train
        self.checkpoint_every = s.train.checkpoint_every
        self.status = State()
        self.optimizer = Optimizer(self.method, s.train)
        self.gradient_check = GradientCheck(self.method)
        seed = s.train.seed
        task = run.resolve_settings().task
        self.stream = TaskStream(
            imagesets, "train", task, seed, s.mixing, s.train.meta_batch, s.train.augment
        )
        self.validation = {
            i.name: TaskStream(i, "validation", task, seed)
            for i in imagesets
            if "validation" in i.splits
        }
        self.ood = {i.name: TaskStream(i, "validation", task, seed) for i in ood}
        if s.train.calibrate and not self.validation:
            raise SettingsError(
                "Calibration needs validation classes, and this image set has none; drop "
                "--calibrate (calibrate=False in Python)."
            )

    @property
    def finished_steps(self) -> int:
        """Finished iterations."""
        return self.status.iteration

    @property
    def total(self) -> int:
        """Iterations of the whole meta-training."""
        return self.settings.iterations

    @property
    def validate_every(self) -> int:
        """Iterations between validations; 0: only at the end."""
        return self.settings.validate_every

    def progress_bar(self) -> tuple[str, int, int]:
        """The progress bar counts iterations."""
        return f"Meta-training {self.method.name}", self.total, self.finished_steps

    def is_done(self) -> bool:
        """All iterations are done, or too many validations brought no improvement."""
        return super().is_done() or 0 < self.settings.patience <= self.status.stale

    def size_warnings(self) -> list[str]:
        """Sentences about classes that are too small for the tasks of the settings."""
        streams = (self.stream, *self.validation.values(), *self.ood.values())
        return [sentence for stream in streams for sentence in stream.size_warnings()]

    # --------------------------------------------------------------------------- one iteration
    def step(self, advance: Advance) -> None:
        """One meta-batch; a non-finite loss or gradient changes no parameter and is counted."""
        started = time.perf_counter()
        meta_batch = self.settings.meta_batch
        first = self.finished_steps * meta_batch
        tasks = [self.stream.sample_indices(first + i) for i in range(meta_batch)]

        def gradients_of(indices: TaskIndices) -> tuple[list[Tensor], dict[str, float]]:
            return task_gradients(self.method, self.stream.load_task(indices))

        sums, infos = collectives.map_and_sum_gradients(
            gradients_of, tasks, list(self.method.parameters()), self.context.workers, size=len
        )
        gradients = [total / meta_batch for total in sums]
        means = {k: sum(info[k] for info in infos) / meta_batch for k in infos[0]}
        self.update(gradients, means)
        self.gradient_check.add(sums, last=self.is_done())
        state = self.status
        record = {
            "kind": "iteration",
            "iteration": state.iteration,
            **means,
            "skipped": state.skipped,
        }
        self.log.add(record, state.iteration)
        if state.skipped_in_a_row >= MOST_SKIPPED:
            raise RunError(
                f"{MOST_SKIPPED} steps in a row had a non-finite loss or gradient, at iteration "
                f"{state.iteration}; start a new run with a lower learning rate (now "
                f"{self.settings.rate}) or inner learning rate."
            )
        speed = meta_batch / (time.perf_counter() - started)
        advance(1, _progress_note(record, speed))

    def update(self, gradients: list[Tensor], means: dict[str, float]) -> None:
        """Update the parameters, unless the loss or a gradient is not finite."""
        state = self.status
        state.iteration += 1
        finite = math.isfinite(means["loss"] + means["penalty"])
        if finite and all(gradient.isfinite().all() for gradient in gradients):
            state.skipped_in_a_row = 0
            self.optimizer.step(gradients, state.iteration - 1)
        else:
            state.skipped += 1
            state.skipped_in_a_row += 1

    # --------------------------------------------------------------------------------- validation
    def validate(self) -> None:
        """Evaluate on validation classes and save the parameters if they are the best so far.

        Without validation classes the last parameters are saved.
        """
        t = self.settings
        state = self.status
        self.method.before_validation(self.stream)
        streams = {**self.validation, **(self.ood if t.select == "id+ood" else {})}
        if not streams:
            state.best_iteration = state.iteration
            return self.save_best(None, "last")
        with progress("Validating", t.validation_tasks * len(streams)) as advance:
            summaries = {
                name: evaluate(
                    self.method,
                    stream,
                    t.validation_tasks,
                    prediction=t.validate_by,
                    workers=self.context.workers,
                    advance=advance,
                )
                for name, stream in streams.items()
            }
        score = self.selection_score(summaries)
        state.stale += 1
        if score > state.best:
            state.best = score
            state.best_iteration = state.iteration
            state.stale = 0
            self.save_best(score, t.select)
        record = {
            "kind": "validation",
            "iteration": state.iteration,
            "selection": score,
            **{name: summary.accuracy for name, summary in summaries.items()},
        }
        self.log.add(record, state.iteration)

    def selection_score(self, summaries: dict[str, Summary]) -> float:
        """Mean accuracy over the training image sets, plus that over the OOD image sets."""

        def mean(names: Sequence[str]) -> float:
            return sum(summaries[name].accuracy for name in names) / len(names) if names else 0.0

        return mean(list(self.validation)) + mean([name for name in self.ood if name in summaries])

    def save_best(self, selection: float | None, by: str) -> None:
        """Save these parameters as the ones to use."""
        state = {"iteration": self.finished_steps, "selection": selection, "by": by}
        self.run.save_best(Checkpoint(state, dict(self.method.state_dict())))

    def finish(self) -> None:
        """Calibrate, if the settings say so."""
        if self.settings.calibrate:
            self.calibrate()

    def calibrate(self) -> None:
        """Fit the temperature of the best parameters to validation tasks, unless it is logged."""
        t = self.settings
        best = collectives.broadcast_from_rank_zero(self.run.best)
        logged = collectives.broadcast_from_rank_zero(lambda: list(self.run.records("calibration")))
        if any(record["iteration"] == best.state["iteration"] for record in logged):
            return
        method = self.run.load_method(self.method.reference_tensor.device.type, best)
        method.temperature = 1.0
        with progress("Calibrating", t.validation_tasks * len(self.validation)) as advance:
            temperature = calibrate_temperature(
                method,
                list(self.validation.values()),
                t.validation_tasks,
                t.validate_by,
                self.context.workers,
                advance,
            )
        record = {
            "kind": "calibration",
            "iteration": best.state["iteration"],
            "temperature": temperature,
        }
        self.log.add(record, self.finished_steps)
        self.run.save_best(Checkpoint({**best.state, "temperature": temperature}, best.tensors))
        self.save_checkpoint()  # includes this line of the log

    # --------------------------------------------------------------------------------- checkpoints
    def state(self) -> dict[str, Any]:
        """The plain values."""
        return asdict(self.status)

    def tensors(self) -> dict[str, Tensor]:
        """Parameters and moments."""
        return self.optimizer.state_tensors()

    def load(self, checkpoint: Checkpoint) -> None:
        """Continue from a checkpoint."""
        values = {key: value for key, value in checkpoint.state.items() if key != "log_lines"}
        self.status = State(**values)
        self.optimizer.load(checkpoint.tensors)


def task_gradients(method: Method, task: Task) -> tuple[list[Tensor], dict[str, float]]:
    """The meta-gradients of one task's objective, and its loss, penalty, KL and accuracy."""
    objective = method.objective(task, task.noise())
    if not isinstance(objective, Objective) or torch.as_tensor(objective.loss).dim():
        given = objective.loss if isinstance(objective, Objective) else objective
        raise CodeError(
            f"{method.name}.objective returned {type(objective).__name__} with {given!r}; expected "
            "anyshot.Objective with the mean loss, one number."
        )
    gradients = torch.autograd.grad(
        objective.loss + objective.penalty,
        list(method.parameters()),
        allow_unused=True,
        materialize_grads=True,
    )
    numbers = {
        "loss": float(torch.as_tensor(objective.loss).detach()),
        "penalty": float(torch.as_tensor(objective.penalty).detach()),
        "kl": objective.kl,
        "accuracy": objective.accuracy,
    }
    return list(gradients), numbers


def _progress_note(record: dict[str, Any], speed: float) -> str:
    note = (
        f"loss {record['loss']:.3f}  KL {record['kl']:.1f}  accuracy {record['accuracy']:.1%}  "
        f"{speed:.1f} tasks/s"
    )
    return note + (f"  skipped {record['skipped']}" if record["skipped"] else "")
