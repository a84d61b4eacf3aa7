from __future__ import annotations

import csv
import json
from dataclasses import replace

import pytest
from result_rows import row, summary

import anyshot
from anyshot.core.settings import MethodSettings
from anyshot.evaluation.compare_runs import add_differences
from anyshot.evaluation.metrics import Metrics, TaskResult
from anyshot.evaluation.report import result_files


def lines_of(path) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_the_csv_holds_the_summary_at_full_precision(tmp_path):
    rows = add_differences(
        [row(summary(right=(0, 0, 1, 1)), run="a"), row(summary(), run="b", method="maml", seed=3)]
    )
    alone = replace(rows[1].settings[0], method=MethodSettings(name="maml", transductive=False))
    rows[1] = replace(rows[1], settings=(alone,))
    result_files.write_csv(tmp_path / "out.csv", rows)
    lines, actual = lines_of(tmp_path / "out.csv"), rows[1].summary
    assert [line["method"] for line in lines] == ["taml", "maml"]
    assert [line["seed"] for line in lines] == ["0", "3"]
    assert [line["transductive"] for line in lines] == ["True", "False"]
    assert all(name.isidentifier() for name in lines[0])
    assert float(lines[1]["accuracy"]) == actual.accuracy
    assert float(lines[1]["interval"]) == actual.interval
    assert float(lines[1]["accuracy_shots_1"]) == actual.by_shots["1"]
    assert int(lines[1]["queries_shots_16_50"]) == actual.queries_by_shots["16-50"] == 4
    assert lines[1]["accuracy_shots_2_5"] == ""
    assert lines[1]["queries_shots_over_50"] == "0"
    assert (lines[1]["support_least"], lines[1]["support_mean"], lines[1]["support_most"]) == (
        "1",
        "10.5",
        "20",
    )
    assert lines[0]["paired_to"] == lines[0]["paired_accuracy"] == ""
    assert lines[1]["paired_to"] == "a"
    assert float(lines[1]["paired_accuracy"]) == rows[1].paired.accuracy == 0.125
    assert float(lines[1]["paired_nll_interval"]) == rows[1].paired.nll_interval


def test_every_task_is_one_line(tmp_path):
    metrics = Metrics()
    metrics.update(
        TaskResult(7, [[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]], [0, 1, 1], [1, 20], ["cat", "dog"])
    )
    result_files.write_per_task(
        tmp_path / "out.csv", [row(metrics.compute()), row(summary(), run="b")]
    )
    first, *others = lines_of(tmp_path / "out.csv")
    assert len(others) == 4
    assert {line["run"] for line in others} == {"b"}
    numbers = {"nll": first.pop("nll"), "accuracy": first.pop("accuracy")}
    assert first == {
        "run": "taml",
        "method": "taml",
        "seed": "0",
        "images": "digits",
        "task": "7",
        "way": "2",
        "support": "21",
        "queries": "3",
        "worst_class": "0.5",
        "failed": "0",
        "shots": "1 20",
        "correct": "1 1",
        "queries_by_class": "1 2",
        "classes": "cat | dog",
    }
    assert float(numbers["accuracy"]) == pytest.approx(2 / 3)
    assert float(numbers["nll"]) == metrics.compute().nll


def test_the_json_holds_the_numbers_and_their_provenance(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["/somewhere/bin/anyshot", "test", "my run"])
    rows = add_differences([row(summary(right=(0, 0, 1, 1)), run="a"), row(summary(), run="b")])
    result_files.write_results(
        tmp_path / "out.json", result_files.results_as_json(rows), seeds=[0], settings={"way": 5}
    )
    actual = json.loads((tmp_path / "out.json").read_text())
    names = {"run": "b", "method": "taml", "seed": "0", "images": "digits"}
    difference = {"tasks": 4, "accuracy": 0.125, "accuracy_interval": pytest.approx(0.245)}
    assert actual["results"][0]["paired"] is None
    assert actual["results"][1].pop("paired").items() >= difference.items()
    assert actual["results"][1] == {**names, "part": "", **summary().as_dict(), "paired_to": "a"}
    assert "scores" not in actual["results"][1]
    assert actual["origin"]["settings"] == {"way": 5}
    assert actual["origin"]["seeds"] == [0]
    assert actual["origin"]["command"] == "anyshot test 'my run'"
    assert actual["origin"]["cores"] >= 1
    assert {"version", "torch", "python", "time"} <= set(actual["origin"])


def test_a_data_frame_of_the_json_file_equals_the_csv_file(tmp_path):
    rows = add_differences([row(summary(right=(0, 0, 1, 1)), run="a"), row(summary(), run="b")])
    result_files.write_csv(tmp_path / "out.csv", rows)
    result_files.write_results(tmp_path / "out.json", result_files.results_as_json(rows))
    frame = anyshot.read_results(tmp_path / "out.json")
    columns = lines_of(tmp_path / "out.csv")[0].keys() - {"transductive"}  # JSON: in the settings
    assert set(frame.columns) - {"part"} == columns
    assert frame["paired_accuracy"][1] == 0.125
    assert list(frame["accuracy"]) == [row.summary.accuracy for row in rows]


@pytest.mark.parametrize("content", [[], {"results": 3}, {"results": {"a": 1}}, {"results": [1]}])
def test_a_json_file_without_rows_is_refused(content, tmp_path):
    (tmp_path / "other.json").write_text(json.dumps(content))
    with pytest.raises(anyshot.FileError, match="no rows of results"):
        anyshot.read_results(tmp_path / "other.json")
