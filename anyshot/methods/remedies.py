"""Remedies against uneven classes, for any method.

==================  ==============================================================================
oversampling        ROS: repeat random images of small classes until all classes are of one size
oversampling+       ROS+: the repeated images are cropped and change their colours
class-weights:τ     the images of class c count ∝ N_c^−τ; 1 is inverse frequency
effective-number:β  the images of class c count ∝ (1 − β) / (1 − β^N_c) (Cui et al., CVPR 2019)
focal:γ             the loss of an image is (1 − p)^γ CE (Lin et al., ICCV 2017)
logit-adjustment:τ  τ log(N_c / N) is added to the logits in the support loss, not in predictions
                    (Menon et al., ICLR 2021)
==================  ==============================================================================

Weights are scaled so that their mean over the support images is 1: a remedy changes the balance of
the support loss, not its scale. Oversampling comes before everything else, so a method that reads
class sizes, as TAML does, reads those of the oversampled set.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from anyshot.core.errors import SettingsError
from anyshot.core.remedy import OVERSAMPLING, REMEDIES, parse_remedy
from anyshot.data.augment import augment
from anyshot.models.network import to_float

AUGMENTATIONS = ("crop", "colour")  #: of ROS+; they keep the class of photographs and of characters


@dataclass(frozen=True)
class Remedy:
    """A remedy and its strength.

    >>> Remedy.parse("class-weights").class_factors(torch.tensor([1.0, 3.0]))
    tensor([2.0000, 0.6667])
    """

    name: str = "none"
    strength: float = 0.0

    @classmethod
    def parse(cls, text: str) -> Remedy:
        """The remedy that a setting names."""
        return cls(*parse_remedy(text))

    def resample(
        self, images: Tensor, labels: Tensor, noise: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """The support set that a method learns from: float [N, channels, height, width], [N]."""
        if self.name not in OVERSAMPLING:
            return images, labels
        chosen = draw_repetitions(labels, noise)
        repeated = images[chosen]
        if self.name == "oversampling+" and len(chosen):
            repeated = augment_floats(repeated, noise)
        return torch.cat([images, repeated]), torch.cat([labels, labels[chosen]])

    def class_factors(self, shots: Tensor) -> Tensor | None:
        """Factor of the image weights of each class [way], given the class sizes; None: 1."""
        if self.name == "class-weights":
            factors = shots**-self.strength
        elif self.name == "effective-number":
            factors = (1 - self.strength) / (1 - self.strength**shots)
        else:
            return None
        return factors * (shots.sum() / (shots * factors).sum())

    def logit_offset(self, shots: Tensor) -> Tensor | None:
        """What is added to the logits in the support loss, [way]; None: nothing."""
        if self.name != "logit-adjustment":
            return None
        return self.strength * (shots / shots.sum()).log()

    @property
    def focal(self) -> float:
        """γ of the focal loss; 0: cross-entropy."""
        return self.strength if self.name == "focal" else 0.0


def check_remedy(remedy: Remedy, method: str, supported: tuple[str, ...]) -> None:
    """Refuse a remedy that would not change a method."""
    if remedy.name not in ("none", *supported):
        missing = [name for name in REMEDIES if name not in ("none", *supported)]
        raise SettingsError(
            f"{method} cannot use the remedy {remedy.name!r}: its classifier has no support loss "
            f"for {', '.join(missing)}. Use {' or '.join(supported)}."
        )


def draw_repetitions(labels: Tensor, noise: torch.Generator) -> Tensor:
    """Draw, with replacement, the images [n] that bring every class to the size of the largest."""
    shots = torch.bincount(labels)
    chosen = []
    for c, size in enumerate(shots.tolist()):
        members = (labels == c).nonzero()[:, 0]
        missing = int(shots.max()) - size
        chosen.append(members[torch.randint(size, (missing,), generator=noise).to(members.device)])
    return torch.cat(chosen)


def augment_floats(images: Tensor, noise: torch.Generator) -> Tensor:
    """Augment float images [n, 3, height, width] in [0, 1], with a precision of 8 bits."""
    if images.shape[1] != 3:
        raise SettingsError(
            f"The remedy 'oversampling+' needs images with 3 channels, not {images.shape[1]}; use "
            "'oversampling'."
        )
    rng = np.random.default_rng(int(torch.randint(2**62, (), generator=noise)))
    pixels = images.mul(255).round().byte().permute(0, 2, 3, 1).cpu().numpy()
    changed = torch.from_numpy(augment(pixels, AUGMENTATIONS, rng))
    return to_float(changed).to(images)
