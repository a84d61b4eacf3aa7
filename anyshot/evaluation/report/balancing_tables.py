"""What ω, γ and z did, as tables: posterior means and deviations, averaged within ranges of size."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from anyshot.core._rich import Table, box
from anyshot.evaluation.report.tables import dashed

if TYPE_CHECKING:
    from anyshot.evaluation.inspection import BalanceRecord

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
    return [
        _groups_table(titles[name], groups)
        for name, groups in balance_summary(records).items()
        if groups
    ]


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
            names = [f"γ {layer}" for layer in r.layers]
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
    return f"{value:.3g}" if isinstance(value, float) else dashed(str(value))
