"""Tables on the screen, and the same numbers as CSV and JSON with their origin."""

from __future__ import annotations

import csv
import io
import os
import platform
import shlex
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from anyshot.files import PathLike, write_bytes, write_json
from anyshot.metrics import SHOTS, Summary

if TYPE_CHECKING:
    from anyshot.inspection import BalanceRecord

# One tested combination: what it was, such as {"method": "taml", "images": "digits"}, and its numbers.
Row = tuple[Mapping[str, str], Summary]


def summary_table(rows: Sequence[Row], title: str | None = None) -> Table:
    """One line for each combination; per cent, except NLL and speed. Ranges of shots that never occur are left out."""
    ranges = [name for name in SHOTS if any(summary.by_shots[name] is not None for _, summary in rows)]
    table = Table(
        title=title,
        box=box.SIMPLE_HEAD,
        padding=0,
        show_edge=False,
        caption=_caption([s for row, s in rows if row.get("images") != "mean"]),
    )
    # a run that is called like its method needs no column
    names = [name for name in rows[0][0] if name != "run" or any(row["run"] != row.get("method") for row, _ in rows)]
    for name in names:
        table.add_column(name, no_wrap=True)
    shots = [f"{_dash(name)}\nshot{'s' if name != '1' else ''}" for name in ranges]
    for header in ("accuracy", "NLL", "ECE", "worst\nclass", *shots, "tasks\n/s"):
        table.add_column(header, justify="right", no_wrap=True)
    for labels, s in rows:
        cells = [
            _percent(s.accuracy) + ("" if s.interval is None else f" ± {100 * s.interval:.1f}"),
            f"{s.nll:.2f}",
            _percent(s.ece),
            _percent(s.worst_class),
            *(_percent(s.by_shots[name]) for name in ranges),
            "–" if s.tasks_per_second is None else f"{s.tasks_per_second:.1f}",
        ]
        table.add_row(*(labels[name] for name in names), *cells)
    return table


def _caption(summaries: Sequence[Summary]) -> str:
    counts = sorted({summary.tasks for summary in summaries})
    text = f"{' or '.join(map(str, counts))} task{'s' if counts != [1] else ''} each; accuracies and ECE in %."
    failed = sum(summary.failed for summary in summaries)
    return text + (f" {failed} tasks had predictions that were not finite; they count as wrong." if failed else "")


def print_tables(*tables: Table) -> None:
    """Print to standard output; into a file or pipe at full width, since there is no edge to wrap at."""
    console = Console()
    if not console.is_terminal:
        needed = (console.measure(table, options=console.options.update(width=10_000)).maximum for table in tables)
        console.width = max(console.width, *needed)
    console.print(*tables, sep="\n\n")


def write_csv(path: PathLike, rows: Sequence[Row]) -> None:
    """One line for each combination, fractions at full precision; empty where there was nothing to measure."""
    flat = []
    for labels, summary in rows:
        values = summary.as_dict()
        by_shots = {f"accuracy {name} shots": value for name, value in values.pop("by_shots").items()}
        flat.append({**labels, **values, **by_shots})
    text = io.StringIO()
    writer = csv.DictWriter(text, flat[0])
    writer.writeheader()
    writer.writerows(flat)
    write_bytes(path, text.getvalue().encode())


def write_results(path: PathLike, results: Any, **facts: Any) -> None:
    """`results` as JSON beside their origin; `facts` are whatever led to them: settings, seeds, the run's folder."""
    write_json(path, {"results": results, "origin": origin(**facts)})


def summaries_payload(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The rows of :func:`summary_table` as plain values for JSON."""
    return [{**labels, **summary.as_dict()} for labels, summary in rows]


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


CLASS_SIZES = (1, 5, 15, 50)  # upper ends of ranges, as in Summary.by_shots
TASK_SIZES = (25, 50, 100, 200)
EQUAL = "all equal"  # where classes are of one size, size cannot tell them apart


def balance_tables(records: Sequence[BalanceRecord]) -> list[Table]:
    """ω by class size, γ by layer and task size, and ‖z‖ by image set; variables that are off have no table."""
    titles = {
        "omega": "Class balance: above 1, more than an even share",
        "gamma": "Step size multipliers: above 1, the layer moves further",
        "z": "Shift of the start",
    }
    return [_groups_table(titles[name], groups) for name, groups in balance_summary(records).items() if groups]


def balance_summary(records: Sequence[BalanceRecord]) -> dict[str, list[dict[str, Any]]]:
    """The numbers of :func:`balance_tables`: posterior means and deviations, averaged within ranges of size."""
    omega: Pools = defaultdict(list)
    gamma: Pools = defaultdict(list)
    z: Pools = defaultdict(list)
    for r in records:
        way, even = len(r.shots), len(set(r.shots)) == 1
        if r.omega_mean is not None and r.omega_std is not None:
            for n, mean, std in zip(r.shots, r.omega_mean, r.omega_std, strict=True):
                size = EQUAL if even else _span(n, CLASS_SIZES)
                omega[r.imageset, size].append((r.index, {"C·ω": (way * mean, way * std)}))
        if r.gamma_mean is not None and r.gamma_std is not None:
            names = [*(f"γ conv {n + 1}" for n in range(len(r.gamma_mean) - 1)), "γ head"]
            layers = dict(zip(names, zip(r.gamma_mean, r.gamma_std, strict=True), strict=True))
            gamma[r.imageset, _span(sum(r.shots), TASK_SIZES)].append((r.index, layers))
        if r.z_norm is not None and r.z_std is not None:
            z[r.imageset, ""].append((r.index, {"‖z‖": (r.z_norm,), "mean σ of z": (r.z_std,)}))
    return {
        "omega": _groups(omega, "images in class", CLASS_SIZES),
        "gamma": _groups(gamma, "images in task", TASK_SIZES),
        "z": _groups(z),
    }


# (image set, range of sizes) -> [(index of the task, {quantity: (mean, deviation) or (value,)})]
Pools = dict[tuple[str, str], list[tuple[int, Mapping[str, Sequence[float]]]]]


def _span(n: int, ends: tuple[int, ...]) -> str:
    """The range of sizes that holds n: "1", "2-5" or ">5" for ends (1, 5)."""
    place = int(np.searchsorted(ends, n))
    low, high = (0, *ends)[place] + 1, (*ends, None)[place]
    return f">{low - 1}" if high is None else str(high) if low == high else f"{low}-{high}"


def _groups(pools: Pools, label: str = "", ends: tuple[int, ...] = ()) -> list[dict[str, Any]]:
    sets = list(dict.fromkeys(images for images, _ in pools))
    sizes = [*(_span(n, ends) for n in (*ends, max(ends, default=0) + 1)), EQUAL] if ends else [""]
    groups = []
    for images, size in sorted(pools, key=lambda key: (sets.index(key[0]), sizes.index(key[1]))):
        members = pools[images, size]
        group: dict[str, Any] = {"images": images, **({label: size} if label else {})}
        for name in members[0][1]:
            mean, *deviation = np.mean([values[name] for _, values in members], axis=0).tolist()
            group[name] = {"mean": mean, "deviation": deviation[0]} if deviation else mean
        groups.append({**group, "tasks": len({index for index, _ in members})})
    return groups


def _groups_table(title: str, groups: list[dict[str, Any]]) -> Table:
    table = Table(title=title, box=box.SIMPLE_HEAD)
    for column in groups[0]:
        table.add_column(column, justify="left" if column == "images" else "right")
    for group in groups:
        table.add_row(*(_cell(value) for value in group.values()))
    return table


def _cell(value: Any) -> str:
    if isinstance(value, dict):
        return f"{value['mean']:.2f} ± {value['deviation']:.2f}"
    return f"{value:.3g}" if isinstance(value, float) else _dash(str(value))


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}"


def _dash(size: str) -> str:
    return size.replace("-", "–")
