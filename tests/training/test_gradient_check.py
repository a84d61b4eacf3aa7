from __future__ import annotations

import logging

import pytest
import torch
from support import make_imageset
from tiny_runs import tiny, train_tiny

from anyshot.methods import create_method
from anyshot.training.gradient_check import (
    FIRST_ITERATIONS,
    SILENT_ITERATIONS,
    GradientCheck,
)

BOIL = """
from anyshot.methods import MAML
from anyshot.models.network import HEAD_PARAMETERS

class BOIL(MAML):
    def rates(self):
        return {n: 0 * r if n in HEAD_PARAMETERS else r for n, r in super().rates().items()}
"""


@pytest.mark.parametrize("method", ["maml", "meta-sgd", "taml", "mt-net", "abml", "protonet"])
def test_a_method_that_learns_gives_no_warning(method, tmp_path, caplog):
    train_tiny(tiny(method, iterations=FIRST_ITERATIONS, validate_every=0), tmp_path)
    assert [r for r in caplog.records if r.levelno >= logging.WARNING] == []


@pytest.mark.parametrize("iterations", [2, FIRST_ITERATIONS + 1])
def test_a_method_without_meta_gradients_is_named_once(iterations, tmp_path, caplog):
    """BOIL with a zero head: the body gets no gradient, because the head never moves."""
    file = tmp_path / "boil.py"
    file.write_text(BOIL)
    settings = tiny(f"{file}:BOIL", iterations=iterations, validate_every=0)
    train_tiny(settings, tmp_path / "run")
    (warning,) = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert "theta.conv1_weight" in warning
    assert "all parameters" in warning


def test_a_single_parameter_without_gradient_is_named(caplog):
    method = create_method(tiny("maml").method, make_imageset().size)
    check = GradientCheck(method)
    gradients = [torch.ones_like(p) for p in method.parameters()]
    gradients[-1].zero_()
    name = [name for name, _ in method.named_parameters()][-1]
    check.add(gradients, last=True)
    assert f"1 of {len(check.silent)} parameters ({name})" in caplog.text
    check.add(gradients, last=True)
    assert len(caplog.records) == 1


def test_a_parameter_that_stops_learning_is_named_once(caplog):
    """The ReLUs of an encoder can become zero for all images in the middle of a run."""
    method = create_method(tiny("maml").method, make_imageset().size)
    check = GradientCheck(method)
    gradients = [torch.ones_like(p) for p in method.parameters()]
    for _ in range(FIRST_ITERATIONS + 1):
        check.add(gradients, last=False)
    gradients[-1].zero_()
    for _ in range(SILENT_ITERATIONS - 1):
        check.add(gradients, last=False)
    assert caplog.records == []
    for _ in range(2 * SILENT_ITERATIONS):
        check.add(gradients, last=False)
    (record,) = caplog.records
    name = [name for name, _ in method.named_parameters()][-1]
    assert f"({name}) in the last {SILENT_ITERATIONS} iterations" in record.getMessage()


def test_a_gradient_now_and_then_is_enough(caplog):
    method = create_method(tiny("maml").method, make_imageset().size)
    check = GradientCheck(method)
    gradients = [torch.ones_like(p) for p in method.parameters()]
    for iteration in range(3 * SILENT_ITERATIONS):
        gradients[-1].fill_(iteration % (SILENT_ITERATIONS - 1) == 0)
        check.add(gradients, last=False)
    assert caplog.records == []
