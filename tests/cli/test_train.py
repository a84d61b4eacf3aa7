from __future__ import annotations

import json

import pytest

from anyshot.cli import main
from anyshot.runs import Run


def run(*arguments) -> int:
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    return end.value.code or 0


def test_training_shows_the_validations_and_writes_the_same_figures(tiny, short, tmp_path, capsys):
    assert run("train", tmp_path / "run", "--images", tiny, *short, "--json", tmp_path / "out.json") == 0
    out = capsys.readouterr().out
    assert "chosen" in out
    assert f"anyshot test {tmp_path / 'run'}" in out
    found = json.loads((tmp_path / "out.json").read_text())
    records = list(Run(tmp_path / "run").records("validation"))
    assert found["results"]["validations"] == records
    assert [record["iteration"] for record in records] == [2, 4]
    for record in records:
        assert f"{100 * record['tiny']:.1f}" in out
    assert found["origin"]["settings"]["task"]["way"] == 2
    assert found["origin"]["seeds"] == [0]


def test_a_run_that_exists_goes_on_with_its_own_settings(trained, capsys):
    before = list(Run(trained["maml"]).records())
    assert run("train", trained["maml"]) == 0
    assert "maml: validation accuracy" in capsys.readouterr().out
    assert list(Run(trained["maml"]).records()) == before


def test_a_run_that_exists_is_not_overwritten_by_other_settings(trained, capsys):
    assert run("train", trained["maml"], "--steps", "2") == 1
    assert "other settings" in capsys.readouterr().err


def test_an_unknown_preset_is_wrong_usage_with_a_suggestion(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    assert run("train", tmp_path / "run", "--preset", "glyph") == 2
    assert "did you mean 'glyphs'?" in capsys.readouterr().err


def test_unknown_images_are_a_failure_in_one_sentence(tmp_path, short, capsys):
    assert run("train", tmp_path / "run", "--images", "no-such-images", *short) == 1
    err = capsys.readouterr().err
    assert "no-such-images" in err
    assert len(err.splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_presets_are_completed_by_name():
    from anyshot.cli.train import _preset_names

    assert {"glyphs", "cifar-fs", "miniimagenet", "multi"} <= set(_preset_names())
