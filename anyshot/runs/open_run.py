"""Open or create the run in a folder, with its image sets and its initial body."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from anyshot.core.parallel import collectives, ranks
from anyshot.core.settings import Settings
from anyshot.data import ImageSet
from anyshot.runs.image_sets import RunImageSets, open_image_sets
from anyshot.runs.initial_body import InitialBody, open_initial_body
from anyshot.runs.run import Run


def open_or_create_run(
    settings: Settings,
    folder: str | Path,
    imagesets: Sequence[ImageSet] | None,
    ood: Sequence[ImageSet] | None,
    command: str,
) -> tuple[Run, RunImageSets, InitialBody | None]:
    """Open or create a run; whether it is new, resumed or extended is decided here.

    Returns
    -------
    Run
    RunImageSets
        Its image sets, opened.
    InitialBody or None
        The body that a new run starts from, if its settings name one.
    """
    if not ranks.is_rank_zero():
        run: Run = collectives.broadcast_from_rank_zero(lambda: Run(folder))
        return run, open_image_sets(run.settings, run.sets, imagesets, ood), None
    started = Run.find_started(folder)
    if started is None or started.settings != settings:
        settings = _with_absolute_paths(settings)
    sets = open_image_sets(settings, started.sets if started else (), imagesets, ood)
    source = settings.train.body_from
    body = None if started or source is None else open_initial_body(source)
    records = sets.records
    if body is not None:
        body.check_leakage(records)
        records = body.merge_records(records)
    body_record = None if body is None else body.record()
    run = Run.open_or_create(
        folder, sets.with_names(settings), sets.size, command, records, body_record
    )
    return collectives.broadcast_from_rank_zero(lambda: run), sets, body


def _with_absolute_paths(settings: Settings) -> Settings:
    """Make the paths of the initial body and of the teacher absolute, for every working directory.

    Names of pretrained weights stay.
    """
    settings = settings.with_initial_body(_absolute(settings.train.body_from))
    stage = settings.pretrain
    if stage is not None and stage.teacher is not None:
        settings = replace(settings, pretrain=replace(stage, teacher=_absolute(stage.teacher)))
    return settings


def _absolute(source: str | None) -> str | None:
    if source is None or not os.path.exists(os.path.expanduser(source)):
        return source
    return os.path.abspath(os.path.expanduser(source))
