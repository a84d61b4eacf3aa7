"""One unit of a grid: a run that is trained, then measured. It lives in its own folder and goes on from where it was,
on whatever process or machine sees that folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from anyshot.core.errors import AnyshotError
from anyshot.core.settings import Settings
from anyshot.experiments.measurement import Measurement, cached, run_measurement
from anyshot.runs.run import Run
from anyshot.training.meta_training import train
from anyshot.training.pretraining import pretrain


@dataclass(frozen=True)
class Job:
    """A run by its folder and settings (a warm start if they say so), and what is measured on it when it is trained."""

    folder: str
    settings: Settings
    probes: tuple[Measurement, ...] = ()

    @property
    def first(self) -> bool:
        """Whether others start from it: a warm start."""
        return self.settings.warm is not None


def run_job(unit: Job, workers: int | None = None, command: str = "") -> None:
    """Train what is not trained and measure what is not measured; what is there already is left as it is."""
    if unit.probes and all(cached(unit.folder, probe) is not None for probe in unit.probes):
        return
    begun = Run.find_started(unit.folder)
    settings = begun.settings if begun else unit.settings
    if settings.with_initial_body(None) != unit.settings.with_initial_body(
        None
    ):  # its name stands for what is not by default
        raise AnyshotError(
            f"The run in '{unit.folder}' was made with other defaults, by another version; move the folder away."
        )
    start = train if settings.warm is None else pretrain
    start(settings, unit.folder, workers=workers, command=command, tensorboard=False)
    for probe in unit.probes:
        run_measurement(unit.folder, probe, workers)


def stages(units: Sequence[Job]) -> list[list[Job]]:
    """Units in the order of their needs: those that others start from, then the others."""
    return [
        wave for first in (True, False) if (wave := [unit for unit in units if unit.first == first])
    ]


def merge_jobs(units: Sequence[Job]) -> list[Job]:
    """Units of the same folder become one, with the probes of all."""
    found: dict[str, Job] = {}
    for unit in units:
        before = found.get(unit.folder, replace(unit, probes=()))
        found[unit.folder] = replace(
            before, probes=tuple(dict.fromkeys((*before.probes, *unit.probes)))
        )
    return list(found.values())
