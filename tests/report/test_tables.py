from __future__ import annotations

import csv
import json
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from anyshot.inspection import BalanceRecord
from anyshot.metrics import Metrics, TaskResult
from anyshot.report import tables


def summary(shots=(1, 20), seconds=2.0):
    metrics = Metrics()
    for index in range(4):
        metrics.update(TaskResult(index, [[0.9, 0.1], [0.6, 0.4]], [0, 1 if index else 0], shots))
    return metrics.compute(seconds)


def text(table, width=200) -> str:
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(table)
    console.file.close()
    return console.export_text()


def record(index=0, shots=(1, 3, 9), images="glyphs", **changes) -> BalanceRecord:
    way = len(shots)
    values = BalanceRecord(
        images, index, shots, [1 / way] * way, [0.1] * way, [1.0, 1.1, 1.2, 1.3, 4.0], [0.1] * 5, 2.0, 0.5
    )
    return replace(values, **changes)


def test_a_summary_table_shows_per_cent_the_interval_and_only_shots_that_occur():
    out = text(tables.summary_table([({"method": "taml", "images": "digits"}, summary())], title="Test"))
    assert "taml" in out
    assert "62.5 ± 24.5" in out  # one task of four has both right: 1.96 · 0.25 / 2
    assert "16–50" in out
    assert "2–5" not in out
    assert "2.0" in out  # tasks a second
    assert "4 tasks each" in out


def test_missing_numbers_are_dashes_and_failed_tasks_are_mentioned():
    one = replace(summary(), tasks=1, interval=None, tasks_per_second=None, failed=3)
    out = text(tables.summary_table([({"images": "a"}, one), ({"images": "b"}, summary((3, 3)))]))
    first, second = (line for line in out.splitlines() if line.strip().startswith(("a ", "b ")))
    assert "±" not in first
    assert "–" in first
    assert "±" in second
    assert "1 or 4 tasks each" in out
    assert "3 tasks had predictions that were not finite" in " ".join(out.split())


def test_a_full_summary_table_fits_a_terminal_of_80_columns():
    wide = replace(summary(), by_shots={"1": 1.0, "2-5": 1.0, "6-15": 1.0, "16-50": 1.0, ">50": None}, tasks=10_000)
    out = text(tables.summary_table([({"method": "proto-maml", "images": "digits"}, wide)]), width=80)
    assert "proto-maml" in out
    assert "digits" in out
    assert "62.5 ± 24.5" in out
    assert "…" not in out


def test_a_pipe_gets_tables_at_full_width(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "40")
    tables.print_tables(tables.summary_table([({"images": "a-rather-long-name" * 5}, summary())]))
    assert "a-rather-long-name" * 5 in capsys.readouterr().out


def test_the_csv_holds_the_summary_at_full_precision(tmp_path):
    found = summary()
    tables.write_csv(tmp_path / "out.csv", [({"method": "taml"}, found), ({"method": "maml"}, found)])
    with open(tmp_path / "out.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    assert [line["method"] for line in lines] == ["taml", "maml"]
    assert float(lines[0]["accuracy"]) == found.accuracy
    assert float(lines[0]["interval"]) == found.interval
    assert float(lines[0]["accuracy 1 shots"]) == found.by_shots["1"]
    assert lines[0]["accuracy 2-5 shots"] == ""


def test_the_json_holds_the_same_figures_and_where_they_come_from(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["/somewhere/bin/anyshot", "test", "my run"])
    rows = [({"method": "taml"}, summary())]
    tables.write_results(tmp_path / "out.json", tables.summaries_payload(rows), seeds=[0], settings={"way": 5})
    found = json.loads((tmp_path / "out.json").read_text())
    assert found["results"] == [{"method": "taml", **summary().as_dict()}]
    assert found["origin"]["settings"] == {"way": 5}
    assert found["origin"]["seeds"] == [0]
    assert found["origin"]["command"] == "anyshot test 'my run'"
    assert found["origin"]["cores"] >= 1
    assert {"version", "torch", "python", "time"} <= set(found["origin"])


def test_balance_is_averaged_within_ranges_of_size_by_image_set():
    records = [
        record(0, (1, 3, 9), omega_mean=[0.5, 0.3, 0.2]),
        record(1, (1, 4, 60), omega_mean=[0.4, 0.4, 0.2]),
        record(0, (2, 2), "digits"),
    ]
    found = tables.balance_summary(records)
    sizes = [(group["images"], group["images in class"]) for group in found["omega"]]
    assert sizes == [("glyphs", s) for s in ("1", "2-5", "6-15", ">50")] + [("digits", "all equal")]
    assert found["omega"][0]["C·ω"]["mean"] == pytest.approx(3 * 0.45)
    assert found["omega"][1]["C·ω"]["mean"] == pytest.approx(3 * 0.35)
    assert found["omega"][0]["C·ω"]["deviation"] == pytest.approx(0.3)
    assert found["omega"][0]["tasks"] == 2
    assert [group["images in task"] for group in found["gamma"]] == ["1-25", "51-100", "1-25"]
    assert found["gamma"][0]["γ head"]["mean"] == pytest.approx(4.0)
    assert found["z"] == [
        {"images": "glyphs", "‖z‖": 2.0, "mean σ of z": 0.5, "tasks": 2},
        {"images": "digits", "‖z‖": 2.0, "mean σ of z": 0.5, "tasks": 1},
    ]


def test_the_order_of_records_changes_no_average():
    rng = np.random.default_rng(0)
    records = [record(i, tuple(rng.integers(1, 51, 5).tolist())) for i in range(20)]
    first = tables.balance_summary(records)
    again = tables.balance_summary(records[::-1])
    for one, two in zip(first["omega"], again["omega"], strict=True):
        assert one["C·ω"]["mean"] == pytest.approx(two["C·ω"]["mean"], rel=1e-12)


def test_variables_that_are_off_have_no_table():
    every = tables.balance_tables([record()])
    assert len(every) == 3
    assert "1.10 ± 0.10" in text(every[1])
    off = record(omega_mean=None, omega_std=None, z_norm=None, z_std=None)
    assert [table.title for table in tables.balance_tables([off])] == [every[1].title]
