"""A learned classifier in a folder: config.json and tensors.safetensors, nothing pickled."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from anyshot.classifier.backbones.backbone import Source
from anyshot.classifier.sklearn_compat import is_fitted
from anyshot.classifier.weights import weights_from_tensors
from anyshot.core.errors import AnyshotError
from anyshot.core.files import read_json, write_json, write_tensors
from anyshot.core.version import VERSION

if TYPE_CHECKING:
    from anyshot.classifier.estimator import AnyShotClassifier


def save_classifier(classifier: AnyShotClassifier, folder: str | Path) -> None:
    """Write all that prediction needs, but for the backbone, which is named."""
    is_fitted(classifier, strict=True)
    params = classifier.fit_params_
    by_name = params["backbone"] is None or isinstance(params["backbone"], str | Path)
    config = {
        "kind": "AnyShotClassifier", "version": VERSION, "backbone": str(params["backbone"]) if by_name else "own",
        "side": params["side"], "weights": str(params["weights"]), "learner": classifier.weights_.config,
        "classes": classifier.classes_.tolist(),
    }  # fmt: skip
    tensors = {
        "features": torch.from_numpy(classifier.features_), "labels": torch.from_numpy(classifier.labels_),
        **classifier.weights_.tensors(),
    }  # fmt: skip
    if classifier.reference_ is not None:
        tensors["reference"] = torch.from_numpy(classifier.reference_)
    write_tensors(Path(folder) / "tensors.safetensors", tensors)
    write_json(Path(folder) / "config.json", config)


def load_classifier(
    classifier: AnyShotClassifier, folder: str | Path, backbone: Source | None
) -> AnyShotClassifier:
    """Fill a new classifier from a folder; a backbone that had no name must be given again."""
    config = read_json(Path(folder) / "config.json")
    if config.get("kind") != "AnyShotClassifier":
        raise AnyshotError(f"'{folder}' holds no saved classifier; give a folder that save made.")
    try:
        tensors = load_file(Path(folder) / "tensors.safetensors")
    except (SafetensorError, OSError) as error:
        raise AnyshotError(
            f"The classifier in '{folder}' is damaged ({error}); save it again."
        ) from error
    if config["backbone"] == "own" and backbone is None:
        raise AnyshotError(
            "The saved classifier has a backbone of its own; give it: load(folder, backbone=...)."
        )
    named = None if config["backbone"] == "None" else config["backbone"]
    features, labels = tensors.pop("features").numpy(), tensors.pop("labels").numpy()
    reference = tensors.pop("reference", None)
    classifier.set_params(
        backbone=named if backbone is None else backbone,
        side=config["side"],
        weights=config["weights"],
    )
    try:
        classifier.weights_ = weights_from_tensors(tensors, config["learner"])
    except (KeyError, RuntimeError) as error:  # other names or shapes
        raise AnyshotError(
            f"The classifier in '{folder}' was saved by anyshot {config.get('version')}, whose learner this version "
            "does not know; fit and save it again."
        ) from error
    classifier.fit_params_ = classifier.get_params(deep=False)
    classifier.backbone_ = None
    classifier.reference_ = None if reference is None else reference.numpy()
    if classifier.backbone is None:
        classifier.n_features_in_ = features.shape[1]
    else:
        classifier._open_backbone()
    classifier._adapt(features, np.asarray(config["classes"])[labels])
    return classifier
