"""Choose the recipe's row of the standard protocol on validation tasks of CIFAR-FS, inductively.

    anyshot pretrain runs/body-64 --preset cifar-fs-5shot --channels 64 --epochs 100
    python benchmarks/standard_validation.py OUT --from runs/body-64 --json FILE

Trains the recipe and its variants with 1 and 5 images a class, as `anyshot reproduce standard-64`
does, and tests them on validation tasks with the seed 1. Runs are kept in OUT; the same command
continues after an interruption.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from standard_many_tasks import select_blocks, test_run, train_model

from anyshot.core.files import read_json, write_json
from anyshot.experiments.plan import PlanBuilder
from anyshot.experiments.scale import SHORT
from anyshot.experiments.standard import STANDARD_64

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
    parser.add_argument("--json", type=Path, required=True)
    arguments = parser.parse_args()
    found = read_json(arguments.json) if arguments.json.exists() else {}
    for name, (change, test) in ROWS.items():
        for block in select_blocks(STANDARD_64, arguments.shots):
            row, label = found.setdefault(name, {}), block.columns[0].name
            if row.get(label, {}).get("tasks") != arguments.tasks:
                builder = PlanBuilder(STANDARD_64, SHORT, arguments.out, arguments.start)
                model = replace(
                    RECIPE, change={**RECIPE.change, **change}, test={**RECIPE.test, **test}
                )
                run, settings = train_model(builder, block, model)
                row[label] = test_run(run, settings, "validation", 1, arguments.tasks)
                write_json(arguments.json, found)
            print(f"{name}, {label}: {row[label]}", flush=True)


if __name__ == "__main__":
    main()
