"""One training with several seeds, as a grid of runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from anyshot.core.errors import AnyshotError
from anyshot.core.parallel.ranks import launched_by_torchrun
from anyshot.core.settings import Settings
from anyshot.experiments.launch import run_grid, show_progress
from anyshot.runs.run import Run
from anyshot.training.meta_training import train


@dataclass(frozen=True)
class SeedRun:
    """One run of a sweep: settings with their seed, its folder, and how to train."""

    settings: Settings
    folder: Path
    options: dict[str, Any]


def train_seeds(
    settings: Settings,
    folder: str | Path,
    seeds: int,
    stages: Callable[..., Run] = train,
    *,
    on: str = "local",
    jobs: int | None = None,
    address: str | None = None,
    **options: Any,
) -> list[Run]:
    """Runs ``folder/seed-N`` that differ in nothing but their seed: the settings' and those after it.

    ``stages`` trains one: :func:`anyshot.train`, or several stages (:func:`anyshot.training.recipe.train_by_recipe`). ``on``,
    ``jobs`` and ``address`` are those of :func:`anyshot.experiments.launch.run_grid`, other options those of :func:`anyshot.train`.
    """
    if launched_by_torchrun():
        raise AnyshotError(
            "torchrun trains one run on all ranks; leave it for several seeds, or train one at a time."
        )
    units = {}
    for seed in range(settings.train.seed, settings.train.seed + seeds):
        place = Path(folder) / f"seed-{seed}"
        units[str(place)] = SeedRun(
            replace(settings, train=replace(settings.train, seed=seed)), place, options
        )
    with show_progress(list(units.values()), "Seeds", _share):
        found = run_grid(units, partial(_train, stages), on=on, jobs=jobs, address=address)
    if failed := [place for place, outcome in found.items() if outcome.error]:
        raise AnyshotError(
            f"{len(failed)} of {seeds} runs failed ({', '.join(failed)}); the same command tries again."
        )
    return [Run(place) for place in units]


def _train(stages: Callable[..., Run], unit: SeedRun) -> None:
    stages(unit.settings, unit.folder, **unit.options)


def _share(unit: SeedRun) -> float:
    run = Run.find_started(unit.folder)
    return run.progress() if run else 0.0
