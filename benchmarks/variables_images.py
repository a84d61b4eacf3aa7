"""What the encoder of Bayesian TAML gains from a task: the posterior of another support set.

    python benchmarks/variables_images.py OUT RUN [--tasks 100] [--prediction naive|mc]

The inner loop always learns from the task's own images. The encoder sees

- the support set of the task,
- its images, dealt to the classes at random: as many for each class,
- images of the other image set (SVHN for CIFAR-FS and the reverse), as many for each class,
- another task of the same image set with 25 images of each class.

Validation tasks; naive is the posterior mean, mc the average over samples. Writes OUT/results.json
and OUT/table.md; stop it and start it again as you like.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from paired_rows import SETS, Row, measure_rows, write_rows
from torch import Tensor, nn

import anyshot

OWN = "support set of the task"
EVEN = 25  #: images of each class
Evidence = tuple[Tensor, Tensor]  #: images uint8 [N, height, width, 3] and labels [N]


class OtherEvidence(anyshot.Method):
    """A method whose posterior is inferred from other images than those of the task."""

    def __init__(
        self, method: anyshot.Method, evidence_for: Callable[[anyshot.Task], Evidence]
    ) -> None:
        nn.Module.__init__(self)  # the method owns all parameters
        self.method, self.evidence_for = method, evidence_for
        self.settings, self.options = method.settings, method.options
        self.body, self.way = method.body, method.way

    def predict(
        self,
        task: anyshot.Task,
        noise: torch.Generator | None = None,
        prediction: str | None = None,
    ) -> Tensor:
        images, labels = self.evidence_for(task)
        shown = self.method.to_input(images)
        changed = copy.copy(self.method)
        changed.posterior = lambda *_: self.method.posterior(shown, labels, task.way)
        return changed.predict(task, noise, prediction)


def deal_images(task: anyshot.Task) -> Evidence:
    """The support images in random order."""
    order = torch.randperm(len(task.support), generator=torch.Generator().manual_seed(0))
    return task.support[order], task.support_labels


def open_streams() -> dict[str, anyshot.TaskStream]:
    """Tasks with many images of each class, by image set."""
    settings = anyshot.TaskSettings(shots="fixed:50")
    return {
        name: anyshot.TaskStream(anyshot.open_images(name), "validation", settings, 2)
        for name in SETS
    }


def take_images(stream: anyshot.TaskStream, task: anyshot.Task, sizes: Sequence[int]) -> Evidence:
    """So many images of each class of the stream's task with the same number."""
    shown = stream.task(int(task.seed[-1]))
    chosen = [
        torch.nonzero(shown.support_labels == c).flatten()[:size] for c, size in enumerate(sizes)
    ]
    order = torch.cat(chosen)
    return shown.support[order], shown.support_labels[order]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("run")
    parser.add_argument("--tasks", type=int, default=100)
    parser.add_argument("--prediction", choices=("naive", "mc"), default="naive")
    chosen = parser.parse_args()
    method, streams = anyshot.load(chosen.run), open_streams()

    def other_set(task: anyshot.Task) -> Evidence:
        (stream,) = (stream for name, stream in streams.items() if name != task.imageset)
        return take_images(stream, task, task.shots)

    def even_task(task: anyshot.Task) -> Evidence:
        return take_images(streams[task.imageset], task, [EVEN] * task.way)

    methods = {
        OWN: method,
        "… dealt to the classes at random": OtherEvidence(method, deal_images),
        "images of the other set": OtherEvidence(method, other_set),
        f"a task with {EVEN} images of each class": OtherEvidence(method, even_task),
    }
    rows: list[Row] = [(name, shown, chosen.prediction) for name, shown in methods.items()]
    measure_rows(chosen.out, rows, chosen.tasks)
    write_rows(chosen.out, dict.fromkeys(methods, OWN), prediction=chosen.prediction)
    print((chosen.out / "table.md").read_text())


if __name__ == "__main__":
    main()
