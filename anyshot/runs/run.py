"""A run folder: everything that is needed to repeat a run, continue it or use what it has learned.

RUN/run.json                               settings, image sets with classes, splits and checksums,
                                           image size, version, command, fingerprints of user code
RUN/code/                                  copies of user code (see runs/user_code.py)
RUN/log.jsonl                              one line per iteration or validation
RUN/checkpoints/meta-0000120.safetensors   the state that the next iteration depends on
RUN/best.safetensors                       the parameters that validation chose
RUN/pretrain/                              the run of the pre-training stage, if there is one
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from anyshot.core.errors import RunError
from anyshot.core.files import write_json
from anyshot.core.parallel.device import choose_device
from anyshot.core.parallel.ranks import rank_zero_only
from anyshot.core.settings import Settings
from anyshot.core.settings_diff import describe_differences
from anyshot.core.text import join_words
from anyshot.core.version import VERSION
from anyshot.data import ImageSet
from anyshot.methods import Ensemble, Method, create_method
from anyshot.runs import pretrained, user_code
from anyshot.runs.checkpoint import (
    Checkpoint,
    CheckpointFolder,
    check_run_id,
    read_checkpoint,
    write_checkpoint,
)
from anyshot.runs.description import description_file, read_description
from anyshot.runs.identity import extends, is_longer, run_identity
from anyshot.runs.image_record import SetRecord
from anyshot.runs.image_sets import open_for_evaluation
from anyshot.runs.log_file import LogFile
from anyshot.runs.packing import other_members, pack

log = logging.getLogger(__name__)

PRETRAIN_FOLDER = "pretrain"  #: of the pre-training stage, which is itself a run


class Run:
    """A run folder that exists, or a pretrained method that comes with anyshot.

    Parameters
    ----------
    folder : str or Path
        Folder that ``anyshot train`` wrote, or a name that ``anyshot weights`` lists.
    trust_code : bool
        Whether user code that the run names (a method, body, statistic or shot rule that does not
        come with anyshot) may be executed. Reading the folder never executes it;
        :meth:`load_method` does.

    Attributes
    ----------
    settings : Settings
        Settings of the run.
    image_size : tuple of int
        Height and width of the images.
    sets : tuple of SetRecord
        Image sets that the run was trained and validated on.
    info : dict
        Everything in ``run.json``.

    Raises
    ------
    RunError
        If there is no run in the folder, or its description is damaged.

    Examples
    --------
    >>> run = Run("glyphs")
    >>> run.settings.method.name
    'taml'
    >>> method = run.load_method()
    """

    def __init__(self, folder: str | Path, trust_code: bool = False) -> None:
        self.folder = Path(folder)
        self.trust_code = trust_code
        if not description_file(self.folder) and str(folder) in pretrained.pretrained_models():
            self.folder = pretrained.HOME / str(folder)
        file = description_file(self.folder)
        if file is None:
            names = join_words(list(pretrained.pretrained_models()))
            raise RunError(
                f"There is no run in '{self.folder}'; anyshot train creates one"
                + (f". {names} come with anyshot." if names else ".")
            )
        description = read_description(file)
        self.info = description.info
        self.settings = description.settings
        self.trained_way = description.settings.task.way  # tests may change the settings
        self.image_size = description.image_size
        self.sets = description.sets
        self.code = description.code
        self.run_id = description.run_id
        self.log_file = LogFile(self.folder / "log.jsonl")
        self.checkpoints = CheckpointFolder(self.folder / "checkpoints", self.run_id)

    @classmethod
    def find_started(cls, folder: str | Path) -> Run | None:
        """Return the run in a folder if a stage has a checkpoint or a log, otherwise None."""
        if not (Path(folder) / "run.json").is_file():
            return None
        run = cls(folder)
        started = run.log_file.exists() or run.has_checkpoint() or run.pretraining()
        return run if started else None

    def pretraining(self) -> Run | None:
        """Return the run of the pre-training stage if it has started, otherwise None."""
        return self.find_started(self.folder / PRETRAIN_FOLDER) if self.settings.pretrain else None

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
        """Create a run, continue the one in the folder, or extend it by more iterations.

        The caller gives the settings, so the run's code is trusted.

        Raises
        ------
        RunError
            If the folder holds a run with other settings, or packed weights.
        """
        folder = Path(folder)
        run = cls.find_started(folder)
        if run is None:
            if (folder / "config.json").exists():
                raise RunError(
                    f"'{folder}' holds packed weights, which would be overwritten; choose another "
                    "folder (--from starts from their body)."
                )
            code = user_code.record_code(settings)
            run_id: str | None = run_identity(settings, image_size, sets, code, body)
            user_code.copy_code(code, folder)
        elif run.settings == settings:
            return cls(folder, trust_code=True)
        elif extends(run.settings, settings):
            sets = run.sets
            code = run.code
            body = run.info.get("body")
            run_id = run.run_id
        else:
            changes = describe_differences(run.settings.as_dict(), settings.as_dict())
            decays = is_longer(run.settings, settings)
            raise RunError(
                f"'{folder}' holds a run with other settings ({changes}); choose another folder or "
                "delete it."
                + (" A run whose learning rate decays cannot be extended." if decays else "")
            )
        info = {
            "settings": settings.as_dict(), "image_size": image_size, "version": VERSION,
            "command": command, "threads": torch.get_num_threads(), "sets": sets, "code": code,
            "body": body, "id": run_id,
        }  # fmt: skip
        write_json(folder / "run.json", info)
        return cls(folder, trust_code=True)

    def imageset(self, source: str | Path | ImageSet) -> ImageSet:
        """Open an image set with the splits that tests of this run must use.

        Classes of the run's own sets keep the split that they had when the run started; classes
        added since are test classes. Classes of any other set whose images this run was trained on
        move to the train split.

        Parameters
        ----------
        source : str, Path or ImageSet
            Name or folder of an image set, or the set itself.

        Returns
        -------
        ImageSet
        """
        images, moved = open_for_evaluation(source, self.sets, self.image_size)
        if moved:
            log.warning(
                "%s: the run '%s' was trained on the images of %d of its classes (%s); they count "
                "as training classes (use --split train to test on them).",
                images.name, self.folder, len(moved),
                ", ".join(moved[:3]) + (" …" if len(moved) > 3 else ""),
            )  # fmt: skip
        return images

    # ------------------------------------------------------------------------------------------ log
    @rank_zero_only
    def log(self, record: Mapping[str, Any]) -> None:
        """Add a record to the log."""
        self.log_file.append(record)

    def records(self, kind: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield the records of the log.

        Parameters
        ----------
        kind : str, optional
            Only records of this kind: "iteration", "validation" or "calibration" of meta-training,
            "epoch" or "check" of pre-training.
        """
        return self.log_file.records(kind)

    @rank_zero_only
    def truncate_log(self, lines: int) -> None:
        """Keep the first ``lines`` lines; what came after the checkpoint will be written again."""
        self.log_file.truncate(lines)

    def log_lines(self) -> int:
        """Return the number of lines of the log."""
        return self.log_file.count_lines()

    # ---------------------------------------------------------------------------------- checkpoints
    def progress(self) -> float:
        """Return the share of the training that is done; both stages count as one half."""
        paths = self.checkpoints.paths()
        done = int(paths[-1].stem.rpartition("-")[2]) if paths else 0
        s = self.settings
        if s.pretrain is None:
            return done / s.train.iterations
        if s.pretrains_only:
            return done / s.pretrain.epochs
        if paths:
            return (1 + done / s.train.iterations) / 2
        body = self.pretraining()
        return body.progress() / 2 if body else 0.0

    def has_checkpoint(self) -> bool:
        """Return whether the run has a checkpoint, those of pre-training not counted."""
        return bool(self.checkpoints.paths())

    @rank_zero_only
    def record_body(self, body: Mapping[str, str]) -> None:
        """Write to run.json which body the meta-training started from."""
        self.info["body"] = dict(body)
        write_json(self.folder / "run.json", self.info)

    @rank_zero_only
    def save_checkpoint(self, name: str, checkpoint: Checkpoint) -> None:
        """Write a checkpoint and delete all but the newest few. Names must sort by time."""
        self.checkpoints.save(name, checkpoint)

    def latest_checkpoint(self) -> Checkpoint | None:
        """Return the newest intact checkpoint of this run, or None."""
        return self.checkpoints.latest()

    @property
    def best_path(self) -> Path:
        """File of the parameters that validation chose."""
        return self.folder / "best.safetensors"

    @rank_zero_only
    def save_best(self, checkpoint: Checkpoint) -> None:
        """Write the parameters to use."""
        write_checkpoint(self.best_path, replace(checkpoint, run_id=self.run_id))

    def best(self) -> Checkpoint:
        """Read the parameters that validation chose."""
        if not self.best_path.exists():
            raise RunError(
                f"The run '{self.folder}' has no chosen parameters yet; train it until its first "
                "validation. If its file best.safetensors is lost, delete the folder 'checkpoints' "
                "and train the run again."
            )
        checkpoint = read_checkpoint(self.best_path)
        check_run_id(checkpoint, self.run_id, self.best_path)
        return checkpoint

    def export(self, folder: str | Path) -> None:
        """Write the settings, the recorded image sets, user code and the chosen parameters."""
        pack([self], folder)

    # --------------------------------------------------------------------------------------- method
    def resolve_settings(self) -> Settings:
        """Return the settings with import paths that lead to the code the run started with.

        Raises
        ------
        CodeError
            If the run names user code that is not trusted, or of which no intact copy is left.
        """
        return user_code.resolve_code(self.settings, self.code, self.folder, self.trust_code)

    def new_method(self, device: str = "cpu") -> Method:
        """Create the run's method with its initial parameters."""
        settings = self.resolve_settings()
        seed = settings.train.seed
        method = create_method(settings.method, self.image_size, seed, self.trained_way)
        return method.to(choose_device(device))

    def load_method(self, device: str = "cpu", best: Checkpoint | None = None) -> Method:
        """Load the trained method.

        Parameters
        ----------
        device : str
            Where to compute: "cpu", "cuda", "mps" or "auto".
        best : Checkpoint, optional
            The parameters, if they have been read already.

        Returns
        -------
        Method
            The method, ready for :meth:`Method.adapt` and :meth:`Method.predict`.

        Raises
        ------
        RunError
            If the run has no chosen parameters yet, or they do not fit the settings.
        CodeError
            If the run uses code that is not trusted (see ``trust_code``).
        """
        method = self.new_method(device)
        with self.matching_tensors("best.safetensors"):
            best = best or self.best()
            method.load_state_dict(best.tensors)
            method.temperature = float(best.state.get("temperature", 1.0))
        members = [member.load_method(device) for member in other_members(self)]
        return (Ensemble([method, *members]) if members else method).requires_grad_(False)

    @contextmanager
    def matching_tensors(self, name: str) -> Iterator[None]:
        """Turn errors about tensors that do not fit the method into a RunError."""
        try:
            yield
        except (RuntimeError, KeyError, TypeError, ValueError) as error:
            reason = str(error).splitlines()[0]
            raise RunError(
                f"{name} of the run '{self.folder}' does not fit its settings ({reason})."
            ) from error
