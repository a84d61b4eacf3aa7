"""Checks of images, features and labels, with scikit-learn and without it."""

from __future__ import annotations

import importlib.util
import sys
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest

from anyshot.classifier import sklearn_compat
from anyshot.core.errors import ClassifierError


def load_without_sklearn():
    """A second copy of the module, loaded as if scikit-learn were not installed."""
    spec = importlib.util.spec_from_file_location("compat_alone", sklearn_compat.__file__)
    module = importlib.util.module_from_spec(spec)
    with mock.patch.dict(sys.modules, {"sklearn": None, "sklearn.base": None}):
        spec.loader.exec_module(module)
    return module


alone = load_without_sklearn()


@pytest.fixture(params=[sklearn_compat, alone], ids=["sklearn", "alone"])
def compat(request):
    return request.param


@pytest.mark.parametrize("shape", [(4, 8, 8), (4, 8, 8, 3), (0, 8, 8)])
def test_arrays_of_several_images_become_a_list(compat, shape):
    images = compat.check_images(np.zeros(shape, np.uint8))
    assert [image.shape for image in images] == [shape[1:]] * shape[0]


@pytest.mark.parametrize("shape", [(8,), (8, 8), (8, 8, 3)])
def test_an_array_of_one_image_is_refused(compat, shape):
    with pytest.raises(compat.InvalidInput, match="8"):
        compat.check_images(np.zeros(shape, np.uint8))


def test_features_become_float32(compat):
    found = compat.check_features([[1, 2, 3]], 3)
    assert found.dtype == np.float32
    assert found.tolist() == [[1, 2, 3]]


@pytest.mark.parametrize(
    "features",
    [np.ones(3), np.ones((1, 3, 1)), np.ones((0, 3)), np.ones((2, 0)), [[1.0, np.inf]], [[np.nan]]],
)
def test_features_that_are_no_finite_matrix_are_refused(compat, features):
    with pytest.raises(compat.InvalidInput):
        compat.check_features(features)


def test_features_of_another_width_are_refused(compat):
    with pytest.raises(compat.InvalidInput, match=r"3 features.*4"):
        compat.check_features(np.ones((2, 3)), 4)


def test_the_first_missing_label_is_named(compat):
    with pytest.raises(compat.InvalidInput, match="number 1"):
        compat.check_labels(["a", None, None], 3)


@pytest.mark.parametrize(
    ("labels", "images"), [(None, 2), (["a"], 2), (["a", "b", "a"], 2), ([], 0)]
)
def test_labels_must_be_one_for_each_image(compat, labels, images):
    with pytest.raises(compat.InvalidInput):
        compat.check_labels(labels, images)
    assert compat.check_labels(["a", "b"], 2).tolist() == ["a", "b"]


def test_announced_classes_must_include_every_label(compat):
    assert compat.check_classes(["b", "a"], ["a"]).tolist() == ["b", "a"]
    with pytest.raises(compat.InvalidInput, match="'c'"):
        compat.check_classes(["b", "a"], ["a", "d", "c"])


def test_an_unfitted_estimator_is_an_error_only_if_strict(compat):
    assert not compat.is_fitted(SimpleNamespace())
    assert compat.is_fitted(SimpleNamespace(classes_=[1]), strict=True)
    with pytest.raises(compat.NotFitted) as error:
        compat.is_fitted(SimpleNamespace(), strict=True)
    assert isinstance(error.value, ClassifierError)
    assert isinstance(error.value, ValueError)


def test_without_sklearn_parameters_have_the_same_interface():
    class Small(alone.Estimator):
        def __init__(self, side=8, *, device="cpu"):
            self.side = side
            self.device = device

        def predict(self, X):
            return np.array(["a", "b", "b", "b"])

    small = Small().set_params(side=16)
    assert small.get_params() == {"side": 16, "device": "cpu"}
    with pytest.raises(alone.InvalidInput, match="size"):
        small.set_params(size=3)
    assert small.score(None, ["a", "b", "b", "c"]) == 0.75


def test_without_sklearn_vectors_keep_the_width_of_the_first_fit():
    estimator = SimpleNamespace()
    assert alone.check_vectors(estimator, np.ones((2, 3)), first=True).shape == (2, 3)
    assert estimator.n_features_in_ == 3
    with pytest.raises(alone.InvalidInput, match="4 features"):
        alone.check_vectors(estimator, np.ones((2, 4)), first=False)
    alone.check_vectors(estimator, np.ones((2, 4)), first=True)
    assert estimator.n_features_in_ == 4


def test_many_classes_of_one_image_are_no_warning(recwarn):
    labels = sklearn_compat.check_labels([f"class {i}" for i in range(30)], 30)
    assert len(labels) == 30
    assert not recwarn.list
