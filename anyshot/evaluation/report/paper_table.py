"""Our numbers beside the paper's: one table, as Markdown, LaTeX, HTML or on the screen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import NamedTuple

from anyshot.core._rich import Table, Text, box
from anyshot.evaluation.metrics import PairedDifference, Summary
from anyshot.evaluation.report.html import table as html_table
from anyshot.evaluation.report.tables import percent, with_interval


@dataclass(frozen=True)
class Cell:
    """A model in a column."""

    summary: Summary | None  #: None where its run failed
    paper: tuple[float, float] | None = None  #: accuracy and interval in %
    ahead: PairedDifference | None = (
        None  #: the model that others are compared with, minus this one
    )
    best: bool = False  #: ahead of every other by more than the paired interval


@dataclass(frozen=True)
class PaperComparison:
    """Models and columns, and what came out."""

    models: tuple[str, ...]
    columns: tuple[str, ...]
    cells: Mapping[tuple[str, int], Cell]  #: by model and column
    reference: str  #: the model that others are compared with


class TableCell(NamedTuple):
    """A cell's text."""

    text: str
    bold: bool = False


TableRows = list[list[TableCell]]  #: the heading first, then a line for each model


def accuracy_lines(beside: PaperComparison) -> TableRows:
    """Accuracy with its interval and, where there is one, the paper's and the difference; in %."""
    with_paper = [
        any(beside.cells[model, place].paper for model in beside.models)
        for place in range(len(beside.columns))
    ]
    heading = [TableCell("")]
    for column, paper in zip(beside.columns, with_paper, strict=True):
        heading += [
            TableCell(column),
            *([TableCell("paper"), TableCell("difference")] if paper else []),
        ]
    lines = [heading]
    for model in beside.models:
        line = [TableCell(model)]
        for place, paper in enumerate(with_paper):
            cell = beside.cells[model, place]
            line.append(TableCell(_accuracy(cell.summary), cell.best))
            line += [TableCell(_published(cell)), TableCell(_difference(cell))] if paper else []
        lines.append(line)
    return lines


def paired_lines(beside: PaperComparison, what: str = "accuracy", times: float = 1.0) -> TableRows:
    """The accuracy or NLL of the model that others are compared with, minus that of each of them, task by task. Bold
    where the interval excludes zero."""
    lines = [
        [TableCell(f"{beside.reference} minus"), *(TableCell(column) for column in beside.columns)]
    ]
    for model in beside.models:
        if model != beside.reference:
            cells = [beside.cells[model, place].ahead for place in range(len(beside.columns))]
            lines.append([TableCell(model), *(_ahead(paired, what, times) for paired in cells)])
    return lines


def detail_lines(beside: PaperComparison) -> TableRows:
    """NLL, calibration, the worst class, and accuracy by shots."""
    some = [cell.summary for cell in beside.cells.values() if cell.summary]
    ranges = [
        name
        for name in (some[0].by_shots if some else ())
        if any(s.by_shots[name] is not None for s in some)
    ]
    shots = [f"{name.replace('-', '–')} shot{'s' if name != '1' else ''}" for name in ranges]
    lines = [
        [
            TableCell(word)
            for word in ("", "images", "NLL", "ECE", "worst class", *shots, "tasks", "runs")
        ]
    ]
    for place, column in enumerate(beside.columns):
        for model in beside.models:
            if s := beside.cells[model, place].summary:
                by_shots = [s.by_shots[name] for name in ranges]
                numbers = [
                    f"{100 * s.ece:.1f}",
                    f"{100 * s.worst_class:.1f}",
                    *map(percent, by_shots),
                ]
                cells = [model, column, f"{s.nll:.3f}", *numbers, str(s.tasks), str(s.runs)]
                lines.append([TableCell(cell) for cell in cells])
    return lines


def excludes_zero(paired: PairedDifference | None, what: str = "accuracy") -> bool:
    """Whether a difference is larger than its interval."""
    if paired is None or (interval := getattr(paired, f"{what}_interval")) is None:
        return False
    return bool(abs(getattr(paired, what)) > interval)


# ---------------------------------------------------------------------------------------------------- forms
def markdown(lines: TableRows) -> str:
    """A table as GitHub shows it."""
    rows = [
        "| " + " | ".join(f"**{t.text}**" if t.bold else t.text for t in line) + " |"
        for line in lines
    ]
    return "\n".join([rows[0], "|" + "---|" + "--:|" * (len(lines[0]) - 1), *rows[1:]]) + "\n"


def latex(lines: TableRows, caption: str) -> str:
    """A table for a paper, with booktabs."""
    rows = [
        " & ".join(f"\\textbf{{{_tex(t.text)}}}" if t.bold else _tex(t.text) for t in line) + r" \\"
        for line in lines
    ]
    body = "\n".join([r"\toprule", rows[0], r"\midrule", *rows[1:], r"\bottomrule"])
    columns = "l" + "r" * (len(lines[0]) - 1)
    return (
        "\\begin{table}\n\\centering\n\\small\n"
        f"\\begin{{tabular}}{{{columns}}}\n{body}\n\\end{{tabular}}\n\\caption{{{_tex(caption)}}}\n\\end{{table}}\n"
    )


def html(lines: TableRows) -> str:
    """A table for a page."""
    cells = [
        [f"<b>{escape(t.text)}</b>" if t.bold else escape(t.text) for t in line] for line in lines
    ]
    return html_table(cells[0], cells[1:])


def rich_table(lines: TableRows, title: str) -> Table:
    """A table for the screen."""
    table = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1), show_edge=False)
    for place, heading in enumerate(lines[0]):
        table.add_column(heading.text, justify="right" if place else "left")
    for line in lines[1:]:
        table.add_row(*(Text(t.text, style="bold" if t.bold else "") for t in line))
    return table


_TEX = {"±": r"$\pm$", "−": "$-$", "–": "--", "ω": r"$\omega$", "γ": r"$\gamma$", "θ": r"$\theta$", "×": r"$\times$",
        "&": r"\&", "%": r"\%", "_": r"\_", "#": r"\#", "…": r"\dots{}", "\u2113": r"$\ell$", "∗": "$*$",
        "→": r"$\to$", "\\": r"\textbackslash{}", "$": r"\$", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}"}  # fmt: skip


def _tex(text: str) -> str:
    return "".join(_TEX.get(character, character) for character in text)


def _accuracy(summary: Summary | None) -> str:
    return (
        "–"
        if summary is None
        else with_interval(f"{100 * summary.accuracy:.2f}", summary.interval, 100, 2)
    )


def _published(cell: Cell) -> str:
    return f"{cell.paper[0]:.2f} ± {cell.paper[1]:.2f}" if cell.paper else "–"


def _difference(cell: Cell) -> str:
    return (
        _signed(100 * cell.summary.accuracy - cell.paper[0]) if cell.paper and cell.summary else "–"
    )


def _ahead(paired: PairedDifference | None, what: str, times: float) -> TableCell:
    if paired is None:
        return TableCell("–")
    value, interval = getattr(paired, what), getattr(paired, f"{what}_interval")
    digits = 2 if what == "accuracy" else 3
    return TableCell(
        with_interval(_signed(times * value, digits), interval, times, digits),
        excludes_zero(paired, what),
    )


def _signed(value: float, digits: int = 2) -> str:
    """With its sign; nothing is +0.00, from whichever side."""
    return f"{round(value, digits) + 0.0:+.{digits}f}"
