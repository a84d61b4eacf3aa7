"""Paired differences of two outputs of benchmarks/heads.py, for example of two backbones.

    python benchmarks/heads_paired.py FIRST SECOND FILE.json

Reads FIRST/ours/SET.json and SECOND/ours/SET.json, whose tasks must be the same. Writes and prints
for each set and their mean: both values, second minus first, and half of its 95% interval.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from heads import OURS
from paired_rows import half_width

from anyshot.core.files import write_json

COLUMNS = {"accuracy": 0, "nll": 1, "worst_class": 2, "given": 9, "given_nll": 10}


def read_rows(folder, name):
    found = json.loads((folder / "ours" / f"{name}.json").read_text())
    return np.array(found["methods"][OURS]["rows"])


def compare(first, second):
    """Of each number: first, second, their difference, half of its interval."""
    found = {}
    for key, column in COLUMNS.items():
        a, b = first[:, column], second[:, column]
        found[key] = [float(v) for v in (a.mean(), b.mean(), (b - a).mean(), half_width(b - a))]
    return found


def average(by_set):
    """The mean over sets, whose errors are independent."""
    found = {}
    for key in COLUMNS:
        rows = np.array([of_set[key] for of_set in by_set])
        error = np.sqrt((rows[:, 3] ** 2).sum()) / len(rows)
        found[key] = [*rows[:, :3].mean(0).tolist(), float(error)]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("first", "second", "file"):
        parser.add_argument(name, type=Path)
    arguments = parser.parse_args()
    names = sorted(path.stem for path in (arguments.second / "ours").glob("*.json"))
    summary = {
        name: compare(*(read_rows(folder, name) for folder in (arguments.first, arguments.second)))
        for name in names
    }
    summary["mean"] = average(list(summary.values()))
    write_json(arguments.file, summary)
    for name, found in summary.items():
        print(name, {key: [round(v, 4) for v in values] for key, values in found.items()})


if __name__ == "__main__":
    main()
