import json
import os
import re
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from support import assert_equal, make_imageset

from anyshot.core.code_loading import fingerprint
from anyshot.core.errors import AnyshotError, RunError
from anyshot.core.settings import MethodSettings, Settings, TaskSettings, TrainSettings
from anyshot.core.version import VERSION
from anyshot.methods import create_method
from anyshot.runs.checkpoint import Checkpoint
from anyshot.runs.image_record import SetRecord
from anyshot.runs.run import Run
from anyshot.runs.training_lock import exclusive_training


def make(folder) -> Run:
    return Run.open_or_create(folder, Settings(), (32, 32), "anyshot train")


def test_created_run_is_read_back(tmp_path):
    made = make(tmp_path / "run")
    assert made.info["command"] == "anyshot train"
    assert Run(tmp_path / "run").settings == Settings()
    assert Run(tmp_path / "run").image_size == (32, 32)


def test_extended_run_keeps_what_it_recorded(tmp_path):
    record = SetRecord.from_images(make_imageset(), "tiny", None)
    body, code = {"source": "runs/warm", "sha256": "0" * 64}, "statistics:median"
    settings = Settings(
        images=("tiny",), method=MethodSettings(options={"statistics": ("mean", code)})
    )
    made = Run.open_or_create(tmp_path, settings, (16, 20), "anyshot train x", [record], body)
    assert made.info == {
        "settings": json.loads(json.dumps(settings.as_dict())),
        "image_size": [16, 20],
        "version": VERSION,
        "command": "anyshot train x",
        "threads": torch.get_num_threads(),
        "code": {code: fingerprint(code)},
        "sets": json.loads(json.dumps([asdict(record)])),
        "body": body,
        "id": made.run_id,
    }
    assert made.image_size == (16, 20)
    assert made.sets == (record,)
    made.log({"kind": "iteration"})
    again = Run.open_or_create(
        tmp_path, longer(settings, 60_000), (16, 20), "anyshot train x --iterations 60000"
    )
    assert again.info["command"].endswith("60000")
    assert {**again.info, "settings": 0, "command": 0} == {**made.info, "settings": 0, "command": 0}


def test_run_has_started_with_its_first_checkpoint_or_log_line(tmp_path):
    assert Run.find_started(tmp_path) is None
    made = make(tmp_path)
    assert Run.find_started(tmp_path) is None
    assert (made.log_lines(), list(made.records())) == (0, [])
    made.save_checkpoint("meta-0000000", Checkpoint({}, {}))
    assert Run.find_started(tmp_path).folder == tmp_path


def test_loaded_method_has_the_chosen_parameters_without_gradients(tmp_path):
    made = make(tmp_path)
    start, other = made.new_method(), replace(made.settings, train=TrainSettings(seed=1))
    assert_equal(start.state_dict(), create_method(MethodSettings(), (32, 32), seed=0).state_dict())
    first = (
        Run.open_or_create(tmp_path / "other", other, (32, 32)).new_method().theta["conv1_weight"]
    )
    assert torch.equal(
        first, create_method(MethodSettings(), (32, 32), seed=1).theta["conv1_weight"]
    )
    made.save_best(
        Checkpoint({"temperature": 1.5}, {k: v + 1 for k, v in start.state_dict().items()})
    )
    loaded = made.load_method()
    assert loaded.temperature == 1.5
    assert not any(parameter.requires_grad for parameter in loaded.parameters())
    assert_equal(loaded.state_dict(), {k: v + 1 for k, v in start.state_dict().items()})
    made.save_best(Checkpoint({}, start.state_dict()))
    assert made.load_method().temperature == 1.0
    made.save_best(Checkpoint({}, {"theta.conv1_weight": torch.zeros(3)}))
    with pytest.raises(
        AnyshotError, match=r"^best\.safetensors of the run '.*' does not fit its settings \(Error"
    ):
        made.load_method()
    with pytest.raises(AnyshotError, match="'nowhere'"):
        made.load_method("nowhere")


def test_only_the_newest_checkpoints_are_kept(tmp_path):
    made = make(tmp_path)
    for i in range(5):
        made.save_checkpoint(
            f"meta-{i:07d}", Checkpoint({"iteration": i}, {"x": torch.tensor([float(i)])})
        )
    assert sorted(p.name for p in (tmp_path / "checkpoints").iterdir()) == [
        "meta-0000003.safetensors",
        "meta-0000004.safetensors",
    ]
    newest = made.latest_checkpoint()
    assert newest.state == {"iteration": 4}
    assert newest.tensors["x"].item() == 4


def test_other_files_in_the_checkpoint_folder_are_ignored(tmp_path):
    made = make(tmp_path)
    made.save_checkpoint("meta-0000001", Checkpoint({"iteration": 1}, {}))
    place = tmp_path / "checkpoints"
    (place / ".meta-0000009.safetensors.0123456789ab.tmp").write_bytes(b"half")
    for name in ("zzz.txt", ".DS_Store", "meta-0000009.safetensors.bak", "notes-1.safetensors~"):
        (place / name).write_text("stray")
    (place / "meta-0000008.safetensors").mkdir()
    for i in range(2, 5):
        made.save_checkpoint(f"meta-{i:07d}", Checkpoint({"iteration": i}, {}))
    assert made.latest_checkpoint().state == {"iteration": 4}
    assert (place / "zzz.txt").read_text() == "stray"


def test_incomplete_log_line_is_skipped(tmp_path):
    made = make(tmp_path)
    made.log({"kind": "iteration", "loss": float("nan")})
    with open(made.log_file.path, "a") as file:
        file.write('{"kind": "itera')
    assert list(made.records()) == [{"kind": "iteration", "loss": None}]
    made.truncate_log(1)
    assert made.log_lines() == 1


def test_run_without_chosen_parameters_is_refused(tmp_path):
    with pytest.raises(AnyshotError, match=str(tmp_path)):
        make(tmp_path).best()


def test_damaged_checkpoint_is_skipped(tmp_path, caplog):
    made = make(tmp_path)
    for i in range(2):
        made.save_checkpoint(
            f"meta-{i:07d}", Checkpoint({"iteration": i}, {"x": torch.tensor([float(i)])})
        )
    newest = tmp_path / "checkpoints" / "meta-0000001.safetensors"
    newest.write_bytes(newest.read_bytes()[:10])
    assert made.latest_checkpoint().state == {"iteration": 0}
    (sentence,) = caplog.messages
    assert str(newest) in sentence
    (tmp_path / "checkpoints" / "meta-0000000.safetensors").write_text("{")
    with pytest.raises(AnyshotError, match=f"{tmp_path}.*can be read"):
        made.latest_checkpoint()


def test_started_run_with_other_settings_is_refused(tmp_path):
    make(tmp_path)
    other = Settings(task=TaskSettings(way=7))
    made = Run.open_or_create(tmp_path, other, (32, 32))
    assert made.settings == other
    made.log({"kind": "iteration"})
    with pytest.raises(
        AnyshotError,
        match=r"other settings \(way 7, not 5\); choose another folder or delete it\.$",
    ):
        make(tmp_path)


def test_a_refusal_names_a_few_of_many_differences(tmp_path):
    make(tmp_path).log({"kind": "iteration"})
    other = Settings(method=MethodSettings(name="mt-net"))
    with pytest.raises(AnyshotError, match=r"\(name \S+, not mt-net; .*and \d+ more\)"):
        Run.open_or_create(tmp_path, other, (32, 32))


def longer(settings: Settings, iterations: int) -> Settings:
    return replace(settings, train=replace(settings.train, iterations=iterations))


def test_run_can_be_extended_unless_its_learning_rate_decays(tmp_path):
    base = Settings()
    made = Run.open_or_create(tmp_path / "a", base, (32, 32))
    made.log({"kind": "iteration"})
    assert (
        Run.open_or_create(tmp_path / "a", longer(base, 60_000), (32, 32)).settings.train.iterations
        == 60_000
    )
    assert Run(tmp_path / "a").settings.train.iterations == 60_000
    with pytest.raises(AnyshotError, match="iterations 60000, not 100"):
        Run.open_or_create(tmp_path / "a", longer(base, 100), (32, 32))
    decays = replace(base, train=TrainSettings(decay="cosine"))
    Run.open_or_create(tmp_path / "b", decays, (32, 32)).log({"kind": "iteration"})
    with pytest.raises(AnyshotError, match="decays"):
        Run.open_or_create(tmp_path / "b", longer(decays, 60_000), (32, 32))


WRONG = [
    [],
    3,
    None,
    "text",
    {},
    {"settings": None},
    {"settings": {"way": 3}},
    {"settings": {"task": 3}},
    {"settings": {"task": {"way": "five"}}},
    {"settings": {"task": {"way": 1e999}}},
    {"settings": {"images": []}},
    {"settings": {"images": "glyphs"}},
    {"settings": {"images": [3]}},
    {"settings": {"method": {"gains": ["a"] * 3}}},
    {"settings": {"train": {"rate": float("nan")}}},
    {"image_size": None},
    {"image_size": 32},
    {"image_size": [32]},
    {"image_size": ["a", "b"]},
    {"image_size": [0, 0]},
    {"image_size": [1e999, 3]},
    {"image_size": [32, 32, 3]},
    {"image_size": [-5, 32]},
    {"sets": None},
    {"sets": 3},
    {"sets": [3]},
    {"sets": [{}]},
    {"sets": [None]},
    {"sets": {"a": 1}},
]


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_invalid_description_is_refused(tmp_path, wrong):
    made = make(tmp_path)
    whole = isinstance(wrong, dict) and wrong
    (tmp_path / "run.json").write_text(json.dumps({**made.info, **wrong} if whole else wrong))
    with pytest.raises(AnyshotError, match=r"run\.json' does not describe a run"):
        Run(tmp_path)


def test_second_training_of_a_folder_is_refused(tmp_path):
    with (
        exclusive_training(tmp_path / "run"),
        pytest.raises(AnyshotError, match="is being trained by another process"),
        exclusive_training(tmp_path / "run"),
    ):
        pass
    with exclusive_training(tmp_path / "run"):
        pass  # the lock is gone with its holder


def test_lock_ends_with_its_process(tmp_path):
    code = f"""
import os, sys
from anyshot.runs.training_lock import exclusive_training
with exclusive_training({str(tmp_path)!r}):
    print("held", flush=True)
    sys.stdin.read()
"""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], **pipes) as child:
        assert child.stdout.readline() == b"held\n"
        with pytest.raises(AnyshotError, match="another process"), exclusive_training(tmp_path):
            pass
        child.kill()
        child.wait()
    with exclusive_training(tmp_path):
        pass


@pytest.mark.parametrize("error", [AnyshotError, KeyboardInterrupt])
def test_run_that_never_started_leaves_the_folder_unchanged(tmp_path, error):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").touch()
    for name in ("new/deep/run", "full"):
        with pytest.raises(error), exclusive_training(tmp_path / name):
            Run.open_or_create(tmp_path / name, Settings(), (32, 32))
            raise error
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["full", "mine.txt"]


def test_foreign_run_json_is_not_overwritten(tmp_path):
    (tmp_path / "run.json").write_text('{"marathon": 42}')
    with pytest.raises(AnyshotError, match="does not describe a run"), exclusive_training(tmp_path):
        make(tmp_path)
    assert (tmp_path / "run.json").read_text() == '{"marathon": 42}'


def test_temporary_files_of_a_killed_training_are_deleted(tmp_path):
    made = make(tmp_path)
    made.save_checkpoint("meta-0000001", Checkpoint({}, {}))
    kept = sorted(p.name for p in tmp_path.rglob("*"))
    (tmp_path / ".best.safetensors.0123456789ab.tmp").write_bytes(b"half")
    (tmp_path / "checkpoints" / ".meta-0000002.safetensors.0123456789ab.tmp").write_bytes(b"half")
    (tmp_path / ".old.0123456789ab.tmp").mkdir()
    with exclusive_training(tmp_path):
        pass
    assert sorted(p.name for p in tmp_path.rglob("*")) == kept


def test_log_lines_that_are_not_records_are_skipped(tmp_path):
    made = make(tmp_path)
    made.log_file.path.write_bytes(b'3\n[]\n{}\nnull\n\xff\xfe\n{"kind": "warm"}\n')
    assert list(made.records()) == list(made.records("warm")) == [{"kind": "warm"}]


def test_errors_of_the_system_name_the_path(tmp_path, monkeypatch):
    made = make(tmp_path)
    made.log_file.path.mkdir()
    asks = {
        "read": (lambda: list(made.records()), made.log_lines),
        "write": (lambda: made.truncate_log(1),),
    }
    for verb, calls in asks.items():
        for call in calls:
            with pytest.raises(
                AnyshotError,
                match=f"^Cannot {verb} '{re.escape(str(made.log_file.path))}': Is a directory",
            ):
                call()
    (tmp_path / "checkpoints").mkdir()
    monkeypatch.setattr(Path, "iterdir", lambda path: os.scandir(path / "gone"))
    with pytest.raises(
        AnyshotError, match=f"^Cannot read '{re.escape(str(tmp_path / 'checkpoints'))}': "
    ):
        made.latest_checkpoint()


def test_checkpoints_and_parameters_of_another_run_are_refused(tmp_path):
    runs = {
        seed: Run.open_or_create(
            tmp_path / str(seed), Settings(train=TrainSettings(seed=seed)), (32, 32)
        )
        for seed in (0, 1)
    }
    for run in runs.values():
        run.save_checkpoint("meta-0000001", Checkpoint({"iteration": 1}, {}))
        run.save_best(Checkpoint({}, {}))
    name = "checkpoints/meta-0000002.safetensors"
    (tmp_path / "0" / name).write_bytes(
        (tmp_path / "1" / "checkpoints" / "meta-0000001.safetensors").read_bytes()
    )
    runs[0].best_path.write_bytes(runs[1].best_path.read_bytes())
    for read, file in ((runs[0].latest_checkpoint, name), (runs[0].best, "best.safetensors")):
        with pytest.raises(RunError, match=f"{tmp_path / '0' / file}.*another run"):
            read()


def test_equal_runs_and_extended_runs_have_one_identity(tmp_path):
    one = make(tmp_path / "one")
    assert make(tmp_path / "two").run_id == one.run_id
    one.log({"kind": "iteration"})
    extended = Run.open_or_create(tmp_path / "one", longer(Settings(), 60_000), (32, 32))
    assert extended.run_id == one.run_id
    whole = Run.open_or_create(tmp_path / "whole", longer(Settings(), 60_000), (32, 32))
    assert whole.run_id == one.run_id


def test_run_from_before_identities_continues(tmp_path):
    made = make(tmp_path)
    info = {key: value for key, value in made.info.items() if key != "id"}
    (tmp_path / "run.json").write_text(json.dumps(info))
    old = Run(tmp_path)
    old.save_checkpoint("meta-0000001", Checkpoint({"iteration": 1}, {}))
    assert Run(tmp_path).latest_checkpoint().state == {"iteration": 1}
    again = Run.open_or_create(tmp_path, longer(Settings(), 60_000), (32, 32))
    assert again.latest_checkpoint().state == {"iteration": 1}
