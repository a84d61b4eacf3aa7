"""Saved classifiers and weights: the same answers, digests, and messages instead of raw errors."""

from __future__ import annotations

import copy
import dataclasses
import shutil
import sys

import numpy as np
import pytest
import torch
from support import colours
from tiny_runs import tiny, train_tiny

from anyshot.classifier import AnyShotClassifier
from anyshot.classifier.serialization import FILE
from anyshot.classifier.weights import FILE as WEIGHTS_FILE
from anyshot.classifier.weights import open_weights
from anyshot.core import files
from anyshot.core.errors import AnyshotError, ClassifierError, CodeError
from anyshot.runs import pretrained
from anyshot.runs.checkpoint import Checkpoint, read_checkpoint, write_checkpoint

RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 5))
Y = np.repeat(["a", "b"], 6)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A saved classifier of vectors."""
    path = tmp_path_factory.mktemp("saved")
    AnyShotClassifier(None).fit(X, Y).save(path)
    return path


@pytest.fixture
def own_folder(folder, tmp_path):
    """A copy that a test may change."""
    shutil.copytree(folder, tmp_path / "own")
    return tmp_path / "own"


def rewrite(folder, change, file=FILE):
    """Change a saved file as somebody would who also writes a correct digest."""
    content = read_checkpoint(folder / file)
    state, tensors = copy.deepcopy(content.state), dict(content.tensors)
    changed = change(state, tensors)
    state = changed if isinstance(changed, dict | list) else state
    write_checkpoint(folder / file, Checkpoint(state, tensors))


def test_a_loaded_classifier_gives_the_same_answers(folder):
    expected = AnyShotClassifier(None).fit(X, Y)
    loaded = AnyShotClassifier.load(folder)
    np.testing.assert_array_equal(loaded.predict_proba(X), expected.predict_proba(X))
    assert loaded.explain() == expected.explain()
    assert [path.name for path in folder.iterdir()] == [FILE]


def test_a_classifier_is_one_file_that_moves_and_a_folder_is_read_too(folder, tmp_path):
    clf = AnyShotClassifier(None).fit(X, Y)
    path = tmp_path / "new" / "pets.anyshot"
    clf.save(path)
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    mailed = shutil.move(path, tmp_path / "mail.bin")
    for source in (mailed, str(mailed), folder):
        loaded = AnyShotClassifier.load(source)
        np.testing.assert_array_equal(loaded.predict_proba(X), clf.predict_proba(X))
    assert mailed.read_bytes() == (folder / FILE).read_bytes()


@pytest.mark.parametrize("seed", range(4))
def test_a_damaged_or_cut_file_is_refused_by_its_name(folder, tmp_path, seed):
    data = bytearray((folder / FILE).read_bytes())
    position = int(np.random.default_rng(seed).integers(len(data)))
    (tmp_path / "cut.anyshot").write_bytes(data[:position])
    data[position] ^= 1 << seed
    (tmp_path / "flipped.anyshot").write_bytes(data)
    for name in ("cut.anyshot", "flipped.anyshot"):
        with pytest.raises(AnyshotError, match=name):
            AnyShotClassifier.load(tmp_path / name)


@pytest.mark.parametrize("content", [b"", b"<html>", b"\x08\x0a" + bytes(4000)])
def test_a_file_that_is_no_classifier_is_refused_with_what_to_give(tmp_path, content):
    path = tmp_path / "pets.onnx"
    path.write_bytes(content)
    with pytest.raises(ClassifierError, match=r"pets\.onnx.* not a saved .*\.anyshot") as refused:
        AnyShotClassifier.load(path)
    assert str(refused.value).count(str(path)) == 1


def test_a_function_must_be_given_again(tmp_path):
    images = list(RNG.integers(0, 255, (6, 8, 8, 3), np.uint8))
    clf = AnyShotClassifier(colours, side=8).fit(images, [0, 1] * 3)
    clf.save_pretrained(tmp_path)
    with pytest.raises(ClassifierError, match="backbone="):
        AnyShotClassifier.from_pretrained(tmp_path)
    again = AnyShotClassifier.load(tmp_path, backbone=colours)
    np.testing.assert_array_equal(again.predict_proba(images), clf.predict_proba(images))
    wrong = AnyShotClassifier.load(tmp_path, backbone=lambda pixels: pixels.mean((1, 2)))
    with pytest.raises(ClassifierError, match="3 features"):
        wrong.predict(images)


def test_an_interrupted_save_leaves_the_old_classifier(own_folder, monkeypatch):
    before = AnyShotClassifier.load(own_folder).predict_proba(X)
    new = AnyShotClassifier(None).fit(X, np.repeat(["x", "y"], 6))

    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(files.os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        new.save(own_folder)
    monkeypatch.undo()
    loaded = AnyShotClassifier.load(own_folder)
    assert list(loaded.classes_) == ["a", "b"]
    np.testing.assert_array_equal(loaded.predict_proba(X), before)


@pytest.mark.parametrize("seed", range(12))
def test_a_flipped_bit_of_a_classifier_is_noticed(own_folder, seed):
    path = own_folder / FILE
    data = bytearray(path.read_bytes())
    position = int(np.random.default_rng(seed).integers(len(data)))
    data[position] ^= 1 << seed % 8
    path.write_bytes(data)
    with pytest.raises(AnyshotError):
        AnyShotClassifier.load(own_folder)


@pytest.mark.parametrize("seed", range(6))
def test_a_flipped_bit_of_weights_is_noticed(tmp_path, seed):
    shutil.copytree(pretrained.HOME / "photos-lite0", tmp_path / "weights")
    path = tmp_path / "weights" / WEIGHTS_FILE
    data = bytearray(path.read_bytes())
    data[int(np.random.default_rng(seed).integers(len(data)))] ^= 1 << seed
    path.write_bytes(data)
    with pytest.raises(ClassifierError, match="damaged"):
        open_weights(tmp_path / "weights")


@pytest.mark.parametrize(
    "change",
    [
        lambda state, tensors: [],
        lambda state, tensors: {"x": 1},
        lambda state, tensors: {**state, "backbone": 3},
        lambda state, tensors: tensors.update({"outlook.threshold": torch.tensor(float("nan"))}),
        lambda state, tensors: tensors.update({"learner.share": torch.ones(3)}),
        lambda state, tensors: tensors.update({"learner.share": torch.ones(3, 3)}),
        lambda state, tensors: tensors.pop("outlook.threshold") and None,
    ],
    ids=["list", "dict", "backbone", "nan", "share", "shape", "missing"],
)
def test_unusable_weights_are_one_message(tmp_path, change):
    shutil.copytree(pretrained.HOME / "photos-lite0", tmp_path / "weights")
    rewrite(tmp_path / "weights", change, WEIGHTS_FILE)
    with pytest.raises(ClassifierError, match="weights"):
        AnyShotClassifier(None, weights=tmp_path / "weights").fit(X, Y)


def with_value(name, value):
    return lambda state, tensors: {**state, name: value}


def without(name):
    return lambda state, tensors: {key: value for key, value in state.items() if key != name}


def with_tensor(name, value):
    return lambda state, tensors: tensors.update({name: value})


@pytest.mark.parametrize(
    "change",
    [
        *(without(key) for key in ("kind", "backbone", "own_backbone", "side", "weights")),
        *(without(key) for key in ("learner", "classes")),
        *(with_value("kind", v) for v in (None, "Other", 3)),
        *(with_value("backbone", v) for v in (3, [], {}, True, "nowhere", "conv4:nowhere")),
        *(with_value("own_backbone", v) for v in ("yes", None)),
        *(with_value("side", v) for v in ("8", -1, 0, 10_001, 2.5, [8])),
        *(with_value("weights", v) for v in (None, 3, [])),
        *(with_value("unknown_threshold", v) for v in ("0.5", True, 1.5)),
        *(with_value("learner", v) for v in (None, [], {}, {"backbone": None}, "x")),
        *(with_value("classes", v) for v in (None, [], ["a"], ["b", "a"], ["a", "a"], ["a", 1])),
        *(with_value("classes", v) for v in ("ab", {"a": 0}, [["a"], ["b"]], [None, "a"])),
        lambda state, tensors: [],
        *(with_tensor("features", t) for t in (torch.ones(12), torch.ones(12, 0))),
        *(with_tensor("features", t) for t in (torch.ones(12, 5).double(), torch.ones(3, 5))),
        with_tensor("features", torch.full((12, 5), float("nan"))),
        *(with_tensor("labels", t) for t in (torch.ones(12), torch.full((12,), 7))),
        *(with_tensor("labels", t) for t in (torch.full((12,), -1), torch.zeros(3).long())),
        lambda state, tensors: tensors.pop("features") is None,
        lambda state, tensors: tensors.pop("labels") is None,
        with_tensor("labels", torch.tensor([0] * 11 + [2])),
        *(with_tensor("reference", torch.ones(s)) for s in ((3,), (12, 8, 8, 3))),
        *(
            with_tensor("reference", torch.ones(shape, dtype=torch.uint8))
            for shape in ((3,), (12, 8, 8), (12, 8, 8, 4), (0, 8, 8, 3))
        ),
        with_tensor("outlook.level", torch.ones(1)),
        with_tensor("learner.directions", torch.ones(1)),
    ],
)
def test_a_tampered_classifier_is_one_message(own_folder, change):
    rewrite(own_folder, change)
    with pytest.raises(AnyshotError):
        AnyShotClassifier.load(own_folder).predict(X)


@pytest.mark.parametrize(
    "change",
    [
        *(with_value("side", v) for v in (1, 10_000, None)),
        *(with_value("classes", v) for v in ([0, 1], [0, 1.5], ["a", "b", "c"])),
        with_tensor("reference", torch.ones(12, 8, 8, 3, dtype=torch.uint8)),
    ],
)
def test_every_valid_value_can_be_loaded(own_folder, change):
    rewrite(own_folder, change)
    loaded = AnyShotClassifier.load(own_folder)
    expected = AnyShotClassifier(None).fit(X, Y).predict_proba(X)
    np.testing.assert_array_equal(loaded.predict_proba(X)[:, :2], expected)
    assert loaded.n_features_in_ == X.shape[1]


def test_a_classifier_of_another_version_says_so(own_folder):
    def change(state, tensors):
        del tensors["outlook.threshold"]
        return {**state, "version": "0.0.7"}

    rewrite(own_folder, change)
    with pytest.raises(ClassifierError, match=r"0\.0\.7"):
        AnyShotClassifier.load(own_folder)


@pytest.mark.parametrize("name", ["nothing", "file", "folder"])
def test_a_path_without_a_classifier_is_refused(tmp_path, name):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ClassifierError, match=name):
        AnyShotClassifier.load(tmp_path / name)


CODE = """
from pathlib import Path
from anyshot.models.bodies.conv4 import conv4
Path(__file__).with_name("was-run").touch()
def mine(image_size, channels=32):
    return conv4(image_size, channels)
"""


def test_code_of_a_run_is_not_executed_without_trust(tmp_path, monkeypatch):
    code = tmp_path / "nets.py"
    code.write_text(CODE)
    settings = tiny("maml")
    method = dataclasses.replace(settings.method, body=f"{code}:mine")
    run = train_tiny(dataclasses.replace(settings, method=method), tmp_path / "run")
    images = list(RNG.integers(0, 255, (6, 16, 16, 3), np.uint8))
    trusted = AnyShotClassifier(f"conv4:{run.folder}", trust_code=True).fit(images, [0, 1] * 3)
    trusted.save(tmp_path / "saved")
    expected = trusted.predict_proba(images)
    (tmp_path / "was-run").unlink()
    monkeypatch.delitem(sys.modules, str(code), raising=False)
    with pytest.raises(CodeError, match="trust_code"):
        AnyShotClassifier.load(tmp_path / "saved")
    assert not (tmp_path / "was-run").exists()
    again = AnyShotClassifier.load(tmp_path / "saved", trust_code=True)
    np.testing.assert_array_equal(again.predict_proba(images), expected)


@pytest.mark.parametrize("name", ["log_kappa", "log_nu", "log_tau", "log_temperature"])
def test_weights_of_huge_numbers_are_refused(own_folder, name):
    def enlarge(state, tensors):
        for key in tensors:
            if key.endswith(name):
                tensors[key] = torch.full_like(tensors[key], 3e38)

    rewrite(own_folder, enlarge)
    with pytest.raises(ClassifierError, match=r"photos-lite0.*finite"):
        AnyShotClassifier.load(own_folder).predict_proba(X)
