from __future__ import annotations

import dataclasses

import pytest

from anyshot.cli.main import main
from anyshot.experiments import estimate
from anyshot.experiments import scale as scales

FILE = """
from anyshot.experiments import Block, Column, Experiment, Model

EXPERIMENT = Experiment(
    "mine", "Mine", (Model("MAML", "maml"), Model("TAML", test={{"prediction": "naive"}})),
    (Block("cifar-fs-paper", (Column({images!r}),), images=({images!r},)),),
)
"""


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    return end.value.code or 0


def test_an_experiment_file_runs_and_is_not_run_twice(tiny, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(scales.SCALES, "smoke", dataclasses.replace(scales.SMOKE, data=None))
    file = tmp_path / "mine.py"
    file.write_text(FILE.format(images=tiny))
    arguments = ("reproduce", file, "--scale", "smoke", "--out", tmp_path / "out", "--tasks", 4)
    assert run(*arguments) == 0
    first = capsys.readouterr().out
    assert "TAML minus" in first
    assert f"In {tmp_path / 'out' / 'mine-smoke'}" in first.replace("\n", "")
    monkeypatch.setattr("anyshot.training.meta_training.MetaTraining.step", None)
    assert run(*arguments) == 0
    assert capsys.readouterr().out == first


def test_the_list_shows_needed_images(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("ANYSHOT_CACHE", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "250")
    monkeypatch.setattr(estimate, "measure_speed", lambda: estimate.Speed(0.2, 0.1, 0.001))
    assert run("reproduce", "list") == 0
    out = capsys.readouterr().out
    assert "– cifar-fs, – miniimagenet, – svhn, – cub" in out
    assert "any-shot" in out


def test_wrong_arguments_have_their_exit_codes():
    assert run("reproduce", "any-shots", "--scale", "smoke") == 1
    assert run("reproduce", "any-shot", "--scale", "large") == 2
    assert run("reproduce", "any-shot", "--data", "a,,b") == 2
