"""Tables of results for the terminal."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from anyshot.core._rich import Console, Table, box
from anyshot.evaluation.metrics import SHOTS, Summary

if TYPE_CHECKING:
    from anyshot.evaluation.compare_runs import ResultRow
    from anyshot.runs.run import Run


def describe_tasks(runs: Sequence[Run], notes: Sequence[str] = ()) -> str:
    """Describe the tasks in words: 5-way any-shot:1-50, 15 query images per class, transductive.

    ``notes`` are the warnings about classes that are too small. If there are any, the text says
    that the shots were requested; the table's caption then says what was drawn.
    """
    way, shots, query = dataclasses.astuple(runs[0].settings.task)
    names = {True: "transductive", False: "inductive"}
    runs_by_mode: dict[bool, list[str]] = {}
    for run in runs:
        runs_by_mode.setdefault(run.settings.method.transductive, []).append(run.folder.name)
    modes = [
        names[mode] + (f" ({', '.join(of_mode)})" if len(runs_by_mode) > 1 else "")
        for mode, of_mode in runs_by_mode.items()
    ]
    requested = "requested " if notes else ""
    return f"{way}-way {requested}{shots}, {query} query images per class, {', '.join(modes)}"


def summary_table(rows: Sequence[ResultRow], title: str | None = None) -> Table:
    """A table with one line for each row, in per cent except NLL and speed.

    Ranges of shots that do not occur are left out. The last lines show the number of query images
    of each range.
    """
    ranges = [name for name in SHOTS if any(row.summary.by_shots[name] is not None for row in rows)]
    table = _table(rows, title, _caption(rows))
    shots = [f"{format_range(name)}\nshot{'s' if name != '1' else ''}" for name in ranges]
    extra = list(rows[0].summary.extra) if rows else []
    for header in ("accuracy", "NLL", "ECE", "worst\nclass", *extra, *shots, "tasks\n/s"):
        table.add_column(header, justify="right", no_wrap=True)
    for row in rows:
        s = row.summary
        extra_cells = [
            with_interval(f"{s.extra[name]:.3f}", s.extra_intervals[name], 1, 3) for name in extra
        ]
        cells = [
            with_interval(f"{100 * s.accuracy:.1f}", s.interval, 100, 1),
            f"{s.nll:.2f}",
            percent(s.ece),
            percent(s.worst_class),
            *extra_cells,
            *(percent(s.by_shots[name]) for name in ranges),
            "–" if s.tasks_per_second is None else f"{s.tasks_per_second:.1f}",
        ]
        table.add_row(*_names(rows, row), *cells)
    table.add_section()
    lines = [_query_counts(rows, row, ranges) for row in rows if row.summary.scores]
    for line in dict.fromkeys(lines):
        table.add_row(*line)
    return table


def _query_counts(
    rows: Sequence[ResultRow], row: ResultRow, ranges: Sequence[str]
) -> tuple[str, ...]:
    """The line with the number of query images of each range of shots."""
    labels = zip(_columns(rows), _names(rows, row), strict=True)
    names = [name if label == "images" else "" for label, name in labels]
    empty = [""] * (3 + len(row.summary.extra))
    counts = [row.summary.queries_by_shots[name] for name in ranges]
    texts = [str(n) if n < 100_000 else f"{n / 1000:.0f}k" for n in counts]
    return (*names, *empty, "n =", *texts)


def paired_table(rows: Sequence[ResultRow]) -> Table | None:
    """The paired difference of each row to the first run; None if there is no difference."""
    others = [row for row in rows if row.paired]
    if not others:
        return None
    seeds = " and seeds" if max(row.summary.runs for row in rows) > 1 else ""
    caption = f"In percentage points, on the same tasks; 95 % intervals over tasks{seeds}."
    table = _table(others, f"Difference to {others[0].paired_to}, task by task", caption)
    for header in ("accuracy", "NLL", "tasks"):
        table.add_column(header, justify="right", no_wrap=True)
    for row in others:
        if p := row.paired:
            accuracy = with_interval(f"{100 * p.accuracy:+.1f}", p.accuracy_interval, 100, 1)
            nll = with_interval(f"{p.nll:+.3f}", p.nll_interval, 1, 3)
            table.add_row(*_names(others, row), accuracy, nll, str(p.tasks))
    return table


def _table(rows: Sequence[ResultRow], title: str | None, caption: str) -> Table:
    """A table that has only the columns of the labels yet."""
    table = Table(title=title, box=box.SIMPLE_HEAD, padding=0, show_edge=False, caption=caption)
    for name in _columns(rows):
        table.add_column(name, no_wrap=True)
    return table


def _columns(rows: Sequence[ResultRow]) -> list[str]:
    """Names of the label columns; "run" is left out if every run has the name of its method."""
    same = all(row.labels["run"] == row.labels["method"] for row in rows)
    return ["method", "images"] if same else ["run", "method", "images"]


def _names(rows: Sequence[ResultRow], row: ResultRow) -> list[str]:
    """The label cells of a row."""
    return [row.labels[name] for name in _columns(rows)]


def _caption(rows: Sequence[ResultRow]) -> str:
    """How many tasks and images were drawn, which data sets are incomplete, what columns mean."""
    single = [row for row in rows if row.summary.scores]
    counts = sorted({row.summary.tasks for row in single})
    tasks = f"{' or '.join(map(str, counts))} task{'s' if counts != [1] else ''} each"
    runs = max(row.summary.runs for row in rows)
    if runs > 1:
        tasks += f", intervals over tasks and up to {runs} seeds"
    sets_by_size: dict[str, list[str]] = {}
    for row in single:
        sets_by_size.setdefault(_class_sizes(row.summary), []).append(row.images)
    sizes = [
        size + (f" ({', '.join(dict.fromkeys(names))})" if len(sets_by_size) > 1 else "")
        for size, names in sets_by_size.items()
    ]
    sentences = [f"{tasks}.", f"Images per class: {'; '.join(sizes)}."]
    sentences += describe_parts(rows)
    sentences.append("Accuracies and ECE in %; n: number of query images.")
    failed = sum(row.summary.failed for row in single)
    if failed:
        sentences.append(f"{failed} tasks had predictions that were not finite and count as wrong.")
    return " ".join(sentences)


def describe_parts(rows: Sequence[ResultRow]) -> list[str]:
    """A sentence for each image set that is only a part of the published one."""
    return list(dict.fromkeys(f"{row.images}: {row.part}." for row in rows if row.part))


def _class_sizes(s: Summary) -> str:
    """The numbers of support and query images per class that were drawn."""
    support = _span(s.support_least, s.support_most)
    if s.support_least < s.support_most:
        support += f" support (mean {s.support_mean:.1f})"
    else:
        support += " support"
    return f"{support}, {_span(s.query_least, s.query_most)} query"


def _span(least: int, most: int) -> str:
    return str(least) if least == most else f"{least}–{most}"


def print_tables(*tables: Table) -> None:
    """Print tables to standard output, at full width if that is a file or a pipe.

    Square brackets in names (a run's folder may be called [/b]) are not read as markup.
    """
    console = Console(markup=False)
    if not console.is_terminal:
        unlimited = console.options.update(width=10_000)
        widths = [console.measure(table, options=unlimited).maximum for table in tables]
        console.width = max([console.width, *widths])
    for index, table in enumerate(tables):
        console.print(*([""] if index else []), table)


def with_interval(text: str, interval: float | None, scale: float, digits: int) -> str:
    """A number with ± the half-width of its interval, if it has one."""
    return text if interval is None else f"{text} ± {scale * interval:.{digits}f}"


def percent(value: float | None) -> str:
    """A fraction in per cent with one digit; a dash for None."""
    return "–" if value is None else f"{100 * value:.1f}"


def format_range(size: str) -> str:
    """A range of sizes with a typographic dash: 2–5."""
    return size.replace("-", "–")
