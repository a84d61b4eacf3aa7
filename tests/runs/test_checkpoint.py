from __future__ import annotations

import json
import random

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from anyshot.core.errors import AnyshotError
from anyshot.runs.checkpoint import Checkpoint, read_checkpoint, write_checkpoint


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


def test_what_was_written_is_read(written):
    path, checkpoint = written
    found = read_checkpoint(path)
    assert found.state == checkpoint.state
    assert found.tensors.keys() == checkpoint.tensors.keys()
    for name, tensor in checkpoint.tensors.items():
        assert found.tensors[name].dtype == tensor.dtype
        assert torch.equal(found.tensors[name], tensor)


def test_no_flipped_bit_goes_unnoticed(written):
    path, checkpoint = written
    whole = path.read_bytes()
    rng = random.Random(0)
    for bit in rng.sample(range(8 * len(whole)), 400):
        broken = bytearray(whole)
        broken[bit // 8] ^= 1 << bit % 8
        path.write_bytes(broken)
        try:
            found = read_checkpoint(path)
        except AnyshotError:
            continue
        # A changed blank in the header, say, changes nothing that is read.
        assert found.state == checkpoint.state
        assert all(
            torch.equal(found.tensors[name], tensor) for name, tensor in checkpoint.tensors.items()
        )


@pytest.mark.parametrize("state", ["{}", "3", "null", "", json.dumps({"iteration": 0})])
def test_a_state_that_was_not_written_with_these_tensors_is_refused(written, state):
    path, checkpoint = written
    with safe_open(path, "pt") as file:
        sha256 = file.metadata()["sha256"]
    save_file(checkpoint.tensors, path, {"state": state, "sha256": sha256})
    with pytest.raises(AnyshotError, match="not what was written"):
        read_checkpoint(path)


@pytest.mark.parametrize(
    "content", [b"", b"x", b"\xff" * 64, b"{}" * 50, (2).to_bytes(8, "little") + b"{}"]
)
def test_what_is_no_checkpoint_is_refused(tmp_path, content):
    (tmp_path / "a.safetensors").write_bytes(content)
    with pytest.raises(AnyshotError, match="damaged"):
        read_checkpoint(tmp_path / "a.safetensors")
