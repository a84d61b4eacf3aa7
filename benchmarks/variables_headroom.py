"""X0: headroom of ω and γ in pretrained weights, with constants in place of the encoder's output.

    python benchmarks/variables_headroom.py OUT [--tasks 60]

Question: what could an encoder gain that chooses γ or τ for each task? Each row replaces the
effective φ by constants: γ of the head, γ of the convolutions (0: the body stays where it is) or
the exponent τ of the class-size prior ω ∝ N^−τ; z̃ is 0. "Oracle" chooses the best row for each task
size (terciles) on even tasks and scores it on odd ones; the best constant is chosen and scored on
the same tasks.

Validation tasks, posterior means. Cost: about 0.5 s of one core for each task and row; 60 tasks of
both sets 11 min. Writes OUT/results.json and OUT/table.md; stop it and start it again as you like
(`--minutes`).
"""

from __future__ import annotations

import copy
import math

import numpy as np
import torch
from paired_rows import SETS, Row, half_width, make_parser, measure_rows, read_rows, write_rows

import anyshot

REFERENCE = "constants: γ = 1, learned τ"


def with_constants(
    method: anyshot.Method, head: float = 1.0, body: float = 1.0, tau: float | None = None
) -> anyshot.Method:
    """A copy of the method that ignores the encoder."""
    changed = copy.copy(method)
    exponent = float(method.tau) if tau is None else tau
    gamma = torch.full((len(method.body.layer_parameters),), math.log(body) if body else -60.0)
    gamma[-1] = math.log(head)

    def apply(phi: dict, shots: torch.Tensor) -> dict:
        return {"omega": -exponent * shots.log(), "gamma": gamma, "z": torch.zeros_like(phi["z"])}

    changed.apply_gains_and_priors = apply
    return changed


def make_rows(method: anyshot.Method) -> list[Row]:
    """The rows with their changed methods."""
    changes: dict[str, dict[str, float]] = {
        REFERENCE: {},
        **{f"γ of the head {x:g}": {"head": x} for x in (0.5, 0.25, 2.0)},
        "γ of the body 0": {"body": 0.0},
        **{f"τ = {x:g}": {"tau": x} for x in (1.0, 2.0)},
        "γ of the body 10": {"body": 10.0},
    }
    constant = [(name, with_constants(method, **change)) for name, change in changes.items()]
    rows = [constant[0], ("inferred (as shipped)", method), *constant[1:]]
    return [(name, changed, "naive") for name, changed in rows]


def oracle_gain(rows: dict[str, dict], key: str) -> tuple[float, float]:
    """Gain of the best row by task size over the best constant row, on odd tasks.

    Both are chosen on even tasks; 1.96 standard errors.
    """
    sign = 1 if key == "accuracy" else -1
    scores = {name: sign * np.array(row[key]) for name, row in rows.items()}
    sizes = np.array(next(iter(rows.values()))["images_of_task"])
    tercile = np.searchsorted(np.quantile(sizes, (1 / 3, 2 / 3)), sizes)
    even = np.arange(len(sizes)) % 2 == 0
    overall = max(scores, key=lambda name: scores[name][even].mean())
    gains = []
    for group in range(3):
        chosen, tested = even & (tercile == group), ~even & (tercile == group)
        best = max(scores, key=lambda name: scores[name][chosen].mean())
        gains += (scores[best] - scores[overall])[tested].tolist()
    return sign * float(np.mean(gains)), half_width(np.array(gains))


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--weights", default="cifar-fs")
    chosen = parser.parse_args()
    rows = make_rows(anyshot.load(chosen.weights))
    measure_rows(chosen.out, rows, chosen.tasks, minutes=chosen.minutes)
    oracle = {
        images: {
            key: oracle_gain(read_rows(chosen.out, images), key) for key in ("accuracy", "nll")
        }
        for images in SETS
    }
    references = {name: REFERENCE for name, _, _ in rows}
    facts = {"weights": chosen.weights, "split": "validation", "oracle": oracle}
    write_rows(chosen.out, references, **facts)
    print(oracle)


if __name__ == "__main__":
    main()
