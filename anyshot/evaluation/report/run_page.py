"""One page on any set of runs: learning curves, the table, accuracy by shots, calibration, ω, γ and z, sample tasks."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from html import escape

from matplotlib.figure import Figure

from anyshot.evaluation.compare_runs import MEAN, ResultRow, RunOnSet, add_differences
from anyshot.evaluation.inspection import BalanceRecord, inspect_stream
from anyshot.evaluation.report.experiment_figures import calibration_figure, shots_figure
from anyshot.evaluation.report.figures import balance_figures, png, training_figure
from anyshot.evaluation.report.html import page, picture
from anyshot.evaluation.report.html import table as html_table
from anyshot.evaluation.report.sample_task import STYLE, sample_task
from anyshot.evaluation.report.tables import dashed, origin, with_interval
from anyshot.methods import TAML
from anyshot.runs.run import Run


def report_page(
    runs: Sequence[Run],
    trials: Sequence[RunOnSet],
    rows: Sequence[ResultRow],
    tasks: int,
    title: str,
) -> str:
    """A self-contained page on runs, as they were tested in ``rows``; ω, γ and z by ``tasks`` tasks of each."""
    body = [STYLE, f"<p>{escape(title)}</p>", results_table(add_differences(rows))]
    training = training_figure({run.folder.name: run.records() for run in runs})
    body += [_plot(name, figure) for name, figure in {
        "Accuracy by the number of images of a class": shots_figure(rows),
        "Calibration": calibration_figure(rows),
        "Learning curves": training,
    }.items()]  # fmt: skip
    for name, records in inspection_section(trials, tasks).items():
        titles = {"omega": "ω by class size", "gamma": "γ by task size", "z": "‖z‖ by image set"}
        body += [
            _plot(f"{name}: {titles[kind]}", figure)
            for kind, figure in balance_figures(records).items()
        ]
    body += [
        f"<h2>A task of {escape(name)}</h2>{text}" for name, text in sample_tasks(trials).items()
    ]
    facts = origin(runs=[str(run.folder) for run in runs])
    body.append(
        f"<p><small>{escape(facts['time'])}, anyshot {facts['version']}, {escape(facts['command'])}</small></p>"
    )
    return page("Runs: " + shlex.join(run.folder.name for run in runs), "\n".join(body))


def results_table(rows: Sequence[ResultRow]) -> str:
    """A row a run and image set; differences to the first run, task by task."""
    ranges = [
        name
        for name in rows[0].summary.by_shots
        if any(r.summary.by_shots[name] is not None for r in rows)
    ]
    shots = [f"{dashed(name)} shot{'s' if name != '1' else ''}" for name in ranges]
    head = [
        "run",
        "images",
        "accuracy",
        "NLL",
        "ECE",
        "worst class",
        *shots,
        "difference to the first",
    ]
    lines = []
    for row in rows:
        s, p = row.summary, row.paired
        ahead = (
            ""
            if p is None
            else with_interval(f"{100 * p.accuracy:+.1f}", p.accuracy_interval, 100, 1)
        )
        each = ["–" if (a := s.by_shots[name]) is None else f"{100 * a:.1f}" for name in ranges]
        accuracy = with_interval(f"{100 * s.accuracy:.1f}", s.interval, 100, 1)
        numbers = [accuracy, f"{s.nll:.2f}", f"{100 * s.ece:.1f}", f"{100 * s.worst_class:.1f}"]
        images = "mean of all" if row.images == MEAN else row.images
        lines.append([escape(cell) for cell in (row.run, images, *numbers, *each, ahead)])
    return html_table(head, lines)


def inspection_section(trials: Sequence[RunOnSet], tasks: int) -> dict[str, list[BalanceRecord]]:
    """ω, γ and z of the runs that have them."""
    found: dict[str, list[BalanceRecord]] = {}
    for trial in trials:
        if isinstance(trial.method, TAML) and trial.method.encoder is not None:
            found.setdefault(trial.name, []).extend(
                inspect_stream(trial.method, trial.stream, tasks)
            )
    return found


def sample_tasks(trials: Sequence[RunOnSet]) -> dict[str, str]:
    """The first task of each image set, with the answers of all runs that have it."""
    found = {}
    for images in dict.fromkeys(trial.images for trial in trials):
        same = [trial for trial in trials if trial.images == images]
        task = same[0].stream.task(0)
        own = [
            trial for trial in same if trial.stream.class_names() == same[0].stream.class_names()
        ]
        found[images] = sample_task(
            task, {trial.name: trial.method.predict(task).cpu().numpy() for trial in own}
        )
    return found


def _plot(title: str, figure: Figure) -> str:
    return picture(title, png(figure))
