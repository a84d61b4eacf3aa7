"""A learner on features by name: one that comes with the package (see anyshot.runs.pretrained), or in a folder of your own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from anyshot.classifier.confidence.model import ConfidenceModel
from anyshot.classifier.heads.learner import Learner
from anyshot.classifier.heads.support_set import WithinClassDamping
from anyshot.core.errors import AnyshotError
from anyshot.core.files import read_json, write_json, write_tensors
from anyshot.core.options import suggestion
from anyshot.core.version import VERSION
from anyshot.runs import pretrained


@dataclass(frozen=True)
class ClassifierWeights:
    """A learner on features, how sure to be of it, and where both come from."""

    learner: Learner
    confidence: ConfidenceModel
    config: dict[str, Any]

    def tensors(self) -> dict[str, Tensor]:
        """All numbers, by name."""
        parts = {"learner": self.learner, "outlook": self.confidence}
        return {
            f"{part}.{name}": t
            for part, module in parts.items()
            for name, t in module.state_dict().items()
        }

    def save(self, folder: str | Path) -> None:
        """Write to a folder, from which :func:`open_weights` reads."""
        write_tensors(Path(folder) / "learner.safetensors", self.tensors())
        write_json(Path(folder) / "config.json", self.config)


def open_weights(name: str | Path) -> ClassifierWeights:
    """Weights by name, or from a folder.

    >>> open_weights("photos-lite0").config["backbone"]
    'efficientnet-lite0'
    """
    if str(name) in pretrained.pretrained_models():
        raise AnyshotError(
            f"{name} is a trained method, no learner on features; anyshot test and inspect take it, and conv4:{name} "
            "names its body."
        )
    learners = [
        known
        for known in pretrained.pretrained_names()
        if known not in pretrained.pretrained_models()
    ]
    folder = pretrained.HOME / str(name) if str(name) in learners else Path(name)
    if not (folder / "config.json").is_file():
        raise AnyshotError(
            f"There are no weights {str(name)!r}{suggestion(str(name), [*learners, 'a folder of weights'])}"
        )
    try:
        return weights_from_tensors(
            load_file(folder / "learner.safetensors"), read_json(folder / "config.json")
        )
    except (SafetensorError, OSError, RuntimeError, KeyError) as error:
        raise AnyshotError(
            f"The weights in '{folder}' are damaged ({error}); make or install them again."
        ) from error


def weights_from_tensors(
    tensors: Mapping[str, Tensor], config: dict[str, Any]
) -> ClassifierWeights:
    """The learner whose :meth:`Learned.tensors` these are."""
    damping = WithinClassDamping(tensors["learner.directions"], tensors["learner.share"])
    learner, outlook = Learner(damping), ConfidenceModel()
    for part, module in (("learner.", learner), ("outlook.", outlook)):
        module.load_state_dict(
            {key[len(part) :]: t for key, t in tensors.items() if key.startswith(part)}
        )
        module.requires_grad_(False)
    return ClassifierWeights(learner, outlook, config)


def make_weights(folder: str | Path, backbone: str) -> None:
    """Meta-train on all sets of `anyshot.classifier.meta_training.feature_sets` and write the weights to a folder."""
    from anyshot.classifier.meta_training.build import all_feature_sets, build_learner, wide_tasks
    from anyshot.classifier.meta_training.within_class import estimate_damping

    sets = all_feature_sets(backbone)
    damping = estimate_damping(sets)
    learner, outlook = build_learner([wide_tasks(data, damping) for data in sets], damping)
    config = {
        "backbone": backbone,
        "sets": sorted({data.name for data in sets}),
        "version": VERSION,
    }
    ClassifierWeights(learner, outlook, config).save(folder)
