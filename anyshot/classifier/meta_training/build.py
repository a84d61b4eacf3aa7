"""Builds the weights that come with the package: features, tasks, meta-training, confidence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from anyshot.classifier.confidence.model import ConfidenceModel
from anyshot.classifier.heads.learner import Learner
from anyshot.classifier.heads.support_set import WithinClassDamping
from anyshot.classifier.meta_training.calibrate import train_confidence_model
from anyshot.classifier.meta_training.episodes import (
    Episode,
    FeatureSet,
    PreparedEpisode,
    prepare_episode,
    sample_lopsided_task,
    sample_usual_task,
    sample_wide_task,
)
from anyshot.classifier.meta_training.feature_sets import SUBSETS, feature_sets
from anyshot.classifier.meta_training.train import HEAD_STEPS, MIXTURE_STEPS, meta_train
from anyshot.core.progress import progress

TRAINING_TASKS = 40  # of each data set at each image size, of either kind
CALIBRATION_TASKS = 48  # of each, for the confidence model
WIDE_EVERY = 3  # every how many-th of these is a wide task; the others are usual ones
PLAIN_EVERY = 4  # every how many-th training task has the last layer only


@dataclass(frozen=True)
class SetTasks:
    """Tasks of a data set for meta-training, and others for the confidence model."""

    data: FeatureSet
    wide_tasks: list[PreparedEpisode]  # for the heads and the mixture
    lopsided_tasks: list[PreparedEpisode]  # for the mixture; they make the heads worse
    seed: int

    @property
    def name(self) -> str:
        """Name of the data set."""
        return self.data.name

    def calibration_tasks(self) -> Iterator[Episode]:
        """Tasks that were not trained on, sampled one by one."""
        for i in range(CALIBRATION_TASKS):
            sample = sample_usual_task if i % WIDE_EVERY else sample_wide_task
            yield sample(self.data, self.seed, TRAINING_TASKS + i)


def all_feature_sets(backbone: str) -> list[FeatureSet]:
    """Every data set at every image size."""
    return [data for side in SUBSETS for data in feature_sets(backbone, side)]


def prepare_tasks(data: FeatureSet, damping: WithinClassDamping, seed: int = 0) -> SetTasks:
    """Training tasks of a data set.

    One in PLAIN_EVERY has the last layer only and no damping, like tasks of other backbones.
    """
    last_layer = FeatureSet(data.name, [c[:, : len(damping.directions)] for c in data.classes])
    wide, lopsided = (
        [
            prepare_episode(sample(data, seed, i), damping)
            if i % PLAIN_EVERY
            else prepare_episode(sample(last_layer, seed, i))
            for i in range(TRAINING_TASKS)
        ]
        for sample in (sample_wide_task, sample_lopsided_task)
    )
    return SetTasks(data, wide, lopsided, seed)


def build_learner(
    tasks: Sequence[SetTasks], damping: WithinClassDamping
) -> tuple[Learner, ConfidenceModel]:
    """Meta-train a learner and its confidence model on tasks of several data sets."""
    learner = train_learner(tasks, damping)
    return learner, train_confidence(learner, tasks)


def train_confidence(learner: Learner, tasks: Sequence[SetTasks]) -> ConfidenceModel:
    """Train the confidence model of a learner on other tasks of the same data sets."""
    episodes = ((t.name, episode) for t in tasks for episode in t.calibration_tasks())
    return train_confidence_model(learner, episodes)


def train_learner(tasks: Sequence[SetTasks], damping: WithinClassDamping) -> Learner:
    """Meta-train a learner on tasks of several data sets."""
    with progress("Meta-training", HEAD_STEPS + MIXTURE_STEPS) as advance:
        learner = meta_train(
            [t.wide_tasks for t in tasks],
            damping,
            tasks[0].data.widths,
            advance=advance,
            mixture_sets=[t.wide_tasks + t.lopsided_tasks for t in tasks],
        )
    return learner
