"""A run's folder: settings, version, seeds, log and checkpoints; enough to repeat the run or to go on with it.

RUN/run.json                 settings, image sets with classes, splits and checksums, image size, version, command
RUN/log.jsonl                one line an iteration or validation
RUN/checkpoints/meta-000120/ state.json + tensors.safetensors; the last two are kept
RUN/best/                    the parameters that validation chose
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from anyshot.errors import AnyshotError
from anyshot.files import append_line, fresh_folder, plain, read_json, write_json, write_tensors
from anyshot.images import ImageSet
from anyshot.images.record import SetRecord
from anyshot.methods import Method, create_method
from anyshot.settings import Settings
from anyshot.sources import open_for_run
from anyshot.version import VERSION

log = logging.getLogger(__name__)

KEPT = 2  #: checkpoints that stay on disk: the newest, and one more should it be damaged


@dataclass(frozen=True)
class Checkpoint:
    """A moment of a run: where it stands (plain values) and its tensors."""

    state: dict[str, Any]
    tensors: dict[str, Tensor]


class Run:
    """A run folder that exists.

    >>> Run("no/such/folder")
    Traceback (most recent call last):
    anyshot.errors.AnyshotError: There is no run in 'no/such/folder'; anyshot train makes one.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if not (self.folder / "run.json").is_file():
            raise AnyshotError(f"There is no run in '{self.folder}'; anyshot train makes one.")
        self.info: dict[str, Any] = read_json(self.folder / "run.json")
        self.settings = Settings.from_dict(self.info["settings"])
        self.image_size: tuple[int, int] = tuple(self.info["image_size"])
        self.sets = tuple(map(SetRecord.from_dict, self.info["sets"]))

    @classmethod
    def create(
        cls,
        folder: str | Path,
        settings: Settings,
        image_size: tuple[int, int],
        command: str = "",
        sets: Sequence[SetRecord] = (),
    ) -> Run:
        """A new run, or the one that stands there if it has the same settings."""
        folder = Path(folder)
        if (folder / "run.json").is_file():
            run = cls(folder)
            if run.settings == settings:
                return run
            if run.log_path.exists() or run._checkpoints():  # otherwise it never began, and nothing is lost
                raise AnyshotError(
                    f"'{folder}' holds a run with other settings ({_differences(run.settings, settings)}); choose "
                    "another folder or delete it."
                )
        info = {
            "settings": settings.as_dict(), "image_size": image_size, "version": VERSION, "command": command,
            "threads": torch.get_num_threads(), "sets": sets,
        }  # fmt: skip
        write_json(folder / "run.json", info)
        return cls(folder)

    def imageset(self, source: str | Path | ImageSet) -> ImageSet:
        """An image set (a name, a folder, or one from Python) with the splits that tests of this run must use.

        Classes of the run's own sets are in the split that they were in when it began, and those that came since are
        test classes. Classes of any other set whose images this run has learned from are moved to the train split.
        """
        images, moved = open_for_run(source, self.sets, self.image_size)
        if moved:
            log.warning(
                "%s: the run '%s' has learned from the images of %d of its classes (%s); they count as training "
                "classes (--split train tests on them).",
                images.name, self.folder, len(moved), ", ".join(moved[:3]) + (" …" if len(moved) > 3 else ""),
            )  # fmt: skip
        return images

    # ------------------------------------------------------------------------------------------------ log
    @property
    def log_path(self) -> Path:
        """One JSON object a line."""
        return self.folder / "log.jsonl"

    def log(self, record: Mapping[str, Any]) -> None:
        """Add a line."""
        append_line(self.log_path, json.dumps(plain(record)))

    def records(self, kind: str | None = None) -> Iterator[dict[str, Any]]:
        """The log's lines, all or those with a given "kind" ("iteration", "validation", "warm"); a half line, as
        ``kill`` may leave it, is passed over."""
        if not self.log_path.exists():
            return
        for line in self.log_path.read_text(encoding="utf-8").splitlines():
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if kind is None or record.get("kind") == kind:
                yield record

    def rewind_log(self, lines: int) -> None:
        """Keep the first ``lines`` lines: what came after the checkpoint will be written again."""
        if self.log_path.exists():
            with open(self.log_path, "r+b") as file:
                for _ in range(lines):
                    file.readline()
                file.truncate(file.tell())

    def log_lines(self) -> int:
        """How many lines the log has."""
        return self.log_path.read_bytes().count(b"\n") if self.log_path.exists() else 0

    # ------------------------------------------------------------------------------------------------ checkpoints
    def save_checkpoint(self, name: str, checkpoint: Checkpoint) -> None:
        """Write atomically, then drop all but the newest few. Names must sort by time."""
        place = self.folder / "checkpoints"
        _write(place / name, checkpoint)
        for old in self._checkpoints()[:-KEPT]:
            shutil.rmtree(old)

    def latest_checkpoint(self) -> Checkpoint | None:
        """The newest whole checkpoint; a damaged one is passed over. What a killed run left half written goes."""
        for leftover in (self.folder / "checkpoints").glob(".*.tmp"):
            shutil.rmtree(leftover, ignore_errors=True)
        folders = self._checkpoints()
        for folder in reversed(folders):
            try:
                return _read(folder)
            except AnyshotError as error:
                log.warning("%s The one before it is used.", error)
        if folders:
            raise AnyshotError(
                f"No checkpoint of the run '{self.folder}' can be read; delete its folder 'checkpoints' to start again."
            )
        return None

    def _checkpoints(self) -> list[Path]:
        place = self.folder / "checkpoints"
        if not place.is_dir():
            return []
        return sorted(p for p in place.iterdir() if not p.name.startswith("."))  # a dot: half written

    def save_best(self, checkpoint: Checkpoint) -> None:
        """The parameters to use from now on."""
        _write(self.folder / "best", checkpoint)

    def best(self) -> Checkpoint:
        """The parameters that validation chose."""
        if not (self.folder / "best").is_dir():
            raise AnyshotError(
                f"The run '{self.folder}' has no chosen parameters yet; let it reach its first validation."
            )
        return _read(self.folder / "best")

    def load_method(self) -> Method:
        """The trained method, ready to predict."""
        method = create_method(self.settings.method, self.image_size, self.settings.train.seed)
        method.load_state_dict(self.best().tensors)
        return method.requires_grad_(False)


def _write(folder: Path, checkpoint: Checkpoint) -> None:
    with fresh_folder(folder) as new:
        write_json(new / "state.json", checkpoint.state)
        write_tensors(new / "tensors.safetensors", checkpoint.tensors)


def _read(folder: Path) -> Checkpoint:
    try:
        tensors = load_file(folder / "tensors.safetensors")
    except (SafetensorError, OSError) as error:
        raise AnyshotError(f"The checkpoint '{folder}' is damaged ({error}).") from error
    return Checkpoint(read_json(folder / "state.json"), tensors)


def _differences(old: Settings, new: Settings) -> str:
    """way 5, not 10; rate 0.001, not 0.002"""
    a, b = _flat(old.as_dict()), _flat(new.as_dict())
    return "; ".join(f"{key} {a[key]}, not {b[key]}" for key in a if a[key] != b[key])


def _flat(values: dict[str, Any]) -> dict[str, Any]:
    parts = [_flat(v) if isinstance(v, dict) else {k: v} for k, v in values.items()]
    return {key: value for part in parts for key, value in part.items()}
