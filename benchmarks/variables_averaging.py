"""X2: what averaging over z gains under the paper's protocol, and what it gains elsewhere.

    python benchmarks/variables_averaging.py OUT --taml RUN CHECKPOINT --meta-sgd RUN CHECKPOINT

Question: is the gain of Monte Carlo prediction a property of z's posterior (its width, the sign
flips 1 + z̃ < 0), or does any average of ten adaptations gain as much? The runs are those of
`anyshot train RUN --preset cifar-fs-paper`; each CHECKPOINT is a file of RUN/checkpoints or a copy.

- TAML: posterior mean (naive), one sample, ten samples; ten samples with σ(z̃) multiplied by 0, 0.1
  and 0.3, and with 1 + z̃ at least 0.05. All with the same random numbers.
- Meta-SGD at the same cost: ten starts θ ∗ z with z̃ ~ N(0, s²), and ten random augmentations of
  the support and query images (shifts, and flips where the set allows them; with crops).

Validation tasks. Cost: about 0.2 s of one core for each adaptation; 60 tasks of both sets 35 min.
Writes OUT/results.json and OUT/table.md; stop it and start it again as you like (`--minutes`).
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from paired_rows import Row, make_parser, measure_rows, write_rows
from paper_protocol import iteration_of, load_checkpoint
from torch import Tensor

import anyshot
from anyshot.core.random import numpy_rng
from anyshot.data.augment import augment
from anyshot.methods.balancing import apply_z, variable_sizes
from anyshot.methods.posterior import Posterior

SAMPLES = 10
FLOOR = 0.05  #: least value of 1 + z̃ in the row without sign flips


def with_width(method: anyshot.Method, factor: float, samples: int, floor: float | None = None):
    """TAML that averages over samples whose deviation of z̃ is multiplied by a factor."""
    changed = copy.copy(method)

    def test_phis(q: Posterior, noise: torch.Generator, prediction: str) -> list[dict[str, Tensor]]:
        scaled = Posterior(q.mean, {**q.deviation, "z": factor * q.deviation["z"]})
        phis = [scaled.sample(noise) for _ in range(samples)]
        if floor is not None:  # the bias half of z̃ has no effect under batch statistics
            phis = [{**phi, "z": phi["z"].clamp(min=floor - 1)} for phi in phis]
        return phis

    changed.test_phis = test_phis
    return changed


@dataclass
class RandomStarts:
    """Meta-SGD averaged over starts θ ∗ z with z̃ ~ N(0, width²)."""

    method: anyshot.Method
    width: float

    def predict(self, task, noise=None, prediction=None) -> Tensor:
        noise = task.noise()
        size = variable_sizes(self.method.body)["z"]
        members = []
        for _ in range(SAMPLES):
            member = copy.copy(self.method)
            phi = {"z": self.width * torch.randn(size, generator=noise)}
            start = apply_z(dict(member.theta), member.norm, phi, member.body)
            member.initial_parameters = lambda _, start=start: start
            members.append(member.predict(task))
        return torch.stack(members).mean(0)


@dataclass
class RandomViews:
    """Meta-SGD averaged over random augmentations of the support and query images."""

    method: anyshot.Method
    augmentations: tuple[str, ...]

    def predict(self, task, noise=None, prediction=None) -> Tensor:
        names = [name for name in self.augmentations if name != "flip" or task.flip_invariant]
        seed, *words = task.seed
        members = []
        for number in range(SAMPLES):
            rng = numpy_rng(int(seed), *words, "views", number)
            views = {
                part: torch.from_numpy(augment(getattr(task, part).numpy(), names, rng))
                for part in ("support", "query")
            }
            members.append(self.method.predict(replace(task, **views)))
        return torch.stack(members).mean(0)


def answering(method: anyshot.Method, average: RandomStarts | RandomViews) -> anyshot.Method:
    """A copy of a method that predicts by an average, so that it can be evaluated."""
    averaged = copy.copy(method)
    averaged.predict = average.predict
    return averaged


def taml_rows(method: anyshot.Method) -> list[Row]:
    """The rows of Bayesian TAML."""
    return [
        ("TAML, posterior mean", method, "naive"),
        ("TAML, S = 10", with_width(method, 1.0, SAMPLES), "mc"),
        ("TAML, S = 10, 1 + z̃ ≥ 0.05", with_width(method, 1.0, SAMPLES, FLOOR), "mc"),
        ("TAML, S = 10, σ(z̃) × 0", with_width(method, 0.0, SAMPLES), "mc"),
        ("TAML, S = 1", with_width(method, 1.0, 1), "mc"),
        ("TAML, S = 10, σ(z̃) × 0.3", with_width(method, 0.3, SAMPLES), "mc"),
        ("TAML, S = 10, σ(z̃) × 0.1", with_width(method, 0.1, SAMPLES), "mc"),
    ]


def meta_sgd_rows(method: anyshot.Method) -> list[Row]:
    """The rows of Meta-SGD."""
    return [
        ("Meta-SGD", method, "naive"),
        ("Meta-SGD, 10 starts, s = 0.3", answering(method, RandomStarts(method, 0.3)), "naive"),
        (
            "Meta-SGD, 10 views, shifts and flips",
            answering(method, RandomViews(method, ("flip", "shift"))),
            "naive",
        ),
        ("Meta-SGD, 10 starts, s = 0.9", answering(method, RandomStarts(method, 0.9)), "naive"),
        (
            "Meta-SGD, 10 views, and crops",
            answering(method, RandomViews(method, ("flip", "shift", "crop"))),
            "naive",
        ),
    ]


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--taml", type=Path, nargs=2, metavar=("RUN", "CHECKPOINT"))
    parser.add_argument("--meta-sgd", type=Path, nargs=2, metavar=("RUN", "CHECKPOINT"))
    chosen = parser.parse_args()
    rows: list[Row] = []
    iterations = {}
    for name, given, make in (
        ("TAML", chosen.taml, taml_rows),
        ("Meta-SGD", chosen.meta_sgd, meta_sgd_rows),
    ):
        if given:
            folder, checkpoint = given
            rows += make(load_checkpoint(anyshot.Run(folder), checkpoint))
            iterations[name] = iteration_of(checkpoint)
    measure_rows(chosen.out, rows, chosen.tasks, minutes=chosen.minutes)
    naive = "TAML, posterior mean"
    references = {name: "Meta-SGD" if "Meta-SGD" in name else naive for name, _, _ in rows}
    write_rows(chosen.out, references, iterations=iterations, split="validation")


if __name__ == "__main__":
    main()
