"""Trained runs, and averages of their probabilities, on the same validation tasks.

    python benchmarks/ensembles.py OUT RUN RUN ... [--tasks 60] [--split validation]

Each run adapts to a task once; all averages of two or more runs use the same probabilities. Rows
are compared with the first run. Writes OUT/results.json and OUT/table.md; stop it and start it
again as you like.
"""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path

import torch
from paired_rows import Row, measure_rows, write_rows
from torch import Tensor, nn

import anyshot


class Remembered(anyshot.Method):
    """A trained method that keeps its probabilities of each task."""

    def __init__(self, method: anyshot.Method) -> None:
        nn.Module.__init__(self)  # the method owns all parameters
        self.method = method
        self.settings, self.options = method.settings, method.options
        self.body, self.way = method.body, method.way
        self.known: dict[tuple[str, tuple], Tensor] = {}

    def predict(
        self,
        task: anyshot.Task,
        noise: torch.Generator | None = None,
        prediction: str | None = None,
    ) -> Tensor:
        key = (task.imageset, task.seed)
        if key not in self.known:
            self.known[key] = self.method.predict(task, noise, prediction)
        return self.known[key]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--tasks", type=int, default=60)
    parser.add_argument("--split", choices=("validation", "test"), default="validation")
    chosen = parser.parse_args()
    members = {Path(run).name: Remembered(anyshot.load(run)) for run in chosen.runs}
    rows: list[Row] = []
    for size in range(1, len(members) + 1):
        for names in itertools.combinations(members, size):
            method = anyshot.Ensemble([members[name] for name in names])
            rows.append((" + ".join(names), method, "naive"))
    measure_rows(chosen.out, rows, chosen.tasks, chosen.split)
    reference = rows[0][0]
    write_rows(chosen.out, {name: reference for name, _, _ in rows}, split=chosen.split)


if __name__ == "__main__":
    main()
