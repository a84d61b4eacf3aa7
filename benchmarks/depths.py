"""What a head on three depths adds to the recipe, and what γ and its evidence add to that.

All variants normalise with the statistics of each set alone; the preset also has --norm-prior.

    python benchmarks/depths.py OUT [--tasks 300] [--split test]

Trains each variant from the body of the weights `cifar-fs` (500 iterations, about eight minutes of
one core each; runs in OUT/runs are kept), tests all on the same tasks at the posterior mean, and
writes OUT/SPLIT.json and OUT/SPLIT.md. Choices are made with --split validation.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
from paired_rows import TITLES, half_width

import anyshot

BAYESIAN = {"bayesian": True, "balance": ("omega", "gamma", "z"), "z_site": "activation"}
#: name -> method, changes of the preset cifar-fs-depths; None: the weights cifar-fs as they are
VARIANTS: dict[str, tuple[str, dict] | None] = {
    "recipe: layer 4, body adapts": None,
    "three depths, learned step sizes (Meta-SGD)": ("meta-sgd", {}),
    "… and γ by evidence (deterministic)": ("taml", {}),
    "… Meta-SGD without letters": ("meta-sgd", {"images": ("cifar-fs",)}),
    "… and ω, γ, z (Bayesian)": ("taml", {**BAYESIAN, "gains": (1.0, 1.0, 0.1)}),
}


def load_variant(name: str, out: Path) -> anyshot.Method:
    """The trained method of a variant; trains it if its run is not there."""
    variant = VARIANTS[name]
    if variant is None:
        return anyshot.load("cifar-fs")
    method, changes = variant
    settings = anyshot.preset("cifar-fs-depths", method)
    images = changes.get("images", settings.images)
    changes = {key: value for key, value in changes.items() if key != "images"}
    method_settings = settings.method.with_values({"norm_prior": 0.0, **changes})
    settings = replace(settings, images=images, method=method_settings)
    folder = out / "runs" / f"{list(VARIANTS).index(name)}-{method}"
    return anyshot.train(settings, folder, workers=1).load_method()


def measure(name: str, images: str, split: str, tasks: int, out: Path) -> np.ndarray:
    """Accuracy (%) and NLL of each task, [tasks, 2]."""
    target = out / "measured" / f"{list(VARIANTS).index(name)} {images} {split} {tasks}.json"
    if not target.exists():
        stream = anyshot.TaskStream(anyshot.open_images(images), split, anyshot.TaskSettings())
        method = load_variant(name, out)
        summary = anyshot.evaluate(method, stream, tasks, prediction="naive")
        target.parent.mkdir(parents=True, exist_ok=True)
        rows = [[100 * score.accuracy, score.nll] for score in summary.scores]
        target.write_text(json.dumps({"ece": 100 * summary.ece, "tasks": rows}))
    return np.array(json.loads(target.read_text())["tasks"])


def paired(values: np.ndarray, reference: np.ndarray, digits: int) -> str:
    """Mean difference with its 95 % interval."""
    difference = values - reference
    interval = half_width(difference)
    return f"{difference.mean():+.{digits}f} ± {interval:.{digits}f}".replace("-", "−")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--tasks", type=int, default=300)
    parser.add_argument("--split", choices=("test", "validation"), default="test")
    chosen = parser.parse_args()
    found = {
        name: {i: measure(name, i, chosen.split, chosen.tasks, chosen.out) for i in TITLES}
        for name in VARIANTS
    }
    first, second = list(VARIANTS)[:2]
    header = ["variant"]
    for title in TITLES.values():
        header += [title, "NLL", "− recipe", "− Meta-SGD", "NLL − Meta-SGD"]
    lines = [f"| {' | '.join(header)} |", "|---|" + "--:|" * (len(header) - 1)]
    for name, values in found.items():
        cells = [name]
        for images in TITLES:
            accuracy, nll = values[images].T
            cells += [f"{accuracy.mean():.1f}", f"{nll.mean():.3f}"]
            cells.append("" if name == first else paired(accuracy, found[first][images][:, 0], 1))
            if name in (first, second):
                cells += ["", ""]
            else:
                cells.append(paired(accuracy, found[second][images][:, 0], 1))
                cells.append(paired(nll, found[second][images][:, 1], 3))
        lines.append(f"| {' | '.join(cells)} |")
    (chosen.out / f"{chosen.split}.md").write_text("\n".join(lines) + "\n")
    results = {name: {i: v.tolist() for i, v in values.items()} for name, values in found.items()}
    (chosen.out / f"{chosen.split}.json").write_text(json.dumps(results))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
