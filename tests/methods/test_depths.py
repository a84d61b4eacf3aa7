"""Methods whose head sees several depths of a frozen body."""

import pytest
import torch
from support import make_method, make_task

from anyshot.methods.balancing import apply_gamma, gamma_names

METHODS = ("maml", "meta-sgd", "taml", "proto-maml", "anil")


def make_deep(name: str, **options):
    return make_method(name, body="conv4-depths", adapt_body=False, alpha_head=0.1, **options)


@pytest.mark.parametrize("name", METHODS)
def test_a_frozen_body_gives_the_loss_of_a_body_with_learning_rate_zero(name):
    task = make_task(1)
    frozen = make_deep(name, alpha=0.0)
    whole = make_method(name, body="conv4-depths", alpha=0.0, alpha_head=0.1)
    shared = {k: v for k, v in frozen.state_dict().items() if "gamma" not in k}
    whole.load_state_dict(shared, strict=False)
    if name == "taml":  # γ̃ of the body's layers does not exist in a frozen body
        for method in (frozen, whole):
            method.encoder.heads["gamma"][2].weight.data.zero_()
            method.encoder.heads["gamma"][2].bias.data.zero_()
    noise = (torch.Generator().manual_seed(0) for _ in range(2))
    options = {"prediction": "naive"}
    actual = frozen.predict(task, next(noise), **options)
    torch.testing.assert_close(actual, whole.predict(task, next(noise), **options))


@pytest.mark.parametrize("name", METHODS)
def test_meta_gradients_reach_the_head_but_are_finite_everywhere(name):
    method = make_deep(name, evidence=True, head="shrunk-prototypes")
    objective = method.objective(make_task(2))
    (objective.loss + objective.penalty).backward()
    gradients = {n: p.grad for n, p in method.named_parameters() if p.grad is not None}
    assert all(torch.isfinite(g).all() for g in gradients.values())
    expected = {"maml": "theta", "proto-maml": "theta", "anil": "theta"}.get(name, "rate.head")
    assert any(g.abs().max() > 0 for n, g in gradients.items() if n.startswith(expected))


def test_each_part_of_the_head_has_its_own_gamma():
    method = make_deep("taml")
    assert gamma_names(method.body, False) == ("conv 3", "conv 4 unpooled", "conv 4")
    gamma = torch.tensor([0.1, -0.2, 0.4]).double()
    rates = apply_gamma(method.rates(), {"gamma": gamma}, method.body, False)
    widths = list(method.body.head_parts.values())
    ratio = (rates["head_weight"] / method.rates()["head_weight"]).log()[0].split(widths)
    for part, value in zip(ratio, gamma, strict=True):
        torch.testing.assert_close(part, value.expand_as(part))
    bias = (rates["head_bias"] / method.rates()["head_bias"]).log()
    torch.testing.assert_close(bias, gamma.mean()[None])


def test_the_evidence_changes_gamma_but_not_omega():
    method, task = make_deep("taml", evidence=True), make_task(3)
    support, labels, *_ = method.task_tensors(task)
    with torch.no_grad():
        before = method.posterior(support, labels, task.way).mean
        for parameter in method.theta.values():  # other features of the same images
            parameter.copy_(torch.randn_like(parameter))
        after = method.posterior(support, labels, task.way).mean
    assert not torch.allclose(before["gamma"], after["gamma"])
    torch.testing.assert_close(before["omega"], after["omega"])


def test_one_image_alone_gets_the_answer_that_it_gets_among_others():
    method, task = make_deep("taml", transductive=False, zooms=(0.8,)), make_task(4)
    predictor = method.adapt(task.support, task.support_labels)
    torch.testing.assert_close(predictor(task.query)[:1], predictor(task.query[:1]))
