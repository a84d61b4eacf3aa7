"""The results of an experiment: the table, the figures, and the sentences of its caption."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyshot.core.errors import AnyshotError, RunError
from anyshot.core.files import to_plain
from anyshot.evaluation.metrics import (
    PairedDifference,
    Summary,
    paired_difference,
    pool_seeds,
    same_tasks,
)
from anyshot.evaluation.report.experiment_figures import comparison_figure
from anyshot.evaluation.report.paper_table import Cell, PaperComparison, excludes_zero
from anyshot.evaluation.report.result_files import results_frame
from anyshot.evaluation.report.training_curves import training_figure
from anyshot.experiments.caption import protocol_sentences
from anyshot.experiments.experiment import Column, FigureSpec
from anyshot.experiments.figures import Figure, FigureInput, draw_figure
from anyshot.experiments.job import Job
from anyshot.experiments.measurement import Values, read_cached, summary_of
from anyshot.experiments.plan import FigureJobs, Plan
from anyshot.runs.run import Run

if TYPE_CHECKING:
    import pandas as pd

Failures = Mapping[str, str]  #: the message of each failed job, by its folder


@dataclass(frozen=True)
class ExperimentResult:
    """All that an experiment writes and prints."""

    plan: Plan
    comparison: PaperComparison
    figures: tuple[Figure, ...]
    notes: tuple[str, ...]  #: the sentences of the caption

    @property
    def caption_paragraph(self) -> str:
        """The notes as one paragraph."""
        return " ".join(self.notes)

    def to_frame(self) -> pd.DataFrame:
        """The table as a pandas DataFrame: one row for each model in each column.

        It equals :func:`anyshot.read_results` of the experiment's ``results.json``.
        """
        return results_frame(to_plain(results_as_dict(self)["rows"]))


def collect(plan: Plan, failures: Failures, notes: Sequence[str] = ()) -> ExperimentResult:
    """Collect the measurements of a plan whose jobs have run."""
    comparison = compare_models(plan)
    figures, missing = draw_figures(plan, comparison)
    failed = [f"{_models_in(plan, folder)} failed: {why}" for folder, why in failures.items()]
    sentences = (*protocol_sentences(plan, comparison), *notes, *failed, *missing)
    return ExperimentResult(plan, comparison, tuple(figures), sentences)


def _jobs_by_model(plan: Plan) -> list[tuple[str, Job]]:
    """(model, job) of all tests, then of all figures."""
    tests = [(model, job) for (model, _), jobs in plan.tests.items() for job in jobs]
    figures = [
        (model, job)
        for _, figure_jobs in plan.figures
        for (model, _, _), jobs in figure_jobs.items()
        for job in jobs
    ]
    return [*tests, *figures]


def _models_in(plan: Plan, folder: str) -> str:
    """The names of the models whose run is in a folder."""
    models = [model for model, job in _jobs_by_model(plan) if job.folder == folder]
    return ", ".join(dict.fromkeys(models)) or "Pre-training"


# ---------- the table
def compare_models(plan: Plan) -> PaperComparison:
    """Compare every model in every column with the paper and with the other models."""
    experiment = plan.experiment
    reference = experiment.reference_model
    cells = {}
    for index, column in enumerate(experiment.columns):
        summaries = {m.name: _pooled_summary(plan.tests[m.name, index]) for m in experiment.models}
        best = _find_best_model(summaries)
        base = summaries[reference]
        for name, summary in summaries.items():
            ahead = None
            if summary and base and name != reference and same_tasks([summary, base]):
                ahead = paired_difference(summary, base)
            gain = _gain(summary, summaries.get(experiment.model(name).base))
            cells[name, index] = Cell(summary, column.paper.get(name), ahead, name == best, gain)
    models = tuple(model.name for model in experiment.models)
    columns = tuple(column.label for column in experiment.columns)
    return PaperComparison(models, columns, cells, reference)


def _gain(summary: Summary | None, base: Summary | None) -> PairedDifference | None:
    """A model minus its base, task by task."""
    if summary and base and same_tasks([base, summary]):
        return paired_difference(base, summary)
    return None


def _pooled_summary(jobs: Sequence[Job]) -> Summary | None:
    measured = _read_measurements(jobs)
    return pool_seeds([summary_of(values) for values in measured]) if measured else None


def _read_measurements(jobs: Sequence[Job]) -> list[Values]:
    """Read the measurements that the jobs have written."""
    cached = [
        read_cached(job.folder, measurement) for job in jobs for measurement in job.measurements
    ]
    return [values for values in cached if values is not None]


def _find_best_model(summaries: Mapping[str, Summary | None]) -> str | None:
    """Find the model that beats every other by more than the paired interval, if there is one."""
    measured = {name: summary for name, summary in summaries.items() if summary}
    if len(measured) < 2:
        return None
    first = max(measured, key=lambda name: measured[name].accuracy)
    ahead = all(
        same_tasks([other, measured[first]])
        and excludes_zero(paired_difference(other, measured[first]))
        for name, other in measured.items()
        if name != first
    )
    return first if ahead else None


# ---------- the figures
def draw_figures(plan: Plan, comparison: PaperComparison) -> tuple[list[Figure], list[str]]:
    """Draw accuracies, the experiment's figures and learning curves; sentences on missing ones."""
    figures = []
    missing = []
    if any(cell.paper for cell in comparison.cells.values()):
        title = "Accuracy, ours and the paper's"
        figures.append(Figure("accuracy", title, comparison_figure(comparison)))
    kinds = [spec.kind for spec, _ in plan.figures]
    for spec, jobs in plan.figures:
        name = spec.kind if kinds.count(spec.kind) == 1 else _long_name(spec, jobs)
        try:
            inputs = [_figure_input(*key, jobs[key]) for key in jobs]
            figures.append(draw_figure(spec, inputs, name))
        except AnyshotError as error:
            missing.append(f"The figure {spec.title!r} was not drawn: {error}")
    if logs := _first_logs(plan):
        title = "Learning curves of the first seed"
        figures.append(Figure("training", title, training_figure(logs)))
    return figures, missing


def _long_name(spec: FigureSpec, jobs: FigureJobs) -> str:
    _, column, _ = next(iter(jobs))
    return f"{spec.kind}-{column.set_name}"


def _figure_input(model: str, column: Column, value: int, jobs: Sequence[Job]) -> FigureInput:
    measured = _read_measurements(jobs)
    if len(measured) < len(jobs):
        raise RunError(f"not every run of {model} was measured on {column.label}.")
    way = jobs[0].measurements[0].task.way
    return FigureInput(model, column.set_name, way, value, tuple(measured))


def _first_logs(plan: Plan) -> dict[str, list[dict[str, Any]]]:
    """The log of each model's first run."""
    first: dict[str, str] = {}
    for model, job in _jobs_by_model(plan):
        first.setdefault(model, job.folder)
    runs = {model: Run.find_started(folder) for model, folder in first.items()}
    return {model: list(run.records()) for model, run in runs.items() if run}


# ---------- the numbers as JSON
def results_as_dict(result: ExperimentResult) -> dict[str, Any]:
    """The numbers as plain values; the keys are those of results.json."""
    comparison = result.comparison
    rows = []
    for (model, index), cell in comparison.cells.items():
        jobs = result.plan.tests[model, index]
        paper = cell.paper and {"accuracy": cell.paper[0], "interval": cell.paper[1]}
        rows.append(
            {
                "model": model,
                "column": comparison.columns[index],
                "images": result.plan.experiment.columns[index].images,
                "shots": jobs[0].measurements[0].task.shots,
                "paper": paper,
                "best": cell.best,
                "reference": comparison.reference,
                "reference_minus_this": cell.ahead,
                **({"gain_over_base": cell.gain} if cell.gain else {}),
                **(cell.summary.as_dict() if cell.summary else {}),
                "run_names": [Path(job.folder).name for job in jobs],
            }
        )
    return {
        "rows": rows,
        "pairs": _pairs(comparison),
        "notes": result.notes,
        "pictures": {figure.name: figure.numbers for figure in result.figures},
    }


def _pairs(comparison: PaperComparison) -> list[dict[str, Any]]:
    """The paired difference of every two models in every column: the first minus the second."""
    pairs = []
    for index, column in enumerate(comparison.columns):
        for one, two in itertools.combinations(comparison.models, 2):
            first = comparison.cells[one, index].summary
            second = comparison.cells[two, index].summary
            if first and second and same_tasks([first, second]):
                names = {"column": column, "model": one, "minus": two}
                difference = dataclasses.asdict(paired_difference(second, first))
                pairs.append({**names, **difference})
    return pairs
