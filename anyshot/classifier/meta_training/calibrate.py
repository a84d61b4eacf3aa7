"""Trains the confidence model.

Its margins are set by leave-one-data-set-out errors, so that they hold on new data sets. With each
set left out in turn, the linear models are fitted to the others. The errors on the left-out set say
how far the prior guess of a task's accuracy can be trusted; they also give the width of the
intervals, the threshold for unknown images, and the range of familiar descriptors. The final models
are fitted to all sets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyshot.classifier.confidence.expected_accuracy import (
    DEVIATIONS,
    HELD_OUT_FEATURES,
    LEVEL,
    angle_of_share,
    task_evidence,
)
from anyshot.classifier.confidence.label_features import label_features
from anyshot.classifier.confidence.model import (
    THRESHOLDS,
    ConfidenceModel,
    class_accuracy_features,
    task_descriptor,
)
from anyshot.classifier.confidence.novelty_features import novelty_features
from anyshot.classifier.heads.learner import Learner
from anyshot.classifier.meta_training.episodes import Episode, change_labels

KNOWN_SHARE = 0.95  # share of known images below the threshold, and of tasks that are familiar
NOVELTY_IMAGES = 60  # query images of a task that novelty is trained on
WRONG_SHARES = (0.05, 0.2)  # share of labels that are changed, in turn
RIDGE = 1e-2  # of the prior guess of a task's accuracy


@dataclass(frozen=True)
class TaskRecord:
    """What the learner said about a task, and how it did on the query images."""

    image_set: str
    evidence: Tensor  # of the task [10]
    class_features: Tensor  # [C, CLASS_FEATURES]
    descriptor: Tensor  # [DESCRIPTOR_SIZE]
    accuracy: Tensor  # as an angle
    queries: Tensor  # number of query images
    class_accuracy: Tensor  # [C]
    known: Tensor  # [m, NOVELTY_FEATURES], query images of the task's classes
    unknown: Tensor  # [k, NOVELTY_FEATURES], images of other classes
    labels: Tensor  # [n, LABEL_FEATURES], support images after some labels were changed
    wrong: Tensor  # [n], 1 for those whose label was changed


def train_confidence_model(
    learner: Learner, episodes: Iterable[tuple[str, Episode]]
) -> ConfidenceModel:
    """Train the confidence model on episodes, given with the names of their data sets."""
    return fit_confidence_model(
        [
            record_task(learner, name, episode, WRONG_SHARES[i % len(WRONG_SHARES)])
            for i, (name, episode) in enumerate(episodes)
        ]
    )


def fit_confidence_model(records: Sequence[TaskRecord]) -> ConfidenceModel:
    """Fit the confidence model to tasks of several data sets."""
    confidence = ConfidenceModel()
    _fit_accuracy(confidence, records)
    _fit_unknown(confidence, records)
    _fit_labels(confidence, records)
    _fit_descriptors(confidence, records)
    return confidence.requires_grad_(False)


def record_task(learner: Learner, name: str, e: Episode, wrong_share: float) -> TaskRecord:
    """What the learner says about an episode, also after a share of its labels is changed."""
    adapted = learner.adapt(e.support, e.labels)
    hits = (adapted(e.query).argmax(1) == e.query_labels).double()
    queries = hits.new_tensor(len(hits))
    changed = change_labels(e.labels, wrong_share, np.random.default_rng(len(hits)))
    some = torch.arange(len(hits))[:: max(1, len(hits) // NOVELTY_IMAGES)]
    return TaskRecord(
        image_set=name,
        evidence=task_evidence(adapted),
        class_features=class_accuracy_features(adapted),
        descriptor=task_descriptor(adapted),
        accuracy=angle_of_share(hits.sum(), queries),
        queries=queries,
        class_accuracy=torch.stack(
            [hits[e.query_labels == c].mean() for c in range(adapted.support.way)]
        ),
        known=novelty_features(adapted, e.query[some]),
        unknown=novelty_features(adapted, e.unknown),
        labels=label_features(learner.adapt(e.support, changed)),
        wrong=(changed != e.labels).float(),
    )


def _fit_accuracy(confidence: ConfidenceModel, records: Sequence[TaskRecord]) -> None:
    """Fit the accuracy model; every data set counts the same.

    The prior guess is a least-squares fit. The variances maximise the likelihood with each set left
    out, −log p = ½ log v + (y − mean)² / 2v for the angle y of the accuracy. The margin then covers
    LEVEL of the tasks.
    """
    accuracy = confidence.accuracy
    x = torch.stack([r.evidence for r in records]).float()
    y = torch.stack([r.accuracy for r in records]).float()
    queries = torch.stack([r.queries for r in records]).float()
    inputs = x[:, HELD_OUT_FEATURES:]
    weight = _equal_set_weights(records)
    guess = torch.zeros_like(y)
    for left_out, others in _leave_one_set_out(records):
        line = _least_squares(inputs[others], y[others], weight[others])
        guess[left_out] = _predict(line, inputs[left_out])

    def loss() -> Tensor:
        mean, variance = accuracy(x, guess, queries)
        return (weight * (variance.log() + (y - mean).square() / variance)).sum() / 2

    _minimise([accuracy.mend, accuracy.blur, accuracy.doubt], loss)
    with torch.no_grad():
        mean, variance = accuracy(x, guess, queries)
    deviations = (y - mean).abs() / variance.sqrt()
    accuracy.margin.fill_(_weighted_quantile(deviations, weight, LEVEL) / DEVIATIONS)
    _set_linear(accuracy.guess, _least_squares(inputs, y, weight))
    _fit_classes(confidence.own, records, mean, weight)


def _fit_classes(
    module: nn.Linear, records: Sequence[TaskRecord], mean: Tensor, weight: Tensor
) -> None:
    """Fit how a class's logit differs from its task's; classes of a task count the same."""
    ways = torch.tensor([len(r.class_accuracy) for r in records])
    level = mean.clamp(0, torch.pi / 2).sin().square().logit(0.01).repeat_interleave(ways)
    weight = (weight / ways).repeat_interleave(ways)
    rows = torch.cat([r.class_features for r in records]).float()
    target = torch.cat([r.class_accuracy for r in records]).float()

    def loss() -> Tensor:
        logits = level + module(rows)[:, 0]
        return F.binary_cross_entropy_with_logits(logits, target, weight, reduction="sum")

    _minimise(module.parameters(), loss)


def _fit_unknown(confidence: ConfidenceModel, records: Sequence[TaskRecord]) -> None:
    """Fit the unknown score; the threshold passes KNOWN_SHARE of known images of left-out sets."""
    thresholds, curves = [], []
    for left_out, others in _leave_one_set_out(records):
        _fit_unknown_odds(confidence.unknown, [records[i] for i in others])
        known, unknown = (
            _scores_of_tasks(confidence.unknown, [getattr(records[i], side) for i in left_out])
            for side in ("known", "unknown")
        )
        thresholds.append(torch.cat(known).quantile(KNOWN_SHARE))
        curves.append(torch.stack([_share_above(known), _share_above(unknown)]))
    _fit_unknown_odds(confidence.unknown, records)
    confidence.threshold.fill_(torch.stack(thresholds).mean())
    confidence.curves.copy_(torch.stack(curves).nanmean(0))


@torch.no_grad()
def _scores_of_tasks(module: nn.Linear, tasks: Sequence[Tensor]) -> list[Tensor]:
    """Unknown scores of each task's images, from their novelty features."""
    return [module(rows.float())[:, 0].sigmoid() for rows in tasks if len(rows)]


def _share_above(tasks: Sequence[Tensor]) -> Tensor:
    """Share of scores above each of THRESHOLDS [T], the mean over tasks; NaN without tasks."""
    shares = [(scores[:, None] > THRESHOLDS).float().mean(0) for scores in tasks]
    return torch.stack(shares).mean(0) if shares else torch.full_like(THRESHOLDS, torch.nan)


def _fit_labels(confidence: ConfidenceModel, records: Sequence[TaskRecord]) -> None:
    """Fit the log odds that a label is wrong; every task counts the same."""
    x = torch.cat([r.labels for r in records]).float()
    wrong = torch.cat([r.wrong for r in records])
    weight = torch.cat([torch.full_like(r.wrong, 1 / len(r.wrong) / len(records)) for r in records])
    _minimise(
        confidence.label.parameters(),
        lambda: F.binary_cross_entropy_with_logits(
            confidence.label(x)[:, 0], wrong, weight, reduction="sum"
        ),
    )


def _fit_unknown_odds(module: nn.Linear, records: Sequence[TaskRecord]) -> None:
    """Known and unknown images count the same, and so does every task within both."""
    both = [
        [r.known.float() for r in records if len(r.unknown)],
        [r.unknown.float() for r in records if len(r.unknown)],
    ]
    x = torch.cat([rows for side in both for rows in side])
    weight = torch.cat(
        [torch.full((len(rows),), 0.5 / len(rows) / len(side)) for side in both for rows in side]
    )
    truth = (torch.arange(len(x)) >= sum(map(len, both[0]))).float()
    _minimise(
        module.parameters(),
        lambda: F.binary_cross_entropy_with_logits(module(x)[:, 0], truth, weight, reduction="sum"),
    )


def _fit_descriptors(confidence: ConfidenceModel, records: Sequence[TaskRecord]) -> None:
    """Mean and whitening of descriptors; KNOWN_SHARE of the tasks of left-out sets are within 1."""
    x = torch.stack([r.descriptor for r in records])
    distance = torch.zeros(len(x)).to(x)
    for left_out, others in _leave_one_set_out(records):
        mean, spread = _whitener(x[others])
        distance[left_out] = ((x[left_out] - mean) @ spread).norm(dim=1)
    mean, spread = _whitener(x)
    confidence.usual.copy_(mean)
    confidence.spread.copy_(spread / distance.quantile(KNOWN_SHARE))


def _whitener(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean [d] and whitening matrix [d, d] of the rows."""
    lower = torch.linalg.cholesky(x.t().cov() + 1e-3 * torch.eye(x.shape[1]).to(x))
    return x.mean(0), torch.linalg.inv(lower).t()


def _leave_one_set_out(records: Sequence[TaskRecord]) -> Iterator[tuple[list[int], list[int]]]:
    """For each data set: indices of its tasks, and of all others (if none: of its tasks again)."""
    for name in sorted({r.image_set for r in records}):
        left_out = [i for i, r in enumerate(records) if r.image_set == name]
        others = [i for i, r in enumerate(records) if r.image_set != name]
        yield left_out, others or left_out


def _equal_set_weights(records: Sequence[TaskRecord]) -> Tensor:
    """Weights of tasks [T] with sum 1; every data set counts the same."""
    tasks = Counter(r.image_set for r in records)
    return torch.tensor([1 / tasks[r.image_set] / len(tasks) for r in records])


def _weighted_quantile(values: Tensor, weight: Tensor, share: float) -> Tensor:
    """The smallest value below or at which there is `share` of the weight."""
    order = values.argsort()
    reached = weight[order].cumsum(0) >= share * weight.sum() - 1e-6
    return values[order][reached][0]


def _least_squares(x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    """Ridge regression: coefficients and, last, the constant."""
    x = torch.cat([x, torch.ones_like(x[:, :1])], 1)
    w = weight / weight.sum()
    return torch.linalg.solve(
        x.t() @ (w[:, None] * x) + RIDGE * torch.eye(x.shape[1]).to(x), x.t() @ (w * y)
    )


def _predict(line: Tensor, x: Tensor) -> Tensor:
    return x @ line[:-1] + line[-1]


def _set_linear(module: nn.Linear, line: Tensor) -> None:
    with torch.no_grad():
        module.weight.copy_(line[None, :-1])
        module.bias.copy_(line[-1:])


def _minimise(parameters: Iterable[Tensor], loss: Callable[[], Tensor]) -> None:
    """Minimise a smooth loss of a few numbers by L-BFGS."""
    numbers = list(parameters)
    optimiser = torch.optim.LBFGS(numbers, max_iter=200, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimiser.zero_grad()
        value = loss() + 1e-4 * torch.cat([p.flatten() for p in numbers]).square().sum()
        value.backward()
        return value

    optimiser.step(closure)
