"""Train with several seeds, as a grid of runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anyshot.core.errors import RunError, SettingsError
from anyshot.core.parallel.ranks import launched_by_torchrun
from anyshot.core.settings import Settings
from anyshot.experiments.launch import run_grid, show_progress
from anyshot.runs.run import Run
from anyshot.training.stages import train


@dataclass(frozen=True)
class SeedRun:
    """The run of one seed: its settings, its folder, and further options of training."""

    settings: Settings
    folder: Path
    options: dict[str, Any]


def train_seeds(
    settings: Settings,
    folder: str | Path,
    seeds: int,
    *,
    on: str = "local",
    jobs: int | None = None,
    address: str | None = None,
    **options: Any,
) -> list[Run]:
    """Train runs ``folder/seed-N`` that differ only in their seed.

    Parameters
    ----------
    settings : Settings
        The settings of all runs; their seed is the first of ``seeds`` consecutive ones.
    folder : str or Path
        The folder of the runs.
    seeds : int
        The number of runs.
    on, jobs, address
        Those of :func:`anyshot.experiments.launch.run_grid`.
    **options
        Further options of :func:`anyshot.train`.

    Returns
    -------
    list[Run]
        The finished runs, in the order of their seeds.
    """
    if launched_by_torchrun():
        raise SettingsError(
            "torchrun trains one run on all ranks; use --seeds without torchrun, or train one "
            "seed at a time."
        )
    grid = {}
    for seed in range(settings.train.seed, settings.train.seed + seeds):
        run_folder = Path(folder) / f"seed-{seed}"
        grid[str(run_folder)] = SeedRun(settings.with_seed(seed), run_folder, options)
    with show_progress(list(grid.values()), "Seeds", _share_done):
        results = run_grid(grid, _train, on=on, jobs=jobs, address=address)
    if failed := [name for name, result in results.items() if result.error]:
        raise RunError(
            f"{len(failed)} of {seeds} runs failed ({', '.join(failed)}); "
            "run the same command again to retry them."
        )
    return [Run(name, trust_code=True) for name in grid]


def _train(run: SeedRun) -> None:
    train(run.settings, run.folder, **run.options)


def _share_done(run: SeedRun) -> float:
    started = Run.find_started(run.folder)
    return started.progress() if started else 0.0
