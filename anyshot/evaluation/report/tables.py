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
    """One line for each row; per cent, except NLL and speed. Ranges of shots that never occur are left out."""
    ranges = [name for name in SHOTS if any(row.summary.by_shots[name] is not None for row in rows)]
    table = _table(rows, title, _caption(rows))
    shots = [f"{dashed(name)}\nshot{'s' if name != '1' else ''}" for name in ranges]
    more = list(rows[0].summary.extra) if rows else []
    for header in ("accuracy", "NLL", "ECE", "worst\nclass", *more, *shots, "tasks\n/s"):
        table.add_column(header, justify="right", no_wrap=True)
    for row in rows:
        s = row.summary
        cells = [
            with_interval(f"{100 * s.accuracy:.1f}", s.interval, 100, 1),
            f"{s.nll:.2f}",
            percent(s.ece),
            percent(s.worst_class),
            *(
                with_interval(f"{s.extra[name]:.3f}", s.extra_intervals[name], 1, 3)
                for name in more
            ),
            *(percent(s.by_shots[name]) for name in ranges),
            "–" if s.tasks_per_second is None else f"{s.tasks_per_second:.1f}",
        ]
        table.add_row(*_names(rows, row), *cells)
    table.add_section()
    for line in dict.fromkeys(_behind(rows, row, ranges) for row in rows if row.summary.scores):
        table.add_row(*line)
    return table


def _behind(rows: Sequence[ResultRow], row: ResultRow, ranges: Sequence[str]) -> tuple[str, ...]:
    """The line that tells how many query images stand behind each column of shots."""
    names = [
        name if label == "images" else ""
        for label, name in zip(_columns(rows), _names(rows, row), strict=True)
    ]
    counts = (row.summary.queries_by_shots[name] for name in ranges)
    empty = [""] * (3 + len(row.summary.extra))
    return (*names, *empty, "n =", *(str(n) if n < 100_000 else f"{n / 1000:.0f}k" for n in counts))


def paired_table(rows: Sequence[ResultRow]) -> Table | None:
    """The difference of each row to the first run on the same tasks, if there is any."""
    others = [row for row in rows if row.paired]
    if not others:
        return None
    runs = max(row.summary.runs for row in rows)
    caption = f"In per cent points, on the same tasks; 95 % intervals over tasks{' and seeds' if runs > 1 else ''}."
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
    table = Table(title=title, box=box.SIMPLE_HEAD, padding=0, show_edge=False, caption=caption)
    for name in _columns(rows):
        table.add_column(name, no_wrap=True)
    return table


def _columns(rows: Sequence[ResultRow]) -> list[str]:
    """A run that is called like its method needs no column."""
    same = all(row.labels["run"] == row.labels["method"] for row in rows)
    return ["method", "images"] if same else ["run", "method", "images"]


def _names(rows: Sequence[ResultRow], row: ResultRow) -> list[str]:
    return [row.labels[name] for name in _columns(rows)]


def _caption(rows: Sequence[ResultRow]) -> str:
    """What was drawn, which may be less than what was asked for, and what the columns mean."""
    single = [row for row in rows if row.summary.scores]
    counts = sorted({row.summary.tasks for row in single})
    tasks = f"{' or '.join(map(str, counts))} task{'s' if counts != [1] else ''} each"
    runs = max(row.summary.runs for row in rows)
    if runs > 1:
        tasks += f", intervals over tasks and up to {runs} seeds"
    drawn: dict[str, list[str]] = {}
    for row in single:
        drawn.setdefault(_drawn(row.summary), []).append(row.images)
    sets = [
        text + (f" ({', '.join(dict.fromkeys(names))})" if len(drawn) > 1 else "")
        for text, names in drawn.items()
    ]
    text = f"{tasks}. Images of a class: {'; '.join(sets)}. Accuracies and ECE in %; n: query images behind a column."
    failed = sum(row.summary.failed for row in single)
    return text + (
        f" {failed} tasks had predictions that were not finite; they count as wrong."
        if failed
        else ""
    )


def _drawn(s: Summary) -> str:
    def span(least: int, most: int) -> str:
        return str(least) if least == most else f"{least}–{most}"

    average = f" (mean {s.support_mean:.1f})" if s.support_least < s.support_most else ""
    return f"{span(s.support_least, s.support_most)} support{average}, {span(s.query_least, s.query_most)} query"


def print_tables(*tables: Table) -> None:
    """Print to standard output; into a file or pipe at full width, since there is no edge to wrap at. Names in them are
    not markup: a run's folder may be called [/b]."""
    console = Console(markup=False)
    if not console.is_terminal:
        needed = (
            console.measure(table, options=console.options.update(width=10_000)).maximum
            for table in tables
        )
        console.width = max(console.width, *needed)
    for place, table in enumerate(tables):
        console.print(*([""] if place else []), table)


def with_interval(text: str, interval: float | None, scale: float, digits: int) -> str:
    """A number and the half-width of its interval, where it has one."""
    return text if interval is None else f"{text} ± {scale * interval:.{digits}f}"


def percent(value: float | None) -> str:
    """A fraction in per cent with one digit; a dash for None."""
    return "–" if value is None else f"{100 * value:.1f}"


def dashed(size: str) -> str:
    """A range of sizes for people: 2–5."""
    return size.replace("-", "–")
