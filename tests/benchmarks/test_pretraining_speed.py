"""All contestants do the same work."""

from __future__ import annotations

import pytest
from pretraining_speed import run_benchmark


def test_our_step_and_the_torch_loops_reach_the_same_loss():
    result = run_benchmark(batch=16, size=16, rounds=2, steps=2)
    losses = {name: numbers["loss"] for name, numbers in result["contestants"].items()}
    assert len(losses) == 5
    for name, loss in losses.items():  # a whole batch has other batch statistics
        assert loss == pytest.approx(losses["ours"], rel=1e-3 if "halves" in name else 0.2)
    best = max(
        f["images_per_second"] for name, f in result["contestants"].items() if name != "ours"
    )
    ours = result["contestants"]["ours"]["images_per_second"]
    assert result["speedup"]["images_per_second"] == pytest.approx(ours / best)
