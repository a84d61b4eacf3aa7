"""Rows of a table measured on the same tasks, with paired differences.

The scores of a row on an image set are one file, OUT/measured/ROW SET.json, so that a measurement
can be stopped and continued. `benchmarks/variables_*.py` use this.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

import anyshot

SETS = ("cifar-fs", "svhn")
TITLES = {"cifar-fs": "CIFAR-FS", "svhn": "SVHN"}


class Predicts(Protocol):
    """A method, or anything else that predicts a task as a method does."""

    name: str

    def predict(
        self, task: anyshot.Task, noise: object = None, prediction: str | None = None
    ) -> Tensor: ...


Row = tuple[str, Predicts, str]  #: name, method, "naive" or "mc"


def make_parser(description: str) -> argparse.ArgumentParser:
    """The arguments of the scripts that measure rows; the first line of the text describes them."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--tasks", type=int, default=60)
    parser.add_argument("--minutes", type=float, default=1e9)
    return parser


def measure_rows(
    out: Path, rows: Iterable[Row], tasks: int, split: str = "validation", minutes: float = 1e9
) -> None:
    """Score each row on the same any-shot tasks of both sets.

    Rows that were measured on as many tasks are skipped. No row starts after ``minutes``.
    """
    start = time.monotonic()
    for name, method, prediction in rows:
        for images in SETS:
            target = out / "measured" / f"{name} {images}.json"
            if target.exists() and json.loads(target.read_text())["tasks"] == tasks:
                continue
            if time.monotonic() - start > 60 * minutes:
                print("stopped; the same command continues")
                return
            stream = anyshot.TaskStream(
                anyshot.open_images(images), split, anyshot.TaskSettings(), 1
            )
            scores = anyshot.evaluate(method, stream, tasks, prediction=prediction).scores
            record = {
                "row": name,
                "images": images,
                "split": split,
                "tasks": tasks,
                "accuracy": [100 * score.accuracy for score in scores],
                "nll": [score.nll for score in scores],
                "images_of_task": [int(sum(score.shots)) for score in scores],
            }
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(json.dumps(record))
            print(f"{name}, {images}: {np.mean(record['accuracy']):.2f}")


def read_rows(out: Path, images: str) -> dict[str, dict]:
    """The measured rows of an image set by name."""
    records = [json.loads(path.read_text()) for path in sorted((out / "measured").glob("*.json"))]
    return {record["row"]: record for record in records if record["images"] == images}


def half_width(values: NDArray) -> float:
    """1.96 standard errors of a mean."""
    return float(1.96 * values.std(ddof=1) / len(values) ** 0.5)


def compare_rows(rows: dict[str, dict], reference: dict[str, str]) -> list[dict]:
    """Means with intervals, and the paired difference to each row's reference."""
    table = []
    for name, record in rows.items():
        line = {"row": name, "images": record["images"], "tasks": record["tasks"]}
        base = rows.get(reference.get(name, ""))
        for key in ("accuracy", "nll"):
            values = np.array(record[key])
            line[key] = float(values.mean())
            line[f"{key}_interval"] = half_width(values)
            if base and base is not record:
                difference = values - np.array(base[key])
                line["reference"] = base["row"]
                line[f"{key}_difference"] = float(difference.mean())
                line[f"{key}_difference_interval"] = half_width(difference)
        table.append(line)
    return table


def markdown(lines: list[dict], order: Iterable[str]) -> str:
    """One line for each row, both sets next to each other."""
    found = {(line["row"], line["images"]): line for line in lines}
    head = " | ".join(f"{TITLES[s]} | difference | NLL | difference" for s in SETS)
    text = [f"| | {head} |", "|---|" + "--:|" * 8]
    for row in order:
        if not any((row, images) in found for images in SETS):
            continue
        cells = []
        for images in SETS:
            line = found.get((row, images))
            for key, sign, digits in (("accuracy", "+.1f", ".1f"), ("nll", "+.3f", ".3f")):
                if line is None:
                    cells += ["–", "–"]
                    continue
                cells.append(f"{line[key]:{digits}}")
                gain = line.get(f"{key}_difference")
                width = line.get(f"{key}_difference_interval")
                cells.append("" if gain is None else f"{gain:{sign}} ± {width:{digits}}")
        text.append(f"| {row} | {' | '.join(cells)} |")
    return "\n".join(text).replace("| -", "| −") + "\n"


def write_rows(out: Path, references: dict[str, str], **facts: object) -> None:
    """Write OUT/results.json, with the scores of every task, and OUT/table.md.

    ``references`` names the row that each row is compared with, in the order of the table.
    """
    rows = {images: read_rows(out, images) for images in SETS}
    lines = [line for one in rows.values() for line in compare_rows(one, references)]
    results = {**facts, "rows": lines, "measured": rows}
    (out / "results.json").write_text(json.dumps(results, ensure_ascii=False) + "\n")
    (out / "table.md").write_text(markdown(lines, references))
