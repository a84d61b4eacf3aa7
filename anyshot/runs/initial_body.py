"""The trained body that a run starts from, and the check that it has not seen held-out classes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from anyshot.core.errors import RunError
from anyshot.methods import Method
from anyshot.models.network import BODY_PREFIXES
from anyshot.runs import pretrained
from anyshot.runs.image_record import SetRecord
from anyshot.runs.packing import other_members
from anyshot.runs.run import Run


@dataclass(frozen=True)
class InitialBody:
    """θ and β of a trained body, and the image sets that it was trained on."""

    source: str  #: run folder or file, as given
    tensors: dict[str, Tensor]  #: by the names that they have in every method
    sha256: str  #: of the file
    sets: tuple[SetRecord, ...]  #: trained and validated on; empty if it comes from a file

    def record(self) -> dict[str, str]:
        """What a run records of its initial body."""
        return {"source": self.source, "sha256": self.sha256}

    def load_into(self, method: Method) -> None:
        """Replace the body of a method."""
        state = method.state_dict()
        expected = {
            name: tuple(value.shape)
            for name, value in state.items()
            if name.startswith(BODY_PREFIXES)
        }
        shapes = {name: tuple(value.shape) for name, value in self.tensors.items()}
        if expected != shapes:
            names = sorted(dict(expected.items() ^ shapes.items()))
            raise RunError(
                f"The body of '{self.source}' does not fit this run: {_shorten(names)} differ. "
                "Both need the same --body, --channels and image size."
            )
        method.load_state_dict({**state, **self.tensors})

    def check_leakage(self, records: Sequence[SetRecord]) -> None:
        """Refuse to validate or test on classes that the body was trained on.

        Raises
        ------
        RunError
            If a validation or test class of ``records`` was a training class of the body.
        """
        trained = {
            r.sums[label] for r in self.sets if r.learned for label in r.splits.get("train", ())
        }
        for record in records:
            held_out = [
                label for split in ("validation", "test") for label in record.splits.get(split, ())
            ]
            leaked = [label for label in held_out if record.sums[label] in trained]
            if leaked:
                raise RunError(
                    f"The body of '{self.source}' was trained on {len(leaked)} classes of "
                    f"{record.name} that this run would validate or test on ({_shorten(leaked)}); "
                    "both runs need the same split."
                )

    def merge_records(self, records: Sequence[SetRecord]) -> tuple[SetRecord, ...]:
        """Return the records of a run and those of other sets that the body was trained on."""
        names = {record.name for record in records}
        others = [record for record in self.sets if record.learned and record.name not in names]
        return (*records, *others)


def open_initial_body(source: str) -> InitialBody:
    """Read the body of a run, of pretrained weights or of a file; no code is executed."""
    path = Path(source).expanduser()
    sets: tuple[SetRecord, ...] = ()
    if path.is_dir() or (source in pretrained.pretrained_models() and not path.exists()):
        run = Run(path)
        if others := other_members(run):
            raise RunError(
                f"'{source}' is an ensemble of {1 + len(others)} networks, which have no common "
                f"body; give one of its runs, for example '{others[0].folder}'."
            )
        run.best()  # raises if there are no parameters yet, or if the file is damaged
        path = run.best_path
        sets = run.sets
    try:
        data = path.read_bytes()
        tensors = {
            name: value for name, value in load(data).items() if name.startswith(BODY_PREFIXES)
        }
    except (OSError, SafetensorError) as error:
        names = ", ".join(pretrained.pretrained_models())
        raise RunError(
            f"There is no body in '{source}' ({error}); give a run folder, a safetensors file, or "
            f"one of the pretrained weights {names}."
        ) from error
    return InitialBody(source, tensors, hashlib.sha256(data).hexdigest(), sets)


def _shorten(names: Sequence[str]) -> str:
    """The first three names, and whether there are more."""
    return ", ".join(names[:3]) + (" …" if len(names) > 3 else "")
