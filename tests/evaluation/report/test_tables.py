from __future__ import annotations

from dataclasses import replace

from result_rows import row, summary
from rich.console import Console

from anyshot.evaluation.compare_runs import ResultRow, add_differences, pool_rows
from anyshot.evaluation.report import tables


def text(table, width=200) -> str:
    console = Console(width=width)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def test_a_summary_table_shows_per_cent_the_interval_and_only_shots_that_occur():
    out = text(tables.summary_table([row(summary())], title="Test"))
    assert "taml" in out
    assert "87.5 ± 24.5" in out  # one task of four has one of two wrong: 1.96 · 0.25 / 2
    assert "16–50" in out
    assert "2–5" not in out
    assert "2.0" in out  # tasks a second
    assert "4 tasks each" in out


def test_every_number_is_in_its_column():
    rows = [
        row(summary(right=right, query=15), images, run, method)
        for run, method, right in (("base", "maml", (0, 0, 1, 1)), ("mine", "taml", (0, 1, 1, 1)))
        for images in ("digits", "glyphs")
    ]
    table = tables.summary_table(add_differences(rows))
    columns = {
        str(column.header).replace("\n", " "): list(column.cells) for column in table.columns
    }
    assert columns["run"][:6] == ["base"] * 3 + ["mine"] * 3
    assert columns["images"][:6] == ["digits", "glyphs", "mean"] * 2
    assert columns["accuracy"][3:5] == ["87.5 ± 24.5"] * 2  # 1.96 · 0.25 / √4
    assert columns["accuracy"][5] == "87.5 ± 17.3"  # the mean of two independent sets: / √2
    assert columns["NLL"][0] == "0.76"
    assert columns["worst class"][::3][:2] == ["50.0", "75.0"]
    assert columns["1 shot"][:6] == ["100.0"] * 6
    assert columns["16–50 shots"][:6] == ["50.0"] * 3 + ["75.0"] * 3
    assert columns["tasks /s"][:6] == ["2.0"] * 6


def test_missing_numbers_are_dashes_and_failed_tasks_are_counted():
    one = replace(summary(), tasks=1, interval=None, tasks_per_second=None, failed=3)
    out = text(tables.summary_table([row(one, "a"), row(summary((3, 3)), "b")]))
    first, second = (line for line in out.splitlines() if line.startswith("taml"))
    assert "±" not in first
    assert "–" in first
    assert "±" in second
    assert "1 or 4 tasks each" in out
    assert "3 tasks had predictions that were not finite" in " ".join(out.split())


def test_the_number_of_query_images_is_shown_once_for_each_image_set():
    rows = [
        row(summary(query=q), images, run)
        for run in ("a", "b")
        for images, q in (("digits", 15), ("glyphs", 3))
    ]
    out = text(tables.summary_table(add_differences(rows)))
    behind = [line.split() for line in out.splitlines() if "n =" in line]
    assert behind == [["digits", "n", "=", "60", "60"], ["glyphs", "n", "=", "12", "12"]]
    assert "n: number of query images" in " ".join(out.split())


def test_the_caption_holds_the_sizes_that_were_drawn():
    def caption(*rows: ResultRow) -> str:
        return " ".join(text(tables.summary_table(rows)).split())

    assert "Images per class: 1–20 support (mean 10.5), 1 query." in caption(row(summary()))
    assert "Images per class: 5 support, 7 query." in caption(row(summary((5, 5), query=7)))
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


def test_a_run_with_another_name_than_its_method_has_a_column():
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


def test_names_are_not_read_as_markup(capsys):
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


def test_the_caption_names_incomplete_image_sets_once():
    rows = [
        replace(row(summary(), "svhn", run), part="7,300 of 26,032 official test images")
        for run in ("a", "b")
    ]
    shown = " ".join(text(tables.summary_table([*rows, row(summary(), "glyphs")])).split())
    assert shown.count("svhn: 7,300 of 26,032 official test images.") == 1
    assert "glyphs: " not in shown
