"""A method in the user's own file: the same commands train, resume and test it."""

from __future__ import annotations

import json
import shutil
import sys

import pytest
from support import run_command as run

from anyshot.core.errors import AnyshotError, CodeError
from anyshot.methods import MAML
from anyshot.runs.run import Run

OWN = """
from __future__ import annotations
from dataclasses import dataclass
from anyshot.methods import MAML
from anyshot.core.options import option

class Slow(MAML):
    @dataclass(frozen=True)
    class Options(MAML.Options):
        factor: float = option(0.5, "What every step is multiplied by.", above=0)
        parts: tuple[str, ...] = option(("body", "head"), "What moves.", choices=("body", "head"))
        lazy: bool = False

    def rates(self):
        return {name: rate * self.options.factor for name, rate in super().rates().items()}

class Broken(MAML):
    def rates(self):
        return self.there_is_no_such_thing

class NotAMethod: ...
"""


def said(capsys) -> str:
    return " ".join(capsys.readouterr().err.replace("│", " ").split())


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    file = tmp_path_factory.mktemp("code") / "own.py"
    file.write_text(OWN)
    return file


@pytest.fixture(scope="module")
def trained_own(own, tiny, short, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "slow"
    assert (
        run(
            "train", folder, "--images", tiny, *short, "--method", f"{own}:Slow", "--factor", "0.25"
        )
        == 0
    )
    return folder


@pytest.fixture
def copied(trained_own, own, tmp_path):
    """The run with its code elsewhere, so that a test may change both."""
    folder, file = tmp_path / "slow", tmp_path / "own.py"
    shutil.copytree(trained_own, folder)
    shutil.copy(own, file)
    info = (folder / "run.json").read_text().replace(str(own), str(file))
    (folder / "run.json").write_text(info)
    return folder, file


def test_a_run_records_the_method_its_own_settings_and_where_it_came_from(trained_own, own):
    made = Run(trained_own)
    assert made.settings.method.name == f"{own}:Slow"
    assert made.settings.method.options == {"factor": 0.25}
    (recorded,) = made.info["code"].values()
    assert recorded["file"] == str(own)
    method = Run(trained_own, trust_code=True).load_method()
    assert (method.name, method.options.factor, method.options.parts) == (
        "Slow",
        0.25,
        ("body", "head"),
    )


def test_it_is_resumed_and_tested_from_any_folder_by_the_same_commands(
    trained_own, tmp_path, monkeypatch, capsys
):
    before = list(Run(trained_own).records())
    monkeypatch.chdir(tmp_path)
    assert run("train", trained_own) == 0
    assert list(Run(trained_own).records()) == before
    arguments = ["--tasks", "2", "--json", "out.json", "--trust-code"]
    assert run("test", trained_own, *arguments) == 0
    assert "Slow" in capsys.readouterr().out
    assert json.loads((tmp_path / "out.json").read_text())["results"][0]["method"] == "Slow"


def test_inspect_says_that_it_has_no_balancing_variables(trained_own, capsys):
    assert run("inspect", trained_own, "--tasks", "1", "--trust-code") == 1
    assert "Slow has no balancing variables" in said(capsys)


def test_its_own_settings_are_options_with_help_and_any_order(
    own, tiny, short, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("COLUMNS", "160")
    assert run("train", "--method", f"{own}:Slow", "--help") == 0
    text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "What every step is multiplied by. Default: 0.5." in text
    assert "Any of body, head. Default: body,head." in text
    arguments = [
        "--lazy",
        "--parts",
        "head",
        f"--method={own}:Slow",
        tmp_path / "run",
        "--images",
        tiny,
        *short,
    ]
    assert run("train", *arguments) == 0
    assert Run(tmp_path / "run").settings.method.options == {"parts": ("head",), "lazy": True}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--factr", "1"], "--factor"),
        (["--factor", "-1"], "factor is -1.0, but must be above 0"),
        (["--factor", "fast"], "--factor"),
        (["--parts", "hed"], "did you mean 'head'"),
    ],
)
def test_a_wrong_own_setting_is_wrong_usage_and_leaves_nothing_behind(
    own, tmp_path, arguments, sentence, capsys
):
    assert run("train", tmp_path / "run", "--method", f"{own}:Slow", *arguments) == 2
    assert sentence in said(capsys)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("method", "sentence"),
    [
        ("no/such.py:Slow", "such.py' cannot be read: No such file or directory"),
        ("{own}:Fast", "There is no 'Fast' in"),
        ("{own}:NotAMethod", "NotAMethod' is not a method"),
        ("tmal", "did you mean 'taml'"),
    ],
)
def test_a_method_that_cannot_be_loaded_is_wrong_usage(
    own, tmp_path, method, sentence, capsys, monkeypatch
):
    monkeypatch.setenv("COLUMNS", "300")
    assert run("train", tmp_path / "run", "--method", method.format(own=own)) == 2
    assert sentence in said(capsys)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("command", [["train"], ["test", "--tasks", "1", "--trust-code"]])
def test_every_command_uses_the_copy_of_code_that_has_changed_or_gone(copied, command, caplog):
    folder, file = copied
    file.write_text(OWN.replace("rate * self", "1 / 0 * self"))
    assert run(command[0], folder, *command[1:]) == 0
    file.unlink()
    assert run(command[0], folder, *command[1:]) == 0
    assert str(file) in caplog.text


@pytest.mark.parametrize("command", ["test", "inspect", "report"])
def test_no_command_but_train_executes_the_code_of_a_run_without_trust(copied, command, capsys):
    folder, file = copied
    for content in ("raise SystemExit('executed')\n", OWN):
        file.write_text(content)
        assert run(command, folder, "--tasks", "1") == 1
        assert "--trust-code" in said(capsys)


def test_training_from_the_body_of_a_run_does_not_execute_its_code(copied, tiny, short, tmp_path):
    folder, file = copied
    file.write_text("raise SystemExit('executed')\n")
    for copy in (folder / "code").iterdir():
        copy.write_text("raise SystemExit('executed')\n")
    arguments = ["--from", folder, tmp_path / "new", "--images", tiny, *short, "--method", "maml"]
    assert run("train", *arguments) == 0


def test_an_error_in_the_file_is_not_called_a_bug_in_anyshot(own, tiny, short, tmp_path, capsys):
    assert (
        run("train", tmp_path / "run", "--images", tiny, *short, "--method", f"{own}:Broken") == 1
    )
    line = 1 + OWN.splitlines().index("        return self.there_is_no_such_thing")
    assert f"anyshot: In {own}, line {line}: AttributeError: 'Broken' object has no" in said(capsys)


def test_own_settings_are_shown_with_all_others(own, capsys):
    assert run("train", "--method", f"{own}:Slow", "--factor", "2", "--show") == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "* factor 2.0 (not 0.5)" in lines
    assert "parts body,head" in lines


def test_a_name_that_is_registered_does_not_stand_in_for_the_code_of_a_run(tiny, short, tmp_path):
    from anyshot.core.registry import METHODS

    with pytest.raises(AnyshotError, match="method name 'maml' is taken"):
        METHODS.register("maml")(MAML)


def test_an_importable_name_will_do(tiny, short, tmp_path, monkeypatch):
    (tmp_path / "own_package").mkdir()
    (tmp_path / "own_package" / "ideas.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    assert (
        run(
            "train",
            tmp_path / "run",
            "--images",
            tiny,
            *short,
            "--method",
            "own_package.ideas:Slow",
        )
        == 0
    )
    made = Run(tmp_path / "run")
    assert made.info["code"]["own_package.ideas:Slow"]["file"].endswith("ideas.py")
    with pytest.raises(CodeError, match=r"ideas\.py"):
        made.load_method()
    trusted = Run(tmp_path / "run", trust_code=True)
    assert trusted.load_method().name == "Slow"
    for name in ("own_package.ideas", "own_package"):
        sys.modules.pop(name, None)
    (tmp_path / "own_package" / "ideas.py").write_text("raise SystemExit('imported')\n")
    assert trusted.load_method().name == "Slow"


INHERITED = """
from dataclasses import dataclass
from anyshot.core.options import option
from anyshot.methods import TAML

class Mine(TAML):
    @dataclass(frozen=True)
    class Options(TAML.Options):
        factor: float = option(0.5, "A factor.", above=0)
"""


def test_a_subclass_has_the_options_of_its_base_class_too(tmp_path, capsys):
    file = tmp_path / "mine.py"
    file.write_text(INHERITED)
    arguments = ("--method", f"{file}:Mine", "--factor", "2", "--samples", "3", "--show")
    assert run("train", *arguments) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "* factor 2.0 (not 0.5)" in lines
    assert "* samples 3 (not 10)" in lines
    assert run("train", "--method", f"{file}:Mine", "--zeta", "2", "--show") == 2


def test_options_that_do_not_extend_those_of_the_base_class_are_refused(tmp_path, capsys):
    file = tmp_path / "mine.py"
    file.write_text(INHERITED.replace("class Options(TAML.Options)", "class Options"))
    assert run("train", "--method", f"{file}:Mine", "--show") == 2
    assert "class Options(TAML.Options)" in said(capsys)


def test_the_value_of_another_option_does_not_choose_the_method(trained_own, tiny, short, tmp_path):
    """--from names a run of the user's method; the new run is of taml and has no --factor."""
    arguments = ("--images", tiny, *short, "--from", trained_own, "--factor", "2")
    assert run("train", tmp_path / "run", *arguments) == 2
