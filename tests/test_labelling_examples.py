"""The examples for Label Studio and FiftyOne, with thin fakes of the parts that need a server.

The fakes have the signatures of label-studio-ml (GitHub), label-studio-sdk 2.1 and fiftyone 1.22.
"""

from __future__ import annotations

import importlib
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support import colours

from anyshot import AnyShotClassifier

EXAMPLES = Path(__file__).parents[1] / "examples"
CLASSES = ("red", "green", "blue")


@pytest.fixture
def photos(tmp_path):
    """Eight photos of each class: (path, class)."""
    rng = np.random.default_rng(0)
    made = []
    for i in range(24):
        x = rng.integers(0, 120, (16, 16, 3), np.uint8)
        x[..., i % 3] += np.uint8(100)
        Image.fromarray(x).save(tmp_path / f"{i}.png")
        made.append((str(tmp_path / f"{i}.png"), CLASSES[i % 3]))
    return made


def install(monkeypatch, **modules):
    """Fake modules, by name with __ for a dot."""
    for name, content in modules.items():
        module = types.ModuleType(name.replace("__", "."))
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.syspath_prepend(EXAMPLES)


# --------------------------------------------------------------------- label_studio_backend.py
class Base:
    """label_studio_ml.model.LabelStudioMLBase, without its SQLite cache and its web server."""

    def __init__(self, project_id=None, label_config=None):
        self.project_id = project_id or ""
        self.values = {"model_version": "0.0.1"}
        self.label_interface = types.SimpleNamespace(
            get_first_tag_occurence=lambda control, thing: ("kind", "photo", "image")
        )

    def get(self, key):
        return self.values[key]

    def set(self, key, value):
        self.values[key] = value

    def get_local_path(self, url, project_dir=None, ls_host=None, task_id=None):
        assert task_id is not None
        return url.removeprefix("/data/local-files/?d=")


class Task:
    def __init__(self, number, path, *choices, cancelled=False):
        result = [{"type": "choices", "value": {"choices": [c]}} for c in choices]
        self.content = {
            "id": number,
            "data": {"image": f"/data/local-files/?d={path}"},
            "annotations": [  # the newest first
                {"id": i, "result": [r], "was_cancelled": cancelled} for i, r in enumerate(result)
            ][::-1],
        }

    def model_dump(self):
        return self.content


@pytest.fixture
def backend(monkeypatch, tmp_path):
    """The example's class, with `tasks` of the server."""
    tasks, asked = [], []

    class LabelStudio:
        def __init__(self, *, base_url, api_key):
            self.tasks = types.SimpleNamespace(
                list=lambda *, project, only_annotated, fields: asked.append(project) or iter(tasks)
            )

    install(
        monkeypatch,
        label_studio_ml={},
        label_studio_ml__model={"LabelStudioMLBase": Base},
        label_studio_ml__response={"ModelResponse": types.SimpleNamespace},
        label_studio_sdk={"LabelStudio": LabelStudio},
    )
    for name, value in {"LABEL_STUDIO_URL": "http://x", "LABEL_STUDIO_API_KEY": "k"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MODEL_DIR", str(tmp_path / "models"))
    monkeypatch.delitem(sys.modules, "label_studio_backend", raising=False)
    made = importlib.import_module("label_studio_backend").AnyshotBackend
    monkeypatch.setattr(made, "backbone", "conv4:glyphs")
    made.tasks, made.asked = tasks, asked
    return made


def test_a_backend_learns_from_annotations_and_predicts_choices(backend, photos, tmp_path):
    new = [Task(100 + i, path).content for i, (path, _) in enumerate(photos[12:])]
    one = backend(project_id="7")
    assert [p["result"] for p in one.predict(new).predictions] == [[]] * 12
    backend.tasks[:] = [Task(i, path, label) for i, (path, label) in enumerate(photos[:12])]
    one.fit("ANNOTATION_CREATED", {"project": {"id": 7}})
    assert backend.asked == [7]
    response = one.predict(new)
    clf = AnyShotClassifier("conv4:glyphs").fit(*zip(*photos[:12], strict=True))
    expected = clf.classify([path for path, _ in photos[12:]])
    results = [p["result"][0] for p in response.predictions]
    assert [r["value"]["choices"] for r in results] == [[str(c)] for c in expected.labels]
    assert {(r["from_name"], r["to_name"], r["type"]) for r in results} == {
        ("kind", "photo", "choices")
    }
    scores = [p["score"] for p in response.predictions]
    np.testing.assert_allclose(scores, expected.probabilities.max(1), atol=1e-6)
    assert response.model_version == "anyshot-12-photos"
    saved = AnyShotClassifier.load(tmp_path / "models" / "project-7.anyshot")
    assert list(saved.classes_) == sorted(CLASSES)


def test_a_backend_uses_the_newest_annotation_that_was_not_skipped(backend, photos):
    paths = [path for path, _ in photos]
    backend.tasks[:] = [
        Task(0, paths[0], "red"),
        Task(1, paths[1], "red", "green"),  # corrected
        Task(2, paths[2], "blue", cancelled=True),
        Task(3, paths[3]),
    ]
    one = backend(project_id="7")
    one.fit("START_TRAINING", {})
    loaded = AnyShotClassifier.load(one.file)
    assert loaded.classes_[loaded.labels_].tolist() == ["red", "green"]
    one.fit("PROJECT_UPDATED", {})
    assert backend.asked == [7]  # another event asks for nothing
    del backend.tasks[1:]
    one.fit("ANNOTATION_DELETED", {})
    assert not one.file.exists()  # one class is too few


# --------------------------------------------------------------------- fiftyone_predictions.py
class Dataset:
    """The part of fiftyone.Dataset that the example uses, in memory."""

    def __init__(self, samples, chosen=None):
        self.samples = samples
        self.chosen = list(samples) if chosen is None else chosen

    def values(self, fields):
        def value(sample, field):
            name, _, part = field.partition(".")
            content = sample.get(name)
            return getattr(content, part) if part and content is not None else content

        return [[value(self.samples[i], field) for i in self.chosen] for field in fields]

    def set_values(self, field, values, key_field):
        assert key_field == "id"
        for key, value in values.items():
            self.samples[key][field] = value

    def select(self, ids):
        return Dataset(self.samples, ids)

    def tag_samples(self, tag):
        for i in self.chosen:
            self.samples[i]["tags"].add(tag)

    def untag_samples(self, tag):
        for i in self.chosen:
            self.samples[i]["tags"].discard(tag)


@pytest.fixture
def fiftyone_example(monkeypatch):
    install(monkeypatch, fiftyone={"Classification": types.SimpleNamespace})
    monkeypatch.delitem(sys.modules, "fiftyone_predictions", raising=False)
    return importlib.import_module("fiftyone_predictions")


def colour_features(pixels):
    """Mean colours, not too small for the classifier."""
    return np.concatenate([colours(pixels), pixels.std((1, 2)) + 1.0], 1)


def test_unlabelled_samples_get_predictions_and_tags(fiftyone_example, photos):
    samples = {}
    for i, (path, label) in enumerate(photos):
        given = types.SimpleNamespace(label="red" if i == 1 else label) if i < 15 else None
        samples[f"s{i}"] = {"id": f"s{i}", "filepath": path, "truth": given, "tags": {"label next"}}
    clf = fiftyone_example.add_predictions(
        Dataset(samples), "truth", backbone=colour_features, count=3
    )
    for i, (path, label) in enumerate(photos):
        sample = samples[f"s{i}"]
        assert ("anyshot" in sample) == (i >= 15)
        if i >= 15:
            expected = clf.classify([path])
            assert sample["anyshot"].label == label == expected.labels[0]
            assert sample["anyshot"].confidence == pytest.approx(expected.probabilities.max())
            assert sample["anyshot_unknown"] == pytest.approx(expected.unknown_scores[0])
    first = clf.label_next([path for path, _ in photos[15:]], 3)
    assert {k for k, s in samples.items() if "label next" in s["tags"]} == {
        f"s{15 + i}" for i in first
    }
    assert {k for k, s in samples.items() if "check label" in s["tags"]} == {"s1"}


def test_a_data_set_without_unlabelled_samples_is_only_checked(fiftyone_example, photos):
    samples = {
        f"s{i}": {
            "id": f"s{i}",
            "filepath": path,
            "truth": types.SimpleNamespace(label=label),
            "tags": set(),
        }
        for i, (path, label) in enumerate(photos)
    }
    fiftyone_example.add_predictions(Dataset(samples), "truth", backbone=colour_features)
    assert all("anyshot" not in sample for sample in samples.values())
