from __future__ import annotations

import csv
import json

import pytest

from anyshot.cli import main


def run(*arguments) -> int:
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    return end.value.code or 0


def test_several_runs_are_tested_on_the_same_tasks_and_written_as_json_and_csv(trained, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    files = ("--json", tmp_path / "out.json", "--csv", tmp_path / "out.csv")
    assert run("test", *trained.values(), "--tasks", 5, *files) == 0
    out = capsys.readouterr().out
    results = json.loads((tmp_path / "out.json").read_text())["results"]
    with open(tmp_path / "out.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    assert [result["method"] for result in results] == ["taml", "maml"]
    for result, line in zip(results, lines, strict=True):
        assert f"{100 * result['accuracy']:.1f} ± {100 * result['interval']:.1f}" in out
        assert float(line["accuracy"]) == result["accuracy"]
        assert result["tasks"] == 5
        assert result["images"] == "tiny"
    assert results[0]["by_shots"].keys() == results[1]["by_shots"].keys()


def figures(path) -> list[dict]:
    results = json.loads(path.read_text())["results"]
    return [{key: value for key, value in result.items() if key != "tasks_per_second"} for result in results]


def test_the_number_of_workers_changes_no_figure_but_the_seed_does(trained, tmp_path):
    common = ("test", trained["taml"], "--tasks", 6)
    for name, extra in {"one": ["--workers", 1], "two": ["--workers", 2], "other": ["--seed", 1]}.items():
        assert run(*common, *extra, "--json", tmp_path / name) == 0
    assert figures(tmp_path / "one") == figures(tmp_path / "two")
    assert figures(tmp_path / "one") != figures(tmp_path / "other")


def test_way_shots_and_prediction_may_differ_from_training(trained, tiny, tmp_path):
    options = ("--way", 3, "--shots", "fixed:1", "--query", 2, "--prediction", "naive", "--test-steps", 2)
    files = ("--images", f"{tiny},{tiny}", "--split", "validation", "--tasks", 2, "--json", tmp_path / "out.json")
    assert run("test", trained["taml"], *options, *files) == 0
    found = json.loads((tmp_path / "out.json").read_text())
    (result,) = found["results"]  # an image set named twice is tested once
    assert result["images"] == "tiny"
    assert result["by_shots"]["2-5"] is None
    (settings,) = found["origin"]["settings"].values()
    assert settings["task"] == {"way": 3, "shots": "fixed:1", "query": 2}
    assert settings["method"]["prediction"] == "naive"
    assert found["origin"]["split"] == "validation"


def test_whose_statistics_normalise_the_query_is_an_option_and_is_told(trained, tmp_path, capsys):
    losses = []
    for option, told in (("--transductive", "transductive"), ("--no-transductive", "one image at a time")):
        assert run("test", trained["maml"], "--tasks", 2, option, "--json", tmp_path / "out.json") == 0
        assert f"query images a class, {told} " in " ".join(capsys.readouterr().out.split())
        found = json.loads((tmp_path / "out.json").read_text())
        (settings,) = found["origin"]["settings"].values()
        assert settings["method"]["transductive"] == (told == "transductive")
        losses.append(found["results"][0]["nll"])
    assert losses[0] != losses[1]


def test_too_many_ways_for_the_images_are_a_failure_in_one_sentence(trained, capsys):
    assert run("test", trained["maml"], "--way", 5, "--tasks", 1) == 1
    err = capsys.readouterr().err.splitlines()
    assert "4 classes in its test split" in err[-1]
