from __future__ import annotations

import json

from support import run_command as run

from anyshot.runs.run import Run

OPTIONS = (
    "--way",
    2,
    "--shots",
    "any-shot:1-5",
    "--query",
    3,
    "--epochs",
    2,
    "--batch",
    20,
    "--check-tasks",
    3,
)


def test_a_pretrained_body_is_validated_and_any_method_starts_from_it(
    tiny, short, tmp_path, capsys
):
    folder = tmp_path / "body"
    assert (
        run(
            "pretrain",
            folder,
            "--images",
            tiny,
            *OPTIONS,
            "--seed",
            3,
            "--json",
            tmp_path / "out.json",
        )
        == 0
    )
    out = capsys.readouterr().out
    assert f"anyshot train NEW --from {folder}" in out
    found, made = json.loads((tmp_path / "out.json").read_text()), Run(folder)
    (record,) = made.records("check")
    assert found["results"]["checks"] == [record]
    for name in ("tiny nearest mean", "tiny cosine"):
        assert f"{100 * record[name]:.1f}" in out
    assert (
        made.settings.pretrain.epochs,
        made.settings.pretrain.seed,
        made.settings.method.name,
    ) == (
        2,
        3,
        "protonet",
    )

    assert run("pretrain", folder) == 0  # with its own settings, and nothing left to do
    assert list(Run(folder).records("check")) == [record]
    assert run("train", folder) == 0
    assert f"anyshot train NEW --from {folder}" in capsys.readouterr().out
    assert run("train", tmp_path / "run", "--images", tiny, "--from", folder, *short) == 0
    assert Run(tmp_path / "run").info["body"]["source"] == str(folder)
    assert run("test", folder, "--tasks", 2) == 0  # as a prototypical network
    assert "protonet" in capsys.readouterr().out


def test_options_that_cannot_be_are_wrong_usage(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    assert run("pretrain", tmp_path / "run", "--momentum", "1") == 2
    assert "momentum" in capsys.readouterr().err
