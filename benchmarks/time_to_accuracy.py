"""Validation accuracy against computing time, from nothing: anyshot's recipe and three other ways. A figure in docs.

    OMP_NUM_THREADS=1 python benchmarks/time_to_accuracy.py OUT docs/figures/time_to_accuracy [--minutes 12]

Time is that of one core (two cores take half of it), as the processor counts it, so that other work on the machine
shifts it little; validation is left out. What is finished stays in OUT and is not done again. CIFAR-FS and SVHN must be
prepared. `--only NAME` does a single one of them, so that two cores can do two at once.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from anyshot import preset, train
from anyshot.core.files import write_json
from anyshot.core.settings import Settings
from anyshot.evaluation.report.style import COLOURS, MARKERS
from anyshot.training.presets import FAST

SETS = {"cifar-fs": "CIFAR-FS, validation classes", "svhn": "SVHN, validation images"}
TASKS = 50


class Enough(Exception):
    """The minutes are over."""


class Clock:
    """Points of a curve: the time of training so far, by each validation."""

    def __init__(self, minutes: float) -> None:
        self.minutes, self.seconds, self.before = minutes, 0.0, time.process_time()
        self.points: list[dict[str, Any]] = []

    def __call__(self, record: dict[str, Any]) -> None:
        now = time.process_time()
        if record["kind"] in ("epoch", "iteration"):
            self.seconds += now - self.before
        elif record["kind"] in ("check", "validation"):
            suffix = " cosine" if record["kind"] == "check" else ""
            accuracies = {name: record[name + suffix] for name in SETS}
            self.points.append({"kind": record["kind"], "minutes": self.seconds / 60, **accuracies})
            print(json.dumps(self.points[-1]), flush=True)
            if self.seconds > 60 * self.minutes:
                raise Enough
        self.before = now


def by_recipe(epochs: int) -> Callable[[Path, Clock], None]:
    """The recipe with a warm start of so many epochs (200 are its own), to its end."""

    def run(folder: Path, clock: Clock) -> None:
        clock.minutes = float("inf")
        settings = preset("cifar-fs")
        assert settings.pretrain is not None
        stage = replace(
            settings.pretrain, epochs=epochs, check_every=max(2, epochs // 10), check_tasks=TASKS
        )
        schedule = replace(
            settings.train,
            validate_every=50,
            validation_tasks=TASKS,
            validate_by="naive",
            calibrate=False,
        )
        settings = replace(settings, train=schedule, pretrain=stage)
        train(settings, folder / "run", workers=1, callback=clock)

    return run


def from_nothing(settings: Settings, every: int) -> Callable[[Path, Clock], None]:
    """Meta-training alone, until the minutes are over."""

    def run(folder: Path, clock: Clock) -> None:
        schedule = replace(
            settings.train, validate_every=every, validation_tasks=TASKS, validate_by="naive"
        )
        train(replace(settings, train=schedule), folder / "run", workers=1, callback=clock)

    return run


def quick(method: str) -> Settings:
    """A baseline at its best: a body of He's scale, centred features, a large step of the head."""
    return replace(preset("cifar-fs-paper"), method=FAST.with_values({"name": method}))


WAYS: dict[str, tuple[str, Callable[[Path, Clock], None]]] = {
    "recipe": ("anyshot's recipe", by_recipe(200)),
    "recipe-20": ("… warm start of 20 epochs", by_recipe(20)),
    "meta-sgd": ("Meta-SGD, He's start", from_nothing(quick("meta-sgd"), 100)),
    "protonet": ("Prototypical Networks, He's start", from_nothing(quick("protonet"), 250)),
    "paper": ("Bayesian TAML, paper's recipe", from_nothing(preset("cifar-fs-paper"), 100)),
}


def measured(name: str, out: Path, minutes: float) -> list[dict[str, Any]]:
    kept = out / f"{name}.json"
    if not kept.is_file():
        shutil.rmtree(
            out / name, ignore_errors=True
        )  # the time of what was interrupted is not known
        clock = Clock(minutes)
        with contextlib.suppress(Enough):
            WAYS[name][1](out / name, clock)
        write_json(kept, {"points": clock.points})
    return json.loads(kept.read_text())["points"]


def draw(curves: dict[str, list[dict[str, Any]]], target: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 4.5), layout="constrained")
    for axis, (images, title) in zip(axes, SETS.items(), strict=True):
        for place, (name, points) in enumerate(curves.items()):
            x, y = [p["minutes"] for p in points], [100 * p[images] for p in points]
            style = {
                "color": COLOURS[place],
                "marker": MARKERS[place],
                "ms": 4,
                "label": WAYS[name][0],
            }
            warm = [i for i, p in enumerate(points) if p["kind"] == "check"]
            axis.plot(
                x, y, lw=1.6, markevery=[i for i in range(len(x)) if i not in warm] or None, **style
            )
            axis.plot(
                [x[i] for i in warm], [y[i] for i in warm], ls="", marker="|", color=COLOURS[place]
            )
        axis.set(title=title, xscale="log", xlabel="minutes of one core")
        axis.set_xticks([0.5, 1, 2, 5, 10, 20, 40], ["0.5", "1", "2", "5", "10", "20", "40"])
        axis.minorticks_off()
        axis.axhline(20, color="#555555", lw=1, ls="--")
        axis.grid(True, alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("accuracy, %")
    figure.legend(
        *axes[0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=3,
        frameon=False,
        fontsize=9,
    )
    for suffix in (".png", ".svg"):
        figure.savefig(target.with_suffix(suffix), dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--minutes", type=float, default=12)
    parser.add_argument("--only", choices=WAYS)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.only:
        measured(arguments.only, arguments.out, arguments.minutes)
        return
    curves = {name: measured(name, arguments.out, arguments.minutes) for name in WAYS}
    labelled = {name: {"label": WAYS[name][0], "points": points} for name, points in curves.items()}
    write_json(
        arguments.target.with_suffix(".json"), {"minutes": arguments.minutes, "ways": labelled}
    )
    draw(curves, arguments.target)


if __name__ == "__main__":
    main()
