"""Every gradient method by the engine and by autograd: the same numbers in every mode."""

import logging

import pytest
import torch
from support import make_method, make_task

from anyshot.inner_loop import fallback
from anyshot.methods import METHODS, GradientMethod
from anyshot.training.meta_training import task_gradients

GRADIENT_METHODS = [name for name in METHODS if issubclass(METHODS[name], GradientMethod)]


def both_ways(method, compute):
    results = []
    for method.engine in ("engine", "autograd"):
        results.append(compute(method))
    return results


@pytest.mark.parametrize("transductive", [True, False])
@pytest.mark.parametrize("name", GRADIENT_METHODS)
def test_objective_and_gradients_are_the_same_by_the_engine_and_by_autograd(
    name, transductive, caplog, monkeypatch
):
    monkeypatch.setattr(fallback, "_logged_reasons", set())
    method, task = (
        make_method(name, alpha=0.1, deviation=0.1, transductive=transductive),
        make_task(),
    )
    with caplog.at_level(logging.INFO):
        (left, info), (right, expected) = both_ways(method, lambda m: task_gradients(m, task))
    assert info == pytest.approx(expected, rel=1e-10, abs=1e-12)
    for (key, _), a, b in zip(method.named_parameters(), left, right, strict=True):
        assert (a - b).abs().max() <= 1e-10 * b.abs().max(), key
    assert "Falling back to autograd" not in caplog.text


@pytest.mark.parametrize("name", GRADIENT_METHODS)
def test_predictions_are_the_same_by_the_engine_and_by_autograd(name):
    method, task = make_method(name, alpha=0.1, deviation=0.1), make_task()
    left, right = both_ways(method, lambda m: m.predict(task))
    torch.testing.assert_close(left, right, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("engine", ["engine", "autograd"])
@pytest.mark.parametrize("name", METHODS)
def test_every_method_predicts_inside_inference_mode(name, engine):
    method, task = make_method(name, alpha=0.1), make_task()
    method.engine = engine
    expected, images = method.predict(task), method.to_input(task.query)
    with torch.inference_mode():
        classify = method.adapt(task.support, task.support_labels, task.noise())
        assert torch.equal(classify(task.query), expected)
        assert torch.equal(classify(images * 1.0), expected)  # an inference tensor
        loss = method.objective(task).loss
    assert not loss.requires_grad
    torch.testing.assert_close(loss, method.objective(task).loss.detach(), rtol=1e-12, atol=0)
    assert torch.equal(classify(task.query), expected)  # what was made inside serves outside
