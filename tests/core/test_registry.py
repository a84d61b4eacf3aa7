"""What is listed goes by name, anything else by its place, and code that changed is refused."""

import sys
from pathlib import Path

import pytest

from anyshot import methods
from anyshot.core.errors import AnyshotError
from anyshot.core.registry import (
    BODIES,
    METHODS,
    SHOT_RULES,
    STATISTICS,
    Registry,
    fingerprint,
    import_path,
    load_object,
    verify_code,
)
from anyshot.core.settings import MethodSettings, Settings, TaskSettings


@pytest.fixture
def colours() -> Registry:
    return Registry("colour", {"red": "colorsys:rgb_to_hsv"})


@pytest.fixture
def file(tmp_path) -> Path:
    path = tmp_path / "own.py"
    path.write_text("class Outer:\n    class Inner:\n        pass\n\nvalue = 1\n")
    return path


@pytest.mark.parametrize("known", [METHODS, BODIES, STATISTICS, SHOT_RULES])
def test_everything_that_is_listed_can_be_had(known):
    for name in known:
        assert callable(known[name])


def test_a_listed_method_is_the_class_of_that_name():
    assert METHODS["meta-sgd"] is methods.MetaSGD


def test_an_unknown_name_is_refused_with_what_there_is(colours):
    assert "blue" not in colours
    with pytest.raises(
        AnyshotError, match=r"There is no colour 'blue'; there are red, or write FILE.py:NAME"
    ):
        colours["blue"]


def test_what_is_registered_is_known_by_its_name_and_by_its_place(colours):
    @colours.register("blue")
    def blue(): ...

    assert list(colours) == ["red", "blue"]
    assert colours["blue"] is blue
    assert colours[import_path(blue)] is blue


@pytest.mark.parametrize("name", ["red", "blue", "file.py:blue"])
def test_a_name_that_is_taken_or_is_a_place_is_refused(colours, name):
    colours.register("blue")(len)
    with pytest.raises(AnyshotError, match=f"already a colour called '{name}'"):
        colours.register(name)(max)


def test_the_same_thing_may_be_registered_again(colours):
    for _ in range(2):  # a cell of a notebook that is run twice

        @colours.register("blue")
        def blue(): ...

    assert colours["blue"] is blue


def test_a_file_and_a_module_are_places_but_a_slip_is_not(colours, file):
    assert colours[f"{file}:Outer.Inner"].__qualname__ == "Outer.Inner"
    assert colours["json:dumps"] is __import__("json").dumps
    for slip in ("red:x", "my file.txt:x", "own.py:", ":x", "own.py:1"):
        assert slip not in colours


def test_a_place_is_made_exact_so_that_it_means_the_same_elsewhere(colours, file, monkeypatch):
    monkeypatch.chdir(file.parent)
    assert colours.exact("own.py:Outer") == f"{file.resolve()}:Outer"
    assert colours.exact("red") == "red"
    assert colours.exact("json:dumps") == "json:dumps"


def test_a_file_is_run_once_until_it_changes_even_within_the_clocks_resolution(file):
    first = load_object(f"{file}:Outer")
    assert load_object(f"{file}:Outer") is first
    file.write_text(file.read_text().replace("value = 1", "value = 2"))
    assert load_object(f"{file}:value") == 2
    assert load_object(f"{file}:Outer") is not first


@pytest.mark.parametrize(
    ("text", "where", "sentence"),
    [
        (None, "{file}:X", "cannot be read: No such file"),
        ("x = 1", "{file}:X", "There is no 'X' in '.*own.py'"),
        (
            "import no_such_module",
            "{file}:X",
            "cannot be loaded: ModuleNotFoundError: No module",
        ),
        ("x = = 1", "{file}:X", "cannot be loaded: SyntaxError"),
        ("", "no_such_module:X", "cannot be loaded: ModuleNotFoundError"),
        ("", "nonsense", "is no place of code"),
    ],
)
def test_what_cannot_be_loaded_is_said_in_a_sentence_and_leaves_nothing_behind(
    tmp_path, text, where, sentence
):
    file = tmp_path / "own.py"
    if text is not None:
        file.write_text(text)
    with pytest.raises(AnyshotError, match=sentence):
        load_object(where.format(file=file))
    assert str(file) not in sys.modules or text == "x = 1"


def test_code_that_changed_or_is_gone_is_refused(file):
    where = f"{file}:Outer"
    recorded = {where: fingerprint(where), "json:dumps": fingerprint("json:dumps")}
    verify_code(recorded)
    file.write_text("class Outer: ...\n")
    with pytest.raises(
        AnyshotError, match=r"own.py' has changed \(SHA-256 [0-9a-f]{12}… then, [0-9a-f]{12}… now\)"
    ):
        verify_code(recorded)
    file.unlink()
    with pytest.raises(AnyshotError, match="cannot be read: No such file"):
        verify_code(recorded)


def test_an_importable_name_is_recorded_with_its_version():
    recorded = fingerprint("numpy.random:default_rng")
    assert recorded["version"] == __import__("numpy").__version__
    assert Path(recorded["file"]).name == "__init__.py"


def test_settings_hold_exact_places_and_say_which_are_not_anyshots_own(file, monkeypatch):
    monkeypatch.chdir(file.parent)
    settings = Settings(
        task=TaskSettings(shots="own.py:rule:1-3"),
        method=MethodSettings(name="own.py:M", body="own.py:b", statistics=("mean", "own.py:s")),
    )
    assert settings.user_code() == [f"{file.resolve()}:{name}" for name in ("M", "b", "s", "rule")]
    assert settings.task.shots == f"{file.resolve()}:rule:1-3"
    assert Settings.from_dict(settings.as_dict()) == settings
    assert Settings().user_code() == []
