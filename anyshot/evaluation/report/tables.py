"""Tables on the screen, and the same numbers as CSV and JSON with their origin."""

from __future__ import annotations

import csv
import dataclasses
import io
import os
import platform
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table

from anyshot.core.files import PathLike, write_bytes, write_json
from anyshot.evaluation.metrics import SHOTS, PairedDifference, Summary

if TYPE_CHECKING:
    from anyshot.evaluation.compare_runs import ResultRow


def summary_table(rows: Sequence[ResultRow], title: str | None = None) -> Table:
    """One line for each row; per cent, except NLL and speed. Ranges of shots that never occur are left out."""
    ranges = [name for name in SHOTS if any(row.summary.by_shots[name] is not None for row in rows)]
    table = _table(rows, title, _caption(rows))
    shots = [f"{dashed(name)}\nshot{'s' if name != '1' else ''}" for name in ranges]
    more = list(rows[0].summary.more) if rows else []
    for header in ("accuracy", "NLL", "ECE", "worst\nclass", *more, *shots, "tasks\n/s"):
        table.add_column(header, justify="right", no_wrap=True)
    for row in rows:
        s = row.summary
        cells = [
            with_interval(f"{100 * s.accuracy:.1f}", s.interval, 100, 1),
            f"{s.nll:.2f}",
            _percent(s.ece),
            _percent(s.worst_class),
            *(with_interval(f"{s.more[name]:.3f}", s.more_intervals[name], 1, 3) for name in more),
            *(_percent(s.by_shots[name]) for name in ranges),
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
    empty = [""] * (3 + len(row.summary.more))
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


def write_csv(path: PathLike, rows: Sequence[ResultRow]) -> None:
    """One line for each row, fractions at full precision; empty where there was nothing to measure."""
    flat = []
    for row in rows:
        values: dict[str, Any] = {**row.labels, "transductive": row.settings[0].method.transductive}
        for name, value in row.summary.as_dict().items():
            if name == "more_intervals":
                values |= {f"{metric}_interval": one for metric, one in value.items()}
            elif name == "more":
                values |= value
            elif isinstance(
                value, Mapping
            ):  # by_shots -> accuracy_shots_2_5, queries_by_shots -> queries_shots_2_5
                what = "queries" if name.startswith("queries") else "accuracy"
                values |= {
                    f"{what}_shots_{_plain_name(shots)}": one for shots, one in value.items()
                }
            else:
                values[name] = value
        difference = dataclasses.asdict(row.paired) if row.paired else dict.fromkeys(_PAIRED)
        flat.append(
            {
                **values,
                "paired_to": row.paired_to,
                **{f"paired_{k}": v for k, v in difference.items()},
            }
        )
    write_lines(path, flat)


def write_per_task(path: PathLike, rows: Sequence[ResultRow]) -> None:
    """One line for each task of each row, in the order of the tasks."""
    write_lines(
        path, [{**row.labels, **score.as_dict()} for row in rows for score in row.summary.scores]
    )


def write_lines(path: PathLike, lines: Sequence[Mapping[str, Any]]) -> None:
    """Mappings of the same keys as CSV, the keys on top; names that are not UTF-8 survive."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(lines[0]))
    writer.writeheader()
    writer.writerows(lines)
    write_bytes(path, text.getvalue().encode(errors="backslashreplace"))


def write_results(path: PathLike, results: Any, **facts: Any) -> None:
    """`results` as JSON beside their origin; `facts` are whatever led to them: settings, seeds, the run's folder."""
    write_json(path, {"results": results, "origin": origin(**facts)})


def payload(rows: Sequence[ResultRow]) -> list[dict[str, Any]]:
    """The rows of :func:`summary_table` as plain values for JSON."""
    return [
        {**row.labels, **row.summary.as_dict(), "paired_to": row.paired_to, "paired": row.paired}
        for row in rows
    ]


def origin(**facts: Any) -> dict[str, Any]:
    """Where numbers come from: `facts`, versions, cores, time and command."""
    return {
        **facts,
        "version": version("anyshot"),
        "torch": version("torch"),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "command": shlex.join([os.path.basename(sys.argv[0]), *sys.argv[1:]]),
    }


_PAIRED = tuple(field.name for field in dataclasses.fields(PairedDifference))


def with_interval(text: str, interval: float | None, scale: float, digits: int) -> str:
    """A number and the half-width of its interval, where it has one."""
    return text if interval is None else f"{text} ± {scale * interval:.{digits}f}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}"


def _plain_name(shots: str) -> str:
    """A column's name that is also a Python name: 2_5 for 2-5, over_50 for >50."""
    return re.sub(r"\W", "_", shots.replace(">", "over_"))


def dashed(size: str) -> str:
    """A range of sizes for people: 2–5."""
    return size.replace("-", "–")
