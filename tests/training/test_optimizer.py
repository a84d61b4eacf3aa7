import pytest
import torch
from support import make_method

from anyshot.core.settings import TrainSettings
from anyshot.training.optimizer import Optimizer, learning_rate_factor


def ones(method) -> list[torch.Tensor]:
    return [torch.ones_like(p) for p in method.parameters()]


def test_the_learning_rate_falls_by_half_a_cosine_with_a_factor_for_each_parameter():
    method = make_method("meta-sgd", alpha=0.05, alpha_head=1.0)
    made, rates = (
        Optimizer(method, TrainSettings(iterations=6, decay="cosine", rate=0.1, body_rate=0.2)),
        [],
    )
    names = [name for name, _ in method.named_parameters()]
    for i in range(6):
        made.step(ones(method), i)
        rates.append(dict(zip(names, (g["lr"] for g in made.adam.param_groups), strict=True)))
    shape = [1, 0.5 + 3**0.5 / 4, 0.75, 0.5, 0.25, 0.5 - 3**0.5 / 4]
    for name, factor in {
        "theta.conv1_weight": 0.2,
        "shift.3": 0.2,
        "rate.conv1_weight": 5,
        "rate.head_bias": 10,
    }.items():
        assert [r[name] for r in rates] == pytest.approx([0.1 * factor * share for share in shape])


def test_without_decay_the_learning_rate_is_constant():
    assert [learning_rate_factor(TrainSettings(iterations=3), i) for i in range(3)] == [1, 1, 1]


@pytest.mark.parametrize(
    ("gradient", "clipped"), [(2.0, 0.5), (0.25, 0.25), (-0.25, -0.25), (-2.0, -0.5)]
)
def test_gradients_are_clipped_element_by_element_on_both_sides(gradient, clipped):
    method = make_method("maml")
    gradients = [gradient * one for one in ones(method)]
    gradients[0].view(-1)[0] = 0.125
    Optimizer(method, TrainSettings(clip=0.5)).step(gradients, 0)
    first, *others = (p.grad for p in method.parameters())
    assert first.view(-1)[0] == 0.125
    assert (first.view(-1)[1:] == clipped).all()
    assert all((grad == clipped).all() for grad in others)


def test_the_saved_state_determines_the_next_step():
    settings, start = TrainSettings(rate=0.1), make_method("meta-sgd")
    whole = Optimizer(start, settings)
    whole.step(ones(start), 0)
    again = Optimizer(make_method("meta-sgd", seed=1), settings)
    again.load({name: value.clone() for name, value in whole.state_tensors().items()})
    for one in (whole, again):
        one.step([p.detach().sin() for p in one.method.parameters()], 1)
    found, expected = again.state_tensors(), whole.state_tensors()
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in found)
    assert {name.split(".")[0] for name in found} == {"method", "adam"}
