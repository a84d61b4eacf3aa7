"""How a run begins: its images, and a body that comes, if not from chance, from another run or a file."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from anyshot.core.errors import AnyshotError
from anyshot.core.parallel import collectives, ranks
from anyshot.core.settings import Settings
from anyshot.data import ImageSet
from anyshot.methods import Method
from anyshot.models.network import BODY_PREFIXES
from anyshot.runs import pretrained
from anyshot.runs.image_record import SetRecord
from anyshot.runs.image_sets import RunImageSets, open_image_sets
from anyshot.runs.run import Run


@dataclass(frozen=True)
class InitialBody:
    """θ and β of a body that was trained, and what is known of how."""

    source: str  #: as given: a run's folder or a file
    tensors: dict[str, Tensor]  #: by the names they have in every method
    sha256: str  #: of the file
    sets: tuple[SetRecord, ...]  #: that it was trained and validated on, where it comes from a run

    def record(self) -> dict[str, str]:
        """What a run that starts here remembers."""
        return {"source": self.source, "sha256": self.sha256}

    def load_into(self, method: Method) -> None:
        """The method with this body."""
        state = method.state_dict()
        own = {
            name: tuple(value.shape)
            for name, value in state.items()
            if name.startswith(BODY_PREFIXES)
        }
        found = {name: tuple(value.shape) for name, value in self.tensors.items()}
        if own != found:
            wrong = sorted(dict(own.items() ^ found.items()))
            raise AnyshotError(
                f"The body of '{self.source}' is not one that this run could start from: they differ in "
                f"{', '.join(wrong[:3])}{' …' if len(wrong) > 3 else ''}; both need the same kind and width of body."
            )
        method.load_state_dict({**state, **self.tensors})

    def check_leakage(self, records: Sequence[SetRecord]) -> tuple[SetRecord, ...]:
        """The records of a run that starts here: its own and those of other sets that the body has learned from. It may
        not validate or test on classes that the body has learned from."""
        learned = {
            r.sums[label] for r in self.sets if r.learned for label in r.splits.get("train", ())
        }
        for record in records:
            others = [
                label for split in ("validation", "test") for label in record.splits.get(split, ())
            ]
            seen = [label for label in others if record.sums[label] in learned]
            if seen:
                raise AnyshotError(
                    f"The body of '{self.source}' has learned from {len(seen)} classes of {record.name} that this run "
                    f"would validate or test on ({', '.join(seen[:3])}{' …' if len(seen) > 3 else ''}); both runs need "
                    "the same split."
                )
        names = {record.name for record in records}
        return (
            *records,
            *(record for record in self.sets if record.learned and record.name not in names),
        )


def open_initial_body(source: str) -> InitialBody:
    """The body of a run that has chosen parameters, of weights that come with anyshot, or of a safetensors file."""
    path = Path(source).expanduser()
    sets: tuple[SetRecord, ...] = ()
    if path.is_dir() or (source in pretrained.pretrained_models() and not path.exists()):
        run = Run(path)
        run.best()  # says so if there is none yet, or a damaged one
        path, sets = run.best_path, run.sets
    try:
        data = path.read_bytes()
        tensors = {
            name: value for name, value in load(data).items() if name.startswith(BODY_PREFIXES)
        }
    except (OSError, SafetensorError) as error:
        raise AnyshotError(
            f"There is no body in '{source}' ({error}); give the folder of a run, the name of weights that come with "
            f"anyshot ({', '.join(pretrained.pretrained_models())}) or a safetensors file."
        ) from error
    return InitialBody(source, tensors, hashlib.sha256(data).hexdigest(), sets)


def open_or_create_run(
    settings: Settings,
    folder: str | Path,
    imagesets: Sequence[ImageSet] | None,
    ood: Sequence[ImageSet] | None,
    command: str,
) -> tuple[Run, RunImageSets, InitialBody | None]:
    """The run in the folder, created if there is none, its image sets, and a new run's first body.

    Whether a run is new, resumed or extended is decided here alone.
    """
    if not ranks.is_rank_zero():
        run: Run = collectives.broadcast_from_rank_zero(lambda: Run(folder))
        return run, open_image_sets(run.settings, run.sets, imagesets, ood), None
    begun = Run.find_started(folder)
    if begun is None or begun.settings != settings:
        settings = _with_absolute_body(settings)
    source = settings.train.body_from
    sources = open_image_sets(settings, begun.sets if begun else (), imagesets, ood)
    origin = None if begun or source is None else open_initial_body(source)
    records = origin.check_leakage(sources.records) if origin else sources.records
    body = origin.record() if origin else None
    run = Run.open_or_create(folder, sources.named(settings), sources.size, command, records, body)
    return collectives.broadcast_from_rank_zero(lambda: run), sources, origin


def _with_absolute_body(settings: Settings) -> Settings:
    """The settings with the path of the body made absolute, so that it holds in every folder."""
    source = settings.train.body_from
    if source is None or not os.path.exists(os.path.expanduser(source)):
        return settings  # none, or the name of weights that come with anyshot
    return settings.with_initial_body(os.path.abspath(os.path.expanduser(source)))
