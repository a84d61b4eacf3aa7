"""anyshot demo: the whole story in a few minutes."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Annotated

import typer

from anyshot.cli.inspect import draw, look
from anyshot.cli.options import Json, Workers
from anyshot.cli.test import Seed, Tasks, check_files, say_shortfalls, show, task_text
from anyshot.settings import Settings

METHODS = ("maml", "taml")
IMAGES = ("glyphs", "digits")


def demo(
    folder: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="For the runs, figures and results.")] = Path(
        "runs/demo"
    ),
    tasks: Tasks = 60,
    seed: Seed = 0,
    iterations: Annotated[int, typer.Option(min=1, metavar="N", help="Meta-iterations of each method.")] = 60,
    workers: Workers = None,
    json: Json = None,
) -> None:
    """Train, test and look inside Bayesian TAML and MAML on embedded images; some three minutes on two cores.

    Both learn from scratch from tasks of some characters of the embedded glyphs. They are then tested on characters
    they have never seen (in distribution) and on real handwritten digits (out of distribution), with anything from 1
    to 50 images a class. To stay within minutes, TAML predicts at its posterior's mean instead of averaging samples.
    """
    from anyshot.comparison import compared, measure, plan
    from anyshot.presets import preset
    from anyshot.report.balance import balance_tables
    from anyshot.report.tables import payload, print_tables, write_csv, write_results
    from anyshot.training import train

    started = time.monotonic()
    check_files(folder / "results.json", json)
    runs = []
    for name in METHODS:
        settings = _settings(preset("glyphs", name), seed, iterations)
        runs.append(train(settings, folder / name, workers=workers, command="anyshot demo"))
    trials = plan(runs, IMAGES, "test", seed)
    notes = say_shortfalls(trials)
    rows = compared(measure(trials, tasks, workers))
    records = look([trial for trial in trials if trial.settings == runs[-1].settings], min(tasks, 100))
    show(rows, f"New classes, {task_text(runs, notes)}")
    print_tables(*balance_tables(records))
    paths = draw(runs, records, folder)
    write_csv(folder / "results.csv", rows)
    seconds = time.monotonic() - started
    for path in {folder / "results.json", *([json] if json else [])}:
        write_results(
            path, payload(rows), settings={run.folder.name: run.settings.as_dict() for run in runs},
            split="test", tasks=tasks, seeds=[seed], notes=notes, seconds=seconds,
        )  # fmt: skip
    names = ", ".join(path.name for path in paths)
    print(f"{seconds:.0f} seconds. In {folder}: results.json, results.csv, {names}.")
    print(f"Next: anyshot test {runs[-1].folder} --images digits --shots class-imbalance:1-50 --prediction mc")


def _settings(base: Settings, seed: int, iterations: int) -> Settings:
    """The preset with a budget of minutes: fewer iterations, one validation, one adaptation for each prediction."""
    train = dataclasses.replace(base.train, seed=seed, iterations=iterations, validate_every=0, validation_tasks=20)
    return dataclasses.replace(base, train=train, method=dataclasses.replace(base.method, prediction="naive"))
