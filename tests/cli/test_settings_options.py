from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from anyshot.cli.settings_options import _fields, _option_name, options, settings_with
from anyshot.core.settings import MethodSettings, Settings, TaskSettings, TrainSettings

EVERYTHING = ("images", "ood", "mixing", "task", "method", "train")


def run(*arguments: str, wanted: tuple[str, ...] = EVERYTHING) -> tuple[int, str, Settings | None]:
    """Exit code, output and settings of a command with these arguments."""
    found: list[Settings] = []
    app = typer.Typer()

    @app.command()
    @options(*wanted)
    def command(folder: str = "x", **chosen: Any) -> None:
        found.append(settings_with(Settings(), chosen))

    result = CliRunner().invoke(app, arguments)
    return result.exit_code, result.output, found[0] if found else None


def test_no_option_leaves_every_setting_as_it_was():
    assert run() == (0, "", Settings())


def test_every_setting_has_an_option_of_its_own():
    names = [_option_name(part, field) for part, field, _ in _fields(EVERYTHING)]
    assert len(names) == len(set(names))
    fields = sum(
        len(dataclasses.fields(cls))
        for cls in (Settings, TaskSettings, MethodSettings, TrainSettings)
    )
    assert len(names) == fields - 5  # the three parts, the warm start, and a method's own settings


def test_options_of_every_type_arrive_as_settings():
    code, output, found = run(
        "--images", "glyphs, my/folder", "--ood=none", "--way", "10", "--method", "maml", "--alpha", "0.5",
        "--order", "1", "--centre", "--no-bayesian", "--balance", "omega,z", "--gains", "1,0.1,0.03",
        "--test-steps", "3", "--rate", "2e-3",
    )  # fmt: skip
    assert (code, output) == (0, "")
    assert found == Settings(
        images=("glyphs", "my/folder"),
        ood=(),
        task=TaskSettings(way=10),
        method=MethodSettings(
            name="maml", alpha=0.5, order=1, centre=True, bayesian=False, balance=("omega", "z"),
            gains=(1.0, 0.1, 0.03), test_steps=3,
        ),
        train=TrainSettings(rate=2e-3),
    )  # fmt: skip


def test_every_default_given_as_an_option_changes_nothing():
    arguments = []
    for part, field, hint in _fields(EVERYTHING):
        flag = _option_name(part, field).replace("_", "-")
        if hint is bool:
            arguments.append(f"--{flag}" if field.default else f"--no-{flag}")
        elif isinstance(field.default, tuple):
            arguments.append(f"--{flag}={','.join(field.default) or 'none'}")
        elif field.default is not None:
            arguments.append(f"--{flag}={field.default}")
    assert run(*arguments) == (0, "", Settings())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--way", "1"], "at least 2"),
        (["--way", "five"], "--way"),
        (["--method", "tamle"], "tamle"),
        (["--balance", "omega,gama"], "did you mean 'gamma'"),
        (["--gains", "1,x"], "numbers separated by commas"),
        (["--gains", "nan,1,1"], "gains is nan"),
        (["--rate", "inf"], "rate is inf"),
        (["--clip", "inf"], "clip is inf"),
        (["--alpha", "nan"], "alpha is nan"),
        (["--alpha", "-1"], "alpha is -1"),
        (["--images", ""], "There is nothing here"),
        (["--ood", "a,,b"], "nothing here, or between two commas"),
        (["--wya", "5"], "--way"),
    ],
)
def test_a_wrong_value_is_wrong_usage_and_named(arguments, sentence):
    code, output, found = run(*arguments)
    assert code == 2
    assert found is None
    assert sentence in " ".join(output.replace("│", " ").split())


def test_a_command_may_take_only_some_settings():
    wanted = ("task", "method.samples")
    assert run("--samples", "3", "--query", "2", wanted=wanted)[0] == 0
    assert run("--steps", "3", wanted=wanted)[0] == 2


def test_the_help_tells_meaning_choices_and_default(monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    _, output, _ = run("--help")
    text = " ".join(output.replace("│", " ").split())
    assert "Classes in a task. Default: 5." in text
    assert (
        "One of maml, meta-sgd, mt-net, abml, protonet, proto-maml, taml, or FILE.py:NAME. Default: taml."
        in text
    )
    assert "--no-bayesian" in text
    assert "Default: None" not in text


def test_the_help_of_another_command_may_name_another_default():
    @options("task.way", default="the run's")
    def command(**chosen: Any) -> None: ...

    (parameter,) = inspect.signature(command).parameters.values()
    assert parameter.annotation.__metadata__[0].help.endswith("Default: the run's.")
