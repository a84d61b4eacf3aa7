"""User code of runs: it is copied, it may change, and it never runs without trust."""

import json
import logging
import sys

import pytest
from support import make_imageset

import anyshot
from anyshot.core.errors import CodeError
from anyshot.core.registry import METHODS
from anyshot.core.settings import MethodSettings, Settings, TaskSettings
from anyshot.methods import MAML
from anyshot.runs.checkpoint import Checkpoint
from anyshot.runs.run import Run
from anyshot.runs.training_lock import exclusive_training

SOURCE = """
from pathlib import Path
from anyshot.methods import MAML

Path(__file__).with_suffix(".ran").touch()

class Mine(MAML):
    alpha = 0.25

def two(rng, way, least, most):
    return [2] * way
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(SOURCE)
    return path


def make_run(folder, file, **task) -> Run:
    """A run of the user's method with chosen parameters, made without running the file."""
    settings = Settings(
        task=TaskSettings(**task), method=MethodSettings(name=f"{file}:Mine", channels=4)
    )
    run = Run.open_or_create(folder, settings, (16, 16))
    run.log({"kind": "iteration"})
    run.save_best(Checkpoint({}, run.new_method().state_dict()))
    file.with_suffix(".ran").unlink()
    sys.modules.pop(str(file), None)
    return run


def test_nothing_runs_without_trust(tmp_path, file):
    make_run(tmp_path / "run", file)
    Run(tmp_path / "run").export(tmp_path / "weights")
    for folder in ("run", "weights"):
        run = Run(tmp_path / folder)
        for load in (run.load_method, run.new_method, lambda run=run: anyshot.load(run.folder)):
            with pytest.raises(CodeError, match=r"mine\.py.*trust_code=True.*--trust-code"):
                load()
    assert not file.with_suffix(".ran").exists()
    assert anyshot.load(tmp_path / "weights", trust_code=True).alpha == 0.25


@pytest.mark.parametrize(
    "record", [{}, {"file": None}, {"file": None, "sha256": None}, {"file": "x", "sha256": "0"}]
)
def test_forged_record_of_code_does_not_replace_trust(tmp_path, file, record):
    run = make_run(tmp_path / "run", file)
    description = tmp_path / "run" / "run.json"
    info = json.loads(description.read_text())
    description.write_text(json.dumps({**info, "code": {f"{file}:Mine": record}}))
    with pytest.raises(CodeError, match="trust_code=True"):
        anyshot.load(run.folder)
    assert not file.with_suffix(".ran").exists()


def test_module_is_not_imported_before_its_digest_is_compared(tmp_path, monkeypatch):
    module = tmp_path / "harmless_module.py"
    module.write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    settings = Settings(method=MethodSettings(name="harmless_module:Mine"))
    run = Run.open_or_create(tmp_path / "run", settings, (32, 32))
    module.write_text("raise SystemExit('imported')\n")
    with pytest.raises(CodeError, match="trust_code"):
        Run(tmp_path / "run").new_method()
    assert run.new_method().alpha == 0.25  # the copy
    assert "harmless_module" not in sys.modules


def test_added_comment_does_not_lock_out_a_run(tmp_path, file, caplog):
    run = make_run(tmp_path / "run", file)
    file.write_text("# a comment\n" + SOURCE.replace("0.25", "0.75"))
    with caplog.at_level(logging.WARNING):
        method = Run(tmp_path / "run", trust_code=True).load_method()
        Run(tmp_path / "run", trust_code=True).load_method()
    assert (method.name, method.alpha) == ("Mine", 0.25)
    (warning,) = caplog.messages
    assert str(file) in warning
    assert "changed" in warning
    assert Run.open_or_create(tmp_path / "run", run.settings, (16, 16)).new_method().alpha == 0.25
    new = Run.open_or_create(tmp_path / "new", run.settings, (16, 16))
    assert new.new_method().alpha == 0.75


def test_missing_file_is_replaced_by_the_copy_and_a_missing_copy_by_the_file(tmp_path, file):
    make_run(tmp_path / "run", file)
    copies = list((tmp_path / "run" / "code").iterdir())
    text = copies[0].read_text()
    file.unlink()
    run = Run(tmp_path / "run", trust_code=True)
    assert run.load_method().alpha == 0.25
    copies[0].write_text(text.replace("0.25", "0.5"))
    with pytest.raises(CodeError, match=str(copies[0])):
        run.load_method()
    copies[0].unlink()
    with pytest.raises(CodeError, match=str(copies[0])):
        run.load_method()
    file.write_text(text)
    assert run.load_method().alpha == 0.25


def test_changed_shot_rule_comes_from_the_copy(tmp_path, file):
    make_run(tmp_path / "run", file, way=3, shots=f"{file}:two:1-5")
    file.write_text(SOURCE.replace("[2]", "[3]"))
    run = Run(tmp_path / "run", trust_code=True)
    task = run.resolve_settings().task
    assert task.shots.endswith(":two:1-5")
    stream = anyshot.TaskStream(make_imageset(), "train", task, 0)
    assert stream.task(0).support_labels.bincount().tolist() == [2, 2, 2]
    assert run.settings.task.shots == f"{file}:two:1-5"  # what the user wrote stays in tables


def test_code_that_this_process_has_registered_needs_no_trust(tmp_path, monkeypatch):
    monkeypatch.setattr(METHODS, "_registered", {})

    @METHODS.register("local")
    class Local(MAML):
        alpha = 0.125

    settings = Settings(method=MethodSettings(name="local"))
    Run.open_or_create(tmp_path / "run", settings, (32, 32))
    assert Run(tmp_path / "run").new_method().alpha == 0.125


def test_registered_file_and_its_older_copy_live_side_by_side(tmp_path, file, monkeypatch):
    monkeypatch.setattr(METHODS, "_registered", {})
    head, tail = SOURCE.split("class Mine")
    registered = f'from anyshot import METHODS\n{head}@METHODS.register("mine")\nclass Mine{tail}'
    file.write_text(registered)
    make_run(tmp_path / "run", file)
    METHODS._registered.clear()  # as in a new process
    file.write_text(registered.replace("0.25", "0.75"))
    current = METHODS[f"{file}:Mine"]
    assert Run(tmp_path / "run", trust_code=True).load_method().alpha == 0.25
    assert METHODS["mine"] is current
    assert current.alpha == 0.75


def test_run_from_before_copies_uses_the_unchanged_file_only(tmp_path, file):
    make_run(tmp_path / "run", file)
    for copy in (tmp_path / "run" / "code").iterdir():
        copy.unlink()
    info = json.loads((tmp_path / "run" / "run.json").read_text())
    del info["id"]
    (tmp_path / "run" / "run.json").write_text(json.dumps(info))
    assert Run(tmp_path / "run", trust_code=True).new_method().alpha == 0.25
    file.write_text(SOURCE + "\n")
    with pytest.raises(CodeError, match=r"mine\.py.*new run"):
        Run(tmp_path / "run", trust_code=True).new_method()


def test_run_that_never_starts_leaves_no_copy_behind(tmp_path, file):
    settings = Settings(method=MethodSettings(name=f"{file}:Mine"))
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").touch()
    with exclusive_training(tmp_path / "run"):
        Run.open_or_create(tmp_path / "run", settings, (32, 32))
        assert list((tmp_path / "run" / "code").iterdir())
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["notes.txt"]
