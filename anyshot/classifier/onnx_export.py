"""A fitted classifier as one ONNX graph: images to probabilities and unknown scores.

The graph holds the backbone, the fitted heads and their mixture under the class prior in force. It
is made from the same functions that the classifier itself calls, in single precision, and compared
with the classifier before it is written.
"""

from __future__ import annotations

import copy
import dataclasses
import importlib
import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from anyshot.classifier.backbones.backbone import FrozenNetwork
from anyshot.classifier.confidence.novelty_features import novelty_reference
from anyshot.core.errors import ClassifierError
from anyshot.core.files import check_writable, write_bytes
from anyshot.core.version import VERSION

if TYPE_CHECKING:
    from anyshot.classifier.estimator import AnyShotClassifier

TOLERANCE = 1e-3  # difference of probabilities and unknown scores that is an error
CHECKED = 4  # images that the graph is compared on
OLDEST_TORCH = (2, 8)  # earlier ones cannot export a graph for any number of images
PREPARATION = (
    "RGB, rotated by the EXIF tag, the short side resized to {side} pixels (Lanczos), the centre "
    "cut out; uint8 [n, {side}, {side}, 3]. Scaling is inside the graph."
)


class ClassifierGraph(nn.Module):
    """Images uint8 [n, side, side, 3], or features [n, d], to probabilities and unknown scores."""

    def __init__(self, classifier: AnyShotClassifier, backbone: FrozenNetwork | None) -> None:
        super().__init__()
        self.backbone = copy.copy(backbone)
        if self.backbone is not None:
            self.network = copy.deepcopy(self.backbone.network).cpu()
            self.backbone.network = self.network
            self.backbone.mean = self.backbone.mean.cpu()
            self.backbone.deviation = self.backbone.deviation.cpu()
        self.adapted = _as_float32(classifier.adapted_)
        shares = torch.from_numpy(classifier._class_shares(classifier.class_prior))
        self.log_shares = shares.float().log()
        self.reference = _as_float32(novelty_reference(classifier.adapted_))
        self.confidence = classifier.weights_.confidence

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Probabilities [n, C] and unknown scores [n]."""
        features = images if self.backbone is None else self.backbone.forward(images)
        answers = self.adapted(features)
        unknown = self.confidence.unknown_score(self.adapted, features, self.reference, answers)
        return (answers + self.log_shares).softmax(1), unknown


def check_onnx_installed() -> None:
    """Raise an error that names the extra if the export's packages are missing or too old."""
    _require("onnx", "onnxscript", "onnxruntime")
    if tuple(map(int, torch.__version__.split(".")[:2])) < OLDEST_TORCH:
        raise ClassifierError(
            f"The ONNX export needs torch {'.'.join(map(str, OLDEST_TORCH))} or later, not "
            f"{torch.__version__}; run: pip install 'anyshot[onnx]'"
        )


def export_onnx(classifier: AnyShotClassifier, path: str | Path) -> None:
    """Write a fitted classifier to an ONNX file; see `AnyShotClassifier.export_onnx`."""
    check_writable(path)
    check_onnx_installed()
    network, example = _network_and_example(classifier)
    data = _to_onnx(ClassifierGraph(classifier, network), example, _metadata(classifier, network))
    _compare(classifier, data, example)
    write_bytes(path, data)


def _network_and_example(
    classifier: AnyShotClassifier,
) -> tuple[FrozenNetwork | None, NDArray[Any]]:
    """The backbone's network, and inputs of the graph."""
    if classifier.fit_params_["backbone"] is None:
        rows = np.arange(CHECKED) % len(classifier.features_)
        return None, classifier.features_[rows]
    backbone = classifier._open_backbone()
    if not isinstance(backbone.compute, FrozenNetwork):
        raise ClassifierError(
            f"The backbone {backbone.name!r} cannot be exported to ONNX, because it is a function "
            "or the body of a run; use a named backbone or an nn.Module."
        )
    rng = np.random.default_rng(0)
    coarse = rng.integers(0, 256, (CHECKED, 8, 8, 3), np.uint8)
    repeats = -(-backbone.side // 8)
    example = coarse.repeat(repeats, 1).repeat(repeats, 2)
    return backbone.compute, example[:, : backbone.side, : backbone.side].copy()


def _to_onnx(graph: ClassifierGraph, example: NDArray[Any], metadata: dict[str, str]) -> bytes:
    name = "features" if graph.backbone is None else "images"
    with warnings.catch_warnings(), _quiet_exporter(), torch.no_grad():
        warnings.simplefilter("ignore")  # torch's remarks about its own functions
        any_number = ({0: torch.export.Dim("n")},)
        traced = torch.export.export(
            graph.eval(), (torch.from_numpy(example),), dynamic_shapes=any_number, strict=False
        )
        program = torch.onnx.export(
            traced,
            (),
            input_names=[name],
            output_names=["probabilities", "unknown"],
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    program.model.metadata_props.update(metadata)
    program.model.producer_name, program.model.producer_version = "anyshot", VERSION
    return program.model_proto.SerializeToString()


@contextmanager
def _quiet_exporter() -> Iterator[None]:
    """Hide the exporter's warnings that torchvision is not installed."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _metadata(classifier: AnyShotClassifier, network: FrozenNetwork | None) -> dict[str, str]:
    """What another program needs to know: classes, the preparation of images, the threshold."""
    params = classifier.fit_params_
    facts = {
        "classes": json.dumps([str(c) for c in classifier.classes_[classifier.seen_]]),
        "class_prior": json.dumps(classifier._class_shares(classifier.class_prior).tolist()),
        "unknown_threshold": json.dumps(classifier._unknown_threshold()),
    }
    if network is not None:
        side = classifier._open_backbone().side
        facts |= {"backbone": str(params["backbone"]), "input": PREPARATION.format(side=side)}
    return {f"anyshot.{key}" if key != "classes" else key: value for key, value in facts.items()}


def _compare(classifier: AnyShotClassifier, data: bytes, example: NDArray[Any]) -> None:
    """Refuse a graph whose answers differ from those of the classifier."""
    import onnxruntime

    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    (name,) = (value.name for value in session.get_inputs())
    example = example[1:]  # another number of images than the graph was traced with
    probabilities, unknown = session.run(None, {name: example})
    given = classifier.classify(example if name == "features" else list(example))
    expected = given.probabilities[:, classifier.seen_]
    worst = max(
        float(np.abs(probabilities - expected).max()),
        float(np.abs(unknown - given.unknown_scores).max()),
    )
    logging.getLogger(__name__).info(
        "The graph's answers differ from the classifier's by %.1e at most.", worst
    )
    if not worst <= TOLERANCE:
        raise ClassifierError(
            f"The exported graph's answers differ from the classifier's by {worst:.2g}; nothing "
            "was written. The backbone may have operations that ONNX computes differently."
        )


def _require(*packages: str) -> None:
    for package in packages:
        try:
            importlib.import_module(package)
        except ImportError as error:
            raise ClassifierError(
                f"The ONNX export needs {package}, which is not installed; run: "
                "pip install 'anyshot[onnx]'"
            ) from error


def _as_float32(part: Any) -> Any:
    """A fitted part, and the parts in it, in single precision, which all ONNX runtimes have."""
    if isinstance(part, Tensor):
        return part.float() if part.is_floating_point() else part
    if isinstance(part, tuple):
        return tuple(_as_float32(p) for p in part)
    if dataclasses.is_dataclass(part) and not isinstance(part, type):
        values = {f.name: getattr(part, f.name) for f in dataclasses.fields(part)}
        return dataclasses.replace(part, **{k: _as_float32(v) for k, v in values.items()})
    return part
