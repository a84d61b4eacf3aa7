"""Images in parts: the same bits on any number of threads, and correct results."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from anyshot.core.parallel.threads import map_tasks
from anyshot.inner_loop import adapt, logits_many, query_loss
from anyshot.inner_loop.engine import partition as parts

numba_ops = pytest.importorskip("anyshot.inner_loop.engine.numba_ops")


@pytest.fixture
def small_parts(monkeypatch):
    """Every pass of a small task is split into as many parts as possible."""
    parts.split.cache_clear()
    monkeypatch.setattr(parts, "WORK_PER_PART", 0)
    yield
    parts.split.cache_clear()


@given(st.integers(1, 300), st.integers(1, 10 * parts.WORK_PER_PART))
def test_parts_cover_all_images_in_order_and_are_nearly_equal(n, each):
    found = parts.split(n, each)
    assert [i for part in found for i in range(n)[part]] == list(range(n))
    sizes = [part.stop - part.start for part in found]
    assert max(sizes) - min(sizes) <= 1
    assert len(found) in (1, 2, 4, 8, 16)
    assert len(found) == 1 or n * each // len(found) >= parts.WORK_PER_PART


def everything(case, engine="engine"):
    loss, logits = query_loss(case.inner, case.images, case.labels, engine=engine)
    theta = adapt(case.inner, engine)
    [scores] = logits_many([case.inner], [theta], case.images, engine)
    adapted = {"adapted " + name: value for name, value in theta.items()}
    return {
        **case.gradients(loss),
        **adapted,
        "loss": loss.detach(),
        "logits": logits,
        "scores": scores,
    }


def assert_same_bits(left, right):
    different = [
        name for name in left if left[name] is not None and not torch.equal(left[name], right[name])
    ]
    assert not different


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("transductive", [True, False])
def test_many_parts_give_the_gradients_of_autograd(make_case, differences, transductive):
    case = make_case(
        [4, 5], (20, 17), head=True, scale=True, centre=True, transductive=transductive
    )
    assert len(parts.split(9, 1)) == 8
    found, expected = everything(case), everything(case, "autograd")
    assert max(differences(found, expected).values()) < 1e-10


@pytest.mark.usefixtures("small_parts")
def test_results_have_the_same_bits_on_any_number_of_threads_and_next_to_other_tasks(make_case):
    case = make_case([12, 15], query=40, head=True, dtype=torch.float32)
    expected = everything(case)
    before = torch.get_num_threads()
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)  # the operators around the kernels would use them
            assert_same_bits(everything(case), expected)
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    for workers in (1, 2, 3):
        assert_same_bits(map_tasks(lambda _: everything(case), [0], workers)[0], expected)
    for found in map_tasks(lambda _: everything(case), range(3), workers=2):
        assert_same_bits(found, expected)


def test_statistics_of_parts_with_different_pivots_combine_to_those_of_all():
    y = np.random.Generator(np.random.Philox(0)).normal(50, 2, size=(90, 4)).astype(np.float32)
    given = []
    for part, c in ((y[:20], 49.0), (y[20:60], 53.0), (y[60:], 48.0)):
        apart = part.astype(np.float64) - c
        given.append(
            (len(part), np.full(4, c, np.float32), np.stack([apart.sum(0), (apart**2).sum(0)]))
        )
    mean, variance = numba_ops._mean_and_variance(given)
    assert np.allclose(mean, y.mean(0, np.float64), rtol=1e-13)
    assert np.allclose(variance, y.astype(np.float64).var(0), rtol=1e-11)
