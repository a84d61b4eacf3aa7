"""Baselines of the heads' benchmark against their definitions."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("sklearn")
from heads_baselines import as_given, gda, normalise_blocks, spread_labels
from metaqda_baseline import log_densities
from scipy.stats import multivariate_t

RNG = np.random.default_rng(0)
Y = np.repeat([0, 1, 2], [4, 2, 1])
S = RNG.random((7, 30)) + np.eye(3)[Y] @ RNG.random((3, 30))
Q = RNG.random((5, 30))


def test_gda_equals_its_formula_in_all_dimensions():
    s, q = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (S, Q))
    means = np.stack([s[c == Y].mean(0) for c in range(3)])
    covariance = np.cov((s - means[Y]).T)
    inverse = np.linalg.inv((len(s) - 1) * covariance + np.trace(covariance) * np.eye(30))
    logits = q @ (30 * inverse) @ means.T - np.einsum("cd,de,ce->c", means, 30 * inverse, means) / 2
    expected = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    np.testing.assert_allclose(gda(S, Y, Q), expected, rtol=1e-6)


def test_as_given_equals_a_test_set_with_repeated_images():
    shots, labels = np.array([4, 2, 1]), np.array([0, 0, 1, 2])
    p = RNG.dirichlet(np.ones(3), 4)
    rows = np.repeat(np.arange(4), [2, 2, 2, 1])  # class shares 4 : 2 : 1
    accuracy = np.mean(p[rows].argmax(1) == labels[rows])
    nll = -np.mean(np.log(p[rows, labels[rows]]))
    np.testing.assert_allclose(as_given(p, labels, shots), [accuracy, nll])


def test_blocks_get_unit_length():
    x = normalise_blocks(S, (10, 20))
    np.testing.assert_allclose(np.linalg.norm(x[:, :10], axis=1), 1)
    np.testing.assert_allclose(np.linalg.norm(x[:, 10:], axis=1), 1)


def test_label_spreading_recovers_the_support_classes():
    assert (spread_labels(S, Y, S[:6]).argmax(1) == Y[:6]).all()


def test_metaqda_is_the_predictive_student_distribution_of_its_prior():
    kappa, extra, d = 0.5, 7.0, S.shape[1]  # m = 0, S = (ν − d − 1) I, ν = d + extra
    for c, densities in enumerate(log_densities(S, Y, Q, kappa, extra).T):
        x = S[c == Y]
        n, mean = len(x), x.mean(0)
        scatter = (extra - 1) * np.eye(d) + (x - mean).T @ (x - mean)
        scatter += kappa * n / (kappa + n) * np.outer(mean, mean)
        freedom = extra + n + 1
        shape = scatter * (kappa + n + 1) / ((kappa + n) * freedom)
        expected = multivariate_t(n * mean / (kappa + n), shape, freedom).logpdf(Q)
        np.testing.assert_allclose(densities, expected, rtol=1e-6)
