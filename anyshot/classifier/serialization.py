"""A fitted classifier as one safetensors file with a digest; nothing is pickled."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anyshot.classifier.backbones.backbone import Source
from anyshot.classifier.class_prior import EVEN, ClassPrior, check_class_prior
from anyshot.classifier.sklearn_compat import is_fitted
from anyshot.classifier.weights import ClassifierWeights, weights_from_tensors
from anyshot.core.errors import ClassifierError, RunError
from anyshot.core.version import VERSION
from anyshot.runs.checkpoint import Checkpoint, read_checkpoint, write_checkpoint

if TYPE_CHECKING:
    from anyshot.classifier.estimator import AnyShotClassifier

FILE = "classifier.safetensors"
KIND = "AnyShotClassifier"


@dataclass(frozen=True, eq=False)
class SavedClassifier:
    """The checked content of a file."""

    backbone: str | None
    own_backbone: bool  # a module or a function, which is not saved
    side: int | None
    class_prior: ClassPrior
    weights_name: str
    unknown_threshold: float | None
    weights: ClassifierWeights
    classes: NDArray[Any]
    features: NDArray[np.float32]  # [n, d]
    labels: NDArray[np.int64]  # [n]
    reference: NDArray[np.uint8] | None  # [n, side, side, 3]


def save_classifier(classifier: AnyShotClassifier, path: str | Path) -> None:
    """Write everything that predictions need, except the backbone, to one file."""
    is_fitted(classifier, strict=True)
    params, threshold = classifier.fit_params_, classifier.unknown_threshold
    named = params["backbone"] is None or isinstance(params["backbone"], str | Path)
    state = {
        "kind": KIND,
        "version": VERSION,
        "backbone": str(params["backbone"]) if named and params["backbone"] is not None else None,
        "own_backbone": not named,
        "side": params["side"],
        "class_prior": _plain_prior(classifier.class_prior),
        "weights": str(params["weights"]),
        "unknown_threshold": threshold if threshold is None else float(threshold),
        "learner": classifier.weights_.config,
        "classes": classifier.classes_.tolist(),
    }
    tensors = {
        "features": torch.from_numpy(np.array(classifier.features_)),
        "labels": torch.from_numpy(np.array(classifier.labels_)),
        **classifier.weights_.tensors(),
    }
    if classifier.reference_ is not None:
        tensors["reference"] = torch.from_numpy(np.array(classifier.reference_))
    write_checkpoint(_file(Path(path)), Checkpoint(state, tensors))


def load_classifier(
    classifier: AnyShotClassifier, path: str | Path, backbone: Source | None
) -> AnyShotClassifier:
    """Fill an unfitted classifier; a module or function must be given again as `backbone`."""
    saved = read_saved(Path(path))
    if saved.own_backbone and backbone is None:
        raise ClassifierError(
            f"The classifier in '{path}' was fitted with a module or function as its backbone; "
            "give it again: AnyShotClassifier.load(path, backbone=...)."
        )
    classifier.set_params(
        backbone=saved.backbone if backbone is None else backbone,
        side=saved.side,
        weights=saved.weights_name,
        class_prior=saved.class_prior,
        unknown_threshold=saved.unknown_threshold,
    )
    classifier.fit_params_ = classifier.get_params(deep=False)
    classifier.weights_ = saved.weights
    classifier.backbone_ = None
    classifier.reference_ = saved.reference
    if classifier.backbone is None:
        classifier.n_features_in_ = saved.features.shape[1]
    else:
        classifier._open_backbone()
    classifier._adapt(saved.features, saved.classes[saved.labels], saved.classes)
    return classifier


def _plain_prior(prior: ClassPrior) -> ClassPrior:
    """The class prior as JSON can hold it; classes are found by their names."""
    if isinstance(prior, str):
        return prior
    return {str(name): float(share) for name, share in prior.items()}


def _file(path: Path) -> Path:
    """The file of a classifier; in a folder it is called FILE."""
    return path / FILE if path.is_dir() else path


def read_saved(path: Path) -> SavedClassifier:
    """Read and check a saved classifier; everything that is wrong with it is a ClassifierError."""
    path = _file(path)
    if not path.is_file():
        raise ClassifierError(
            f"There is no file '{path}'; give a file that AnyShotClassifier.save wrote, or a "
            f"folder with a {FILE}."
        )
    try:
        content = read_checkpoint(path)
    except (RunError, ValueError) as error:
        raise ClassifierError(
            f"'{path}' is damaged, or it is not a saved classifier; give a folder of class folders "
            "or a file NAME.anyshot that anyshot export wrote."
        ) from error
    state, tensors = content.state, dict(content.tensors)
    try:
        _check_state(state)
        features, labels, reference = _pop_arrays(tensors, len(state["classes"]))
    except (TypeError, KeyError, ValueError) as error:
        raise ClassifierError(
            f"'{path}' is not a valid classifier: {error}. Fit and save it again."
        ) from error
    try:
        weights = weights_from_tensors(tensors, state["learner"])
    except (KeyError, RuntimeError, ValueError) as error:  # other names, shapes or values
        raise ClassifierError(
            f"'{path}' was saved by anyshot {state.get('version')}, whose learner this version "
            f"({VERSION}) cannot read ({error}); fit and save it again."
        ) from error
    return SavedClassifier(
        backbone=state["backbone"],
        own_backbone=state["own_backbone"],
        side=state["side"],
        class_prior=state.get("class_prior", EVEN),  # files of earlier versions have none
        weights_name=state["weights"],
        unknown_threshold=state.get("unknown_threshold"),
        weights=weights,
        classes=np.asarray(state["classes"]),
        features=features,
        labels=labels,
        reference=reference,
    )


def _check_state(state: Any) -> None:
    """ValueError with the reason if the plain values are not those of a classifier."""
    if not isinstance(state, dict) or state.get("kind") != KIND:
        raise ValueError(f"its kind is not {KIND}")
    for name, types in {
        "backbone": (str, type(None)),
        "own_backbone": (bool,),
        "side": (int, type(None)),
        "weights": (str,),
        "learner": (dict,),
        "classes": (list,),
    }.items():
        if name not in state or type(state[name]) not in types:
            raise ValueError(f"{name} is {state.get(name)!r}")
    check_class_prior(state.get("class_prior", EVEN))
    threshold = state.get("unknown_threshold")
    if threshold is not None and (type(threshold) is not float or not 0 <= threshold <= 1):
        raise ValueError(f"unknown_threshold is {threshold!r}")
    if state["side"] is not None and not 1 <= state["side"] <= 10_000:
        raise ValueError(f"side is {state['side']}")
    classes = state["classes"]
    if len({type(c) for c in classes} - {int, float}) > 1 or not all(
        isinstance(c, str | int | float) for c in classes
    ):
        raise ValueError("the classes have different types")
    if not classes or np.unique(classes).tolist() != classes:
        raise ValueError("the classes are not sorted, or one occurs twice")


def _pop_arrays(
    tensors: dict[str, Tensor], classes: int
) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.uint8] | None]:
    """Features, labels and reference images; ValueError with the reason if they do not fit."""
    features, labels = tensors.pop("features").numpy(), tensors.pop("labels").numpy()
    reference = tensors.pop("reference", None)
    if features.dtype != np.float32 or features.ndim != 2 or not features.size:
        raise ValueError(f"the features are {features.dtype} {list(features.shape)}")
    if not np.isfinite(features).all():
        raise ValueError("features are not finite")
    if labels.dtype != np.int64 or labels.shape != features.shape[:1]:
        raise ValueError(f"the labels are {labels.dtype} {list(labels.shape)}")
    if labels.min() < 0 or labels.max() >= classes:
        raise ValueError(f"a label is not between 0 and {classes - 1}")
    if reference is None:
        return features, labels, None
    images = reference.numpy()
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[3] != 3 or not images.size:
        raise ValueError(f"the reference images are {images.dtype} {list(images.shape)}")
    return features, labels, images
