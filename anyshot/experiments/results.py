"""What a grid has found: the table, the figures, and sentences on how it was done."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anyshot.core.errors import AnyshotError
from anyshot.core.settings import parse_shots
from anyshot.evaluation.metrics import Summary, paired_difference, pool_seeds, same_tasks
from anyshot.evaluation.report.experiment_figures import comparison_figure
from anyshot.evaluation.report.paper_table import Cell, PaperComparison, excludes_zero
from anyshot.evaluation.report.training_curves import training_figure
from anyshot.experiments.available_data import learned
from anyshot.experiments.experiment import Picture
from anyshot.experiments.figures import FigureValues, FigureWithNumbers, draw
from anyshot.experiments.measurement import Value, cached, summary_of
from anyshot.experiments.plan import FigureInput, MeasurementRef, Plan
from anyshot.experiments.run_jobs import Failures
from anyshot.runs import pretrained
from anyshot.runs.run import Run


@dataclass(frozen=True)
class NamedFigure:
    """A picture by the name of its files."""

    name: str
    title: str
    drawn: FigureWithNumbers


@dataclass(frozen=True)
class ExperimentResult:
    """All that is written and shown."""

    plan: Plan
    beside: PaperComparison
    pictures: tuple[NamedFigure, ...]
    notes: tuple[str, ...]  #: the caption, sentence by sentence

    @property
    def caption(self) -> str:
        """The notes as one paragraph."""
        return " ".join(self.notes)


def collect(plan: Plan, failures: Failures, notes: Sequence[str] = ()) -> ExperimentResult:
    """The outcome of a grid whose units have run."""
    beside = table(plan)
    pictures, missing = _pictures(plan, beside)
    failed = [
        f"{_models(plan, folder)} failed: {sentence}" for folder, sentence in failures.items()
    ]
    return ExperimentResult(
        plan, beside, tuple(pictures), (*_protocol(plan, beside), *notes, *failed, *missing)
    )


def _models(plan: Plan, folder: str) -> str:
    """Whose run is in a folder."""
    asked = [(model, one) for (model, _), found in plan.tests.items() for one in found]
    asked += [(look.model, one) for _, looks in plan.looks for look in looks for one in look.asked]
    return (
        ", ".join(dict.fromkeys(model for model, one in asked if one.folder == folder))
        or "A warm start"
    )


def table(plan: Plan) -> PaperComparison:
    """Every model in every column, with the paper's number, and compared with the others on the same tasks."""
    experiment = plan.experiment
    cells = {}
    for place, column in enumerate(experiment.columns):
        found = {model.name: _summary(plan.tests[model.name, place]) for model in experiment.models}
        best = _best(found)
        base = found[experiment.compared_with]
        for name, summary in found.items():
            comparable = (
                base
                and summary
                and name != experiment.compared_with
                and same_tasks([summary, base])
            )
            ahead = paired_difference(summary, base) if comparable and summary and base else None
            cells[name, place] = Cell(summary, column.paper.get(name), ahead, name == best)
    models, columns = (
        tuple(m.name for m in experiment.models),
        tuple(c.label for c in experiment.columns),
    )
    return PaperComparison(models, columns, cells, experiment.compared_with)


def _summary(asked: Sequence[MeasurementRef]) -> Summary | None:
    found = _found(asked)
    return pool_seeds([summary_of(value) for value in found]) if found else None


def _found(asked: Sequence[MeasurementRef]) -> list[Value]:
    return [value for one in asked if (value := cached(*one)) is not None]


def _best(found: dict[str, Summary | None]) -> str | None:
    """The model that is ahead of every other by more than the paired interval, if there is one."""
    some = {name: summary for name, summary in found.items() if summary}
    if len(some) < 2:
        return None
    first = max(some, key=lambda name: some[name].accuracy)
    others = [summary for name, summary in some.items() if name != first]
    ahead = all(
        same_tasks([one, some[first]]) and excludes_zero(paired_difference(one, some[first]))
        for one in others
    )
    return first if ahead else None


def _pictures(plan: Plan, beside: PaperComparison) -> tuple[list[NamedFigure], list[str]]:
    """The experiment's pictures, accuracies beside the paper's, and the learning curves of the first seeds; sentences
    on pictures that could not be drawn."""
    found, missing = [], []
    if any(cell.paper for cell in beside.cells.values()):
        found.append(
            NamedFigure(
                "accuracy",
                "Accuracy beside the paper's",
                FigureWithNumbers(comparison_figure(beside)),
            )
        )
    for picture, looks in plan.looks:
        try:
            drawn = draw(picture, [_answer(look) for look in looks])
        except AnyshotError as error:
            missing.append(f"The picture {picture.title!r} is not drawn: {error}")
            continue
        alone = [other.kind for other, _ in plan.looks].count(picture.kind) == 1
        title = f"{picture.title}. {picture.note}" if picture.note else picture.title
        found.append(NamedFigure(picture.kind if alone else _name(picture, looks), title, drawn))
    if logs := _logs(plan):
        found.append(
            NamedFigure(
                "training",
                "Learning curves of the first seed",
                FigureWithNumbers(training_figure(logs)),
            )
        )
    return found, missing


def _logs(plan: Plan) -> dict[str, list[dict[str, Any]]]:
    """The log of each model's first run."""
    asked = [(model, found[0].folder) for (model, _), found in plan.tests.items()]
    asked += [(look.model, look.asked[0].folder) for _, looks in plan.looks for look in looks]
    first = dict(reversed(asked))
    runs = {
        model: Run.find_started(first[model])
        for model in dict.fromkeys(model for model, _ in asked)
    }
    return {model: list(run.records()) for model, run in runs.items() if run}


def _name(picture: Picture, looks: Sequence[FigureInput]) -> str:
    return f"{picture.kind}-{looks[0].column.set}"


def _answer(look: FigureInput) -> FigureValues:
    found = _found(look.asked)
    if len(found) < len(look.asked):
        raise AnyshotError(
            f"not every run of {look.model} has been measured on {look.column.label}."
        )
    return FigureValues(
        look.model, look.column.set, look.asked[0].probe.task.way, look.value, tuple(found)
    )


def _protocol(plan: Plan, beside: PaperComparison) -> list[str]:
    """What was done, and what differs from the paper."""
    e, s = plan.experiment, plan.scale
    seeds, some = s.seeds_of(e), next(iter(plan.tests.values()), ())
    tasks = sorted({asked[0].probe.tasks for asked in plan.tests.values()})
    counts = " to ".join(f"{n:,}" for n in dict.fromkeys((*tasks[:1], *tasks[-1:])))
    sentences = []
    if some:
        task = some[0].probe.task
        sentences.append(
            f"{task.way}-way tasks, {task.query} query images a class; {counts} test tasks and {seeds} "
            f"seed{'s' if seeds > 1 else ''} of each model. Accuracy in %, 95 % intervals over tasks"
            f"{' and seeds' if seeds > 1 else ''}; bold: ahead of every other by more than the paired interval, "
            "and differences larger than their interval."
        )
    short_of = (
        [f"{seeds} seed{'s' if seeds > 1 else ''}, not {e.seeds}"] if seeds != e.seeds else []
    )
    short_of += [f"{counts} test tasks, not {e.tasks:,}"] if tasks and tasks[0] != e.tasks else []
    starts = {unit.settings.train.body_from for unit in plan.units} - {None}
    warm = {
        run.settings.warm.epochs
        for start in starts
        if (run := Run.find_started(str(start))) and run.settings.warm
    }
    if starts:
        epochs = f" of {' or '.join(map(str, sorted(warm)))} epochs" if warm else ""
        ours = [
            name
            for name in pretrained.pretrained_models()
            if name in starts and Run(name).folder == pretrained.HOME / name
        ]
        named = "".join(f" (that of the weights {name})" for name in ours)
        short_of.append(
            f"all models from one warm start{epochs} of the body{named}, not from the paper's random one"
        )
    for block in e.blocks if some else ():
        names = ", ".join(column.label for column in block.columns)
        sentences += (
            [f"Learned from {', '.join(Path(i).name for i in learned(block))}: {names}."]
            if names
            else []
        )
    different = "; ".join([*short_of, *plan.differences])
    sentences += [f"Other than the paper's protocol: {different}."] if different else []
    return sentences + _drawn(plan, beside)


def _drawn(plan: Plan, beside: PaperComparison) -> list[str]:
    """Columns whose classes have fewer images than a fixed number that was asked for."""
    found = []
    for (_, place), asked in plan.tests.items():
        rule, _, most = parse_shots(asked[0].probe.task.shots)
        summaries = [beside.cells[model, place].summary for model in beside.models]
        least = min((s.support_mean for s in summaries if s), default=most)
        if rule == "fixed" and least < most:
            found.append(
                f"{beside.columns[place]}: {least:.0f} images a class on average, since there are no more."
            )
    return list(dict.fromkeys(found))


def results(outcome: ExperimentResult) -> dict[str, Any]:
    """The numbers as plain values."""
    rows = []
    for (model, place), cell in outcome.beside.cells.items():
        asked = outcome.plan.tests[model, place]
        rows.append(
            {
                "model": model,
                "column": outcome.beside.columns[place],
                "images": outcome.plan.experiment.columns[place].images,
                "shots": asked[0].probe.task.shots,
                "paper": None
                if cell.paper is None
                else {"accuracy": cell.paper[0], "interval": cell.paper[1]},
                "best": cell.best,
                "reference": outcome.beside.reference,
                "reference_minus_this": cell.ahead,
                **(cell.summary.as_dict() if cell.summary else {}),
                "run_names": [Path(one.folder).name for one in asked],
            }
        )
    pictures = {p.name: p.drawn.numbers for p in outcome.pictures}
    return {
        "rows": rows,
        "pairs": _pairs(outcome.beside),
        "notes": outcome.notes,
        "pictures": pictures,
    }


def _pairs(beside: PaperComparison) -> list[dict[str, Any]]:
    """Every two models in every column, task by task: the first minus the second."""
    found = []
    for place, column in enumerate(beside.columns):
        for one, two in itertools.combinations(beside.models, 2):
            first, second = beside.cells[one, place].summary, beside.cells[two, place].summary
            if first and second and same_tasks([first, second]):
                names = {"column": column, "model": one, "minus": two}
                found.append({**names, **dataclasses.asdict(paired_difference(second, first))})
    return found
