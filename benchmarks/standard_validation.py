"""Choose the recipe's row of the standard protocol on validation tasks of CIFAR-FS, inductively.

    anyshot pretrain runs/body-64 --preset cifar-fs-5shot --channels 64 --epochs 100
    python benchmarks/standard_validation.py OUT --from runs/body-64 [--tasks 300] [--shots 1,5]

Trains the recipe and its variants with 1 and 5 images a class, as `anyshot reproduce standard-64`
does, and tests them on validation tasks with the seed 1. Runs are kept in OUT, results in
OUT/validation.json; the same command continues after an interruption.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from anyshot import TaskStream, evaluate, open_images
from anyshot.core.files import read_json, write_json
from anyshot.experiments.experiment import Model
from anyshot.experiments.job import run_job
from anyshot.experiments.plan import PlanBuilder
from anyshot.experiments.scale import SHORT
from anyshot.experiments.standard import STANDARD_64
from anyshot.methods import Method
from anyshot.runs.run import Run

RECIPE = STANDARD_64.model("anyshot's recipe")
UNIT, CENTRED = {"body": "conv4-unit"}, {"body": "conv4-centred"}
ONE_VIEW = {"flips": False, "shift": 0}
MIRROR = {"flips": True, "shift": 0}
SHIFTED = {"flips": True, "shift": 2}

#: Rows by name: changes of the training, and of the test
ROWS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "features of one length, mirror images": (UNIT, MIRROR),
    "centred features, mirror images": (CENTRED, MIRROR),
    "centred features, mirror images and shifts by 2 pixels": (CENTRED, SHIFTED),
    "features of one length, mirror images and shifts by 2 pixels": (UNIT, SHIFTED),
    "centred features, one view": (CENTRED, ONE_VIEW),
    "centred features, mirror images and zooms 0.75 and 1.3": (
        CENTRED,
        {**MIRROR, "zooms": (0.75, 1.3)},
    ),
    "features of any length, mirror images": ({"body": "conv4"}, MIRROR),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--from", dest="start", required=True)
    parser.add_argument("--tasks", type=int, default=300)
    parser.add_argument("--shots", default="1,5")
    arguments = parser.parse_args()
    path = arguments.out / "validation.json"
    found = read_json(path) if path.exists() else {}
    for name, (change, test) in ROWS.items():
        for shots in map(int, arguments.shots.split(",")):
            row = found.setdefault(name, {})
            if row.get(f"{shots}-shot", {}).get("tasks") != arguments.tasks:
                method, stream = load(arguments, shots, change, test)
                summary = evaluate(method, stream, arguments.tasks, prediction="naive", workers=1)
                row[f"{shots}-shot"] = {
                    "tasks": arguments.tasks,
                    "accuracy": 100 * summary.accuracy,
                    "interval": 100 * (summary.interval or 0),
                    "ece": 100 * summary.ece,
                }
                write_json(path, found)
            one = row[f"{shots}-shot"]
            print(
                f"{name}, {shots}-shot: {one['accuracy']:.2f} ± {one['interval']:.2f}", flush=True
            )


def load(
    arguments: argparse.Namespace, shots: int, change: dict[str, Any], test: dict[str, Any]
) -> tuple[Method, TaskStream]:
    """Train the recipe with a change, or find it; return it with its validation tasks."""
    [block] = [b for b in STANDARD_64.blocks if b.preset.endswith(f"-{shots}shot")]
    inductive = block.columns[0]
    model: Model = replace(RECIPE, change={**RECIPE.change, **change}, test={**RECIPE.test, **test})
    builder = PlanBuilder(STANDARD_64, SHORT, arguments.out, arguments.start)
    [job] = builder.add(block, model, inductive, "test")
    run_job(replace(job, measurements=()), workers=1)
    run = Run(job.folder)
    run.settings = replace(run.settings, method=job.measurements[0].method)
    images = open_images(inductive.images)
    return run.load_method(), TaskStream(images, "validation", run.settings.task, seed=1)


if __name__ == "__main__":
    main()
