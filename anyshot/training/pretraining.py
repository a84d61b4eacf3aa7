"""Pre-training: the backbone, with a linear layer on top, learns to classify all training classes.

The few inner steps of a task need a backbone with useful features. Meta-training from the paper's
initialisation takes days to learn them. The result is a run whose backbone any method can start
from. Without further training it is a prototypical network.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from anyshot.core.errors import DataError, RunError, SettingsError
from anyshot.core.parallel import collectives
from anyshot.core.progress import Advance
from anyshot.core.random import Rng, numpy_rng, torch_rng
from anyshot.data import ImageSet
from anyshot.data.tasks import Task, TaskStream
from anyshot.methods import Method
from anyshot.methods.base import accuracy
from anyshot.methods.prototype_head import prototypes
from anyshot.runs.checkpoint import Checkpoint
from anyshot.runs.run import Run
from anyshot.training.distillation import Teacher, distillation_loss
from anyshot.training.loop import NO_CONTEXT, TrainContext, TrainingLoop
from anyshot.training.pretraining_images import PretrainingImages

WARM_UP = 0.3  #: the part of the one-cycle schedule in which the learning rate rises


class Pretraining(TrainingLoop):
    """The pre-training stage; a step of the loop is an epoch of SGD."""

    counter = "epoch"
    # "warm" is the earlier name of pre-training; it stays here and in seeds, for old checkpoints
    checkpoint_prefix = "warm"

    def __init__(
        self,
        run: Run,
        imagesets: Sequence[ImageSet],
        ood: Sequence[ImageSet] = (),
        context: TrainContext = NO_CONTEXT,
    ) -> None:
        assert run.settings.pretrain is not None
        self.settings = run.settings.pretrain
        self.images = PretrainingImages(imagesets, self.settings)
        if not self.batch:
            raise DataError(
                f"{len(self.images)} images are too few for {self.settings.parts} parts of a "
                "batch; use fewer parts."
            )
        super().__init__(run, context)
        source = self.settings.teacher
        self.teacher = None if source is None else Teacher(source, run, context.device)
        self.seed = self.settings.seed
        self.layer = linear_layer(self.images.classes, self.method, self.seed)
        self.parameters = [*self.method.parameters(), *self.layer]
        self.sgd = torch.optim.SGD(
            self.parameters,
            self.settings.rate,
            self.settings.momentum,
            weight_decay=self.settings.weight_decay,
            nesterov=self.settings.momentum > 0,
        )
        self.streams = {
            i.name: TaskStream(i, "validation", run.resolve_settings().task, self.seed)
            for i in (*imagesets, *ood)
            if "validation" in i.splits
        }
        self.epoch = 0

    @property
    def finished_steps(self) -> int:
        """Finished epochs."""
        return self.epoch

    @property
    def total(self) -> int:
        """Epochs of the whole pre-training."""
        return self.settings.epochs

    @property
    def validate_every(self) -> int:
        """Epochs between validations; 0: only at the end."""
        return self.settings.check_every

    @property
    def batch(self) -> int:
        """Images in a batch: at most as many as there are, and a multiple of ``parts``."""
        parts = self.settings.parts
        return min(self.settings.batch, len(self.images)) // parts * parts

    @property
    def batches(self) -> int:
        """Full batches in an epoch. A random few images, fewer than a batch, are left over."""
        return len(self.images) // self.batch

    def progress_bar(self) -> tuple[str, int, int]:
        """The progress bar counts batches."""
        return "Pre-training", self.total * self.batches, self.epoch * self.batches

    # --------------------------------------------------------------------------------- one epoch
    def step(self, advance: Advance) -> None:
        """Train one epoch; its order is a function of the seed and the epoch."""
        order = numpy_rng(self.seed, "warm", self.epoch).permutation(len(self.images))
        batches = order[: self.batches * self.batch].reshape(self.batches, self.batch)
        losses = 0.0
        hits = 0.0
        for number, indices in enumerate(batches):
            loss, right = self.train_batch(indices, number)
            losses += loss
            hits += right
            if not math.isfinite(loss):
                raise SettingsError(
                    f"The loss is no longer finite in epoch {self.epoch + 1}; start a new run with "
                    f"a lower learning rate (now {self.settings.rate})."
                )
            seen = number + 1
            advance(1, f"loss {losses / seen:.3f}  accuracy {hits / seen:.1%}")
        self.epoch += 1
        record = {
            "kind": "epoch",
            "epoch": self.epoch,
            "loss": losses / self.batches,
            "accuracy": hits / self.batches,
        }
        self.log.add(record, self.epoch)

    def train_batch(self, indices: NDArray[np.int64], number: int) -> tuple[float, float]:
        """One SGD step on the images of these indices; returns their mean loss and accuracy."""
        parts = self.settings.parts
        rngs = [numpy_rng(self.seed, "warm", self.epoch, number, i) for i in range(parts)]
        gradients, shares = collectives.map_and_sum_gradients(
            lambda part: self.part_gradients(*part),
            list(zip(np.split(indices, parts), rngs, strict=True)),
            self.parameters,
            self.context.workers,
        )
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.grad = gradient
        progress = (self.epoch * self.batches + number) / (self.total * self.batches)
        self.sgd.param_groups[0]["lr"] = self.settings.rate * one_cycle(progress)
        self.sgd.step()
        losses, hits = zip(*shares, strict=True)
        return sum(losses), sum(hits)

    def part_gradients(
        self, indices: NDArray[np.int64], rng: Rng
    ) -> tuple[tuple[Tensor, ...], tuple[float, float]]:
        """Gradients, loss and accuracy of a part of a batch, with its own batch-norm statistics.

        All are weighted by the part's share of the batch.
        """
        pixels, labels = self.images.load_batch(indices, rng)
        x = self.method.to_input(torch.from_numpy(pixels))
        y = torch.from_numpy(labels).to(self.method.reference_tensor.device)
        noise = torch.Generator().manual_seed(int(rng.integers(2**62)))  # after the augmentation
        scores = F.linear(self.method.embed(x, norm=self.method.training_norm(noise)), *self.layer)
        if self.teacher is None:
            loss = F.cross_entropy(scores, y)
        else:
            loss = distillation_loss(scores, self.teacher.scores(x), y)
        share = len(indices) / self.batch
        gradients = torch.autograd.grad(
            loss * share, self.parameters, allow_unused=True, materialize_grads=True
        )
        return gradients, (loss.item() * share, accuracy(scores, y) * share)

    # --------------------------------------------------------------------------------- validation
    def validate(self) -> None:
        """Classify validation tasks by class prototypes alone; save the backbone at the end."""
        accuracies: dict[str, float] = {}
        for name, stream in self.streams.items():
            tasks = [partial(stream.task, i) for i in range(self.settings.check_tasks)]
            results = collectives.map_and_gather(
                lambda task: prototype_accuracies(self.method, task()), tasks, self.context.workers
            )
            nearest, cosine = np.mean(results, 0).tolist()
            accuracies |= {f"{name} nearest mean": nearest, f"{name} cosine": cosine}
        self.log.add({"kind": "check", "epoch": self.epoch, **accuracies}, self.epoch)
        if self.is_done():
            self.run.save_best(Checkpoint({"epoch": self.epoch}, dict(self.method.state_dict())))

    # --------------------------------------------------------------------------------- checkpoints
    def state(self) -> dict[str, Any]:
        """The finished epochs, and which run is the teacher."""
        teacher = None if self.teacher is None else self.teacher.run_id
        return {"epoch": self.epoch, "teacher": teacher}

    def tensors(self) -> dict[str, Tensor]:
        """Parameters and momenta by name."""
        tensors = {f"method.{name}": value for name, value in self.method.state_dict().items()}
        tensors |= dict(zip(("layer.weight", "layer.bias"), self.layer, strict=True))
        for i, parameter in enumerate(self.parameters):
            momentum = self.sgd.state[parameter].get("momentum_buffer")
            if momentum is not None:
                tensors[f"momentum.{i}"] = momentum
        return tensors

    @torch.no_grad()
    def load(self, checkpoint: Checkpoint) -> None:
        """Continue from a checkpoint."""
        if checkpoint.state.get("teacher") != self.state()["teacher"]:
            raise RunError(
                f"The teacher '{self.settings.teacher}' is another run than when this one started."
            )
        self.epoch = checkpoint.state["epoch"]
        for i, parameter in enumerate(self.parameters):
            if (momentum := checkpoint.tensors.get(f"momentum.{i}")) is not None:
                self.sgd.state[parameter]["momentum_buffer"] = momentum.to(parameter.device)
        for name, value in self.tensors().items():
            value.copy_(checkpoint.tensors[name])


def linear_layer(outputs: int, method: Method, seed: int) -> list[Tensor]:
    """Weight and bias of the classification layer, which is not used after pre-training."""
    width = method.body.width
    reference = method.reference_tensor
    generator = torch_rng(seed, "warm")
    weight = torch.randn(outputs, width, generator=generator, dtype=torch.float32) / width**0.5
    return [
        weight.to(reference).requires_grad_(),
        reference.new_zeros(outputs).requires_grad_(),
    ]


def one_cycle(progress: float) -> float:
    """The learning rate as a share of the highest: half a cosine from 0.04 to 1, then one to 0.

    >>> [round(one_cycle(progress), 2) for progress in (0, 0.3, 0.65, 1)]
    [0.04, 1.0, 0.5, 0.0]
    """
    if progress < WARM_UP:
        return 0.04 + 0.96 * (0.5 - 0.5 * math.cos(math.pi * progress / WARM_UP))
    return 0.5 + 0.5 * math.cos(math.pi * (progress - WARM_UP) / (1 - WARM_UP))


@torch.no_grad()
def prototype_accuracies(method: Method, task: Task) -> tuple[float, float]:
    """Query accuracy of the nearest class prototype, by Euclidean distance and by cosine.

    For the cosine, support and query features are each centred by their mean.
    """
    support, labels, query, query_labels = method.task_tensors(task)
    h = method.embed(support)
    g = method.embed(query)
    distances = torch.cdist(g, prototypes(h, labels, task.way))
    h = F.normalize(h - h.mean(0))
    g = F.normalize(g - g.mean(0))
    cosines = g @ F.normalize(prototypes(h, labels, task.way)).t()
    return accuracy(-distances, query_labels), accuracy(cosines, query_labels)
