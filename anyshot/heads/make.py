"""Make the weights that come with the package: features, wide tasks, meta-training, how sure to be, model card."""

from __future__ import annotations

from collections.abc import Sequence

from anyshot.heads.data import PARTS, feature_sets
from anyshot.heads.episodes import Episode, FeatureSet, Prepared, prepare, wide
from anyshot.heads.learner import Learner
from anyshot.heads.outlook import Outlook
from anyshot.heads.training import ITERATIONS, learn_outlook, meta_train
from anyshot.progress import progress

TASKS = 60  # of each set at each size, to learn from
JUDGED = 40  # of each, to learn how sure to be


def all_sets(backbone: str) -> list[FeatureSet]:
    """Every set at every size."""
    return [data for side in PARTS for data in feature_sets(backbone, side)]


def wide_tasks(data: FeatureSet, seed: int = 0) -> tuple[list[Prepared], list[Episode]]:
    """Tasks of a set for meta-training, and others for how sure to be."""
    learned = [prepare(wide(data, seed, i)) for i in range(TASKS)]
    return learned, [wide(data, seed, TASKS + i) for i in range(JUDGED)]


def make(
    tasks: Sequence[tuple[list[Prepared], list[Episode]]], iterations: int = ITERATIONS
) -> tuple[Learner, Outlook]:
    """A learner and how sure to be of it, from the tasks of some sets."""
    with progress("Meta-training", iterations) as advance:
        learner = meta_train([prepared for prepared, _ in tasks], iterations, advance=advance)
    return learner, learn_outlook(learner, [episode for _, judged in tasks for episode in judged])
