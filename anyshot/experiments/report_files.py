"""The files of an experiment: results.json, table.md, table.tex, figures and report.html."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path

from anyshot.core.files import write_bytes
from anyshot.evaluation.report.experiment_figures import number_lines
from anyshot.evaluation.report.html import page, plot
from anyshot.evaluation.report.paper_table import (
    TableRows,
    accuracy_lines,
    detail_lines,
    gain_lines,
    html,
    latex,
    markdown,
    paired_lines,
)
from anyshot.evaluation.report.result_files import write_results
from anyshot.evaluation.report.style import save_figure
from anyshot.experiments.results import ExperimentResult, results_as_dict


def write_report(result: ExperimentResult, folder: Path) -> None:
    """Write all files of an experiment into a folder."""
    plan = result.plan
    settings = {Path(job.folder).name: job.settings.as_dict() for job in plan.jobs}
    facts = {"experiment": plan.experiment.name, "scale": plan.scale.name, "settings": settings}
    write_results(folder / "results.json", results_as_dict(result), **facts)
    images = {
        figure.name: save_figure(figure.image, folder / figure.name)[0] for figure in result.figures
    }
    texts = {
        "table.md": markdown_page(result),
        "table.tex": latex_page(result),
        "report.html": _html(result, images),
    }
    for name, text in texts.items():
        write_bytes(folder / name, text.encode(errors="backslashreplace"))


def tables(result: ExperimentResult) -> dict[str, TableRows]:
    """The tables by title; an experiment without columns has the numbers of its figures."""
    comparison = result.comparison
    if not comparison.columns:
        return {f.title: number_lines(f.numbers) for f in result.figures if f.numbers}
    by_title = {"Accuracy, %": accuracy_lines(comparison)}
    if len(comparison.models) > 1:
        by_title["Paired differences of accuracy, % points"] = paired_lines(
            comparison, "accuracy", 100
        )
        by_title["Paired differences of NLL"] = paired_lines(comparison, "nll")
    if any(cell.gain for cell in comparison.cells.values()):
        title = "Gain in accuracy over the same method without the change, % points"
        by_title[title] = gain_lines(comparison)
    return by_title | {"Details": detail_lines(comparison)}


def markdown_page(result: ExperimentResult) -> str:
    """All tables with the notes and links to the figures."""
    paragraphs = [f"# {result.plan.experiment.title}"]
    for title, rows in tables(result).items():
        paragraphs += [f"{title}:", markdown(rows).strip()]
    paragraphs += result.notes
    paragraphs += [f"![{figure.title}]({figure.name}.png)" for figure in result.figures]
    return "\n\n".join(paragraphs) + "\n"


def latex_page(result: ExperimentResult) -> str:
    """The tables; the caption is that of the first."""
    texts = []
    for number, (name, rows) in enumerate(tables(result).items()):
        caption = f"{result.plan.experiment.title}. {name}."
        texts.append(latex(rows, caption if number else f"{caption} {result.caption_paragraph}"))
    return "\n".join(texts)


def _html(result: ExperimentResult, images: Mapping[str, Path]) -> str:
    body = [f"<h2>{escape(title)}</h2>{html(rows)}" for title, rows in tables(result).items()]
    body += [f"<p>{escape(note)}</p>" for note in result.notes]
    for figure in result.figures:
        body.append(plot(figure.title, images[figure.name].read_bytes()))
        if figure.numbers:
            numbers = html(number_lines(figure.numbers))
            body.append(f"<details><summary>Numbers</summary>{numbers}</details>")
    return page(result.plan.experiment.title, "\n".join(body))
