"""A run's folder: settings, version, seeds, log and checkpoints; enough to repeat the run or to go on with it.

RUN/run.json                               settings, image sets with classes, splits and checksums, image size, version,
                                           command; where code that is not anyshot's own came from
RUN/log.jsonl                              one line an iteration or validation
RUN/checkpoints/meta-0000120.safetensors   everything that the next iteration depends on; the last two are kept
RUN/best.safetensors                       the parameters that validation chose
"""

from __future__ import annotations

import json
import logging
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from anyshot.core.atomic_folders import lock_folder, remove_stale_temporaries
from anyshot.core.code_loading import Fingerprint, fingerprint, verify_code
from anyshot.core.errors import AnyshotError
from anyshot.core.files import append_line, os_errors_as_messages, read_json, to_plain, write_json
from anyshot.core.parallel.device import choose_device
from anyshot.core.parallel.ranks import rank_zero_only
from anyshot.core.settings import Settings
from anyshot.core.version import VERSION
from anyshot.data import ImageSet
from anyshot.methods import Method, create_method
from anyshot.runs import pretrained
from anyshot.runs.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from anyshot.runs.image_record import SetRecord
from anyshot.runs.image_sets import open_for_evaluation

log = logging.getLogger(__name__)

KEPT = 2  #: checkpoints that stay on disk: the newest, and one more should it be damaged
NAME = re.compile(r"[a-z]+-\d+\.safetensors")  #: of a checkpoint; names sort by time


class Run:
    """A run folder that exists, or the name of a trained method that comes with anyshot (`anyshot weights`).

    >>> Run("glyphs").settings.method.name
    'taml'
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if not self._described(self.folder) and str(folder) in pretrained.pretrained_models():
            self.folder = pretrained.HOME / str(folder)
        file = self._described(self.folder)
        if file is None:
            raise AnyshotError(
                f"There is no run in '{self.folder}'; anyshot train makes one"
                + (
                    f"; {' and '.join(pretrained.pretrained_models())} come with anyshot."
                    if pretrained.pretrained_models()
                    else "."
                )
            )
        self.info: dict[str, Any] = read_json(file)
        try:
            self.settings = Settings.from_dict(self.info["settings"])
            height, width = map(int, self.info["image_size"])
            if min(height, width) < 1:
                raise ValueError("images of no size")
            self.image_size = height, width
            self.sets = tuple(map(SetRecord.from_dict, self.info["sets"]))
            self.code: dict[str, Fingerprint] = {
                place: dict(self.info["code"][place]) for place in self.settings.user_code()
            }
        except (
            AnyshotError,
            KeyError,
            TypeError,
            ValueError,
            AttributeError,
            OverflowError,
        ) as error:
            raise AnyshotError(
                f"'{file}' does not describe a run ({type(error).__name__}: {error}); restore it, "
                "or choose another folder."
            ) from error

    @staticmethod
    def _described(folder: Path) -> Path | None:
        """The file that describes a run: its own, or that of weights (:meth:`pack`)."""
        files = (folder / "run.json", folder / "config.json")
        return next((file for file in files if file.is_file()), None)

    @classmethod
    def find_started(cls, folder: str | Path) -> Run | None:
        """The run in a folder, if there is one that ever began: one that has a checkpoint or a log."""
        if not (Path(folder) / "run.json").is_file():
            return None
        run = cls(folder)
        return run if run.log_path.exists() or _checkpoints(run.folder) else None

    @classmethod
    def open_or_create(
        cls,
        folder: str | Path,
        settings: Settings,
        image_size: tuple[int, int],
        command: str = "",
        sets: Sequence[SetRecord] = (),
        body: Mapping[str, str] | None = None,
    ) -> Run:
        """A new run, or the one that stands there if it has the same settings, except perhaps for more iterations."""
        run = cls.find_started(folder)
        if run is not None and run.settings == settings:
            return run
        if run is not None and not _extends(run.settings, settings):
            raise AnyshotError(
                f"'{folder}' holds a run with other settings ({_differences(run.settings, settings)}); choose "
                "another folder or delete it." + _why_not_longer(run.settings, settings)
            )
        info = {
            "settings": settings.as_dict(), "image_size": image_size, "version": VERSION, "command": command,
            "threads": torch.get_num_threads(), "sets": sets if run is None else run.sets,
            "code": {place: fingerprint(place) for place in settings.user_code()} if run is None else run.code,
            "body": body if run is None else run.info.get("body"),
        }  # fmt: skip
        write_json(Path(folder) / "run.json", info)
        return cls(folder)

    def imageset(self, source: str | Path | ImageSet) -> ImageSet:
        """An image set (a name, a folder, or one from Python) with the splits that tests of this run must use.

        Classes of the run's own sets are in the split that they were in when it began, and those that came since are
        test classes. Classes of any other set whose images this run has learned from are moved to the train split.
        """
        images, moved = open_for_evaluation(source, self.sets, self.image_size)
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

    @rank_zero_only
    def log(self, record: Mapping[str, Any]) -> None:
        """Add a line."""
        append_line(self.log_path, json.dumps(to_plain(record)))

    def records(self, kind: str | None = None) -> Iterator[dict[str, Any]]:
        """The log's lines, all or those with a given "kind" ("iteration", "validation", "calibration"; "epoch",
        "check"); a half line, as ``kill`` may leave it, is passed over."""
        if not self.log_path.exists():
            return
        with os_errors_as_messages("read", self.log_path):
            text = self.log_path.read_text(encoding="utf-8", errors="replace")
        for line in text.splitlines():
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if isinstance(record, dict) and "kind" in record and kind in (None, record["kind"]):
                yield record

    @rank_zero_only
    def truncate_log(self, lines: int) -> None:
        """Keep the first ``lines`` lines: what came after the checkpoint will be written again."""
        if self.log_path.exists():
            with os_errors_as_messages("write", self.log_path), open(self.log_path, "r+b") as file:
                for _ in range(lines):
                    file.readline()
                file.truncate(file.tell())

    def log_lines(self) -> int:
        """How many lines the log has."""
        if not self.log_path.exists():
            return 0
        with os_errors_as_messages("read", self.log_path):
            return self.log_path.read_bytes().count(b"\n")

    # ------------------------------------------------------------------------------------------------ checkpoints
    def progress(self) -> float:
        """How much of the training is done, by the newest checkpoint's name."""
        s, names = self.settings, [path.stem for path in _checkpoints(self.folder)]
        done = int(names[-1].rpartition("-")[2]) if names else 0
        return done / (s.warm.epochs if s.warm else s.train.iterations)

    @rank_zero_only
    def save_checkpoint(self, name: str, checkpoint: Checkpoint) -> None:
        """Write atomically, then drop all but the newest few. Names must sort by time."""
        write_checkpoint(self.folder / "checkpoints" / f"{name}.safetensors", checkpoint)
        for old in _checkpoints(self.folder)[:-KEPT]:
            with suppress(OSError):  # it will be tried again
                old.unlink()

    def latest_checkpoint(self) -> Checkpoint | None:
        """The newest whole checkpoint; a damaged one is passed over."""
        paths = _checkpoints(self.folder)
        for path in reversed(paths):
            try:
                return read_checkpoint(path)
            except AnyshotError as error:
                log.warning("%s The one before it is used.", error)
        if paths:
            raise AnyshotError(
                f"No checkpoint of the run '{self.folder}' can be read; delete its folder 'checkpoints' to start again."
            )
        return None

    @property
    def best_path(self) -> Path:
        """The file of the parameters to use."""
        return self.folder / "best.safetensors"

    @rank_zero_only
    def save_best(self, checkpoint: Checkpoint) -> None:
        """The parameters to use from now on."""
        write_checkpoint(self.best_path, checkpoint)

    def best(self) -> Checkpoint:
        """The parameters that validation chose."""
        if not self.best_path.exists():
            raise AnyshotError(
                f"The run '{self.folder}' has no chosen parameters yet; let it reach its first validation (if its file "
                "best.safetensors is lost, delete the folder 'checkpoints' and train the run again)."
            )
        return read_checkpoint(self.best_path)

    def export(self, folder: str | Path) -> None:
        """Write what is needed to use the run: its settings, what it learned from, and its chosen parameters."""
        self.best()  # says so if there is none yet, or a damaged one
        write_json(Path(folder) / "config.json", self.info)
        shutil.copyfile(self.best_path, Path(folder) / self.best_path.name)

    def new_method(self, device: str = "cpu") -> Method:
        """The run's method at its start; code that is not anyshot's own must be what the run began with."""
        verify_code(self.code)
        method = create_method(self.settings.method, self.image_size, self.settings.train.seed)
        return method.to(choose_device(device))

    def load_method(self, device: str = "cpu", best: Checkpoint | None = None) -> Method:
        """The trained method, ready to predict on a device (``auto``: the best there is)."""
        method = self.new_method(device)
        with self.matching_tensors("best.safetensors"):
            best = best or self.best()
            method.load_state_dict(best.tensors)
            method.temperature = float(best.state.get("temperature", 1.0))
        return method.requires_grad_(False)

    @contextmanager
    def matching_tensors(self, name: str) -> Iterator[None]:
        """Tensors that are not those of the settings' method are an error in one sentence."""
        try:
            yield
        except (RuntimeError, KeyError, TypeError, ValueError) as error:
            first = str(error).splitlines()[0]
            raise AnyshotError(
                f"{name} of the run '{self.folder}' does not fit its settings ({first})."
            ) from error


def load(run: str | Path, device: str = "cpu") -> Method:
    """The trained method of a run's folder, or of weights that come with anyshot, ready to predict.

    method = anyshot.load("cifar-fs")
    predictor = method.adapt(images, labels)
    """
    return Run(run).load_method(device)


@contextmanager
def exclusive_training(folder: str | Path) -> Iterator[None]:
    """The folder is this training's alone until the block ends or the process dies. What earlier ones left half written
    goes; a folder in which no run has begun is left as it was found."""
    folder = Path(folder)
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    with os_errors_as_messages("create", folder):
        folder.mkdir(parents=True, exist_ok=True)
    busy = f"The run '{folder}' is being trained by another process; wait for it, or choose another folder."
    try:
        with lock_folder(folder / ".lock", busy):
            for place in (folder, folder / "checkpoints"):
                remove_stale_temporaries(place, files=True)
            try:
                yield
            finally:
                if Run.find_started(folder) is None:
                    (folder / "run.json").unlink(missing_ok=True)
    finally:
        for path in (folder / "checkpoints", *made):
            with suppress(OSError):  # not empty: it has begun
                path.rmdir()


def _checkpoints(folder: Path) -> list[Path]:
    place = folder / "checkpoints"
    if not place.is_dir():
        return []
    with os_errors_as_messages("read", place):
        return sorted(
            path for path in place.iterdir() if NAME.fullmatch(path.name) and path.is_file()
        )


def _longer(old: Settings, new: Settings) -> bool:
    """Whether only the number of iterations differs, and grows."""
    same = replace(new, train=replace(new.train, iterations=old.train.iterations))
    return same == old and new.train.iterations > old.train.iterations


def _extends(old: Settings, new: Settings) -> bool:
    """Longer, and the same up to where the old one ends: a decay of the rate is that of the whole run."""
    return _longer(old, new) and old.train.decay == "none"


def _why_not_longer(old: Settings, new: Settings) -> str:
    return " A run whose rate decays cannot be extended." if _longer(old, new) else ""


def _differences(old: Settings, new: Settings) -> str:
    """way 5, not 10; rate 0.001, not 0.002"""
    a, b = _flat(old.as_dict()), _flat(new.as_dict())
    return "; ".join(
        f"{key} {a.get(key)}, not {b.get(key)}" for key in a | b if a.get(key) != b.get(key)
    )


def _flat(values: dict[str, Any]) -> dict[str, Any]:
    parts = [_flat(v) if isinstance(v, dict) else {k: v} for k, v in values.items()]
    return {key: value for part in parts for key, value in part.items()}
