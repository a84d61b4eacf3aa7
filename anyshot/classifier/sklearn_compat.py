"""scikit-learn's contract for an estimator: its own base classes where installed, otherwise the few lines we need."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anyshot.core.errors import AnyshotError

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
    from sklearn.exceptions import NotFittedError
    from sklearn.utils import assert_all_finite
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import column_or_1d, validate_data
except ImportError:  # scikit-learn is optional
    BaseEstimator = None


class InvalidInput(AnyshotError, ValueError):
    """Data that cannot be learned from; also a ValueError, as scikit-learn's tools expect."""


if TYPE_CHECKING or BaseEstimator is None:

    class Estimator:
        """Parameters by name, as in scikit-learn."""

        classes_: NDArray[Any]
        n_features_in_: int

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            """The constructor's arguments."""
            return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

        def set_params(self, **params: Any) -> Estimator:
            """Change some of them."""
            for name, value in params.items():
                if name not in self.get_params():
                    raise InvalidInput(
                        f"There is no parameter {name!r}; there are {', '.join(self.get_params())}."
                    )
                setattr(self, name, value)
            return self

        def score(self, X: Any, y: ArrayLike) -> float:
            """Share of right answers."""
            return float((self.predict(X) == np.asarray(y)).mean())  # type: ignore[attr-defined]

    class NotFitted(AnyshotError, ValueError, AttributeError):
        """Asked before it learned."""

else:

    class Estimator(TransformerMixin, ClassifierMixin, BaseEstimator):
        """Parameters by name, score and fit_transform, from scikit-learn."""

        def __sklearn_tags__(self) -> Any:
            tags = super().__sklearn_tags__()
            tags.transformer_tags.preserves_dtype = []  # features are float32, whatever went in
            return tags

    class NotFitted(AnyshotError, NotFittedError):
        """Asked before it learned."""


def is_fitted(estimator: Any, strict: bool = False) -> bool:
    """Whether it has learned; `strict` makes it an error if not."""
    fitted = hasattr(estimator, "classes_")
    if strict and not fitted:
        raise NotFitted(
            f"This {type(estimator).__name__} has not learned anything yet; call fit first."
        )
    return fitted


def check_labels(y: ArrayLike, images: int) -> NDArray[Any]:
    """One label for each image: text or whole numbers."""
    if y is None:
        raise InvalidInput("requires y to be passed, but the target y is None.")
    if BaseEstimator is not None:
        y = column_or_1d(y, warn=True)
        assert_all_finite(y, input_name="y")
        check_classification_targets(y)
    labels = np.asarray(y)
    if labels.ndim != 1 or len(labels) != images:
        raise InvalidInput(
            f"There are {images} images, but the labels have the shape {labels.shape}; give one for each."
        )
    if not images:
        raise InvalidInput("There are 0 images to learn from; give at least one of each class.")
    return labels


def check_vectors(estimator: Any, X: Any, first: bool) -> NDArray[np.float32]:
    """float32 [n, d], finite, as wide as those learned from."""
    if BaseEstimator is not None:
        return np.asarray(validate_data(estimator, X, reset=first, dtype=np.float32))
    x = np.asarray(X, np.float32)
    if x.ndim != 2 or not x.size or not np.isfinite(x).all():
        raise InvalidInput(
            f"Vectors have the shape {x.shape}; expected [n, d] of finite numbers, or name a backbone."
        )
    if first:
        estimator.n_features_in_ = x.shape[1]
    if x.shape[1] != estimator.n_features_in_:
        raise InvalidInput(
            f"Vectors have {x.shape[1]} numbers, but {estimator.n_features_in_} were learned from."
        )
    return x
