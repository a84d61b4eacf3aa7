"""Make the weights that come with the package: features, wide tasks, meta-training, how sure to be."""

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
    prepare,
    sample_wide_task,
)
from anyshot.classifier.meta_training.feature_sets import PARTS, feature_sets
from anyshot.classifier.meta_training.train import HEAD_STEPS, MIXTURE_STEPS, meta_train
from anyshot.core.progress import progress

TASKS = 40  # of each set at each size, to learn from
JUDGED = 40  # of each, to learn how sure to be
PLAIN = 4


@dataclass(frozen=True)
class SetTasks:
    """Tasks of a set for meta-training, and others for how sure to be, which are drawn when they are asked for."""

    data: FeatureSet
    learned: list[PreparedEpisode]
    seed: int

    @property
    def name(self) -> str:
        """Of the set."""
        return self.data.name

    def judged(self) -> Iterator[Episode]:
        """Tasks that were not learned from."""
        return (sample_wide_task(self.data, self.seed, TASKS + i) for i in range(JUDGED))


def all_sets(backbone: str) -> list[FeatureSet]:
    """Every set at every size."""
    return [data for side in PARTS for data in feature_sets(backbone, side)]


def wide_tasks(data: FeatureSet, damping: WithinClassDamping, seed: int = 0) -> SetTasks:
    """Tasks of a set to learn from; one in PLAIN is not damped, as tasks by other backbones are not."""
    learned = [
        prepare(sample_wide_task(data, seed, i), damping if i % PLAIN else None)
        for i in range(TASKS)
    ]
    return SetTasks(data, learned, seed)


def make(tasks: Sequence[SetTasks], damping: WithinClassDamping) -> tuple[Learner, ConfidenceModel]:
    """A learner and how sure to be of it, from the tasks of some sets."""
    with progress("Meta-training", HEAD_STEPS + MIXTURE_STEPS) as advance:
        learner = meta_train([t.learned for t in tasks], damping, advance=advance)
    return learner, train_confidence_model(
        learner, ((t.name, episode) for t in tasks for episode in t.judged())
    )
