"""The model of many ranks in cases with a known answer."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import scaling
from scaling_model import (
    COLLECTIVES,
    LATENCY,
    Measured,
    efficiency,
    exchange,
    idle_shares,
    sample_sizes,
    seconds,
)

EQUAL = Measured(
    start=0.1, slope=0.0, draw=0.0, apply=0.0, gradient=1_000_000, byte=0.0, sizes=(50,) * 256
)
MIXED = replace(
    EQUAL, slope=0.001, draw=1e-4, apply=1e-3, byte=1e-9, sizes=tuple(range(5, 251)) * 2
)


def test_one_rank_exchanges_nothing():
    assert exchange(EQUAL, 1, 4, 1e9) == 0
    assert seconds(EQUAL, 1, 4, 1e9) == pytest.approx(0.4)
    assert efficiency(MIXED, 1, 4, 1e9) == 1


def test_equal_tasks_lose_only_the_time_of_the_network():
    # 16 tasks on 4 ranks: each sends (4 + 1) gradients less its own quarter
    spent = 5 * 1_000_000 * 3 / 4 * 8 / 1e9 + COLLECTIVES * 3 * LATENCY
    assert seconds(EQUAL, 4, 16, 1e9) == pytest.approx(0.4 + spent)
    assert efficiency(EQUAL, 4, 16, 1e9) == pytest.approx(0.4 / (0.4 + spent))
    assert idle_shares(EQUAL, 4, 16) == {"by cost": 0, "in turn": 0}


def test_more_ranks_and_slower_networks_are_less_efficient():
    efficiencies = [efficiency(MIXED, ranks, 64, 1e9) for ranks in (1, 4, 16, 64)]
    assert efficiencies == sorted(efficiencies, reverse=True)
    assert efficiency(MIXED, 16, 64, 1e9) < efficiency(MIXED, 16, 64, 1e10)
    shares = idle_shares(MIXED, 4, 16)
    assert 0 < shares["by cost"] < shares["in turn"]


def test_saved_measurements_are_predicted_again(tmp_path, capsys):
    modes = {mode: [1.0, 2.0, 1.5] for mode in ("1 × 1", "2 × 1", "1 × 2")}
    case = {
        "shots": "any-shot:1-50",
        "seconds": modes,
        "cpu_seconds": modes,
        "speedup": 1.7,
        "speedup_of_minima": 1.8,
        "speedup_of_threads": 1.5,
        "idle": {"by cost": 0.1, "in turn": 0.2},
        "gradient_bytes": 100,
        "sent_bytes": 300,
        "ordered_sum_seconds": 0.002,
        "all_reduce_seconds": 0.001,
        "model": {name: value for name, value in vars(MIXED).items() if name != "sizes"},
    }
    machine = {"cores": 2, "load": 0.1, "torch": "2"}
    (tmp_path / "scaling.json").write_text(
        json.dumps({"machine": machine, "cases": {"32×32": case}})
    )
    scaling.main(["--predict", str(tmp_path / "scaling.json")])
    out = capsys.readouterr().out
    assert "2 × 1 is 1.70 times as fast as 1 × 1" in out
    drawn = replace(MIXED, sizes=sample_sizes("any-shot:1-50"))
    assert f"| 64 tasks | 1 Gbit/s | {efficiency(drawn, 2, 64, 1e9):.0%} |" in out
    assert (tmp_path / "scaling.md").read_text() + "\n" == out
