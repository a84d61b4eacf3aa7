"""scikit-learn's contract: its base classes if it is installed, otherwise the few lines we need."""

from __future__ import annotations

import inspect
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anyshot.core.errors import ClassifierError

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
    from sklearn.exceptions import NotFittedError
    from sklearn.utils import assert_all_finite
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import column_or_1d, validate_data
except ImportError:  # scikit-learn is optional
    BaseEstimator = None


class InvalidInput(ClassifierError, ValueError):
    """The images, features or labels cannot be used; a ValueError too, as scikit-learn expects."""


if TYPE_CHECKING or BaseEstimator is None:

    class Estimator:
        """Parameters by name, as in scikit-learn."""

        classes_: NDArray[Any]
        n_features_in_: int

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            """The constructor's arguments."""
            return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

        def set_params(self, **params: Any) -> Estimator:
            """Change some of the constructor's arguments."""
            for name, value in params.items():
                if name not in self.get_params():
                    raise InvalidInput(
                        f"There is no parameter {name!r}; expected {', '.join(self.get_params())}."
                    )
                setattr(self, name, value)
            return self

        def score(self, X: Any, y: ArrayLike) -> float:
            """Accuracy."""
            return float((self.predict(X) == np.asarray(y)).mean())  # type: ignore[attr-defined]

    class NotFitted(ClassifierError, ValueError, AttributeError):
        """The classifier was used before it was fitted."""

else:

    class Estimator(TransformerMixin, ClassifierMixin, BaseEstimator):
        """Parameters by name, score and fit_transform, from scikit-learn."""

        def __sklearn_tags__(self) -> Any:
            tags = super().__sklearn_tags__()
            tags.transformer_tags.preserves_dtype = []  # features are always float32
            return tags

    class NotFitted(ClassifierError, NotFittedError):
        """The classifier was used before it was fitted."""


def is_fitted(estimator: Any, strict: bool = False) -> bool:
    """Whether the estimator was fitted; with `strict`, an error if not."""
    fitted = hasattr(estimator, "classes_")
    if strict and not fitted:
        raise NotFitted(f"This {type(estimator).__name__} was not fitted yet; call fit first.")
    return fitted


def check_labels(y: ArrayLike, images: int) -> NDArray[Any]:
    """Labels [images]: text or integers, one for each image."""
    if y is None:
        raise InvalidInput("requires y to be passed, but the target y is None.")
    missing = [i for i, label in enumerate(np.asarray(y, object).ravel()) if label is None]
    if missing:
        raise InvalidInput(f"Label number {missing[0]} is None; give every image a label.")
    try:
        np.unique(np.asarray(y))
    except TypeError as error:
        raise InvalidInput(f"The labels cannot be sorted ({error}); use one type.") from error
    if BaseEstimator is not None:
        y = column_or_1d(y, warn=True)
        assert_all_finite(y, input_name="y")
        with warnings.catch_warnings():
            # many classes of one image are no regression
            warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
            check_classification_targets(y)
    labels = np.asarray(y)
    if labels.ndim != 1 or len(labels) != images:
        raise InvalidInput(
            f"There are {images} images, but the labels have the shape {labels.shape}; "
            "give one label for each image."
        )
    if not images:
        raise InvalidInput("There are 0 images to learn from; give at least one of each class.")
    return labels


def check_classes(classes: ArrayLike, y: ArrayLike) -> NDArray[Any]:
    """The announced classes; an error if a label is not among them."""
    announced = check_labels(classes, len(np.ravel(np.asarray(classes, object))))
    others = sorted({str(label) for label in np.ravel(y)} - {str(c) for c in announced})
    if others:
        raise InvalidInput(
            f"The label {others[0]!r} is not among the classes "
            f"{', '.join(map(repr, announced.tolist()))}; add it to classes."
        )
    return announced


def check_vectors(estimator: Any, X: Any, first: bool) -> NDArray[np.float32]:
    """Input vectors, float32 [n, d] and finite; their width must be that of the first fit."""
    if BaseEstimator is not None:
        return np.asarray(validate_data(estimator, X, reset=first, dtype=np.float32))
    x = check_features(X, None if first else estimator.n_features_in_)
    estimator.n_features_in_ = x.shape[1]
    return x


def check_images(X: Any) -> list[Any]:
    """A list of images; one image, or something that is no sequence, is refused."""
    if isinstance(X, str | Path):
        raise InvalidInput(f"Images were given as one path, {str(X)!r}; give a list of paths.")
    if isinstance(X, np.ndarray) and (X.ndim < 3 or (X.ndim == 3 and X.shape[2] == 3)):
        raise InvalidInput(f"X is an array of shape {X.shape}; give a list of images.")
    try:
        return list(X)
    except TypeError as error:
        raise InvalidInput(
            f"X is of type {type(X).__name__}; give a list of arrays, PIL images or paths."
        ) from error


def check_features(features: ArrayLike, width: int | None = None) -> NDArray[np.float32]:
    """Features as a float32 array [n, d] of finite numbers, with d = width if it is given."""
    try:
        x = np.asarray(features, np.float32)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"The features are not an array of numbers ({error}).") from error
    if x.ndim != 2 or not x.size or not np.isfinite(x).all():
        raise InvalidInput(
            f"The features have the shape {x.shape}; expected (n, d) with n, d > 0 and finite "
            "numbers. For images, name a backbone."
        )
    if width not in (None, x.shape[1]):
        raise InvalidInput(
            f"Each vector has {x.shape[1]} features, but the classifier was fitted to {width}."
        )
    return x
