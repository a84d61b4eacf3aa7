"""Registries: short names, import paths and registration."""

from pathlib import Path

import pytest

from anyshot import methods
from anyshot.core.code_loading import import_path
from anyshot.core.errors import SettingsError
from anyshot.core.registry import BODIES, METHODS, SHOT_RULES, STATISTICS, Registry
from anyshot.core.settings import MethodSettings, Settings, TaskSettings


@pytest.fixture
def colours() -> Registry:
    return Registry("colour", {"red": "colorsys:rgb_to_hsv"})


@pytest.fixture
def file(tmp_path) -> Path:
    path = tmp_path / "own.py"
    path.write_text("class Outer:\n    class Inner:\n        pass\n")
    return path


@pytest.mark.parametrize("registry", [METHODS, BODIES, STATISTICS, SHOT_RULES])
def test_every_builtin_name_loads(registry):
    for name in registry:
        assert callable(registry[name])


def test_method_name_gives_its_class():
    assert METHODS["meta-sgd"] is methods.MetaSGD


def test_unknown_name_is_refused_with_the_known_ones(colours):
    assert "blue" not in colours
    with pytest.raises(SettingsError, match=r"colour 'blue'.* red.* FILE.py:NAME"):
        colours["blue"]


def test_registered_object_is_found_by_name_and_by_import_path(colours):
    @colours.register("blue")
    def blue(): ...

    assert list(colours) == ["red", "blue"]
    assert len(colours) == 2
    assert colours["blue"] is blue
    assert colours[import_path(blue)] is blue


@pytest.mark.parametrize(
    ("name", "reason"), [("red", "taken"), ("blue", "taken"), ("file.py:blue", "import path")]
)
def test_taken_name_or_import_path_cannot_be_registered(colours, name, reason):
    colours.register("blue")(len)
    with pytest.raises(SettingsError, match=f"'{name}' is .*{reason}"):
        colours.register(name)(max)


def test_same_object_can_be_registered_again(colours):
    for _ in range(2):  # a notebook cell that is run twice

        @colours.register("blue")
        def blue(): ...

    assert colours["blue"] is blue


def test_file_and_module_are_import_paths_but_typing_errors_are_not(colours, file):
    assert colours[f"{file}:Outer.Inner"].__qualname__ == "Outer.Inner"
    assert colours["json:dumps"] is __import__("json").dumps
    for mistake in ("red:x", "my file.txt:x", "own.py:", ":x", "own.py:1"):
        assert mistake not in colours


def test_canonical_name_has_an_absolute_file(colours, file, monkeypatch):
    monkeypatch.chdir(file.parent)
    assert colours.canonical_name("own.py:Outer") == f"{file.resolve()}:Outer"
    assert colours.canonical_name("red") == "red"
    assert colours.canonical_name("json:dumps") == "json:dumps"


def test_canonical_name_of_a_registered_object_is_its_import_path(colours):
    colours.register("loader")(__import__("json").loads)
    assert colours.canonical_name("loader") == "json:loads"
    colours.register("local")(lambda: None)  # no import path: stays a name of this process
    assert colours.canonical_name("local") == "local"


def test_names_that_look_the_same_are_refused(colours):
    assert list(colours.resolve(["red", "json:dumps"])) == ["red", "dumps"]
    with pytest.raises(SettingsError, match="'dumps'"):
        colours.resolve(["json:dumps", "pickle:dumps"])


def test_settings_hold_canonical_names_and_list_user_code(file, monkeypatch):
    monkeypatch.chdir(file.parent)
    settings = Settings(
        task=TaskSettings(shots="own.py:rule:1-3"),
        method=MethodSettings(
            name="own.py:M", body="own.py:b", options={"statistics": ("mean", "own.py:s")}
        ),
    )
    assert settings.user_code() == [f"{file.resolve()}:{name}" for name in ("M", "b", "s", "rule")]
    assert settings.task.shots == f"{file.resolve()}:rule:1-3"
    assert Settings.from_dict(settings.as_dict()) == settings
    assert Settings().user_code() == []
