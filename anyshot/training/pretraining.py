"""The warm start: train the body, with a linear layer on top, to tell all meta-training classes apart.

A body that already sees is what the few inner steps can build on; from the paper's start it takes days to get there. A
warm start is a run like any other: settings, log, checkpoints, and exact resume. What it leaves is a body that any
method may begin with, and that as it stands is a prototypical network.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from anyshot.core.errors import AnyshotError
from anyshot.core.parallel import collectives, ranks
from anyshot.core.progress import Advance, progress
from anyshot.core.random import Rng, numpy_rng, torch_rng
from anyshot.core.settings import Settings
from anyshot.data import ImageSet
from anyshot.data.tasks import Task, TaskStream
from anyshot.methods import Method
from anyshot.methods.base import accuracy
from anyshot.methods.prototype_head import prototypes
from anyshot.runs.checkpoint import Checkpoint
from anyshot.runs.log import Callback, TrainingLog
from anyshot.runs.run import Run
from anyshot.runs.start import open_or_create_run
from anyshot.runs.training_lock import exclusive_training
from anyshot.training.ema import update_ema
from anyshot.training.pretraining_images import PretrainingImages


def pretrain(
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
    """Train the body until the settings' last epoch, or go on with the warm start in ``folder``; all else is as in
    :func:`anyshot.train`."""
    if settings.warm is None:
        raise AnyshotError(
            f"The settings of '{folder}' are those of meta-training; anyshot train takes them."
        )
    with (
        ranks.on_rank_zero(exclusive_training(folder)),
        torch.inference_mode(False),
        torch.enable_grad(),
    ):
        run, sources, _ = open_or_create_run(settings, folder, imagesets, ood, command)
        return Pretraining(run, sources.images, sources.ood, workers, callback, device).train(
            tensorboard
        )


class Pretraining:
    """A warm start in progress: body, linear layer, optimiser, and the epochs that are finished."""

    def __init__(
        self,
        run: Run,
        imagesets: Sequence[ImageSet],
        ood: Sequence[ImageSet] = (),
        workers: int | None = None,
        callback: Callback | None = None,
        device: str = "cpu",
    ) -> None:
        assert run.settings.warm is not None
        self.run, self.settings, self.seed, self.workers = (
            run,
            run.settings.warm,
            run.settings.train.seed,
            workers,
        )
        self.journal, self.images = (
            TrainingLog(run, callback),
            PretrainingImages(imagesets, self.settings),
        )
        if not self.batch:
            raise AnyshotError(
                f"{len(self.images)} images are too few for {self.settings.parts} parts of a batch; take fewer parts."
            )
        self.method = run.new_method(device)
        self.layer = linear_layer(self.images.outputs, self.method, self.seed)
        self.kept = copy.deepcopy(self.method) if self.settings.average else self.method
        self.parameters = [*self.method.parameters(), *self.layer]
        self.optimiser = torch.optim.SGD(
            self.parameters, self.settings.rate, self.settings.momentum,
            weight_decay=self.settings.weight_decay, nesterov=self.settings.momentum > 0,
        )  # fmt: skip
        self.streams = {
            i.name: TaskStream(i, "validation", run.resolve_settings().task, self.seed)
            for i in (*imagesets, *ood)
            if "validation" in i.splits
        }
        self.epoch = 0

    @property
    def batch(self) -> int:
        """Images in a step: fewer where there are not so many, and whole parts."""
        return (
            min(self.settings.batch, len(self.images)) // self.settings.parts * self.settings.parts
        )

    @property
    def steps(self) -> int:
        """Steps in an epoch; what does not fill a batch is left out, each time others."""
        return len(self.images) // self.batch

    def rate(self, step: int) -> float:
        """The rate of a step, counted from the start of the run."""
        return self.settings.rate * learning_rate(
            self.settings.schedule, step / (self.settings.epochs * self.steps)
        )

    def train(self, tensorboard: bool | None = False) -> Run:
        """All epochs that are left."""
        s, resumed = self.settings, self.restore()
        self.journal.open_board(self.epoch, tensorboard)
        if not resumed:
            self.checkpoint()  # from here on the run has begun
        with progress("Warm start", s.epochs * self.steps, done=self.epoch * self.steps) as advance:
            while self.epoch < s.epochs:
                self.train_epoch(advance)
                if self.epoch % (s.check_every or s.epochs) == 0 or self.epoch == s.epochs:
                    self.check()
                if self.epoch == s.epochs:
                    self.run.save_best(
                        Checkpoint({"epoch": self.epoch}, dict(self.kept.state_dict()))
                    )
                self.checkpoint()
        self.journal.close()
        return self.run

    # ------------------------------------------------------------------------------------------------ one epoch
    def train_epoch(self, advance: Advance) -> None:
        """Every image once, in an order that the seed and the epoch determine."""
        order = numpy_rng(self.seed, "warm", self.epoch).permutation(len(self.images))
        losses, hits = 0.0, 0.0
        for step, chosen in enumerate(
            order[: self.steps * self.batch].reshape(self.steps, self.batch)
        ):
            loss, right = self.step(chosen, step)
            losses, hits = losses + loss, hits + right
            if not math.isfinite(loss):
                raise AnyshotError(
                    f"The loss is no longer finite in epoch {self.epoch + 1}; start a new run with a lower rate (now "
                    f"{self.settings.rate})."
                )
            advance(1, f"loss {losses / (step + 1):.3f}  accuracy {hits / (step + 1):.1%}")
        self.epoch += 1
        record = {
            "kind": "epoch",
            "epoch": self.epoch,
            "loss": losses / self.steps,
            "accuracy": hits / self.steps,
        }
        self.journal.add(record, self.epoch)

    def step(self, chosen: NDArray[np.int64], step: int) -> tuple[float, float]:
        """One step on the images of these numbers: their mean loss and accuracy."""
        s, done = self.settings, self.epoch * self.steps + step
        rngs = [numpy_rng(self.seed, "warm", self.epoch, step, i) for i in range(s.parts)]
        parts = list(zip(np.split(chosen, s.parts), rngs, strict=True))
        gradients, shares = collectives.map_and_sum_gradients(
            lambda part: self.part(*part), parts, self.parameters, self.workers
        )
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.grad = gradient
        self.optimiser.param_groups[0]["lr"] = self.rate(done)
        self.optimiser.step()
        if self.kept is not self.method:
            update_ema(self.kept.parameters(), self.method.parameters(), s.average, done)
        losses, hits = zip(*shares, strict=True)
        return sum(losses), sum(hits)

    def part(
        self, rows: NDArray[np.int64], rng: Rng
    ) -> tuple[tuple[Tensor, ...], tuple[float, float]]:
        """Gradients; loss and accuracy; of a part, each as its share of the batch's; with the part's own statistics."""
        uint8, labels, turns = self.images.get(rows, rng)
        x, y = (
            self.method.to_input(torch.from_numpy(uint8)),
            torch.from_numpy(labels).to(self.method.reference_tensor.device),
        )
        scores = F.linear(self.method.embed(x), *self.layer)
        classes, angles = scores.split(
            [self.images.classes, scores.shape[1] - self.images.classes], 1
        )
        loss = F.cross_entropy(classes, y, label_smoothing=self.settings.label_smoothing)
        if angles.shape[1]:
            loss = loss + F.cross_entropy(angles, torch.from_numpy(turns).to(y))
        share = len(rows) / self.batch
        gradients = torch.autograd.grad(
            loss * share, self.parameters, allow_unused=True, materialize_grads=True
        )
        return gradients, (loss.item() * share, accuracy(classes, y) * share)

    # ------------------------------------------------------------------------------------------------ checks
    def check(self) -> None:
        """How well class means alone tell the validation classes apart, in tasks like those of meta-training."""
        found: dict[str, float] = {}
        for name, stream in self.streams.items():
            tasks = [partial(stream.task, i) for i in range(self.settings.check_tasks)]
            results = collectives.map_and_gather(
                lambda task: mean_accuracies(self.kept, task()), tasks, self.workers
            )
            means, cosines = np.mean(results, 0).tolist()
            found |= {f"{name} nearest mean": means, f"{name} cosine": cosines}
        self.journal.add({"kind": "check", "epoch": self.epoch, **found}, self.epoch)

    # ------------------------------------------------------------------------------------------------ checkpoints
    def tensors(self) -> dict[str, Tensor]:
        """All that the next epoch depends on, by name."""
        state = {f"method.{name}": value for name, value in self.method.state_dict().items()}
        state |= dict(zip(("layer.weight", "layer.bias"), self.layer, strict=True))
        if self.kept is not self.method:
            state |= {f"average.{name}": value for name, value in self.kept.state_dict().items()}
        for i, parameter in enumerate(self.parameters):
            moments = self.optimiser.state[parameter]
            state |= (
                {f"momentum.{i}": moments["momentum_buffer"]}
                if moments.get("momentum_buffer") is not None
                else {}
            )
        return state

    def checkpoint(self) -> None:
        """Everything that the next epoch depends on."""
        collectives.broadcast_tensors(self.tensors().values())
        if work := ranks.utilisation():
            self.journal.add({"kind": "ranks", "epoch": self.epoch, **work}, self.epoch)
        state = {"epoch": self.epoch, "log_lines": self.run.log_lines()}
        self.run.save_checkpoint(f"warm-{self.epoch:07d}", Checkpoint(state, self.tensors()))

    @torch.no_grad()
    def restore(self) -> bool:
        """Go on from the newest checkpoint, if there is one."""
        checkpoint = collectives.broadcast_from_rank_zero(self.run.latest_checkpoint)
        self.run.truncate_log(checkpoint.state["log_lines"] if checkpoint else 0)
        if checkpoint is None:
            return False
        with self.run.matching_tensors("The newest checkpoint"):
            self.epoch = checkpoint.state["epoch"]
            for i, parameter in enumerate(self.parameters):
                if (momentum := checkpoint.tensors.get(f"momentum.{i}")) is not None:
                    self.optimiser.state[parameter]["momentum_buffer"] = momentum
            for name, value in self.tensors().items():
                value.copy_(checkpoint.tensors[name])
        return True


def linear_layer(outputs: int, method: Method, seed: int) -> list[Tensor]:
    """Weight and bias of the layer on top of the body, which nobody needs afterwards."""
    width = method.body.width
    weight = (
        torch.randn(outputs, width, generator=torch_rng(seed, "warm"), dtype=torch.float32)
        / width**0.5
    )
    return [
        weight.to(method.reference_tensor).requires_grad_(),
        method.reference_tensor.new_zeros(outputs).requires_grad_(),
    ]


def learning_rate(schedule: str, progress: float) -> float:
    """A share of the highest rate. One cycle rises from a 25th over the first 30 %, then falls to nothing; both, and
    the other schedule's fall, by half a cosine."""
    rising = 0.3 if schedule == "one-cycle" else 0.0
    if progress < rising:
        return 0.04 + 0.96 * (0.5 - 0.5 * math.cos(math.pi * progress / rising))
    return 0.5 + 0.5 * math.cos(math.pi * (progress - rising) / (1 - rising))


@torch.no_grad()
def mean_accuracies(method: Method, task: Task) -> tuple[float, float]:
    """Share of the query images whose class has the nearest mean, and the mean of the smallest angle once features are
    centred (support and query each by its own mean feature) and of length 1."""
    support, labels, query, query_labels = method.task_tensors(task)
    h, g = method.embed(support), method.embed(query)
    distances = torch.cdist(g, prototypes(h, labels, task.way))
    h, g = (F.normalize(x - x.mean(0)) for x in (h, g))
    cosines = g @ F.normalize(prototypes(h, labels, task.way)).t()
    return accuracy(-distances, query_labels), accuracy(cosines, query_labels)
