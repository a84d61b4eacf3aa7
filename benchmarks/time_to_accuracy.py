"""Validation accuracy against training time: anyshot's recipe and three other ways to train.

    OMP_NUM_THREADS=1 python benchmarks/time_to_accuracy.py OUT \
        docs/figures/time_to_accuracy [--minutes 12]

Time is processor time of one core, without validation; two cores take half of it. Finished curves
stay in OUT and are not measured again. CIFAR-FS and SVHN must be prepared. `--only NAME` measures
one curve, so that two cores can measure two at once.
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


class TimeOver(Exception):
    """The time limit is reached."""


class Clock:
    """Records the training time and the accuracy at each validation."""

    def __init__(self, minutes: float) -> None:
        self.minutes = minutes
        self.seconds = 0.0
        self.before = time.process_time()
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
                raise TimeOver
        self.before = now


def by_recipe(epochs: int) -> Callable[[Path, Clock], None]:
    """The recipe with this many epochs of pre-training (its own number is 200), to its end."""

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


def from_scratch(settings: Settings, every: int) -> Callable[[Path, Clock], None]:
    """Only meta-training, until the time limit."""

    def run(folder: Path, clock: Clock) -> None:
        schedule = replace(
            settings.train, validate_every=every, validation_tasks=TASKS, validate_by="naive"
        )
        train(replace(settings, train=schedule), folder / "run", workers=1, callback=clock)

    return run


def fast_settings(method: str) -> Settings:
    """A strong baseline: He initialisation, centred features, a large learning rate of the head."""
    return replace(preset("cifar-fs-paper"), method=FAST.with_values({"name": method}))


WAYS: dict[str, tuple[str, Callable[[Path, Clock], None]]] = {
    "recipe": ("anyshot's recipe", by_recipe(200)),
    "recipe-20": ("… 20 epochs of pre-training", by_recipe(20)),
    "meta-sgd": ("Meta-SGD, He's start", from_scratch(fast_settings("meta-sgd"), 100)),
    "protonet": ("Prototypical Networks, He's start", from_scratch(fast_settings("protonet"), 250)),
    "paper": ("Bayesian TAML, paper's recipe", from_scratch(preset("cifar-fs-paper"), 100)),
}


def measure(name: str, out: Path, minutes: float) -> list[dict[str, Any]]:
    file = out / f"{name}.json"
    if not file.is_file():
        # The time of an interrupted run is not known.
        shutil.rmtree(out / name, ignore_errors=True)
        clock = Clock(minutes)
        with contextlib.suppress(TimeOver):
            WAYS[name][1](out / name, clock)
        write_json(file, {"points": clock.points})
    return json.loads(file.read_text())["points"]


def draw(curves: dict[str, list[dict[str, Any]]], target: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 4.5), layout="constrained")
    for axis, (images, title) in zip(axes, SETS.items(), strict=True):
        for index, (name, points) in enumerate(curves.items()):
            x = [p["minutes"] for p in points]
            y = [100 * p[images] for p in points]
            style = {
                "color": COLOURS[index],
                "marker": MARKERS[index],
                "ms": 4,
                "label": WAYS[name][0],
            }
            pretraining = [i for i, p in enumerate(points) if p["kind"] == "check"]
            axis.plot(
                x,
                y,
                lw=1.6,
                markevery=[i for i in range(len(x)) if i not in pretraining] or None,
                **style,
            )
            axis.plot(
                [x[i] for i in pretraining],
                [y[i] for i in pretraining],
                ls="",
                marker="|",
                color=COLOURS[index],
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
        measure(arguments.only, arguments.out, arguments.minutes)
        return
    curves = {name: measure(name, arguments.out, arguments.minutes) for name in WAYS}
    labelled = {name: {"label": WAYS[name][0], "points": points} for name, points in curves.items()}
    write_json(
        arguments.target.with_suffix(".json"), {"minutes": arguments.minutes, "ways": labelled}
    )
    draw(curves, arguments.target)


if __name__ == "__main__":
    main()
