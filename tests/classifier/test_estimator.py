"""The estimator, as a person and as scikit-learn use it."""

from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pytest
import torch
from PIL import Image
from support import colours, wide_colours
from torch import nn

from anyshot.classifier import AnyShotClassifier, fitted_state
from anyshot.classifier.backbones import Backbone
from anyshot.classifier.backbones import backbone as backbones
from anyshot.classifier.weights import open_weights
from anyshot.core.errors import AnyshotError, ClassifierError

RNG = np.random.default_rng(0)


def random_images(n, channel, seed):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 120, (n, 8, 8, 3), np.uint8)
    x[..., channel] += np.uint8(100)
    return list(x)


def three(n=(6, 2, 1), seed=0):
    x = [image for c, k in enumerate(n) for image in random_images(k, c, seed + c)]
    return x, np.repeat(["red", "green", "blue"], n)


def classifier(**how):
    return AnyShotClassifier(backbone=colours, side=8, **how)


@pytest.fixture(scope="module")
def fitted():
    return classifier().fit(*three())


def test_new_images_are_classified(fitted):
    x, y = three((5, 5, 5), seed=50)
    p = fitted.predict_proba(x)
    assert (fitted.predict(x) == y).mean() > 0.9
    np.testing.assert_allclose(p.sum(1), 1)
    assert list(fitted.classes_) == ["blue", "green", "red"]


def test_an_answer_does_not_depend_on_the_other_images(fitted):
    x, _ = three((4, 4, 4), seed=70)
    together = fitted.predict_proba(x)
    alone = np.concatenate([fitted.predict_proba([image]) for image in x])
    np.testing.assert_allclose(alone, together, atol=1e-6)
    np.testing.assert_allclose(fitted.unknown_score(x[:1]), fitted.unknown_score(x)[:1], atol=1e-6)


def test_arrays_paths_and_pil_images_mix(fitted, tmp_path):
    x, _ = three((1, 1, 1), seed=90)
    Image.fromarray(x[0]).save(tmp_path / "a.png")
    mixed = fitted.predict_proba([tmp_path / "a.png", Image.fromarray(x[1]), x[2]])
    np.testing.assert_allclose(mixed, fitted.predict_proba(x))


def test_labels_can_be_numbers():
    x, y = three()
    codes = np.unique(y, return_inverse=True)[1] * 10
    assert set(classifier().fit(x, codes).predict(x)) <= {0, 10, 20}


def test_partial_fit_equals_one_fit_to_all_images(fitted):
    x, y = three((6, 4, 3))
    later = classifier().fit(x[:8], y[:8]).partial_fit(x[8:], y[8:])
    at_once = classifier().fit(x, y)
    np.testing.assert_allclose(later.predict_proba(x), at_once.predict_proba(x), atol=1e-5)
    assert "blue" in later.classes_
    assert "blue" not in classifier().fit(x[:8], y[:8]).classes_


def test_a_single_class_has_probability_1_and_no_heads():
    x, y = three()
    clf = classifier().partial_fit(x[:6], y[:6], classes=["blue", "red"])
    np.testing.assert_array_equal(clf.predict_proba(x), [[0, 1]] * len(x))
    assert not hasattr(clf, "adapted_")
    with pytest.raises(ClassifierError, match="red"):
        clf.explain()


def test_an_explanation_covers_every_class(fitted):
    explanation = fitted.explain()
    assert [(c.name, c.images) for c in explanation.classes] == [
        ("blue", 1),
        ("green", 2),
        ("red", 6),
    ]
    assert explanation.low < explanation.expected < explanation.high
    assert np.mean([c.expected for c in explanation.classes]) == pytest.approx(
        explanation.expected, abs=1e-5
    )
    for c in explanation.classes:
        assert sum(c.trust.values()) == pytest.approx(1, abs=1e-5)
    text = str(explanation)
    assert f"More images of {explanation.next_class} would help most" in text
    assert "Expected accuracy" in text


def test_label_next_returns_different_images(fitted):
    x, _ = three((6, 6, 6), seed=11)
    chosen = fitted.label_next(x, 5)
    assert len(set(chosen.tolist())) == 5
    assert len(fitted.label_next(x, 100)) == 18


def test_label_next_avoids_equal_images(fitted):
    (a,), others = random_images(1, 2, 123), random_images(6, 0, 5)
    chosen = fitted.label_next([a, a, *others], 2)
    assert not {0, 1} <= set(chosen.tolist())


def test_wrong_inputs_are_refused(fitted):
    x, y = three()
    with pytest.raises(AnyshotError, match="9 images, but the labels"):
        classifier().fit(x, y[:-1])
    with pytest.raises(AnyshotError, match="call fit first"):
        classifier().predict(x)
    with pytest.raises(AnyshotError, match="second class"):
        classifier().fit(x[:2], y[:2]).explain()
    with pytest.raises(AnyshotError, match="one path"):
        fitted.predict("a.png")
    with pytest.raises(AnyshotError, match="photos-lite0"):
        classifier(weights="photo-lite0").fit(x, y)


def test_scikit_learn_tools_work_with_images():
    model_selection = pytest.importorskip("sklearn.model_selection")
    pipeline = pytest.importorskip("sklearn.pipeline")
    x, y = three((6, 6, 6))
    assert model_selection.cross_val_score(classifier(), x, y, cv=3).mean() > 0.8
    search = model_selection.GridSearchCV(classifier(), {"side": [4, 8]}, cv=2).fit(x, y)
    assert search.best_params_["side"] in (4, 8)
    assert pipeline.make_pipeline(classifier()).fit(x, y).score(x, y) > 0.9
    assert pipeline.make_pipeline(classifier(), AnyShotClassifier(None)).fit(x, y).score(x, y) > 0.9


def test_check_estimator_passes():
    checks = pytest.importorskip("sklearn.utils.estimator_checks")
    results = checks.check_estimator(AnyShotClassifier(None), on_fail=None, on_skip=None)
    failed = {
        r["check_name"]: str(r["exception"])[:200] for r in results if r["status"] == "failed"
    }
    assert failed == {}


def test_an_unfamiliar_task_has_a_caution():
    noise = np.random.default_rng(0).random((20, 300))
    explanation = AnyShotClassifier(backbone=None).fit(noise, np.arange(20) % 4).explain()
    assert explanation.unfamiliarity > 1
    assert explanation.caution
    assert explanation.caution in str(explanation)
    assert dataclasses.replace(explanation, unfamiliarity=0.9).caution == ""


class CountingBackbone:
    """Colour features that count the images they are computed for."""

    def __init__(self):
        self.images = 0

    def __call__(self, pixels):
        self.images += len(pixels)
        return colours(pixels)


def test_classify_runs_the_backbone_once_for_each_image():
    counting = CountingBackbone()
    x, y = three()
    clf = AnyShotClassifier(counting, side=8).fit(x, y)
    assert counting.images == len(x)
    new, _ = three((2, 2, 2), seed=40)
    actual = clf.classify(new)
    clf.explain()
    assert counting.images == len(x) + len(new)
    np.testing.assert_array_equal(actual.probabilities, clf.predict_proba(new))
    np.testing.assert_array_equal(actual.labels, clf.predict(new))
    np.testing.assert_array_equal(actual.unknown_scores, clf.unknown_score(new))
    np.testing.assert_array_equal(actual.unknown, clf.is_unknown(new))
    np.testing.assert_array_equal(actual.features, clf.transform(new))


def test_a_body_that_uses_the_support_images_runs_once_for_each_image(monkeypatch):
    counting = CountingBackbone()
    bound = []

    def bind(reference):
        bound.append(reference)
        return Backbone("bound", 8, "", counting)

    body = Backbone("body", 8, "", colours, bind)
    monkeypatch.setattr(backbones, "_open_run_body", lambda *arguments: body)
    x, y = three()
    clf = AnyShotClassifier("conv4:run").fit(x, y)
    new, _ = three((2, 2, 2), seed=40)
    clf.classify(new)
    assert counting.images == len(x) + len(new)
    assert [reference.shape for reference in bound] == [(len(x), 8, 8, 3)]
    with pytest.raises(ClassifierError, match="body"):
        AnyShotClassifier("conv4:run").fit_features(clf.features_, y).predict(new)


def test_features_can_take_the_place_of_images():
    counting = CountingBackbone()
    x, y = three()
    new, _ = three((2, 2, 2), seed=40)
    images = classifier().fit(x, y)
    clf = AnyShotClassifier(counting, side=8).fit_features(images.features_, y)
    features = images.transform(new)
    actual = clf.classify_features(features)
    assert counting.images == 0
    np.testing.assert_array_equal(actual.probabilities, images.predict_proba(new))
    np.testing.assert_array_equal(clf.label_next_features(features, 3), images.label_next(new, 3))
    assert clf.explain() == images.explain()
    clf.set_params(backbone=lambda pixels: -colours(pixels))  # counts from the next fit on
    np.testing.assert_array_equal(clf.predict_proba(new), actual.probabilities)  # from images again
    assert counting.images == len(new)


@pytest.mark.parametrize("wrong", [np.zeros((2, 7)), np.zeros(6), np.full((2, 6), np.nan), []])
def test_features_of_another_shape_are_refused(fitted, wrong):
    with pytest.raises(ClassifierError):
        fitted.classify_features(wrong)


def test_a_refused_fit_changes_nothing():
    x, y = three()
    clf = classifier().fit(x, y)
    before = clf.predict_proba(x)
    clf.set_params(backbone=lambda pixels: -colours(pixels))
    with pytest.raises(AnyshotError):
        clf.fit(x, y[:-1])
    with pytest.raises(AnyshotError):
        clf.partial_fit(x, y[:-1])
    np.testing.assert_array_equal(clf.predict_proba(x), before)
    vectors = AnyShotClassifier(None).fit(RNG.normal(size=(6, 5)), [0, 1] * 3)
    with pytest.raises(ClassifierError, match="6 images"):
        vectors.fit(np.zeros((6, 4)), [0] * 5)
    assert vectors.n_features_in_ == 5


@pytest.mark.parametrize("size", [1e38, 1e-38])
def test_features_of_any_size_give_the_same_answers(size):
    x = np.abs(RNG.normal(size=(12, 5)))
    x[:6, 0] += 8
    y = np.repeat([0, 1], 6)
    expected = AnyShotClassifier(None).fit(x, y).predict_proba(x)
    scaled = (x / x.max() * size).astype(np.float32)
    actual = AnyShotClassifier(None).fit(scaled, y).predict_proba(scaled)
    np.testing.assert_allclose(actual, expected, atol=1e-3)
    assert np.ptp(actual) > 0.5


def test_announced_classes_are_known_before_their_first_image():
    x, y = three()
    clf = classifier().partial_fit(x[:8], y[:8], classes=["red", "green", "blue", "violet"])
    assert list(clf.classes_) == ["blue", "green", "red", "violet"]
    p = clf.predict_proba(x)
    np.testing.assert_array_equal(p[:, [0, 3]], 0)
    np.testing.assert_array_equal(p[:, 1:3], classifier().fit(x[:8], y[:8]).predict_proba(x))
    assert [c.name for c in clf.explain().classes] == ["green", "red"]
    later = clf.partial_fit(x[8:], y[8:])
    assert list(later.classes_) == ["blue", "green", "red", "violet"]
    expected = classifier().fit(x, y).predict_proba(x)
    np.testing.assert_array_equal(later.predict_proba(x)[:, :3], expected)


def test_a_label_that_was_not_announced_is_refused():
    x, y = three()
    with pytest.raises(ClassifierError, match="'blue'"):
        classifier().partial_fit(x, y, classes=["red", "green"])


@pytest.mark.parametrize("labels", [["a", None, "b"], [None] * 3, np.array(["a", 1, "b"], object)])
def test_labels_that_cannot_be_compared_are_refused(labels):
    with pytest.raises(ClassifierError):
        classifier().fit(three()[0][:3], labels)


@pytest.mark.parametrize("dump", ["pickle", "joblib"])
@pytest.mark.parametrize("backbone", [colours, nn.Flatten(), None, "efficientnet-lite0"])
def test_a_fitted_classifier_can_be_pickled(dump, backbone, monkeypatch, tmp_path):
    quick = Backbone("quick", 8, "", lambda pixels: wide_colours(pixels))
    monkeypatch.setattr(backbones, "_open_lite", lambda size, side, device: quick)
    x, y = three()
    if backbone is None:
        x = colours(np.stack(x))
    clf = AnyShotClassifier(backbone, side=None if backbone is None else 8).fit(x, y)
    if dump == "pickle":
        again = pickle.loads(pickle.dumps(clf))
    else:
        joblib = pytest.importorskip("joblib")
        joblib.dump(clf, tmp_path / "clf")
        again = joblib.load(tmp_path / "clf")
    np.testing.assert_array_equal(again.predict_proba(x), clf.predict_proba(x))


def test_is_unknown_uses_the_calibrated_threshold(fitted, monkeypatch):
    x, _ = three((6, 6, 6), seed=31)
    noise = list(np.random.default_rng(3).integers(0, 255, (12, 8, 8, 3), np.uint8))
    scores = fitted.unknown_score([*x, *noise])
    threshold = float(np.sort(scores)[len(scores) // 2])
    buffers = fitted.weights_.confidence._buffers
    monkeypatch.setitem(buffers, "threshold", torch.tensor(threshold))
    between = (scores > min(0.5, threshold)) & (scores <= max(0.5, threshold))
    assert between.any()  # otherwise 0.5 could not be distinguished from the threshold
    np.testing.assert_array_equal(fitted.is_unknown([*x, *noise]), scores > threshold)
    np.testing.assert_array_equal(fitted.classify([*x, *noise]).unknown, scores > threshold)


def test_a_given_threshold_replaces_the_calibrated_one_also_after_the_fit(fitted, tmp_path):
    x, _ = three((6, 6, 6), seed=31)
    clf = classifier(unknown_threshold=0.0).fit(*three())
    scores = clf.unknown_score(x)
    assert clf.is_unknown(x).all()
    clf.set_params(unknown_threshold=float(np.median(scores)))
    np.testing.assert_array_equal(clf.classify(x).unknown, scores > np.median(scores))
    clf.save(tmp_path)
    again = AnyShotClassifier.load(tmp_path, backbone=colours)
    np.testing.assert_array_equal(again.is_unknown(x), scores > np.median(scores))
    with pytest.raises(ValueError, match="7"):
        clf.set_params(unknown_threshold=7.0).is_unknown(x)


@pytest.mark.parametrize(
    ("params", "value"),
    [
        ({"side": 0}, "0"),
        ({"side": -5}, "-5"),
        ({"side": "8"}, "'8'"),
        ({"side": 2.5}, "2.5"),
        ({"backbone": 3}, "3"),
        ({"backbone": nn.Flatten}, "Flatten"),
        ({"weights": None}, "None"),
    ],
)
def test_wrong_parameters_are_refused(params, value):
    with pytest.raises(ClassifierError, match=value):
        AnyShotClassifier(**{"backbone": colours, "side": 8, **params}).fit(*three())


@pytest.mark.parametrize("wrong", [5, None, "a.png", np.zeros((8, 8, 3), np.uint8), []])
def test_images_that_are_no_list_are_refused(fitted, wrong):
    with pytest.raises(ClassifierError):
        fitted.predict(wrong)


@pytest.mark.parametrize("wrong", ["abc", [[1], [1, 2]], None, [["a"]]])
def test_features_that_are_no_numbers_are_refused(fitted, wrong):
    with pytest.raises(ClassifierError):
        fitted.classify_features(wrong)


def test_features_of_several_depths_are_split_into_blocks():
    """The default backbone's features have four blocks; each decides if it separates the classes.

    The classes differ in the third block only, which the last layer's heads do not see.
    """
    widths = (1280, 768, 1008, 672)
    rng = np.random.default_rng(0)
    features = rng.random((40, sum(widths))).astype(np.float32)
    y = np.arange(40) % 2
    features[:, 1280 + 768 : -672] *= 1 + np.where(y[:, None] == (np.arange(1008) % 2), 1.0, 0.0)
    deep = AnyShotClassifier().fit_features(features[:20], y[:20])
    assert len(deep.adapted_.views) == 6
    assert (deep.classify_features(features[20:]).labels == y[20:]).all()
    last = AnyShotClassifier().fit_features(features[:20, :1280], y[:20])
    assert len(last.adapted_.views) == 1
    assert (last.classify_features(features[20:, :1280]).labels == y[20:]).mean() < 0.9
    with pytest.raises(ClassifierError, match="computes 3728, the first 1280"):
        AnyShotClassifier().fit_features(features[:20, :1000], y[:20])


def test_images_get_the_size_that_the_weights_were_made_for(monkeypatch):
    opened = []

    def open_quick(size, side, device):
        opened.append(side)
        return backbones.Backbone("quick", side, "", wide_colours)

    shipped = open_weights("photos-lite0")
    made = dataclasses.replace(shipped, config={**shipped.config, "side": 32})
    monkeypatch.setattr(backbones, "_open_lite", open_quick)
    monkeypatch.setattr(fitted_state, "open_weights", lambda name: made)
    images, labels = [np.full((9, 9, 3), v, np.uint8) for v in (0, 200)], ["dark", "bright"]
    AnyShotClassifier().fit(images, labels)
    AnyShotClassifier(side=48).fit(images, labels)
    assert opened == [32, 48]


@pytest.mark.parametrize("label", ["cat", 3])
def test_the_only_class_is_named_in_plain_text(label):
    clf = AnyShotClassifier(None).fit(np.eye(2), [label] * 2)
    with pytest.raises(ClassifierError, match=f"one class only, '{label}'; "):
        clf.explain()
