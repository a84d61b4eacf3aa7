"""Checkpoints: tensors and plain values in one safetensors file with a digest of both.

A run keeps its newest checkpoints in ``RUN/checkpoints``. The metadata of a file are the state as
JSON, the digest, and the identity of the run that wrote it.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from anyshot.core.errors import RunError
from anyshot.core.files import os_errors_as_messages, to_plain, write_tensors

log = logging.getLogger(__name__)

KEPT = 2  #: checkpoints that stay on disk: the newest, and one more in case that one is damaged
NAME = re.compile(r"[a-z]+-\d+\.safetensors")  #: of a checkpoint file; names sort by time


@dataclass(frozen=True)
class Checkpoint:
    """State of a run at one moment.

    Parameters
    ----------
    state : dict
        Plain values, such as the iteration.
    tensors : dict of str to Tensor
        Parameters and optimiser state by name.
    run_id : str, optional
        Identity of the run that wrote it; None for checkpoints of runs without one.
    """

    state: dict[str, Any]
    tensors: dict[str, Tensor]
    run_id: str | None = None


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint atomically, as safetensors."""
    state = json.dumps(to_plain(checkpoint.state))
    metadata = {"state": state, "sha256": digest(state, checkpoint.tensors)}
    if checkpoint.run_id is not None:
        metadata["run"] = checkpoint.run_id
    write_tensors(path, checkpoint.tensors, metadata)


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint; a file that :func:`write_checkpoint` did not write is a RunError."""
    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata() or {}
            names = file.keys()  # the file is not a dict and cannot be iterated over
            tensors = {name: file.get_tensor(name) for name in names}
    except (SafetensorError, OSError) as error:
        raise RunError(f"The checkpoint '{path}' is damaged ({error}).") from error
    state = metadata.get("state", "")
    if digest(state, tensors) != metadata.get("sha256"):
        raise RunError(f"The checkpoint '{path}' is damaged (its digest is wrong).")
    return Checkpoint(json.loads(state), tensors, metadata.get("run"))


def digest(state: str, tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 of a text and of tensors with their names, types and shapes."""
    total = hashlib.sha256(state.encode())
    for name, tensor in sorted(tensors.items()):
        flat = tensor.detach().cpu().contiguous().flatten()
        total.update(f"{name} {tensor.dtype} {list(tensor.shape)} ".encode())
        total.update(flat.view(torch.uint8).numpy().data)
    return total.hexdigest()


class CheckpointFolder:
    """The newest checkpoints of one run.

    Parameters
    ----------
    path : Path
        The folder; it need not exist.
    run_id : str or None
        Identity of the run. It is written into each checkpoint, and checkpoints of other runs are
        refused.
    """

    def __init__(self, path: Path, run_id: str | None = None) -> None:
        self.path = path
        self.run_id = run_id

    def paths(self) -> list[Path]:
        """Return the checkpoint files, the oldest first."""
        if not self.path.is_dir():
            return []
        with os_errors_as_messages("read", self.path):
            return sorted(
                path for path in self.path.iterdir() if NAME.fullmatch(path.name) and path.is_file()
            )

    def save(self, name: str, checkpoint: Checkpoint) -> None:
        """Write a checkpoint, then delete all but the newest few."""
        path = self.path / f"{name}.safetensors"
        write_checkpoint(path, replace(checkpoint, run_id=self.run_id))
        for old in self.paths()[:-KEPT]:
            with suppress(OSError):  # the next save tries again
                old.unlink()

    def latest(self) -> Checkpoint | None:
        """Return the newest intact checkpoint; None if there are no files."""
        paths = self.paths()
        for path in reversed(paths):
            try:
                checkpoint = read_checkpoint(path)
            except RunError as error:
                log.warning("%s Using the one before it.", error)
                continue
            check_run_id(checkpoint, self.run_id, path)
            return checkpoint
        if paths:
            raise RunError(
                f"No checkpoint in '{self.path}' can be read; delete that folder to start again."
            )
        return None


def check_run_id(checkpoint: Checkpoint, run_id: str | None, path: Path) -> None:
    """Refuse a checkpoint that another run has written."""
    if checkpoint.run_id != run_id:
        raise RunError(
            f"'{path}' belongs to another run (run {checkpoint.run_id or 'without identity'}, "
            f"expected {run_id or 'one without identity'}); move it out of this folder."
        )
