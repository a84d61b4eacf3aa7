"""One command for an experiment: train what is missing, reuse what is there, test, tabulate, draw, write."""

from __future__ import annotations

from dataclasses import dataclass, replace
from html import escape
from pathlib import Path

from anyshot.experiments.design import Experiment
from anyshot.experiments.grid import run_units
from anyshot.experiments.outcome import Outcome, gathered, results
from anyshot.experiments.plan import Plan, planned
from anyshot.experiments.scales import SHORT, Data, Scale, scale_of
from anyshot.experiments.situate import chosen, on_data, with_ready
from anyshot.files import write_bytes
from anyshot.lists import EXPERIMENTS
from anyshot.report.beside import accuracy_lines, detail_lines, html, latex, markdown, paired_lines
from anyshot.report.contact import page, picture
from anyshot.report.figures import save_figure
from anyshot.report.tables import write_results


@dataclass(frozen=True)
class Request:
    """Which experiment, how much of it, and on what."""

    experiment: Experiment
    scale: str = "short"
    out: Path = Path("runs/reproduce")
    data: Data | None = None  #: instead of the experiment's image sets
    columns: tuple[str, ...] = ()  #: image sets whose columns are wanted; none: all
    recipe: str | None = None  #: "paper": from the paper's start, "anyshot": from a warm start; None: the scale's own
    start: str | None = None  #: a warm start that is there already
    seeds: int | None = None
    tasks: int | None = None
    iterations: int | None = None

    @property
    def folder(self) -> Path:
        """For what comes out."""
        sets = (*self.data.learned, *self.data.others) if self.data else self.columns
        return self.out / "-".join([self.experiment.name, self.scale, *(Path(name).name for name in sets)])


def find_experiment(name: str) -> Experiment:
    """An experiment by its name, by its file, or by its place in one."""
    return EXPERIMENTS[f"{name}:EXPERIMENT" if name.endswith(".py") else name]


def scaled(request: Request) -> Scale:
    """The scale, with what was asked for besides."""
    scale = scale_of(request.scale)
    if request.recipe == "paper":
        scale = replace(scale, warm=False, method={} if scale.warm else scale.method, methods={})
    elif request.recipe == "anyshot":
        scale = replace(scale, warm=True, method={**SHORT.method, **scale.method}, methods=SHORT.methods)
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
        experiment = on_data(experiment, data)
        names = ", ".join((*data.learned, *data.others))
        notes.append(f"On {names} instead of the paper's images, so there are no numbers of the paper to stand beside.")
    if request.columns:
        experiment = chosen(experiment, request.columns)
    experiment, missing = with_ready(experiment)
    return planned(experiment, scale, request.out, request.start), [*notes, *missing]


def reproduce(
    request: Request,
    jobs: int | None = None,
    workers: int | None = None,
    command: str = "",
    on: str = "local",
    address: str | None = None,
) -> Outcome:
    """The whole experiment; what was done before is not done again. ``jobs``, ``on`` and ``address`` are those of
    :func:`anyshot.grid.run_grid`."""
    plan, notes = plan_of(request)
    title = f"{plan.experiment.name}, {plan.scale.name}"
    failures = run_units(plan.units, jobs, workers, command, title, on, address)
    outcome = gathered(plan, failures, notes)
    write(outcome, request.folder)
    return outcome


def write(outcome: Outcome, folder: Path) -> None:
    """results.json, table.md, table.tex, the figures and report.html."""
    title = outcome.plan.experiment.title
    tables = [("Accuracy", accuracy_lines(outcome.beside)), ("Paired differences", paired_lines(outcome.beside))]
    tables = [(name, lines) for name, lines in tables if len(lines) > 1]
    settings = {unit.folder: unit.settings.as_dict() for unit in outcome.plan.units}
    write_results(folder / "results.json", results(outcome), experiment=outcome.plan.experiment.name,
                  scale=outcome.plan.scale.name, settings=settings)  # fmt: skip
    text = [f"# {title}\n", *(f"{markdown(lines)}" for _, lines in tables), outcome.caption + "\n"]
    text += [f"![{title}]({name}.png)\n" for name, title, _ in outcome.figures]
    write_bytes(folder / "table.md", "\n".join(text).encode())
    tex = "\n".join(latex(lines, f"{title}. {outcome.caption}" if not place else f"{title}: {name.lower()}.")
                    for place, (name, lines) in enumerate(tables))  # fmt: skip
    write_bytes(folder / "table.tex", tex.encode())
    body = [f"<h2>{name}</h2>{html(lines)}" for name, lines in [*tables, ("Details", detail_lines(outcome.beside))]]
    body.insert(1, "".join(f"<p>{escape(note)}</p>" for note in outcome.notes))
    for name, caption, figure in outcome.figures:
        png, _ = save_figure(figure, folder / name)
        body.append(picture(caption, png.read_bytes()))
    write_bytes(folder / "report.html", page(title, "\n".join(body)).encode())
