from __future__ import annotations

import dataclasses
import inspect
from dataclasses import replace
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from anyshot.cli.setting_fields import EVERYTHING, select_settings
from anyshot.cli.settings_options import (
    add_setting_options,
    settings_diff,
    settings_of_runs,
    settings_with,
)
from anyshot.core.builtin_options import R2D2Options, TAMLOptions
from anyshot.core.settings import MethodSettings, Settings, TaskSettings, TrainSettings
from anyshot.training.presets import preset


def run(
    *arguments: str, selected: tuple[str, ...] = EVERYTHING
) -> tuple[int, str, Settings | None]:
    """Exit code, output and settings of a command with these arguments."""
    found: list[Settings] = []
    app = typer.Typer()

    @app.command()
    @add_setting_options(*selected)
    def command(folder: str = "x", **chosen: Any) -> None:
        found.append(settings_with(Settings(), chosen))

    result = CliRunner().invoke(app, arguments)
    return result.exit_code, result.output, found[0] if found else None


def test_no_option_leaves_every_setting_as_it_was():
    assert run() == (0, "", Settings())


def test_every_setting_has_an_option_of_its_own():
    names = [setting.name for setting in select_settings(EVERYTHING)]
    assert len(names) == len(set(names))
    parts = (TaskSettings, MethodSettings, TrainSettings, TAMLOptions, R2D2Options)
    expected = {field.name for cls in parts for field in dataclasses.fields(cls)}
    expected |= {"images", "ood", "mixing", "epochs"}
    expected |= {"learned_head", "zeta", "deviation", "deviation_head"}
    assert set(names) == expected - {"name", "options"} | {"method"}


def test_options_of_every_type_arrive_as_settings():
    code, output, found = run(
        "--images", "glyphs, my/folder", "--ood=none", "--way", "10", "--method", "taml",
        "--alpha", "0.5", "--order", "1", "--centre", "--no-bayesian", "--balance", "omega,z",
        "--gains", "1,0.1,0.03", "--test-steps", "3", "--rate", "2e-3",
    )  # fmt: skip
    assert (code, output) == (0, "")
    assert found == Settings(
        images=("glyphs", "my/folder"),
        ood=(),
        task=TaskSettings(way=10),
        method=MethodSettings(
            name="taml", alpha=0.5, order=1, centre=True, test_steps=3,
            options={"bayesian": False, "balance": ("omega", "z"), "gains": (1.0, 0.1, 0.03)},
        ),
        train=TrainSettings(rate=2e-3),
    )  # fmt: skip


def test_every_default_given_as_an_option_changes_nothing():
    arguments = []
    foreign = {"learned_head", "zeta", "deviation", "deviation_head", "epochs"}
    foreign |= {"ridge"}
    for setting in select_settings(EVERYTHING):
        if setting.name in foreign:
            continue
        flag = setting.name.replace("_", "-")
        field, hint = setting.field, setting.hint
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
        (["--images", ""], "A value is missing"),
        (["--ood", "a,,b"], "A value is missing"),
        (["--wya", "5"], "--way"),
    ],
)
def test_a_wrong_value_is_wrong_usage_and_named(arguments, sentence):
    code, output, found = run(*arguments)
    assert code == 2
    assert found is None
    assert sentence in " ".join(output.replace("│", " ").split())


def test_a_command_may_take_only_some_settings():
    selected = ("task", "method.samples")
    assert run("--samples", "3", "--query", "2", selected=selected)[0] == 0
    assert run("--steps", "3", selected=selected)[0] == 2


def test_the_help_tells_meaning_choices_and_default(monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    _, output, _ = run("--help")
    text = " ".join(output.replace("│", " ").split())
    assert "Classes in a task. Default: 5." in text
    assert "meta-sgd, mt-net, abml" in text
    assert "FILE.py:NAME. Default: taml." in text
    assert "--no-bayesian" in text
    assert "Default: None" not in text


def test_the_help_of_another_command_may_name_another_default():
    @add_setting_options("task.way", default="the run's")
    def command(**chosen: Any) -> None: ...

    (parameter,) = inspect.signature(command).parameters.values()
    assert parameter.annotation.__metadata__[0].help.endswith("Default: the run's.")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--method", "maml", "--zeta", "4"], ["maml has no option 'zeta'", "mt-net has it"]),
        (["--method", "mt-net", "--samples", "2"], ["mt-net", "abml and taml have it"]),
        (["--method", "protonet", "--alpha", "0.3"], ["--alpha has no effect on protonet"]),
        (["--method", "protonet", "--steps", "3"], ["--steps has no effect on protonet"]),
    ],
)
def test_an_option_that_the_method_does_not_have_is_wrong_usage(arguments, words, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    code, output, found = run(*arguments)
    assert (code, found) == (2, None)
    assert [word for word in words if word not in output] == []


def test_an_option_of_several_runs_needs_one_that_has_it():
    maml, taml = (Settings(method=MethodSettings(name=name)) for name in ("maml", "taml"))
    changed = settings_of_runs([maml, taml], {"samples": 3, "way": 2})
    assert [one.task.way for one in changed] == [2, 2]
    assert [one.method.options for one in changed] == [{}, {"samples": 3}]
    with pytest.raises(typer.BadParameter, match="maml has no option 'samples'"):
        settings_of_runs([maml, maml], {"samples": 3})


def test_the_common_options_come_first_in_the_help(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    _, output, _ = run("--help")
    panels = [line.split("─")[1].strip() for line in output.splitlines() if line.startswith("╭")]
    assert panels.index("Common settings") == 1  # after the options that are not settings
    assert "Options of mt-net" in panels
    assert len(panels) == len(set(panels))


def test_a_setting_without_a_value_is_none_and_one_that_the_method_chooses_is_default():
    settings = preset("glyphs", "meta-sgd")
    settings = replace(settings, method=settings.method.with_values({"omega_prior": None}))
    groups = settings_diff(settings, settings).values()
    shown = {name: value for group in groups for name, value, _ in group}
    assert [shown[name] for name in ("from", "omega-prior", "epochs")] == ["none"] * 3
    assert shown["channels"] == "default"


def test_the_seed_of_a_run_is_that_of_its_pretraining_too():
    changed = settings_with(preset("cifar-fs"), {"seed": 4})
    assert (changed.train.seed, changed.pretrain.seed) == (4, 4)
    assert settings_with(preset("glyphs"), {"seed": 4}).pretrain is None
