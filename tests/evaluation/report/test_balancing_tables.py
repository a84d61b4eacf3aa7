from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from anyshot.evaluation.inspection import BalanceRecord
from anyshot.evaluation.report import balancing_tables as balance


def text(table) -> str:
    console = Console(width=200)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def record(index=0, shots=(1, 3, 9), images="glyphs", **changes) -> BalanceRecord:
    way = len(shots)
    values = BalanceRecord(
        images,
        index,
        shots,
        ("conv 1", "conv 2", "conv 3", "conv 4", "head"),
        omega_mean=[1 / way] * way,
        omega_std=[0.1] * way,
        omega_inferred=[0.0] * way,
        omega_prior=[0.0] * way,
        gamma_mean=[1.0, 1.1, 1.2, 1.3, 4.0],
        gamma_std=[0.1] * 5,
        gamma_at_mean=[0.9, 1.0, 1.1, 1.2, 3.0],
        z_norm=2.0,
        z_std=0.5,
    )
    return replace(values, **changes)


def test_balance_is_averaged_within_ranges_of_size_by_image_set():
    records = [
        record(0, (1, 3, 9), omega_mean=[0.5, 0.3, 0.2]),
        record(1, (1, 4, 60), omega_mean=[0.4, 0.4, 0.2]),
        record(0, (2, 2), "digits"),
    ]
    actual = balance.balance_summary(records)
    sizes = [(group["images"], group["images in class"]) for group in actual["omega"]]
    assert sizes == [("glyphs", s) for s in ("1", "2-5", "6-15", ">50")] + [("digits", "all equal")]
    assert actual["omega"][0]["C·ω"]["mean"] == pytest.approx(3 * 0.45)
    assert actual["omega"][1]["C·ω"]["mean"] == pytest.approx(3 * 0.35)
    assert actual["omega"][0]["C·ω"]["deviation"] == pytest.approx(0.3)
    assert actual["omega"][0]["tasks"] == 2
    assert [group["images in task"] for group in actual["gamma"]] == ["1-25", "51-100", "1-25"]
    assert actual["gamma"][0]["γ head"]["mean"] == pytest.approx(4.0)
    assert actual["z"] == [
        {"images": "glyphs", "‖z‖": 2.0, "mean σ of z": 0.5, "tasks": 2},
        {"images": "digits", "‖z‖": 2.0, "mean σ of z": 0.5, "tasks": 1},
    ]


def test_the_order_of_records_changes_no_average():
    rng = np.random.default_rng(0)
    records = [record(i, tuple(rng.integers(1, 51, 5).tolist())) for i in range(20)]
    first = balance.balance_summary(records)
    again = balance.balance_summary(records[::-1])
    for one, two in zip(first["omega"], again["omega"], strict=True):
        assert one["C·ω"]["mean"] == pytest.approx(two["C·ω"]["mean"], rel=1e-12)


def test_inferred_weights_and_the_prior_by_class_size_are_shown_apart():
    prior = [-np.log(n) for n in (1, 4, 9)]  # τ = 1: weights ∝ 1/N, whatever the images say
    one = record(0, (1, 4, 9), omega_prior=prior, omega_inferred=[0.0, 0.0, np.log(2)])
    rows = balance.balance_summary([one])["omega"]
    total = 1 + 1 / 4 + 1 / 9
    alone = [3 / total, 3 / 4 / total, 3 / 9 / total]
    assert [row["prior alone"] for row in rows] == pytest.approx(alone)
    assert [row["inferred alone"] for row in rows] == pytest.approx([3 / 4, 3 / 4, 6 / 4])


def test_gamma_is_shown_at_the_posterior_mean_besides_its_mean():
    actual = balance.balance_summary([record(0), record(1, gamma_at_mean=[1.9, 2, 3, 4, 5])])
    assert actual["gamma"][0]["γ conv 1"] == {"mean": 1.0, "deviation": pytest.approx(0.1)}
    assert actual["gamma_at_mean"][0]["γ conv 1"] == pytest.approx(1.4)
    assert actual["gamma_at_mean"][0]["images in task"] == "1-25"


def test_variables_that_are_off_have_no_table():
    every = balance.balance_tables([record()])
    assert [table.title for table in every] == list(balance.TITLES.values())
    assert "1.10 ± 0.10" in text(every[1])
    off = record(omega_mean=None, omega_std=None, z_norm=None, z_std=None)
    titles = [table.title for table in balance.balance_tables([off])]
    assert titles == [every[1].title, every[2].title]
