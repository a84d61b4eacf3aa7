"""MetaQDA (Zhang et al., ICCV 2021) on the tasks of benchmarks/heads.py.

    python benchmarks/metaqda_baseline.py OUT [--tasks 100] [--photos FOLDER] [--sets A,B]

Bayesian quadratic discriminant analysis: every class is a Gaussian with a normal-inverse-Wishart
prior (m, κ, S, ν), and new images are compared by the predictive Student-t distributions. The paper
learns the prior by gradient steps on tasks. Here it comes in closed form from miniImageNet's
features: m is their mean, S their within-class covariance, and κ, ν and the temperature are those
with the best NLL on tasks of one half of miniImageNet's classes with the prior of the other half.
Features are centred at m and have unit length, as in the paper. Writes OUT/metaqda/SET.json;
existing files are not computed again. benchmarks/heads.py reads them.
"""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import torch
from heads_baselines import Tally, open_features, options, set_names, softmax, test_task, unit
from scipy.special import gammaln

from anyshot.core.files import write_json

SOURCE = "miniimagenet"
SHRINKAGE = 0.1  # of S towards a multiple of the identity; it has more dimensions than images
KAPPAS = (0.3, 1.0, 3.0, 10.0, 30.0)
EXTRA_FREEDOM = (2.0, 100.0, 1000.0, 10_000.0, 100_000.0)  # ν − d
TEMPERATURES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
SEARCH_TASKS = 20


class Prior:
    """Features in coordinates where m = 0 and the within-class covariance is I."""

    def __init__(self, classes):
        self.mean = np.concatenate([unit(c) for c in classes]).mean(0)
        x = [self.normalise(c) for c in classes]
        residuals = np.concatenate([c - c.mean(0) for c in x])
        within = residuals.T @ residuals / (len(residuals) - len(x))
        width = len(within)
        within = (1 - SHRINKAGE) * within + SHRINKAGE * np.trace(within) / width * np.eye(width)
        self.whiten = np.linalg.inv(np.linalg.cholesky(within)).T
        self.origin = np.concatenate(x).mean(0)

    def normalise(self, features):
        return unit(unit(features.astype(np.float64)) - self.mean)

    def __call__(self, features):
        return (self.normalise(features) - self.origin) @ self.whiten


def log_densities(x, Y, q, kappa, extra):
    """Log predictive densities [m, C] of images q, given support images x with labels Y."""
    return np.stack([_log_student(x[c == Y], q, kappa, extra) for c in range(Y.max() + 1)], 1)


def _log_student(x, q, kappa, extra):
    """The predictive density of a class under the prior m = 0, S = (ν − d − 1) I."""
    n, d = x.shape
    mean = x.mean(0)
    spread = np.vstack([x - mean, np.sqrt(kappa * n / (kappa + n)) * mean])  # S_c = S + spreadᵀ·
    prior = max(extra - 1, 1.0)
    freedom = extra + n + 1  # ν + n − d + 1
    factor = (kappa + n + 1) / ((kappa + n) * freedom)
    small = np.eye(n + 1) + spread @ spread.T / prior
    offset = q - n * mean / (kappa + n)
    inner = offset @ spread.T / prior
    square = (offset**2).sum(1) / prior - (inner * np.linalg.solve(small, inner.T).T).sum(1)
    log_det = d * np.log(prior * factor) + np.linalg.slogdet(small)[1]
    return (
        gammaln((freedom + d) / 2)
        - gammaln(freedom / 2)
        - d / 2 * np.log(freedom * np.pi)
        - log_det / 2
        - (freedom + d) / 2 * np.log1p(square / factor / freedom)
    )


def search(prior, data):
    """κ, ν − d and the temperature with the best NLL on tasks of miniImageNet."""
    best = (np.inf, ())
    tasks = [test_task(data, i) for i in range(SEARCH_TASKS)]
    images = [(prior(t.support.numpy()), t.labels.numpy(), prior(t.query.numpy())) for t in tasks]
    for kappa, extra in itertools.product(KAPPAS, EXTRA_FREEDOM):
        scores = [log_densities(x, Y, q, kappa, extra) for x, Y, q in images]
        for temperature in TEMPERATURES:
            losses = [
                -np.log(
                    np.maximum(softmax(temperature * s)[np.arange(len(s)), t.query_labels], 1e-30)
                )
                for s, t in zip(scores, tasks, strict=True)
            ]
            best = min(best, (np.concatenate(losses).mean(), (kappa, extra, temperature)))
    return best[1]


def measure(data, prior, chosen, tasks):
    kappa, extra, temperature = chosen
    tally = Tally()
    for i in range(tasks):
        task = test_task(data, i)
        Y = task.labels.numpy()
        x, q = (prior(f.numpy()) for f in (task.support, task.query))
        p = softmax(temperature * log_densities(x, Y, q, kappa, extra))
        tally.add(i, "MetaQDA", p, task.query_labels.numpy(), np.bincount(Y))
    return {"set": data.name, "tasks": tasks, "chosen": chosen, "methods": tally.as_dict()}


def last_layer(data):
    """The data set with its first block of features only."""
    width = data.widths[0] if data.widths else None
    return dataclasses.replace(data, classes=[c[:, :width] for c in data.classes], widths=())


def main():
    arguments = options(__doc__.split("\n")[0], tasks=100).parse_args()
    torch.set_num_threads(1)
    prior = chosen = None
    for name in set_names(arguments):
        path = arguments.out / "metaqda" / f"{name}.json"
        if not path.exists():
            if prior is None:
                source = last_layer(open_features(SOURCE, arguments))
                half = dataclasses.replace(source, classes=source.classes[1::2])
                chosen = search(Prior(source.classes[::2]), half)
                prior = Prior(source.classes)
            data = last_layer(open_features(name, arguments))
            write_json(path, measure(data, prior, chosen, arguments.tasks))
            print(name, "measured", chosen, flush=True)


if __name__ == "__main__":
    main()
