"""One command for an experiment: train what is missing, reuse what is there, test, tabulate, draw, write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path

from anyshot.core.errors import AnyshotError
from anyshot.core.files import write_bytes
from anyshot.core.registry import EXPERIMENTS
from anyshot.evaluation.report.experiment_figures import number_lines
from anyshot.evaluation.report.html import page, plot
from anyshot.evaluation.report.paper_table import (
    TableRows,
    accuracy_lines,
    detail_lines,
    html,
    latex,
    markdown,
    paired_lines,
)
from anyshot.evaluation.report.result_files import write_results
from anyshot.evaluation.report.style import save_figure
from anyshot.experiments.available_data import chosen, with_data, with_ready
from anyshot.experiments.experiment import Experiment
from anyshot.experiments.plan import Plan, make_plan
from anyshot.experiments.results import ExperimentResult, collect, results
from anyshot.experiments.run_jobs import run_jobs
from anyshot.experiments.scale import DataChoice, Scale, scale_of


@dataclass(frozen=True)
class Request:
    """Which experiment, how much of it, and on what."""

    experiment: Experiment
    scale: str = "short"
    out: Path = Path("runs/reproduce")
    data: DataChoice | None = None  #: instead of the experiment's image sets
    columns: tuple[str, ...] = ()  #: image sets whose columns are wanted; none: all
    recipe: str | None = (
        None  #: "paper": from the paper's start, "anyshot": from a warm start; None: the scale's own
    )
    start: str | None = None  #: a warm start that is there already
    seeds: int | None = None
    tasks: int | None = None
    iterations: int | None = None

    @property
    def folder(self) -> Path:
        """For what comes out."""
        sets = (*self.data.learned, *self.data.others) if self.data else self.columns
        return self.out / "-".join(
            [self.experiment.name, self.scale, *(Path(name).name for name in sets)]
        )


def find_experiment(name: str) -> Experiment:
    """An experiment by its name, by its file, or by its place in one."""
    return EXPERIMENTS[f"{name}:EXPERIMENT" if name.endswith(".py") else name]


def scaled(request: Request) -> Scale:
    """The scale, with what was asked for besides."""
    if request.start and request.recipe == "paper":
        raise AnyshotError(
            "The paper's recipe has no warm start; leave out --from or --recipe paper."
        )
    scale = scale_of(request.scale, request.recipe or ("anyshot" if request.start else None))
    if request.iterations:
        every = min(scale.train.get("validate_every", 10_000), max(1, request.iterations // 2))
        train = {**scale.train, "iterations": request.iterations, "validate_every": every}
        scale = replace(scale, train=train)
    return replace(scale, seeds=request.seeds or scale.seeds, tasks=request.tasks or scale.tasks)


def plan_of(request: Request) -> tuple[Plan, list[str]]:
    """The grid on the image sets that are here, and what had to be left out."""
    scale, experiment = scaled(request), request.experiment
    data = request.data or scale.data
    notes = []
    if data:
        experiment = with_data(experiment, data)
        names = ", ".join((*data.learned, *data.others))
        notes.append(
            f"On {names} instead of the paper's images, so there are no numbers of the paper to stand beside."
        )
    if request.columns:
        experiment = chosen(experiment, request.columns)
    experiment, missing = with_ready(experiment)
    return make_plan(experiment, scale, request.out, request.start), [*notes, *missing]


def reproduce(
    request: Request,
    jobs: int | None = None,
    workers: int | None = None,
    command: str = "",
    on: str = "local",
    address: str | None = None,
) -> ExperimentResult:
    """The whole experiment; what was done before is not done again. ``jobs``, ``on`` and ``address`` are those of
    :func:`anyshot.experiments.launch.run_grid`."""
    plan, notes = plan_of(request)
    title = f"{plan.experiment.name}, {plan.scale.name}"
    failures = run_jobs(plan.units, jobs, workers, command, title, on, address)
    outcome = collect(plan, failures, notes)
    write(outcome, request.folder)
    return outcome


def write(outcome: ExperimentResult, folder: Path) -> None:
    """results.json, table.md, table.tex, the figures and report.html."""
    plan = outcome.plan
    settings = {Path(unit.folder).name: unit.settings.as_dict() for unit in plan.units}
    facts = {"experiment": plan.experiment.name, "scale": plan.scale.name, "settings": settings}
    write_results(folder / "results.json", results(outcome), **facts)
    drawn = {
        shown.name: save_figure(shown.drawn.figure, folder / shown.name)[0]
        for shown in outcome.pictures
    }
    texts = {
        "table.md": _markdown(outcome),
        "table.tex": _latex(outcome),
        "report.html": _html(outcome, drawn),
    }
    for name, text in texts.items():
        write_bytes(folder / name, text.encode(errors="backslashreplace"))


def tables(outcome: ExperimentResult) -> dict[str, TableRows]:
    """The tables by their titles; of an experiment without columns, the numbers of its pictures."""
    if not outcome.beside.columns:
        return {p.title: number_lines(p.drawn.numbers) for p in outcome.pictures if p.drawn.numbers}
    found = {"Accuracy, %": accuracy_lines(outcome.beside)}
    if len(outcome.beside.models) > 1:
        found["Paired differences of accuracy, % points"] = paired_lines(
            outcome.beside, "accuracy", 100
        )
        found["Paired differences of NLL"] = paired_lines(outcome.beside, "nll")
    return found | {"Details": detail_lines(outcome.beside)}


def _markdown(outcome: ExperimentResult) -> str:
    text = [f"# {outcome.plan.experiment.title}"]
    for title, lines in tables(outcome).items():
        text += [f"{title}:", markdown(lines).strip()]
    text += outcome.notes
    text += [f"![{p.title}]({p.name}.png)" for p in outcome.pictures]
    return "\n\n".join(text) + "\n"


def _latex(outcome: ExperimentResult) -> str:
    title, notes = outcome.plan.experiment.title, [outcome.caption]  # the first table has them
    return "\n".join(
        latex(lines, " ".join([f"{title}. {name}.", *(notes if not place else [])]))
        for place, (name, lines) in enumerate(tables(outcome).items())
    )


def _html(outcome: ExperimentResult, drawn: Mapping[str, Path]) -> str:
    body = [f"<h2>{escape(title)}</h2>{html(lines)}" for title, lines in tables(outcome).items()]
    body += [f"<p>{escape(note)}</p>" for note in outcome.notes]
    for shown in outcome.pictures:
        body.append(plot(shown.title, drawn[shown.name].read_bytes()))
        if shown.drawn.numbers:
            body.append(
                f"<details><summary>Numbers</summary>{html(number_lines(shown.drawn.numbers))}</details>"
            )
    return page(outcome.plan.experiment.title, "\n".join(body))
