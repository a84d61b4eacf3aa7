from __future__ import annotations

import json

import pytest
from support import run_command as run

from anyshot.evaluation import inspection


def test_balancing_variables_are_printed_drawn_and_written(trained, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    files = ("--figures", tmp_path / "figures", "--json", tmp_path / "out.json")
    assert run("inspect", trained["taml"], "--tasks", 4, *files) == 0
    out = capsys.readouterr().out
    names = sorted(path.name for path in (tmp_path / "figures").iterdir())
    assert names == [
        f"{name}.{kind}" for name in ("gamma", "omega", "training", "z") for kind in ("png", "svg")
    ]
    found = json.loads((tmp_path / "out.json").read_text())["results"]
    assert len(found["tasks"]) == 4
    for record in found["tasks"]:
        assert sum(record["omega_mean"]) == pytest.approx(1, abs=1e-5)
        assert len(record["gamma_mean"]) == 5
    mean = found["z"][0]["‖z‖"]
    assert mean == pytest.approx(sum(record["z_norm"] for record in found["tasks"]) / 4)
    assert f"{mean:.3g}" in out


def test_figures_are_written_to_the_run_by_default(trained):
    assert run("inspect", trained["taml"], "--tasks", 1) == 0
    assert (trained["taml"] / "figures" / "omega.png").is_file()


def test_outputs_and_tasks_are_checked_before_the_work(trained, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        inspection,
        "inspect_stream",
        lambda method, stream, tasks: pytest.fail("the work has begun"),
    )
    (tmp_path / "file").write_text("")
    assert run("inspect", trained["taml"], "--json", tmp_path) == 1
    assert run("inspect", trained["taml"], "--figures", tmp_path / "file") == 1
    assert capsys.readouterr().err.count("Cannot write") == 2
    assert run("inspect", trained["taml"], "--way", 9) == 1
    assert "4 classes in its test split, but a task needs 9" in capsys.readouterr().err


def test_small_classes_are_warned_about(trained, capsys):
    assert run("inspect", trained["taml"], "--tasks", 1, "--shots", "fixed:40") == 0
    assert "tiny: 4 of 4 test classes are too small for fixed:40" in capsys.readouterr().err


def test_a_method_without_balancing_variables_is_an_error(trained, capsys):
    assert run("inspect", trained["maml"], "--tasks", 1) == 1
    assert "no balancing variables" in capsys.readouterr().err.splitlines()[-1]
