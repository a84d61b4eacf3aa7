from __future__ import annotations

import json
import random

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from anyshot.core.errors import RunError
from anyshot.runs.checkpoint import (
    Checkpoint,
    CheckpointFolder,
    read_checkpoint,
    write_checkpoint,
)


@pytest.fixture
def written(tmp_path):
    tensors = {
        "weight": torch.randn(3, 4, generator=torch.Generator().manual_seed(0)),
        "step": torch.tensor(7.0),
        "half": torch.ones(5, dtype=torch.bfloat16),
        "none": torch.zeros(0, 3),
    }
    checkpoint = Checkpoint({"iteration": 7, "best": 0.5, "name": "ω"}, tensors)
    write_checkpoint(tmp_path / "a.safetensors", checkpoint)
    return tmp_path / "a.safetensors", checkpoint


def test_written_checkpoint_is_read_back(written):
    path, checkpoint = written
    found = read_checkpoint(path)
    assert found.state == checkpoint.state
    assert found.tensors.keys() == checkpoint.tensors.keys()
    for name, tensor in checkpoint.tensors.items():
        assert found.tensors[name].dtype == tensor.dtype
        assert torch.equal(found.tensors[name], tensor)


def test_every_flipped_bit_is_detected(written):
    path, checkpoint = written
    whole = path.read_bytes()
    rng = random.Random(0)
    for bit in rng.sample(range(8 * len(whole)), 400):
        broken = bytearray(whole)
        broken[bit // 8] ^= 1 << bit % 8
        path.write_bytes(broken)
        try:
            found = read_checkpoint(path)
        except RunError:
            continue
        # A changed blank in the header changes nothing that is read.
        assert found.state == checkpoint.state
        assert all(
            torch.equal(found.tensors[name], tensor) for name, tensor in checkpoint.tensors.items()
        )


@pytest.mark.parametrize("state", ["{}", "3", "null", "", json.dumps({"iteration": 0})])
def test_state_of_another_checkpoint_is_refused(written, state):
    path, checkpoint = written
    with safe_open(path, "pt") as file:
        sha256 = file.metadata()["sha256"]
    save_file(checkpoint.tensors, path, {"state": state, "sha256": sha256})
    with pytest.raises(RunError, match=r"a\.safetensors.*digest"):
        read_checkpoint(path)


@pytest.mark.parametrize(
    "content", [b"", b"x", b"\xff" * 64, b"{}" * 50, (2).to_bytes(8, "little") + b"{}"]
)
def test_file_that_is_not_a_checkpoint_is_refused(tmp_path, content):
    (tmp_path / "a.safetensors").write_bytes(content)
    with pytest.raises(RunError, match="damaged"):
        read_checkpoint(tmp_path / "a.safetensors")


@pytest.mark.parametrize(("writer", "reader"), [("a", "b"), (None, "b"), ("a", None)])
def test_checkpoint_of_another_run_is_refused(tmp_path, writer, reader):
    CheckpointFolder(tmp_path, writer).save("meta-0000001", Checkpoint({"iteration": 1}, {}))
    with pytest.raises(RunError, match=r"meta-0000001\.safetensors.*another run"):
        CheckpointFolder(tmp_path, reader).latest()


@pytest.mark.parametrize("run_id", ["a", None])
def test_checkpoint_of_the_same_run_is_read(tmp_path, run_id):
    CheckpointFolder(tmp_path, run_id).save("meta-0000001", Checkpoint({"iteration": 1}, {}))
    assert CheckpointFolder(tmp_path, run_id).latest() == Checkpoint({"iteration": 1}, {}, run_id)
