"""A moment of a run in one file: tensors, plain values, and a digest of both, so that no changed bit goes unnoticed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from anyshot.core.errors import AnyshotError
from anyshot.core.files import to_plain, write_tensors


@dataclass(frozen=True)
class Checkpoint:
    """Where a run stands (plain values) and its tensors."""

    state: dict[str, Any]
    tensors: dict[str, Tensor]


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write whole or not at all, as safetensors; the state and the digest are the file's metadata."""
    state = json.dumps(to_plain(checkpoint.state))
    write_tensors(
        path, checkpoint.tensors, {"state": state, "sha256": digest(state, checkpoint.tensors)}
    )


def read_checkpoint(path: Path) -> Checkpoint:
    """Read what :func:`write_checkpoint` wrote; anything else is an error with the reason."""
    try:
        with safe_open(path, "pt") as file:
            about = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no dict)
    except (SafetensorError, OSError) as error:
        raise AnyshotError(f"The checkpoint '{path}' is damaged ({error}).") from error
    state = about.get("state", "")
    if digest(state, tensors) != about.get("sha256"):
        raise AnyshotError(
            f"The checkpoint '{path}' is damaged (its content is not what was written)."
        )
    return Checkpoint(json.loads(state), tensors)


def digest(state: str, tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 of a text and of tensors with their names, types and shapes."""
    total = hashlib.sha256(state.encode())
    for name, tensor in sorted(tensors.items()):
        flat = tensor.detach().cpu().contiguous().flatten()
        total.update(f"{name} {tensor.dtype} {list(tensor.shape)} ".encode())
        total.update(flat.view(torch.uint8).numpy().data)
    return total.hexdigest()
