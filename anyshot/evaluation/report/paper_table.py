"""Tables that compare our numbers with the paper's: Markdown, LaTeX, HTML, terminal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import NamedTuple

from anyshot.core._rich import Table, Text, box
from anyshot.evaluation.metrics import SHOTS, PairedDifference, Summary
from anyshot.evaluation.report.html import table as html_table
from anyshot.evaluation.report.tables import format_range, percent, with_interval


@dataclass(frozen=True)
class Cell:
    """The result of one model in one column."""

    summary: Summary | None  #: None if its run failed
    paper: tuple[float, float | None] | None = None  #: accuracy and interval in %
    ahead: PairedDifference | None = None  #: the reference model minus this one
    best: bool = False  #: better than every other model by more than the paired interval
    gain: PairedDifference | None = None  #: this model minus its base


@dataclass(frozen=True)
class PaperComparison:
    """The results of several models in several columns."""

    models: tuple[str, ...]
    columns: tuple[str, ...]
    cells: Mapping[tuple[str, int], Cell]  #: by model and number of the column
    reference: str  #: the model that the others are compared with


class TableCell(NamedTuple):
    """The text of a cell."""

    text: str
    bold: bool = False


TableRows = list[list[TableCell]]  #: the heading, then one row for each model


def accuracy_lines(comparison: PaperComparison) -> TableRows:
    """Accuracy with its interval in %, and the paper's accuracy with the difference if known."""
    columns = range(len(comparison.columns))
    cells = comparison.cells
    in_paper = [any(cells[model, c].paper for model in comparison.models) for c in columns]
    heading = [TableCell("")]
    for c in columns:
        heading.append(TableCell(comparison.columns[c]))
        heading += [TableCell("paper"), TableCell("difference")] if in_paper[c] else []
    rows = [heading]
    for model in comparison.models:
        row = [TableCell(model)]
        for c in columns:
            cell = cells[model, c]
            row.append(TableCell(_format_accuracy(cell.summary), cell.best))
            if in_paper[c]:
                row += [TableCell(_format_published(cell)), TableCell(_format_difference(cell))]
        rows.append(row)
    return rows


def paired_lines(
    comparison: PaperComparison, what: str = "accuracy", times: float = 1.0
) -> TableRows:
    """The reference model minus each other model, task by task.

    ``what`` is "accuracy" or "nll", ``times`` a factor for all numbers. Cells are bold if the
    interval excludes zero.
    """
    heading = [f"{comparison.reference} minus", *comparison.columns]
    rows = [[TableCell(text) for text in heading]]
    for model in comparison.models:
        if model != comparison.reference:
            paired = [comparison.cells[model, c].ahead for c in range(len(comparison.columns))]
            rows.append(
                [
                    TableCell(model),
                    *(_paired_cell(difference, what, times) for difference in paired),
                ]
            )
    return rows


def gain_lines(comparison: PaperComparison) -> TableRows:
    """The accuracy of each model that has a base minus the base's, task by task, in % points."""
    columns = range(len(comparison.columns))
    rows = [[TableCell(text) for text in ("", *comparison.columns)]]
    for model in comparison.models:
        gains = [comparison.cells[model, c].gain for c in columns]
        if any(gains):
            cells = [_paired_cell(gain, "accuracy", 100) for gain in gains]
            rows.append([TableCell(model), *cells])
    return rows


def detail_lines(comparison: PaperComparison) -> TableRows:
    """NLL, ECE, worst class and accuracy by shots, one row for each column and model."""
    summaries = [cell.summary for cell in comparison.cells.values() if cell.summary]
    ranges = [name for name in SHOTS if any(s.by_shots[name] is not None for s in summaries)]
    shots = [f"{format_range(name)} shot{'s' if name != '1' else ''}" for name in ranges]
    heading = ["", "images", "NLL", "ECE", "worst class", *shots, "tasks", "runs"]
    rows = [[TableCell(text) for text in heading]]
    for c, column in enumerate(comparison.columns):
        for model in comparison.models:
            if s := comparison.cells[model, c].summary:
                shares = [s.ece, s.worst_class, *(s.by_shots[name] for name in ranges)]
                numbers = [f"{s.nll:.3f}", *map(percent, shares), str(s.tasks), str(s.runs)]
                rows.append([TableCell(text) for text in (model, column, *numbers)])
    return rows


def excludes_zero(paired: PairedDifference | None, what: str = "accuracy") -> bool:
    """Whether a difference is larger than the half-width of its interval."""
    if paired is None or (interval := getattr(paired, f"{what}_interval")) is None:
        return False
    return bool(abs(getattr(paired, what)) > interval)


def markdown(lines: TableRows) -> str:
    """The table in Markdown."""
    rows = [
        "| " + " | ".join(f"**{t.text}**" if t.bold else t.text for t in line) + " |"
        for line in lines
    ]
    return "\n".join([rows[0], "|" + "---|" + "--:|" * (len(lines[0]) - 1), *rows[1:]]) + "\n"


def latex(lines: TableRows, caption: str) -> str:
    """The table in LaTeX, with booktabs."""
    rows = [
        " & ".join(f"\\textbf{{{_tex(t.text)}}}" if t.bold else _tex(t.text) for t in line) + r" \\"
        for line in lines
    ]
    body = "\n".join([r"\toprule", rows[0], r"\midrule", *rows[1:], r"\bottomrule"])
    columns = "l" + "r" * (len(lines[0]) - 1)
    return (
        "\\begin{table}\n\\centering\n\\small\n"
        f"\\begin{{tabular}}{{{columns}}}\n{body}\n\\end{{tabular}}\n"
        f"\\caption{{{_tex(caption)}}}\n\\end{{table}}\n"
    )


def html(lines: TableRows) -> str:
    """The table in HTML."""
    cells = [
        [f"<b>{escape(t.text)}</b>" if t.bold else escape(t.text) for t in line] for line in lines
    ]
    return html_table(cells[0], cells[1:])


def rich_table(lines: TableRows, title: str) -> Table:
    """The table for the terminal."""
    table = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1), show_edge=False)
    for index, heading in enumerate(lines[0]):
        table.add_column(heading.text, justify="right" if index else "left")
    for line in lines[1:]:
        table.add_row(*(Text(t.text, style="bold" if t.bold else "") for t in line))
    return table


_TEX = {
    "±": r"$\pm$",
    "−": "$-$",
    "–": "--",
    "ω": r"$\omega$",
    "γ": r"$\gamma$",
    "θ": r"$\theta$",
    "×": r"$\times$",
    "∗": "$*$",
    "→": r"$\to$",
    "\u2113": r"$\ell$",
    "…": r"\dots{}",
    "&": r"\&",
    "%": r"\%",
    "_": r"\_",
    "#": r"\#",
    "$": r"\$",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "\\": r"\textbackslash{}",
}


def _tex(text: str) -> str:
    return "".join(_TEX.get(character, character) for character in text)


def _format_accuracy(summary: Summary | None) -> str:
    if summary is None:
        return "–"
    return with_interval(f"{100 * summary.accuracy:.2f}", summary.interval, 100, 2)


def _format_published(cell: Cell) -> str:
    if not cell.paper:
        return "–"
    accuracy, interval = cell.paper
    return f"{accuracy:g}" if interval is None else f"{accuracy:.2f} ± {interval:.2f}"


def _format_difference(cell: Cell) -> str:
    if not cell.paper or not cell.summary:
        return "–"
    return _format_signed(100 * cell.summary.accuracy - cell.paper[0])


def _paired_cell(paired: PairedDifference | None, what: str, times: float) -> TableCell:
    if paired is None:
        return TableCell("–")
    value, interval = getattr(paired, what), getattr(paired, f"{what}_interval")
    digits = 2 if what == "accuracy" else 3
    text = with_interval(_format_signed(times * value, digits), interval, times, digits)
    return TableCell(text, excludes_zero(paired, what))


def _format_signed(value: float, digits: int = 2) -> str:
    """A number with its sign; a number that rounds to zero is +0.00."""
    return f"{round(value, digits) + 0.0:+.{digits}f}"
