from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from support import run_command as run

from anyshot.cli.common import format_duration
from anyshot.data import ImageSet
from anyshot.evaluation import compare_runs


def test_results_of_several_runs_are_written_as_json_and_csv(
    trained, tmp_path, monkeypatch, capsys
):
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
    assert sum(results[0]["queries_by_shots"].values()) == results[0]["queries"] == 5 * 2 * 3


def results_of(path) -> list[dict]:
    results = json.loads(path.read_text())["results"]
    return [
        {key: value for key, value in result.items() if key != "tasks_per_second"}
        for result in results
    ]


def test_the_number_of_workers_changes_no_number_but_the_seed_does(trained, tmp_path):
    common = ("test", trained["taml"], "--tasks", 6)
    for name, extra in {
        "one": ["--workers", 1],
        "two": ["--workers", 2],
        "other": ["--seed", 1],
    }.items():
        assert run(*common, *extra, "--json", tmp_path / name) == 0
    assert results_of(tmp_path / "one") == results_of(tmp_path / "two")
    assert results_of(tmp_path / "one") != results_of(tmp_path / "other")


def test_way_shots_and_prediction_may_differ_from_training(trained, tiny, tmp_path):
    options = (
        "--way",
        3,
        "--shots",
        "fixed:1",
        "--query",
        2,
        "--prediction",
        "naive",
        "--test-steps",
        2,
    )
    files = (
        "--images",
        f"{tiny},{tiny}",
        "--split",
        "val",
        "--tasks",
        2,
        "--json",
        tmp_path / "out.json",
    )
    assert run("test", trained["taml"], *options, *files) == 0
    found = json.loads((tmp_path / "out.json").read_text())
    (result,) = found["results"]  # an image set named twice is tested once
    assert result["images"] == "tiny"
    assert result["by_shots"]["2-5"] is None
    ((name, settings),) = found["origin"]["settings"].items()
    assert name == result["run"]  # not the folder, which differs between machines
    assert settings["task"] == {"way": 3, "shots": "fixed:1", "query": 2}
    assert settings["method"]["options"]["prediction"] == "naive"
    assert found["origin"]["split"] == "validation"


def test_a_learned_head_refuses_tasks_of_another_way(tiny, short, tmp_path, capsys):
    folder = tmp_path / "run"
    method = ("--method", "maml", "--learned-head")
    assert run("train", folder, "--images", tiny, *short, *method) == 0
    assert run("test", folder, "--tasks", 2, "--way", 3) != 0
    message = " ".join(capsys.readouterr().err.split())
    assert "has 3 classes" in message
    assert "learned for 2" in message


def test_transductive_is_an_option_and_is_printed(trained, tmp_path, capsys):
    losses = []
    for option, word in (
        ("--transductive", "transductive"),
        ("--no-transductive", "inductive"),
    ):
        assert (
            run("test", trained["maml"], "--tasks", 2, option, "--json", tmp_path / "out.json") == 0
        )
        assert f"query images per class, {word} " in " ".join(capsys.readouterr().out.split())
        found = json.loads((tmp_path / "out.json").read_text())
        (settings,) = found["origin"]["settings"].values()
        assert settings["method"]["transductive"] == (word == "transductive")
        losses.append(found["results"][0]["nll"])
    assert losses[0] != losses[1]


def test_later_runs_are_compared_with_the_first_task_by_task(
    trained, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("COLUMNS", "200")
    files = ("--json", tmp_path / "out.json", "--per-task", tmp_path / "tasks.csv")
    assert run("test", trained["maml"], trained["taml"], "--tasks", 5, *files) == 0
    out = capsys.readouterr().out
    first, second = json.loads((tmp_path / "out.json").read_text())["results"]
    assert first["paired"] is None
    assert second["paired_to"] == "maml"
    assert second["paired"]["accuracy"] == pytest.approx(second["accuracy"] - first["accuracy"])
    assert "Difference to maml, task by task" in out
    paired = {name: 100 * second["paired"][name] for name in ("accuracy", "accuracy_interval")}
    assert f"{paired['accuracy']:+.1f} ± {paired['accuracy_interval']:.1f}" in out
    with open(tmp_path / "tasks.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    assert [(line["run"], line["task"]) for line in lines] == [
        (r, str(i)) for r in ("maml", "taml") for i in range(5)
    ]
    differences = [float(lines[i + 5]["accuracy"]) - float(lines[i]["accuracy"]) for i in range(5)]
    assert second["paired"]["accuracy_interval"] == pytest.approx(
        1.96 * np.std(differences, ddof=1) / np.sqrt(5)
    )
    assert lines[0]["shots"] == lines[5]["shots"]
    assert lines[0]["classes"] == lines[5]["classes"]


def test_pool_seeds_gives_one_row(trained, tiny, short, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    other = tmp_path / "maml-1"
    assert run("train", other, "--images", tiny, "--method", "maml", *short, "--seed", 1) == 0
    common = ("test", trained["maml"], other, "--tasks", 4, "--json", tmp_path / "out.json")
    assert run(*common) == 0
    alone = json.loads((tmp_path / "out.json").read_text())["results"]
    assert run(*common, "--pool-seeds") == 0
    (result,) = json.loads((tmp_path / "out.json").read_text())["results"]
    assert (result["run"], result["seed"], result["runs"], result["tasks"]) == (
        "maml +1",
        "0 1",
        2,
        4,
    )
    assert result["accuracy"] == pytest.approx(np.mean([one["accuracy"] for one in alone]))
    assert result["run_deviation"] == pytest.approx(
        np.std([one["accuracy"] for one in alone], ddof=1)
    )
    assert "maml +1" in capsys.readouterr().out
    assert run("test", *trained.values(), "--tasks", 1, "--pool-seeds") == 1
    assert "nothing to pool" in capsys.readouterr().err.splitlines()[-1]


def test_small_classes_are_warned_about_and_recorded(trained, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    options = ("--shots", "fixed:10", "--query", 15, "--tasks", 2, "--json", tmp_path / "out.json")
    assert run("test", trained["maml"], *options) == 0
    out, err = capsys.readouterr()
    sentence = err.splitlines()[0]
    assert "fixed:10 and 15 query images" in sentence
    assert "20 images gives at most 5 support and 15 query images" in sentence
    assert "2-way requested fixed:10, 15 query images per class" in " ".join(out.split())
    assert "5 support, 15 query" in " ".join(out.split())
    found = json.loads((tmp_path / "out.json").read_text())
    assert found["origin"]["notes"] == [sentence]
    (result,) = found["results"]
    assert (result["support_least"], result["support_mean"], result["support_most"]) == (5, 5, 5)
    assert result["queries_by_shots"]["2-5"] == 2 * 2 * 15
    assert run("test", trained["maml"], "--shots", "fixed:99999999999999999999", "--tasks", 1) == 2


def test_the_time_of_many_tasks_is_estimated_first(trained, monkeypatch, capsys):
    monkeypatch.setattr(compare_runs, "seconds_per_task", lambda method, stream, workers: 0.78)
    monkeypatch.setattr(
        compare_runs,
        "evaluate_runs",
        lambda trials, tasks, workers, metrics: pytest.skip("the work begins"),
    )
    with pytest.raises(pytest.skip.Exception):
        run("test", *trained.values(), "--tasks", 1000)
    assert (
        "2 × 1,000 tasks will take about 26 minutes (--tasks N for fewer)."
        in capsys.readouterr().err
    )
    assert [format_duration(s) for s in (5, 99, 100, 5900, 6000, 1e6)] == [
        "5 seconds",
        "99 seconds",
        "2 minutes",
        "98 minutes",
        "1.7 hours",
        "12 days",
    ]


@pytest.mark.parametrize("option", ["--json", "--csv", "--per-task"])
def test_output_files_are_checked_before_the_work(trained, tmp_path, monkeypatch, capsys, option):
    monkeypatch.setattr(
        compare_runs,
        "evaluate_runs",
        lambda trials, tasks, workers: pytest.fail("the work has begun"),
    )
    assert run("test", trained["maml"], option, tmp_path) == 1
    assert f"Cannot write '{tmp_path}'" in capsys.readouterr().err


def test_the_number_of_classes_is_checked_before_the_work(
    trained, tiny, tmp_path, monkeypatch, capsys
):
    few = ImageSet.from_arrays(
        "few", {"a": np.zeros((9, 32, 32, 3), np.uint8)}, {"test": ["a"]}
    ).save(tmp_path / "few")
    monkeypatch.setattr(
        compare_runs,
        "evaluate_runs",
        lambda trials, tasks, workers: pytest.fail("the work has begun"),
    )
    assert run("test", trained["maml"], "--images", f"{tiny},{few.folder}") == 1
    assert "few has 1 classes in its test split" in capsys.readouterr().err


def test_a_way_above_the_number_of_classes_is_an_error(trained, capsys):
    assert run("test", trained["maml"], "--way", 5, "--tasks", 1) == 1
    err = capsys.readouterr().err.splitlines()
    assert "4 classes in its test split" in err[-1]


def test_an_empty_name_of_an_image_set_is_a_usage_error(trained, capsys):
    assert run("test", trained["maml"], "--images", "a,,b") == 2
    assert "A value is missing" in " ".join(capsys.readouterr().err.split())
