import numpy as np
import pytest
import scipy.stats
import torch
from torch import Tensor

from anyshot.core.errors import CodeError
from anyshot.core.random import torch_rng
from anyshot.core.registry import STATISTICS
from anyshot.methods.set_statistics import FeatureSets, set_statistics


def statistics(features: Tensor, members: Tensor, cardinality: list[float]) -> Tensor:
    sets = FeatureSets(features, members, torch.tensor(cardinality, dtype=torch.float64))
    return set_statistics(sets, [STATISTICS[name] for name in STATISTICS])


def test_statistics_equal_scipys():
    features = torch.randn(9, 5, dtype=torch.float64, generator=torch_rng(0))
    labels = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1, 1])
    members = torch.nn.functional.one_hot(labels).t().double()
    found = statistics(features, members, [0.25, 0.5])
    for c in range(2):
        x = features[labels == c].numpy()
        expected = [
            x.mean(0),
            np.full(5, [0.25, 0.5][c]),
            x.var(0),
            scipy.stats.skew(x),
            scipy.stats.kurtosis(x, fisher=False),
        ]
        np.testing.assert_allclose(found[c].numpy(), np.stack(expected, -1), rtol=1e-10)


def test_statistics_of_one_image_or_a_constant_are_finite_and_so_are_their_gradients():
    features = torch.tensor(
        [[1.0, 2.0], [3.0, 3.0], [3.0, 3.0]], dtype=torch.float64, requires_grad=True
    )
    members = torch.tensor([[1.0, 0, 0], [0, 1, 1]], dtype=torch.float64)
    found = statistics(features, members, [0.0, 0.0])
    assert not found[:, :, 2:].any()  # var, skewness and kurtosis
    found.sum().backward()
    assert features.grad.isfinite().all()


def test_statistic_of_the_wrong_shape_is_refused():
    sets = FeatureSets(torch.ones(4, 2), torch.ones(1, 4), torch.ones(1))
    with pytest.raises(CodeError, match=r"'largest'.*\[4\].*\[1, 2\]"):
        set_statistics(sets, [lambda_named("largest", lambda s: s.features.amax(1))])
    with pytest.raises(CodeError, match="'nothing' gives None"):
        set_statistics(sets, [lambda_named("nothing", lambda s: None)])


def lambda_named(name: str, function):
    function.__name__ = name
    return function
