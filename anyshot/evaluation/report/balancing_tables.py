"""Tables of the balancing variables ω, γ and z, averaged within ranges of size."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anyshot.core._rich import Table, box
from anyshot.evaluation.report.tables import format_range

if TYPE_CHECKING:
    from anyshot.evaluation.inspection import BalanceRecord

CLASS_SIZES = (1, 5, 15, 50)  # upper ends of ranges, as in Summary.by_shots
TASK_SIZES = (25, 50, 100, 200)
EQUAL = "all equal"  # tasks with classes of equal size, where size cannot explain a difference

TITLES = {
    "omega": "Class weights: above 1, the class counts more than with equal weights",
    "gamma": "Step-size multipliers E[γ]: above 1, the layer moves further",
    "gamma_at_mean": "Step-size multipliers at the posterior mean, exp(E[γ̃])",
    "z": "Shift of the initialisation",
}
# {(image set, range of sizes): [(index of the task, {quantity: (mean, deviation) or (value,)})]}
Pools = dict[tuple[str, str], list[tuple[int, Mapping[str, Sequence[float]]]]]


def balance_tables(records: Sequence[BalanceRecord]) -> list[Table]:
    """ω by class size, γ by layer and task size, ‖z‖ by image set.

    The class weights C·ω are also shown with one of their two parts alone: as inferred from the
    images, C·softmax(E[ω̃]), and as the prior by class size gives them, C·softmax(−τ log N).
    Variables that are switched off have no table.
    """
    summary = balance_summary(records)
    return [_table(TITLES[name], groups) for name, groups in summary.items() if groups]


def balance_summary(records: Sequence[BalanceRecord]) -> dict[str, list[dict[str, Any]]]:
    """The numbers of :func:`balance_tables`, a list of rows for each table."""
    pools: dict[str, Pools] = {name: defaultdict(list) for name in TITLES}
    for record in records:
        _add_omega(pools["omega"], record)
        _add_gamma(pools, record)
        if record.z_norm is not None and record.z_std is not None:
            values = {"‖z‖": (record.z_norm,), "mean σ of z": (record.z_std,)}
            pools["z"][record.imageset, ""].append((record.index, values))
    return {
        "omega": _average(pools["omega"], "images in class", CLASS_SIZES),
        "gamma": _average(pools["gamma"], "images in task", TASK_SIZES),
        "gamma_at_mean": _average(pools["gamma_at_mean"], "images in task", TASK_SIZES),
        "z": _average(pools["z"]),
    }


def _add_omega(pools: Pools, r: BalanceRecord) -> None:
    """Add the class weights of a task, one entry for each class."""
    if r.omega_mean is None or r.omega_std is None:
        return
    way = len(r.shots)
    quantities = {
        "C·ω": zip(way * np.array(r.omega_mean), way * np.array(r.omega_std), strict=True),
        "inferred alone": zip(way * _softmax(r.omega_inferred or [0.0] * way)),
        "prior alone": zip(way * _softmax(r.omega_prior or [0.0] * way)),
    }
    of_classes = zip(*quantities.values(), strict=True)
    equal = len(set(r.shots)) == 1
    for shots, values in zip(r.shots, of_classes, strict=True):
        size = EQUAL if equal else size_range(shots, CLASS_SIZES)
        pools[r.imageset, size].append((r.index, dict(zip(quantities, values, strict=True))))


def _add_gamma(pools: Mapping[str, Pools], r: BalanceRecord) -> None:
    """Add the step-size multipliers of a task."""
    key = r.imageset, size_range(sum(r.shots), TASK_SIZES)
    names = [f"γ {layer}" for layer in r.layers]
    if r.gamma_mean is not None and r.gamma_std is not None:
        moments = zip(r.gamma_mean, r.gamma_std, strict=True)
        pools["gamma"][key].append((r.index, dict(zip(names, moments, strict=True))))
    if r.gamma_at_mean is not None:
        values = zip(r.gamma_at_mean)
        pools["gamma_at_mean"][key].append((r.index, dict(zip(names, values, strict=True))))


def _softmax(values: ArrayLike) -> NDArray[np.float64]:
    exponentials = np.exp(np.asarray(values) - np.max(values))
    return exponentials / exponentials.sum()


def size_range(n: int, ends: tuple[int, ...]) -> str:
    """The range of sizes that holds ``n``: "1", "2-5" or ">5" for the upper ends (1, 5).

    >>> [size_range(n, (1, 5)) for n in (1, 2, 5, 6)]
    ['1', '2-5', '2-5', '>5']
    """
    index = int(np.searchsorted(ends, n))
    if index == len(ends):
        return f">{ends[-1]}"
    low = (0, *ends)[index] + 1
    return str(low) if low == ends[index] else f"{low}-{ends[index]}"


def _average(pools: Pools, label: str = "", ends: tuple[int, ...] = ()) -> list[dict[str, Any]]:
    """One row for each image set and range of sizes, in their order, with means over entries."""
    sets = list(dict.fromkeys(images for images, _ in pools))
    ranges = [""]
    if ends:
        ranges = [*(size_range(n, ends) for n in (*ends, ends[-1] + 1)), EQUAL]
    rows = []
    for images, size in sorted(pools, key=lambda key: (sets.index(key[0]), ranges.index(key[1]))):
        entries = pools[images, size]
        row: dict[str, Any] = {"images": images, **({label: size} if label else {})}
        for name in entries[0][1]:
            mean, *deviation = np.mean([values[name] for _, values in entries], axis=0).tolist()
            row[name] = {"mean": mean, "deviation": deviation[0]} if deviation else mean
        rows.append({**row, "tasks": len({index for index, _ in entries})})
    return rows


def _table(title: str, rows: list[dict[str, Any]]) -> Table:
    table = Table(title=title, box=box.SIMPLE_HEAD)
    for column in rows[0]:
        table.add_column(column, justify="left" if column == "images" else "right")
    for row in rows:
        table.add_row(*(_cell(value) for value in row.values()))
    return table


def _cell(value: Any) -> str:
    if isinstance(value, dict):
        return f"{value['mean']:.2f} ± {value['deviation']:.2f}"
    return f"{value:.3g}" if isinstance(value, float) else format_range(str(value))
