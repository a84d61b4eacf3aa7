"""One HTML page about runs: results, figures, learning curves, ω, γ and z, sample tasks."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from html import escape

from matplotlib.figure import Figure

from anyshot.evaluation.compare_runs import MEAN, ResultRow, RunOnSet, add_differences
from anyshot.evaluation.inspection import BalanceRecord, inspect_stream
from anyshot.evaluation.metrics import SHOTS
from anyshot.evaluation.report import html
from anyshot.evaluation.report.balancing_figures import balance_figures
from anyshot.evaluation.report.experiment_figures import calibration_figure, shots_figure
from anyshot.evaluation.report.result_files import provenance
from anyshot.evaluation.report.sample_task import STYLE, sample_task
from anyshot.evaluation.report.style import figure_png
from anyshot.evaluation.report.tables import describe_parts, format_range, percent, with_interval
from anyshot.evaluation.report.training_curves import load_logs, training_figure
from anyshot.methods import TAML
from anyshot.runs.run import Run


def report_page(
    runs: Sequence[Run],
    trials: Sequence[RunOnSet],
    rows: Sequence[ResultRow],
    tasks: int,
    title: str,
) -> str:
    """One self-contained HTML page about ``runs`` and their results ``rows``.

    ω, γ and z are computed for ``tasks`` tasks of each trial.
    """
    body = [
        STYLE,
        f"<p>{escape(' '.join([title, *describe_parts(rows)]))}</p>",
        results_table(add_differences(rows)),
        _plot("Accuracy by the number of images of a class", shots_figure(rows)),
        _plot("Calibration", calibration_figure(rows)),
        learning_curves(runs),
    ]
    titles = {"omega": "ω by class size", "gamma": "γ by task size", "z": "‖z‖ by image set"}
    for name, records in inspect_taml_runs(trials, tasks).items():
        for kind, figure in balance_figures(records).items():
            body.append(_plot(f"{name}: {titles[kind]}", figure))
    for images, task in sample_tasks(trials).items():
        body.append(f"<h2>A task of {escape(images)}</h2>{task}")
    facts = provenance()
    line = f"{facts['time']}, anyshot {facts['version']}, {facts['command']}"
    body.append(f"<p><small>{escape(line)}</small></p>")
    return html.page("Runs: " + shlex.join(run.folder.name for run in runs), "\n".join(body))


def learning_curves(runs: Sequence[Run]) -> str:
    """The learning curves of the runs that have a training log, or a sentence that none has."""
    logs = load_logs(runs)
    if logs:
        return _plot("Learning curves", training_figure(logs))
    return "<p>There are no learning curves: these runs have no training log.</p>"


def results_table(rows: Sequence[ResultRow]) -> str:
    """One line for each run and image set, with the paired difference to the first run."""
    by_shots = [row.summary.by_shots for row in rows]
    ranges = [name for name in SHOTS if any(one[name] is not None for one in by_shots)]
    shots = [f"{format_range(name)} shot{'s' if name != '1' else ''}" for name in ranges]
    numbers = ("accuracy", "NLL", "ECE", "worst class")
    head = ["run", "images", *numbers, *shots, "difference to the first"]
    return html.table(head, [[escape(cell) for cell in _cells(row, ranges)] for row in rows])


def _cells(row: ResultRow, ranges: Sequence[str]) -> list[str]:
    """The text of one line of :func:`results_table`."""
    s, p = row.summary, row.paired
    difference = ""
    if p is not None:
        difference = with_interval(f"{100 * p.accuracy:+.1f}", p.accuracy_interval, 100, 1)
    return [
        row.run,
        "mean of all" if row.images == MEAN else row.images,
        with_interval(f"{100 * s.accuracy:.1f}", s.interval, 100, 1),
        f"{s.nll:.2f}",
        percent(s.ece),
        percent(s.worst_class),
        *(percent(s.by_shots[name]) for name in ranges),
        difference,
    ]


def inspect_taml_runs(trials: Sequence[RunOnSet], tasks: int) -> dict[str, list[BalanceRecord]]:
    """ω, γ and z by run, for the runs that have them."""
    records: dict[str, list[BalanceRecord]] = {}
    for trial in trials:
        if isinstance(trial.method, TAML) and trial.method.encoder is not None:
            of_trial = inspect_stream(trial.method, trial.stream, tasks)
            records.setdefault(trial.name, []).extend(of_trial)
    return records


def sample_tasks(trials: Sequence[RunOnSet]) -> dict[str, str]:
    """The first task of each image set as HTML, with the predictions of all runs that share it."""
    tasks = {}
    for images in dict.fromkeys(trial.images for trial in trials):
        of_set = [trial for trial in trials if trial.images == images]
        first = of_set[0].stream
        task = first.task(0)
        predictions = {
            trial.name: trial.method.predict(task).cpu().numpy()
            for trial in of_set
            if trial.stream.class_names() == first.class_names()
        }
        tasks[images] = sample_task(task, predictions)
    return tasks


def _plot(title: str, figure: Figure) -> str:
    return html.plot(title, figure_png(figure))
