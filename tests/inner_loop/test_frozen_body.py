"""A frozen body: steps on the head alone are those of a body whose learning rates are 0."""

from dataclasses import replace

import pytest
import torch

import anyshot
from anyshot.core.random import torch_rng
from anyshot.inner_loop import InnerProblem, adapt, query_loss


def make_problem(transductive: bool, views: int, body_rate: float = 0.0) -> InnerProblem:
    rng = torch_rng(5)
    body = anyshot.create_body("conv4-depths", (16, 16), channels=4)
    theta = {name: value.double() for name, value in body.init_parameters(rng, "he").items()}
    head = {
        name: 0.1 * torch.randn(value.shape, generator=rng).double()
        for name, value in anyshot.zero_head(3, body.width, torch.zeros(())).items()
    }
    rates = {name: torch.tensor(body_rate).double() for name in theta}
    rates |= {name: torch.tensor(0.3).double() for name in head}
    images = [torch.rand(7, 3, 16, 16, generator=rng).double() for _ in range(max(views, 1))]
    norm = replace(
        body.norm(), shift=[0.1 * torch.ones_like(s).double() for s in body.norm().shift]
    )
    return InnerProblem(
        images=images[0],
        labels=torch.tensor([0, 0, 1, 1, 2, 2, 2]),
        weights=torch.rand(7, generator=rng).double(),
        theta={**theta, **head},
        rates=rates,
        norm=norm,
        steps=3,
        centre=True,
        transductive=transductive,
        body=body.features,
        views=tuple(images) if views else (),
    )


def queries() -> torch.Tensor:
    return torch.rand(5, 3, 16, 16, generator=torch_rng(6)).double()


@pytest.mark.parametrize("transductive", [True, False])
@pytest.mark.parametrize("views", [0, 2])
def test_scores_are_those_of_a_body_with_learning_rate_zero(transductive, views):
    whole = make_problem(transductive, views)
    frozen = whole.freeze_body()
    expected = whole.query_logits(adapt(whole), queries())
    torch.testing.assert_close(frozen.query_logits(adapt(frozen), queries()), expected)
    moved = make_problem(transductive, views, body_rate=0.3)
    assert not torch.allclose(moved.query_logits(adapt(moved), queries()), expected)


@pytest.mark.parametrize("transductive", [True, False])
def test_meta_gradients_are_those_of_a_body_with_learning_rate_zero(transductive):
    gradients = []
    for freeze in (False, True):
        problem = make_problem(transductive, views=0)
        parameters = [*problem.theta.values(), problem.rates["head_weight"], problem.weights]
        for parameter in parameters:
            parameter.requires_grad_()
        problem = problem.freeze_body() if freeze else problem
        loss, _ = query_loss(problem, queries(), torch.tensor([0, 1, 2, 0, 1]), engine="autograd")
        gradients.append(torch.autograd.grad(loss, parameters, materialize_grads=True))
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-9, atol=1e-12)
    assert gradients[0][0].abs().max() > 1e-6


def test_query_images_in_a_view_use_the_statistics_of_the_support_set_in_that_view():
    problem = make_problem(transductive=False, views=2)
    theta = adapt(problem.freeze_body())
    found = problem.freeze_body().at_view(1).query_logits(theta, queries())
    whole = {**problem.theta, **theta}
    torch.testing.assert_close(found, problem.at_view(1).query_logits(whole, queries()))
