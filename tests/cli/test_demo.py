from __future__ import annotations

import dataclasses
import json

import pytest

from anyshot.cli import demo
from anyshot.cli.main import main
from anyshot.core.settings import TaskSettings
from anyshot.training import presets


def test_the_demo_prints_and_writes_its_results(tiny, tmp_path, monkeypatch, capsys):
    preset = presets.PRESETS["glyphs"]
    small = dataclasses.replace(
        preset,
        images=(tiny,),
        ood=(),
        task=TaskSettings(way=2, shots="any-shot:1-4", query=2),
        method=preset.method.with_values(
            {"steps": 1, "test_steps": 1, "samples": 2}, skip_unused=True
        ),
        train=dataclasses.replace(preset.train, meta_batch=1, validate_every=0, validation_tasks=2),
    )
    monkeypatch.setitem(presets.PRESETS, "glyphs", small)
    monkeypatch.setattr(demo, "IMAGES", (tiny,))
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as end:
        main(
            [
                "demo",
                "--out",
                str(tmp_path),
                "--tasks",
                "3",
                "--iterations",
                "2",
                "--json",
                str(tmp_path / "copy.json"),
            ]
        )
    assert not end.value.code
    out = capsys.readouterr().out
    assert "2-way any-shot:1-4, 2 query images per class" in out
    found = json.loads((tmp_path / "results.json").read_text())
    assert found["results"] == json.loads((tmp_path / "copy.json").read_text())["results"]
    assert [result["method"] for result in found["results"]] == ["maml", "taml"]
    for result in found["results"]:
        assert f"{100 * result['accuracy']:.1f} ±" in out
    for name in ("omega.png", "gamma.svg", "z.png", "training.png", "results.csv"):
        assert (tmp_path / name).stat().st_size > 100
        assert name in out
    for line, count in (
        ("class 8: 2 images", 1),
        ("class 11: 10 images", 1),
        ("of 20 are correct", 1),
    ):
        assert out.count(line) == count
    assert (tmp_path / "answers.html").read_text().count("<figure") == 20
