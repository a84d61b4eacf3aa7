from __future__ import annotations

import csv
import json
from dataclasses import replace

import pytest
from rich.console import Console

from anyshot.core.settings import MethodSettings, Settings, TrainSettings
from anyshot.evaluation.compare_runs import ResultRow, add_differences, pool_rows
from anyshot.evaluation.metrics import Metrics, Summary, TaskResult
from anyshot.evaluation.report import tables


def summary(shots=(1, 20), seconds=2.0, right=(0, 1, 1, 1), query=1) -> Summary:
    """Four tasks of two classes with `query` images each; in each task, the second class is recognised or not."""
    metrics = Metrics()
    for index, hit in enumerate(right):
        p = [0.9, 0.1] if not hit else [0.4, 0.6]
        metrics.update(
            TaskResult(index, [[0.9, 0.1]] * query + [p] * query, [0] * query + [1] * query, shots)
        )
    return metrics.compute(seconds)


def row(found: Summary, images="digits", run="taml", method="taml", seed=0) -> ResultRow:
    return ResultRow(
        run,
        images,
        (Settings(method=MethodSettings(name=method), train=TrainSettings(seed=seed)),),
        found,
    )


def text(table, width=200) -> str:
    console = Console(width=width)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def lines_of(path) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_a_summary_table_shows_per_cent_the_interval_and_only_shots_that_occur():
    out = text(tables.summary_table([row(summary())], title="Test"))
    assert "taml" in out
    assert "87.5 ± 24.5" in out  # one task of four has one of two wrong: 1.96 · 0.25 / 2
    assert "16–50" in out
    assert "2–5" not in out
    assert "2.0" in out  # tasks a second
    assert "4 tasks each" in out


def test_two_runs_on_two_image_sets_look_like_this():
    rows = [
        row(summary(right=right, query=15, shots=shots), images, run, method)
        for run, method, right in (("base", "maml", (0, 0, 1, 1)), ("mine", "taml", (0, 1, 1, 1)))
        for images, shots in (("digits", (1, 20)), ("glyphs", (4, 4)))
    ]
    shown = [
        text(tables.summary_table(add_differences(rows), "Test"), 100),
        text(tables.paired_table(add_differences(rows)), 100),
    ]
    lines = [line.rstrip() for line in "".join(shown).splitlines()]
    assert (
        lines
        == """\
                                 Test
                                         worst     1   2–5 16–50 tasks
run  method images    accuracy  NLL  ECE class  shot shots shots    /s
──────────────────────────────────────────────────────────────────────
base maml   digits 75.0 ± 28.3 0.76 27.5  50.0 100.0     –  50.0   2.0
base maml   glyphs 75.0 ± 28.3 0.76 27.5  50.0     –  75.0     –   2.0
base maml   mean   75.0 ± 20.0 0.76 27.5  50.0 100.0  75.0  50.0   2.0
mine taml   digits 87.5 ± 24.5 0.53 21.3  75.0 100.0     –  75.0   2.0
mine taml   glyphs 87.5 ± 24.5 0.53 21.3  75.0     –  87.5     –   2.0
mine taml   mean   87.5 ± 17.3 0.53 21.3  75.0 100.0  87.5  75.0   2.0

            digits                         n =    60     0    60
            glyphs                         n =     0   120     0
 4 tasks each. Images of a class: 1–20 support (mean 10.5), 15 query
 (digits); 4 support, 15 query (glyphs). Accuracies and ECE in %; n:
                    query images behind a column.
          Difference to base, task by task
run  method images     accuracy            NLL tasks
────────────────────────────────────────────────────
mine taml   digits +12.5 ± 24.5 -0.224 ± 0.439     4
mine taml   glyphs +12.5 ± 24.5 -0.224 ± 0.439     4
    In per cent points, on the same tasks; 95 %
               intervals over tasks.""".splitlines()
    )


def test_missing_numbers_are_dashes_and_failed_tasks_are_mentioned():
    one = replace(summary(), tasks=1, interval=None, tasks_per_second=None, failed=3)
    out = text(tables.summary_table([row(one, "a"), row(summary((3, 3)), "b")]))
    first, second = (line for line in out.splitlines() if line.startswith("taml"))
    assert "±" not in first
    assert "–" in first
    assert "±" in second
    assert "1 or 4 tasks each" in out
    assert "3 tasks had predictions that were not finite" in " ".join(out.split())


def test_the_number_of_query_images_stands_below_each_column_of_shots_once_for_each_image_set():
    rows = [
        row(summary(query=q), images, run)
        for run in ("a", "b")
        for images, q in (("digits", 15), ("glyphs", 3))
    ]
    out = text(tables.summary_table(add_differences(rows)))
    behind = [line.split() for line in out.splitlines() if "n =" in line]
    assert behind == [["digits", "n", "=", "60", "60"], ["glyphs", "n", "=", "12", "12"]]
    assert "n: query images behind a column" in " ".join(out.split())


def test_the_caption_tells_what_was_really_drawn():
    def caption(*rows: ResultRow) -> str:
        return " ".join(text(tables.summary_table(rows)).split())

    assert "Images of a class: 1–20 support (mean 10.5), 1 query." in caption(row(summary()))
    assert "Images of a class: 5 support, 7 query." in caption(row(summary((5, 5), query=7)))
    two = caption(row(summary((5, 5))), row(summary((1, 1)), "glyphs"))
    assert "5 support, 1 query (digits); 1 support, 1 query (glyphs)." in two


def test_a_full_summary_table_fits_a_terminal_of_80_columns():
    by_shots = {"1": 1.0, "2-5": 1.0, "6-15": 1.0, "16-50": 1.0, ">50": None}
    wide = replace(
        summary(),
        by_shots=by_shots,
        queries_by_shots=dict.fromkeys(by_shots, 123_456),
        tasks=10_000,
    )
    out = text(tables.summary_table([row(wide, run="proto-maml", method="proto-maml")]), width=80)
    assert "proto-maml" in out
    assert "digits" in out
    assert "87.5 ± 24.5" in out
    assert "123k" in out
    assert "…" not in out


def test_a_run_that_is_not_called_like_its_method_has_its_name_in_the_table():
    assert "my-run" in text(tables.summary_table([row(summary(), run="my-run")]))


def test_differences_to_the_first_run_are_shown_in_points_with_their_interval():
    rows = add_differences(
        [row(summary(right=(0, 0, 1, 1)), run="a"), row(summary(right=(0, 1, 1, 1)), run="b")]
    )
    out = text(tables.paired_table(rows))
    assert "Difference to a, task by task" in out
    (line,) = (line for line in out.splitlines() if line.startswith("b"))
    assert "+12.5 ± 24.5" in line  # differences 0, ½, 0, 0
    assert "95 % intervals over tasks." in " ".join(out.split())
    assert tables.paired_table(rows[:1]) is None


def test_pooled_seeds_are_one_row_and_the_caption_says_so():
    rows = [
        row(summary(right=right), run=f"taml-{seed}", seed=seed)
        for seed, right in enumerate([(0, 1, 1, 1)] * 2)
    ]
    out = text(tables.summary_table(add_differences(pool_rows(rows))))
    assert "taml-0 +1" in out
    assert "4 tasks each, intervals over tasks and up to 2 seeds." in " ".join(out.split())
    both = add_differences(pool_rows([*rows, row(summary(), run="maml", method="maml")]))
    assert "95 % intervals over tasks and seeds." in " ".join(
        text(tables.paired_table(both)).split()
    )


def test_a_pipe_gets_tables_at_full_width(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "40")
    tables.print_tables(tables.summary_table([row(summary(), "a-rather-long-name" * 5)]))
    assert "a-rather-long-name" * 5 in capsys.readouterr().out


def test_names_are_not_taken_for_markup(capsys):
    rows = add_differences(
        [
            row(summary(right=right), "[red]x", run)
            for run, right in (("[/b]", (0, 1)), ("[i]", (1, 1)))
        ]
    )
    tables.print_tables(tables.summary_table(rows, "[/title]"), tables.paired_table(rows))
    out = capsys.readouterr().out
    assert all(
        name in out
        for name in ("[/b]", "[i]", "[red]x", "[/title]", "Difference to [/b], task by task")
    )


def test_the_csv_holds_the_summary_at_full_precision_under_names_that_pandas_likes(tmp_path):
    rows = add_differences(
        [row(summary(right=(0, 0, 1, 1)), run="a"), row(summary(), run="b", method="maml", seed=3)]
    )
    alone = replace(rows[1].settings[0], method=MethodSettings(name="maml", transductive=False))
    rows[1] = replace(rows[1], settings=(alone,))
    tables.write_csv(tmp_path / "out.csv", rows)
    lines, found = lines_of(tmp_path / "out.csv"), rows[1].summary
    assert [line["method"] for line in lines] == ["taml", "maml"]
    assert [line["seed"] for line in lines] == ["0", "3"]
    assert [line["transductive"] for line in lines] == ["True", "False"]
    assert all(name.isidentifier() for name in lines[0])
    assert float(lines[1]["accuracy"]) == found.accuracy
    assert float(lines[1]["interval"]) == found.interval
    assert float(lines[1]["accuracy_shots_1"]) == found.by_shots["1"]
    assert int(lines[1]["queries_shots_16_50"]) == found.queries_by_shots["16-50"] == 4
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


def test_every_task_is_a_line_of_its_own(tmp_path):
    metrics = Metrics()
    metrics.update(
        TaskResult(7, [[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]], [0, 1, 1], [1, 20], ["cat", "dog"])
    )
    tables.write_per_task(tmp_path / "out.csv", [row(metrics.compute()), row(summary(), run="b")])
    first, *others = lines_of(tmp_path / "out.csv")
    assert len(others) == 4
    assert {line["run"] for line in others} == {"b"}
    numbers = {"nll": first.pop("nll"), "accuracy": first.pop("accuracy")}
    assert first == {
        "run": "taml", "method": "taml", "seed": "0", "images": "digits", "task": "7", "way": "2", "support": "21",
        "queries": "3", "worst_class": "0.5", "failed": "0", "shots": "1 20", "hits": "1 1", "asked": "1 2",
        "classes": "cat | dog",
    }  # fmt: skip
    assert float(numbers["accuracy"]) == pytest.approx(2 / 3)
    assert float(numbers["nll"]) == metrics.compute().nll


def test_the_json_holds_the_same_numbers_and_where_they_come_from(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["/somewhere/bin/anyshot", "test", "my run"])
    rows = add_differences([row(summary(right=(0, 0, 1, 1)), run="a"), row(summary(), run="b")])
    tables.write_results(
        tmp_path / "out.json", tables.payload(rows), seeds=[0], settings={"way": 5}
    )
    found = json.loads((tmp_path / "out.json").read_text())
    names = {"run": "b", "method": "taml", "seed": "0", "images": "digits"}
    difference = {"tasks": 4, "accuracy": 0.125, "accuracy_interval": pytest.approx(0.245)}
    assert found["results"][0]["paired"] is None
    assert found["results"][1].pop("paired").items() >= difference.items()
    assert found["results"][1] == {**names, **summary().as_dict(), "paired_to": "a"}
    assert "scores" not in found["results"][1]
    assert found["origin"]["settings"] == {"way": 5}
    assert found["origin"]["seeds"] == [0]
    assert found["origin"]["command"] == "anyshot test 'my run'"
    assert found["origin"]["cores"] >= 1
    assert {"version", "torch", "python", "time"} <= set(found["origin"])
