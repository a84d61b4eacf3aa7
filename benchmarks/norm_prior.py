"""How many training images the prior of the batch-norm statistics should count (--norm-prior).

    python benchmarks/norm_prior.py OUT [--weights cifar-fs-depths] [--tasks 60]

The statistics of each set are shrunk towards the stored ones of the weights as if n_0 training
images were in the set; n_0 = 0 is the batch norm of the set alone. Validation tasks. Cost: about
half a second of one core for each task and row. Writes OUT/results.json and OUT/table.md; stop it
and start it again as you like (`--minutes`).
"""

from __future__ import annotations

import argparse
import copy
from pathlib import Path

from paired_rows import Row, measure_rows, write_rows

import anyshot

PRIORS = (0, 30, 100, 300)
REFERENCE = "n_0 = 0"


def make_rows(method: anyshot.Method) -> list[Row]:
    """One row for each prior."""
    rows: list[Row] = []
    for images in PRIORS:
        changed = copy.copy(method)
        changed.norm_prior = float(images)
        rows.append((f"n_0 = {images}", changed, "naive"))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--weights", default="cifar-fs-depths")
    parser.add_argument("--tasks", type=int, default=60)
    parser.add_argument("--minutes", type=float, default=1e9)
    chosen = parser.parse_args()
    rows = make_rows(anyshot.load(chosen.weights))
    measure_rows(chosen.out, rows, chosen.tasks, minutes=chosen.minutes)
    references = {name: REFERENCE for name, _, _ in rows}
    write_rows(chosen.out, references, weights=chosen.weights, split="validation")


if __name__ == "__main__":
    main()
