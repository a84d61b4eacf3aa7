"""User code is loaded by import path, and changed code is refused."""

import hashlib
import sys
from pathlib import Path

import pytest

from anyshot.core.code_loading import (
    absolute_path,
    fingerprint,
    load_copy,
    load_object,
    user_code_location,
)
from anyshot.core.errors import CodeError


@pytest.fixture
def file(tmp_path) -> Path:
    path = tmp_path / "own.py"
    path.write_text("class Outer:\n    class Inner:\n        pass\n\nvalue = 1\n")
    return path


def test_file_runs_once_until_its_content_changes(file):
    first = load_object(f"{file}:Outer")
    assert load_object(f"{file}:Outer") is first
    file.write_text(file.read_text().replace("value = 1", "value = 2"))
    assert load_object(f"{file}:value") == 2
    assert load_object(f"{file}:Outer") is not first


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        (None, "{file}:X", "No such file"),
        ("x = 1", "{file}:X", "'X' in '.*own.py'"),
        ("import no_such_module", "{file}:X", "ModuleNotFoundError: No module"),
        ("x = = 1", "{file}:X", "SyntaxError"),
        ("", "no_such_module:X", "ModuleNotFoundError"),
        ("", "nonsense", "'nonsense'.*FILE.py:NAME"),
        ("", "~no-such-user/own.py:X", "no-such-user.*No such file"),
        ("", "null\0/own.py:X", "FILE.py:NAME"),
    ],
)
def test_code_that_cannot_be_loaded_raises_and_leaves_no_module(tmp_path, text, path, message):
    file = tmp_path / "own.py"
    if text is not None:
        file.write_text(text)
    with pytest.raises(CodeError, match=message):
        load_object(path.format(file=file))
    assert str(file) not in sys.modules or text == "x = 1"


def test_absolute_path_changes_files_only(file, monkeypatch):
    monkeypatch.chdir(file.parent)
    assert absolute_path("own.py:Outer") == f"{file.resolve()}:Outer"
    assert absolute_path("json:dumps") == "json:dumps"
    assert absolute_path("maml") == "maml"
    assert absolute_path("~no-such-user/own.py:M") == f"{file.parent}/~no-such-user/own.py:M"


def test_fingerprint_follows_the_content_of_the_file(file):
    path = f"{file}:Outer"
    recorded = fingerprint(path)
    assert recorded["sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()
    file.write_text("class Outer: ...\n")
    assert fingerprint(path)["sha256"] != recorded["sha256"]
    file.unlink()
    with pytest.raises(CodeError, match="No such file"):
        fingerprint(path)


def test_fingerprint_of_a_module_does_not_import_it_or_its_package(tmp_path, monkeypatch):
    package = tmp_path / "fingerprinted_package"
    (package / "inner").mkdir(parents=True)
    for file in (package / "__init__.py", package / "inner" / "__init__.py"):
        file.write_text("raise SystemExit('imported')\n")
    (package / "inner" / "module.py").write_text("class Mine: ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    recorded = fingerprint("fingerprinted_package.inner.module:Mine")
    assert recorded["file"] == str(package / "inner" / "module.py")
    assert not [name for name in sys.modules if name.startswith("fingerprinted_package")]
    for missing in ("fingerprinted_package.outer", "fingerprinted_package.inner.module.deeper"):
        with pytest.raises(CodeError, match=missing):
            fingerprint(f"{missing}:Mine")


def test_copy_of_a_module_keeps_its_relative_imports(tmp_path, monkeypatch):
    package = tmp_path / "copied_package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "helper.py").write_text("value = 3\n")
    (package / "module.py").write_text("from .helper import value\n")
    monkeypatch.syspath_prepend(tmp_path)
    copy = tmp_path / "copy.py"
    copy.write_bytes((package / "module.py").read_bytes())
    assert load_object(load_copy("copied_package.module:value", copy)) == 3


def test_fingerprint_of_a_module_has_the_version_of_its_package():
    recorded = fingerprint("numpy.random:default_rng")
    assert recorded["version"] == __import__("numpy").__version__
    assert Path(recorded["file"]).name == "__init__.py"


def test_error_in_user_code_is_located(file):
    file.write_text("def divide():\n    return 1 / 0\n")
    with pytest.raises(ZeroDivisionError) as caught:
        load_object(f"{file}:divide")()
    assert user_code_location(caught.value) == f"{file}, line 2"
    with pytest.raises(ZeroDivisionError) as caught:
        1 / 0  # noqa: B018
    assert user_code_location(caught.value) is None
