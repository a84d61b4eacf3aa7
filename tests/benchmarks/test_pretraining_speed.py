"""Both sides of the comparison do the same work."""

from __future__ import annotations

import pytest
from pretraining_speed import bench_warm


def test_our_step_and_the_loop_in_halves_reach_the_same_loss():
    found = bench_warm(batch=16, size=16, rounds=2, steps=2)
    losses = {name: figures["loss"] for name, figures in found["contestants"].items()}
    assert len(losses) == 5
    for name, loss in losses.items():  # a whole batch has other statistics and other views
        assert loss == pytest.approx(losses["ours"], rel=1e-3 if "halves" in name else 0.2)
    best = max(f["images_per_second"] for name, f in found["contestants"].items() if name != "ours")
    ours = found["contestants"]["ours"]["images_per_second"]
    assert found["speedup"]["images_per_second"] == pytest.approx(ours / best)
