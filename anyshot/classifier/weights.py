"""Meta-trained weights of the classifier: by the name of a folder in the package, or a folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from anyshot.classifier.confidence.model import ConfidenceModel
from anyshot.classifier.heads.learner import Learner
from anyshot.classifier.heads.support_set import WithinClassDamping
from anyshot.core.errors import ClassifierError, RunError
from anyshot.core.files import write_json
from anyshot.core.options import suggestion
from anyshot.core.version import VERSION
from anyshot.runs import pretrained
from anyshot.runs.checkpoint import Checkpoint, read_checkpoint, write_checkpoint

FILE = "learner.safetensors"


@dataclass(frozen=True)
class ClassifierWeights:
    """A meta-trained learner and its confidence model.

    `config` has the backbone, the side of the images and the data sets that it was trained on, and
    anyshot's version.
    """

    learner: Learner
    confidence: ConfidenceModel
    config: dict[str, Any]

    def tensors(self) -> dict[str, Tensor]:
        """All parameters and buffers by name."""
        parts = {"learner": self.learner, "outlook": self.confidence}
        return {
            f"{part}.{name}": t
            for part, module in parts.items()
            for name, t in module.state_dict().items()
        }

    def save(self, folder: str | Path) -> None:
        """Write a folder that :func:`open_weights` reads.

        The tensors and the config are one file with a digest; config.json is a copy for readers.
        """
        write_checkpoint(Path(folder) / FILE, Checkpoint(self.config, self.tensors()))
        write_json(Path(folder) / "config.json", self.config)


def open_weights(name: str | Path) -> ClassifierWeights:
    """Open weights by name, or from a folder.

    >>> open_weights("photos-lite0").config["backbone"]
    'efficientnet-lite0'
    """
    if not isinstance(name, str | Path):
        raise ClassifierError(f"The weights are {name!r}; expected a name or a folder.")
    models = pretrained.pretrained_models()
    if str(name) in models:
        raise ClassifierError(
            f"{name} is a trained method, not a classifier's weights; use it as the backbone "
            f"conv4:{name}, or with anyshot test and inspect."
        )
    learners = [known for known in pretrained.pretrained_names() if known not in models]
    folder = pretrained.HOME / str(name) if str(name) in learners else Path(name)
    if not (folder / FILE).is_file():
        known = [*learners, "a folder of weights"]
        raise ClassifierError(f"There are no weights {str(name)!r}{suggestion(str(name), known)}")
    try:
        content = read_checkpoint(folder / FILE)
        return weights_from_tensors(content.tensors, content.state)
    except (RunError, RuntimeError, KeyError, ValueError) as error:
        raise ClassifierError(
            f"The weights in '{folder}' are damaged ({error}); make or install them again."
        ) from error


def weights_from_tensors(tensors: Mapping[str, Tensor], config: Any) -> ClassifierWeights:
    """Weights from :meth:`ClassifierWeights.tensors`; a ValueError if they cannot be used."""
    if not isinstance(config, dict) or not isinstance(config.get("backbone"), str):
        raise ValueError("the config names no backbone")
    wrong = [name for name, t in tensors.items() if not torch.isfinite(t).all()]
    if wrong:
        raise ValueError(f"{wrong[0]} has values that are not finite")
    directions, share = tensors["learner.directions"], tensors["learner.share"]
    if share.ndim != 1 or directions.ndim != 2 or directions.shape[1] != len(share):
        raise ValueError(
            f"the damping is {list(directions.shape)} and {list(share.shape)}, which does not fit"
        )
    widths = tensors["learner.widths"].tolist()
    if any(width < 1 for width in widths) or (widths and widths[0] != len(directions)):
        raise ValueError(f"the blocks of features have the widths {widths}, which do not fit")
    learner = Learner(WithinClassDamping(directions, share), widths)
    confidence = ConfidenceModel()
    for prefix, module in (("learner.", learner), ("outlook.", confidence)):
        state = {key[len(prefix) :]: t for key, t in tensors.items() if key.startswith(prefix)}
        module.load_state_dict(state)
        module.requires_grad_(False)
    return ClassifierWeights(learner, confidence, config)


def make_weights(folder: str | Path, backbone: str) -> None:
    """Meta-train on the data sets of `meta_training.feature_sets` and write the weights."""
    from anyshot.classifier.meta_training.build import (
        all_feature_sets,
        build_learner,
        prepare_tasks,
    )
    from anyshot.classifier.meta_training.feature_sets import SUBSETS
    from anyshot.classifier.meta_training.within_class import estimate_damping

    sets = all_feature_sets(backbone)
    damping = estimate_damping(sets)
    learner, confidence = build_learner([prepare_tasks(data, damping) for data in sets], damping)
    names = sorted({data.name for data in sets})
    config = {"backbone": backbone, "side": max(SUBSETS), "sets": names, "version": VERSION}
    ClassifierWeights(learner, confidence, config).save(folder)
