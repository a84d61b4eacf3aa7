"""Choose views of rows of the standard protocol on validation tasks of CIFAR-FS, inductively.

    anyshot pretrain runs/body-64 --preset cifar-fs-5shot --channels 64 --epochs 100
    python benchmarks/standard_validation.py OUT --from runs/body-64 --json FILE

Runs are those of `anyshot reproduce standard-64` in OUT, or trained. They are tested on validation
tasks with the seed 1. The same command continues after an interruption.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from standard_many_tasks import describe, select_blocks, test_run, train_model

from anyshot.core.files import read_json, write_json
from anyshot.experiments.plan import PlanBuilder
from anyshot.experiments.scale import SHORT
from anyshot.experiments.standard import STANDARD_64

APART = {"average_views": "probabilities"}
NO_VIEWS = {"flips": False, "shift": 0, **APART}
MIRROR = {"flips": True, "shift": 0, **APART}
SHIFTED = {"flips": True, "shift": 2, **APART}
AVERAGED = {**SHIFTED, "average_views": "features"}

#: Rows by name: a model of the table, and changes of its test
ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "anyshot's recipe": ("anyshot's recipe", NO_VIEWS),
    "anyshot's recipe, mirror images": ("anyshot's recipe", MIRROR),
    "anyshot's recipe, mirror images and shifts by 2 pixels": ("anyshot's recipe", SHIFTED),
    "anyshot's recipe, averaged features of the same": ("anyshot's recipe", AVERAGED),
    "SimpleShot": ("SimpleShot", NO_VIEWS),
    "SimpleShot, mirror images": ("SimpleShot", MIRROR),
    "SimpleShot, mirror images and shifts by 2 pixels": ("SimpleShot", SHIFTED),
    "SimpleShot, averaged features of the same": ("SimpleShot", AVERAGED),
    "RFS": ("RFS", NO_VIEWS),
    "RFS, mirror images": ("RFS", MIRROR),
    "RFS, mirror images and shifts by 2 pixels": ("RFS", SHIFTED),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--from", dest="start", required=True)
    parser.add_argument("--tasks", type=int, default=300)
    parser.add_argument("--shots", default="1,5")
    parser.add_argument("--rows", default=";".join(ROWS))
    parser.add_argument("--json", type=Path, required=True)
    arguments = parser.parse_args()
    found = read_json(arguments.json) if arguments.json.exists() else {}
    for name in arguments.rows.split(";"):
        model_name, test = ROWS[name]
        for block in select_blocks(STANDARD_64, arguments.shots):
            row, label = found.setdefault(name, {}), block.columns[0].name
            if row.get(label, {}).get("tasks") != arguments.tasks:
                builder = PlanBuilder(STANDARD_64, SHORT, arguments.out, arguments.start)
                model = STANDARD_64.model(model_name)
                model = replace(model, test={**model.test, **test})
                run, measurement = train_model(builder, block, model)
                summary = test_run(run, measurement.method, "validation", 1, arguments.tasks)
                row[label] = describe(summary)
                write_json(arguments.json, found)
            print(f"{name}, {label}: {row[label]}", flush=True)


if __name__ == "__main__":
    main()
