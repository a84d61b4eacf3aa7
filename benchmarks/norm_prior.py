"""How many training images the prior of the batch-norm statistics should count (--norm-prior).

    python benchmarks/norm_prior.py OUT [--weights cifar-fs-depths] [--tasks 60]

The statistics of each set are shrunk towards the stored ones of the weights as if n_0 training
images were in the set; n_0 = 0 is the batch norm of the set alone. Validation tasks. Cost: about
half a second of one core for each task and row. Writes OUT/results.json and OUT/table.md; stop it
and start it again as you like (`--minutes`).
"""

from __future__ import annotations

import copy

from paired_rows import Row, make_parser, measure_rows, write_rows

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
    parser = make_parser(__doc__)
    parser.add_argument("--weights", default="cifar-fs-depths")
    chosen = parser.parse_args()
    rows = make_rows(anyshot.load(chosen.weights))
    measure_rows(chosen.out, rows, chosen.tasks, minutes=chosen.minutes)
    references = {name: REFERENCE for name, _, _ in rows}
    write_rows(chosen.out, references, weights=chosen.weights, split="validation")


if __name__ == "__main__":
    main()
