"""One unit of a grid: a run that is trained, then measured. It lives in its own folder and goes on from where it was,
on whatever process or machine sees that folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from anyshot.core.errors import AnyshotError
from anyshot.core.settings import Settings
from anyshot.experiments.measurement import Probe, known, measured
from anyshot.runs.run import Run
from anyshot.training.meta_training import train
from anyshot.training.pretraining import warm_start


@dataclass(frozen=True)
class Unit:
    """A run by its folder and settings (a warm start if they say so), and what is measured on it when it is trained."""

    folder: str
    settings: Settings
    probes: tuple[Probe, ...] = ()

    @property
    def first(self) -> bool:
        """Whether others start from it: a warm start."""
        return self.settings.warm is not None


def run_unit(unit: Unit, workers: int | None = None, command: str = "") -> None:
    """Train what is not trained and measure what is not measured; what is there already is left as it is."""
    if unit.probes and all(known(unit.folder, probe) is not None for probe in unit.probes):
        return
    begun = Run.find(unit.folder)
    settings = begun.settings if begun else unit.settings
    if settings.starting_from(None) != unit.settings.starting_from(None):  # its name stands for what is not by default
        raise AnyshotError(
            f"The run in '{unit.folder}' was made with other defaults, by another version; move the folder away."
        )
    start = train if settings.warm is None else warm_start
    start(settings, unit.folder, workers=workers, command=command, tensorboard=False)
    for probe in unit.probes:
        measured(unit.folder, probe, workers)


def waves(units: Sequence[Unit]) -> list[list[Unit]]:
    """Units in the order of their needs: those that others start from, then the others."""
    return [wave for first in (True, False) if (wave := [unit for unit in units if unit.first == first])]


def merged(units: Sequence[Unit]) -> list[Unit]:
    """Units of the same folder become one, with the probes of all."""
    found: dict[str, Unit] = {}
    for unit in units:
        before = found.get(unit.folder, replace(unit, probes=()))
        found[unit.folder] = replace(before, probes=tuple(dict.fromkeys((*before.probes, *unit.probes))))
    return list(found.values())
