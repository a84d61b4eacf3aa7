from __future__ import annotations

import dataclasses
import json

from support import run_command as run

from anyshot.runs.run import Run


def test_training_prints_the_validations_and_writes_the_same_numbers(tiny, short, tmp_path, capsys):
    assert (
        run("train", tmp_path / "run", "--images", tiny, *short, "--json", tmp_path / "out.json")
        == 0
    )
    out = capsys.readouterr().out
    assert "selected" in out
    assert f"anyshot test {tmp_path / 'run'}" in out
    found = json.loads((tmp_path / "out.json").read_text())
    records = list(Run(tmp_path / "run").records("validation"))
    assert found["results"]["validations"] == records
    assert [record["iteration"] for record in records] == [2, 4]
    for record in records:
        assert f"{100 * record['tiny']:.1f}" in out
    assert found["origin"]["settings"]["task"]["way"] == 2
    assert found["origin"]["seeds"] == [0]


def test_a_run_that_exists_continues_with_its_own_settings(trained, capsys):
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


def test_unknown_images_are_an_error(tmp_path, short, capsys):
    assert run("train", tmp_path / "run", "--images", "no-such-images", *short) == 1
    *settings, sentence = capsys.readouterr().err.splitlines()
    assert sentence.startswith("anyshot: There is no image set or folder 'no-such-images'")
    assert settings[0].startswith("Settings from the preset pictures")
    assert not (tmp_path / "run").exists()


def test_the_settings_are_printed_and_changed_ones_are_marked(tiny, short, tmp_path, capsys):
    assert run("train", tmp_path / "run", "--images", tiny, *short) == 0
    words = " ".join(capsys.readouterr().err.split())
    assert (
        "Settings from the preset pictures (no --preset was given): Images and tasks: *images"
        in words
    )
    assert "*way 2, *shots any-shot:1-5, *query 3" in words
    assert "start he" in words
    assert run("train", tmp_path / "run") == 0
    err = capsys.readouterr().err
    assert f"Settings from the run in {tmp_path / 'run'}:" in err
    assert "*" not in err


def test_show_prints_every_setting_and_does_nothing(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert (
        run(
            "train",
            "--preset",
            "cifar-fs-paper",
            "--method",
            "maml",
            "--way",
            "3",
            "--show",
        )
        == 0
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Settings from the preset cifar-fs-paper:"
    assert "* way               3   (not 5)" in lines
    assert "  iterations        50000" in lines
    assert "  ood               svhn" in lines
    assert len([line for line in lines if line.startswith("*")]) == 1
    assert run("train", "run", "--show") == 0
    assert capsys.readouterr().out.startswith(
        "Settings from the preset glyphs (no --preset was given):"
    )
    assert list(tmp_path.iterdir()) == []


def test_settings_of_a_run_that_never_started_are_not_kept(tiny, short, tmp_path, capsys):
    assert run("train", tmp_path / "run", "--images", tiny, *short, "--way", "5") == 1
    assert "a task needs 5" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
    assert run("train", tmp_path / "run", "--images", tiny, *short) == 0
    assert Run(tmp_path / "run").settings.task.way == 2


def test_more_iterations_extend_a_finished_run(tiny, short, tmp_path, capsys):
    assert (
        run(
            "train",
            tmp_path / "run",
            "--images",
            tiny,
            *short,
            "--decay",
            "none",
            "--iterations",
            "2",
        )
        == 0
    )
    assert run("train", tmp_path / "run", "--iterations", "4") == 0
    assert [r["iteration"] for r in Run(tmp_path / "run").records("validation")] == [2, 4]
    assert "*iterations 4" in capsys.readouterr().err


def test_an_output_file_that_cannot_be_written_is_refused_before_training(
    tiny, short, tmp_path, capsys
):
    (tmp_path / "file").touch()
    assert (
        run(
            "train",
            tmp_path / "run",
            "--images",
            tiny,
            *short,
            "--json",
            tmp_path / "file" / "x.json",
        )
        == 1
    )
    assert "Not a directory" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_tensorboard_can_be_switched_off(tiny, short, tmp_path):
    assert run("train", tmp_path / "run", "--images", tiny, *short, "--no-tensorboard") == 0
    assert not (tmp_path / "run" / "tensorboard").exists()


def test_several_seeds_are_runs_that_can_be_pooled(tiny, short, tmp_path, capsys):
    arguments = (
        "train",
        tmp_path / "sweep",
        "--images",
        tiny,
        *short,
        "--seed",
        "5",
        "--seeds",
        "2",
    )
    assert run(*arguments, "--json", tmp_path / "out.json") == 0
    folders = [tmp_path / "sweep" / f"seed-{seed}" for seed in (5, 6)]
    assert f"Next: anyshot test {folders[0]} {folders[1]} --pool-seeds" in capsys.readouterr().out
    assert [Run(folder).settings.train.seed for folder in folders] == [5, 6]
    chosen = json.loads((tmp_path / "out.json").read_text())
    assert chosen["origin"]["seeds"] == [5, 6]
    assert chosen["results"] == {folder.name: Run(folder).best().state for folder in folders}
    assert [Run(folder).progress() for folder in folders] == [1, 1]
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "sweep").rglob("*.safetensors")}
    assert run(*arguments) == 0
    assert {
        path: path.stat().st_mtime_ns for path in (tmp_path / "sweep").rglob("*.safetensors")
    } == before
    assert run("test", *folders, "--pool-seeds", "--tasks", "2") == 0


def test_an_interrupted_run_prints_the_command_that_continues_it(
    tiny, short, tmp_path, capsys, monkeypatch
):
    from anyshot.training.meta_training import MetaTraining

    def interrupted(*_):
        raise KeyboardInterrupt

    folder = tmp_path / "my run"
    with monkeypatch.context() as patch:
        patch.setattr(MetaTraining, "step", interrupted)
        assert run("train", folder, "--images", tiny, *short) == 130
    err = capsys.readouterr().err.splitlines()[-1]
    again = f"anyshot train '{folder}'"
    assert err.startswith("anyshot: Interrupted.")
    assert err.endswith(again)
    assert run("train", folder) == 0
    assert f"Next: anyshot test '{folder}'" in capsys.readouterr().out


def test_names_are_not_taken_for_markup(tiny, short, tmp_path, capsys):
    from anyshot.data import ImageSet

    named = dataclasses.replace(ImageSet.open(tiny), name="[/b] [red]", folder=None)
    named.save(tmp_path / "images")
    assert run("train", tmp_path / "[/b]", "--images", tmp_path / "images", *short) == 0
    out = capsys.readouterr().out
    assert "[/b] [red]" in out
    assert f"anyshot test '{tmp_path}/[/b]'" in out


def test_presets_are_completed_by_name():
    from anyshot.cli.training_commands import _preset_names

    assert {"glyphs", "cifar-fs", "cifar-fs-paper", "multi"} <= set(_preset_names())
