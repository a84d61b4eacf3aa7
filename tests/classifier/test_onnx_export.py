"""The ONNX graph gives the classifier's answers, by onnxruntime."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from PIL import Image
from torch import nn

from anyshot.classifier import AnyShotClassifier, fitted_state, onnx_export
from anyshot.classifier.backbones import to_pixels
from anyshot.core.errors import ClassifierError

RNG = np.random.default_rng(0)


def run(path, inputs):
    """Outputs of a graph, and its metadata."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    assert [output.name for output in session.get_outputs()] == ["probabilities", "unknown"]
    outputs = session.run(None, {given.name: inputs})
    return *outputs, session.get_modelmeta().custom_metadata_map


def uneven_task(way, width=24):
    """Features of classes with 1, 2, 4, … images, and new ones."""
    labels = np.repeat(np.arange(way), 2 ** (np.arange(way) % 4))
    centres = 2 * RNG.normal(size=(way, width))
    new = centres.repeat(5, 0) + RNG.normal(size=(5 * way, width))
    return centres[labels] + RNG.normal(size=(len(labels), width)), labels, new


def check(clf, path, inputs, images=False):
    """Compare a graph with the classifier and return its metadata."""
    probabilities, unknown, metadata = run(path, inputs)
    expected = clf.classify(list(inputs) if images else inputs)
    np.testing.assert_allclose(probabilities, expected.probabilities, atol=1e-4)
    np.testing.assert_allclose(unknown, expected.unknown_scores, atol=1e-3)
    assert json.loads(metadata["classes"]) == [str(c) for c in clf.classes_]
    return metadata


@pytest.mark.parametrize(
    ("way", "prior", "blocks"),
    [(2, "even", ()), (7, "as-given", (12, 4, 4, 4)), (30, "even", (12, 4, 4, 4))],
)
def test_probabilities_and_unknown_scores_are_those_of_the_classifier(
    tmp_path, monkeypatch, way, prior, blocks
):
    monkeypatch.setattr(fitted_state, "block_widths", lambda source, width: blocks)
    x, y, new = uneven_task(way)
    clf = AnyShotClassifier(None, class_prior=prior).fit(x, y)
    assert (len(clf.adapted_.views) > 1) == bool(blocks)
    clf.export_onnx(tmp_path / "a.onnx")
    inputs = np.concatenate([new, np.zeros((1, 24)), x[:2]]).astype(np.float32)
    metadata = check(clf, tmp_path / "a.onnx", inputs)
    shares = json.loads(metadata["anyshot.class_prior"])
    np.testing.assert_allclose(
        shares, np.bincount(y) / len(y) if prior == "as-given" else [1 / way] * way
    )


class Tiny(nn.Module):
    """Two convolutions, averaged over the image."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 8, 3, 2), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 16, 3, 2), nn.ReLU()
        )

    def forward(self, x):
        return self.layers(x).mean((2, 3))


def test_images_enter_as_bytes_and_a_module_is_part_of_the_graph(tmp_path):
    torch.manual_seed(0)
    images = RNG.integers(0, 256, (9, 16, 16, 3), np.uint8)
    shares = {"cat": 0.7, "dog": 0.2, "fox": 0.1}
    clf = AnyShotClassifier(Tiny(), side=16, class_prior=shares)
    clf.partial_fit(list(images[:6]), [*shares] * 2, [*shares, "emu"])
    clf.export_onnx(tmp_path / "a.onnx")
    probabilities, unknown, metadata = run(tmp_path / "a.onnx", images)
    assert json.loads(metadata["classes"]) == ["cat", "dog", "fox"]  # no image shows an emu
    assert "uint8 [n, 16, 16, 3]" in metadata["anyshot.input"]
    assert float(metadata["anyshot.unknown_threshold"]) == clf._unknown_threshold()
    expected = clf.classify(list(images))
    np.testing.assert_allclose(probabilities, expected.probabilities[:, [0, 1, 3]], atol=1e-4)
    np.testing.assert_allclose(unknown, expected.unknown_scores, atol=1e-3)
    graph = (tmp_path / "a.onnx").read_bytes()
    onnx_export._compare(clf, graph, images)
    with pytest.raises(ClassifierError, match="differ"):
        onnx_export._compare(clf.set_class_prior("even"), graph, images)


def test_the_documented_preparation_gives_the_pixels_of_the_classifier(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "classifier.md").read_text("utf-8")
    start, end = page.index("import onnxruntime"), page.index("probabilities, unknown = session")
    code = page[start:end]
    exif = Image.Exif()
    exif[0x0112] = 6
    noise = Image.fromarray(RNG.integers(0, 256, (300, 400, 3), np.uint8))
    noise.save(tmp_path / "new.jpg", "PNG", exif=exif)
    names = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        patch.setattr(onnxruntime, "InferenceSession", lambda path: None)
        exec(code, names)
    np.testing.assert_array_equal(np.asarray(names["photo"]), to_pixels(tmp_path / "new.jpg", 224))


@pytest.mark.parametrize("package", ["onnx", "onnxscript", "onnxruntime"])
def test_a_missing_package_is_named_with_its_extra(tmp_path, monkeypatch, package):
    x, y, _ = uneven_task(2)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ClassifierError, match=rf"{package},.*anyshot\[onnx\]"):
        AnyShotClassifier(None).fit(x, y).export_onnx(tmp_path / "a.onnx")


@pytest.mark.parametrize(("version", "old"), [("2.7.1", True), ("2.10.0+cpu", False)])
def test_an_old_torch_is_named_with_the_oldest_that_exports(monkeypatch, version, old):
    monkeypatch.setattr(torch, "__version__", version)
    expected = pytest.raises(ClassifierError, match=r"2\.8 .*not 2\.7\.1") if old else nullcontext()
    with expected:
        onnx_export.check_onnx_installed()


def test_functions_bodies_of_runs_and_single_classes_are_refused(tmp_path):
    images = list(RNG.integers(0, 256, (4, 16, 16, 3), np.uint8))
    colours = AnyShotClassifier(lambda pixels: pixels.mean((1, 2)), side=16)
    for clf in (colours, AnyShotClassifier("conv4:glyphs")):
        with pytest.raises(ClassifierError, match="cannot be exported"):
            clf.fit(images, [0, 1, 0, 1]).export_onnx(tmp_path / "a.onnx")
    with pytest.raises(ClassifierError, match="one class"):
        AnyShotClassifier(None).fit(np.eye(3), [0, 0, 0]).export_onnx(tmp_path / "a.onnx")


@pytest.mark.slow
@pytest.mark.parametrize("prior", ["even", "as-given"])
def test_the_default_backbone_with_its_depths(tmp_path, prior):
    images = RNG.integers(0, 256, (14, 8, 8, 3), np.uint8).repeat(28, 1).repeat(28, 2)
    clf = AnyShotClassifier(class_prior=prior).fit(
        list(images[:10]), [0, 1, 1, 2, 2, 2, 2, 2, 2, 2]
    )
    clf.export_onnx(tmp_path / "a.onnx")
    check(clf, tmp_path / "a.onnx", images, images=True)
