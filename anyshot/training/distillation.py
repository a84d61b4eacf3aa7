"""Distillation: a pre-trained run teaches another backbone its class probabilities.

Hinton, Vinyals and Dean, 2015 (https://arxiv.org/abs/1503.02531); with these weights and this
temperature by Tian et al., 2020 (RFS, https://arxiv.org/abs/2003.11539).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from anyshot.core.errors import RunError
from anyshot.runs.image_record import SetRecord
from anyshot.runs.run import Run

TEMPERATURE = 4.0
LAYER = ("layer.weight", "layer.bias")  #: the classification layer in a checkpoint


class Teacher:
    """The backbone of a finished pre-training with its classification layer, which do not learn.

    Parameters
    ----------
    folder : str
        Its run.
    student : Run
        The run that learns from it.
    device : str
        Where it computes.

    Raises
    ------
    RunError
        If the run is no finished pre-training, or has other training classes or another image size.
    """

    def __init__(self, folder: str, student: Run, device: str = "cpu") -> None:
        run = Run(folder)
        checkpoint = run.latest_checkpoint()
        if not run.settings.pretrains_only or checkpoint is None or run.progress() < 1:
            raise RunError(
                f"'{folder}' is no finished pre-training; a teacher is a run of anyshot pretrain."
            )
        if _trained_classes(run.sets) != _trained_classes(student.sets):
            raise RunError(f"The teacher '{folder}' was trained on other classes than this run.")
        if run.image_size != student.image_size:
            raise RunError(
                f"The teacher '{folder}' takes images of {run.image_size} pixels, this run of "
                f"{student.image_size}."
            )
        self.run_id = run.run_id
        self.method = run.load_method(device)
        self.layer = [checkpoint.tensors[name].to(self.method.reference_tensor) for name in LAYER]

    @torch.no_grad()
    def scores(self, images: Tensor) -> Tensor:
        """Class scores [n, classes] of images [n, 3, height, width], with batch statistics."""
        return F.linear(self.method.embed(images), *self.layer)


def distillation_loss(scores: Tensor, teacher_scores: Tensor, labels: Tensor) -> Tensor:
    """½ CE(y, p) + ½ T² KL(p_teacher ‖ p), both probabilities of the KL at temperature T.

    Parameters
    ----------
    scores, teacher_scores : Tensor, [n, classes]
    labels : Tensor, [n]
    """
    divergence = F.kl_div(
        F.log_softmax(scores / TEMPERATURE, 1),
        F.log_softmax(teacher_scores / TEMPERATURE, 1),
        reduction="batchmean",
        log_target=True,
    )
    return 0.5 * F.cross_entropy(scores, labels) + 0.5 * TEMPERATURE**2 * divergence


def _trained_classes(sets: Sequence[SetRecord]) -> list[str]:
    """Checksums of the training classes, in the order of their labels."""
    return [r.sums[label] for r in sets if r.learned for label in r.splits.get("train", ())]
