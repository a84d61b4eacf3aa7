"""Inner loops of any module and loss: exact against plain autograd, with flat memory."""

from __future__ import annotations

import copy
import gc
import re
import weakref
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from anyshot.core.errors import SettingsError
from anyshot.core.parallel.threads import map_tasks
from anyshot.inner_loop.functional import call_module, loss_gradient
from anyshot.inner_loop.second_order import products, trace


class Attention(nn.Module):
    """A small vision transformer: patches, one encoder layer, a linear head."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 4, stride=4)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        tokens = self.patches(x).flatten(2).transpose(1, 2)
        return self.head(self.layer(tokens).mean(1))


class Residual(nn.Module):
    """Convolutions, batch norm with running averages, group norm and a shortcut."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.second = nn.Conv2d(4, 4, 3, padding=1)
        self.group = nn.GroupNorm(2, 4)
        self.gain = nn.Parameter(torch.tensor(0.5))
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        x = F.elu(self.norm(self.first(x)))
        x = x + self.gain * F.elu(self.group(self.second(x)))
        return self.head(x.mean((2, 3)))


def multilayer():
    return nn.Sequential(
        nn.Flatten(), nn.Linear(192, 6), nn.LayerNorm(6), nn.Tanh(), nn.Linear(6, 3)
    )


MODULES = {"attention": Attention, "residual": Residual, "layer norm": multilayer}


def make_problem(build):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = build().double()
        images = torch.rand(9, 3, 8, 8, dtype=torch.float64)
    labels = torch.arange(9) % 3
    weights = torch.full((5,), 0.2, dtype=torch.float64, requires_grad=True)
    return module, images, labels, weights


def support_loss(module):
    def loss(theta, images, labels, weights):
        losses = F.cross_entropy(call_module(module, theta, images), labels, reduction="none")
        return weights @ losses

    return loss


def plain_gradient(loss, theta, *inputs):
    """The same by autograd through all steps."""
    value = loss(theta, *inputs)
    g = torch.autograd.grad(value, list(theta.values()), create_graph=True, materialize_grads=True)
    return dict(zip(theta, g, strict=True)), value


def sgd(theta, gradient, rates):
    for rate in rates:
        g, _ = gradient(theta)
        theta = {name: value - rate * g[name] for name, value in theta.items()}
    return theta


def adam(theta, gradient, rates):
    first = dict.fromkeys(theta, 0.0)
    second = dict.fromkeys(theta, 0.0)
    for k, rate in enumerate(rates, 1):
        g, _ = gradient(theta)
        first = {n: 0.9 * first[n] + 0.1 * g[n] for n in theta}
        second = {n: 0.99 * second[n] + 0.01 * g[n] ** 2 for n in theta}
        theta = {
            n: value
            - rate * (first[n] / (1 - 0.9**k)) / ((second[n] / (1 - 0.99**k) + 1e-6).sqrt() + 1e-3)
            for n, value in theta.items()
        }
    return theta


@pytest.mark.parametrize("rule", [sgd, adam])
@pytest.mark.parametrize("build", MODULES.values(), ids=MODULES)
def test_meta_gradients_equal_plain_autograd(build, rule):
    module, images, labels, weights = make_problem(build)
    module.train()
    buffers = {name: value.clone() for name, value in module.named_buffers()}
    rates = torch.tensor([0.1, 0.2, 0.05], dtype=torch.float64, requires_grad=True)
    start = dict(module.named_parameters())
    loss = support_loss(module)
    found = []
    for function in (loss_gradient, plain_gradient):
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            theta = rule(
                start, lambda t, f=function: f(loss, t, images[:5], labels[:5], weights), rates
            )
            query = F.cross_entropy(call_module(module, theta, images[5:]), labels[5:])
            found.append([query, *torch.autograd.grad(query, [*start.values(), rates, weights])])
    for left, right in zip(*found, strict=True):
        assert (left - right).abs().max() <= 1e-10 * right.abs().max().clamp_min(1e-3)
    assert all(torch.equal(value, buffers[name]) for name, value in module.named_buffers())


class InPlace(nn.Module):
    """Activations that overwrite the outputs of convolutions and linear layers; tied weights."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3, padding=1)
        self.second = nn.Conv2d(4, 4, 3, padding=1)
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        x = F.elu(self.first(x), inplace=True)
        x = self.second(self.second(x)).tanh_()
        return self.head(x.mean((2, 3))).mul_(2)


def use_value_only(g, value):
    return 3 * value


def use_gradient_only(g, value):
    return sum(one.square().sum() for one in g.values())


def use_both(g, value):
    return 3 * value + use_gradient_only(g, value)


@pytest.mark.parametrize("use", [use_value_only, use_gradient_only, use_both])
@pytest.mark.parametrize("kept", [0, 100, 1 << 20])
def test_kept_products_change_nothing(kept, use, monkeypatch):
    monkeypatch.setattr(trace, "KEPT_BYTES", kept)
    module, images, labels, weights = make_problem(InPlace)
    start = dict(module.named_parameters())
    wanted = [*start.values(), weights, images.requires_grad_()]
    found = []
    for function in (loss_gradient, plain_gradient):
        g, value = function(support_loss(module), start, images[:5], labels[:5], weights)
        total = use(g, value)
        once = torch.autograd.grad(total, wanted, retain_graph=True)
        again = torch.autograd.grad(total, wanted)  # what was kept is used up
        assert all(torch.equal(*pair) for pair in zip(once, again, strict=True))
        found.append(once)
    for left, right in zip(*found, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-10, atol=1e-12)


def test_a_loss_that_computes_gradients_itself():
    module, images, labels, _ = make_problem(InPlace)
    start = dict(module.named_parameters())

    def penalised(theta, images, labels):
        value = F.cross_entropy(call_module(module, theta, images), labels)
        slopes = torch.autograd.grad(value, list(theta.values()), create_graph=True)
        return value + sum(slope.square().sum() for slope in slopes)

    found = []
    for function in (loss_gradient, plain_gradient):
        theta = sgd(start, lambda t, f=function: f(penalised, t, images[:5], labels[:5]), [0.1] * 2)
        query = F.cross_entropy(call_module(module, theta, images[5:]), labels[5:])
        found.append(torch.autograd.grad(query, list(start.values())))
    for left, right in zip(*found, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-9, atol=1e-11)


def test_kept_products_are_used_and_limited_in_memory(monkeypatch):
    calls = []
    linear = products.Linear.output
    monkeypatch.setattr(products.Linear, "output", lambda *a: calls.append(1) or linear(*a))
    net = nn.Linear(4, 4, bias=False)
    theta = {"weight": net.weight.detach().requires_grad_()}
    x = torch.rand(5, 4)

    def run(kept):
        monkeypatch.setattr(trace, "KEPT_BYTES", kept)
        at, held = theta, []
        for _ in range(3):
            g, _ = loss_gradient(lambda t, x: call_module(net, t, x).exp().sum(), at, x)
            at = {"weight": at["weight"] - 0.01 * g["weight"]}
            held = [ref() for ref in trace._thread.kept if ref() is not None]
        calls.clear()
        assert sum(one.bytes for one in held) <= kept
        at["weight"].sum().backward()
        return len(calls)

    # An output has 80 bytes. Second derivatives call it once more for each step.
    assert [run(kept) for kept in (0, 80, 160, 240)] == [6, 5, 4, 3]


def test_products_of_many_multiplications_are_kept_before_others_and_later_steps_before_earlier():
    def evaluation(costs):
        kept = trace.Kept()
        for number, cost in enumerate(costs):
            kept[number, "output"] = trace._Result(torch.zeros(10), 0, cost)  # 40 bytes
        return kept

    latest, earlier = evaluation([5, 9, 2]), evaluation([5, 9, 2])
    left = []
    for limit in (200, 160, 120, 80, 40, 0):
        trace.drop_cheapest([latest, earlier], limit)
        left.append([[r.cost for r in kept.values()] for kept in (latest, earlier)])
    assert left == [
        [[5, 9, 2], [5, 9]],
        [[5, 9], [5, 9]],
        [[5, 9], [9]],
        [[9], [9]],
        [[9], []],
        [[], []],
    ]


@pytest.mark.parametrize("tied", ["layer", "weight"])
def test_layers_may_be_shared_and_the_module_keeps_its_own_parameters(tied):
    layer, other = nn.Linear(3, 3), nn.Linear(3, 3)
    other.weight = layer.weight
    net = nn.Sequential(layer, nn.Tanh(), layer if tied == "layer" else other)
    own = {name: id(p) for name, p in net.named_parameters(remove_duplicate=False)}
    theta = {name: 2 * p for name, p in net.named_parameters()}
    x = torch.rand(4, 3)
    found = call_module(net, theta, x)
    assert {n: id(p) for n, p in net.named_parameters(remove_duplicate=False)} == own
    last = theta["0.bias"] if tied == "layer" else theta["2.bias"]
    hidden = F.linear(x, theta["0.weight"], theta["0.bias"]).tanh()
    torch.testing.assert_close(found, F.linear(hidden, theta["0.weight"], last))


def test_fused_attention_is_replaced_and_restored():
    module, images, labels, weights = make_problem(Attention)
    before = torch.backends.cuda.flash_sdp_enabled()
    theta = dict(module.named_parameters())
    loss = support_loss(module)

    def run(_):
        g, _ = loss_gradient(loss, theta, images[:5], labels[:5], weights)
        total = sum(value.square().sum() for value in g.values())
        return torch.autograd.grad(total, list(theta.values()), allow_unused=True)

    results = map_tasks(run, range(4), workers=2)
    for result in results[1:]:
        for left, right in zip(result, results[0], strict=True):
            assert (left is None and right is None) or torch.equal(left, right)
    assert torch.backends.cuda.flash_sdp_enabled() == before


def test_any_loss_regression_included():
    net = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1)).double()
    x = torch.linspace(-1, 1, 7, dtype=torch.float64)[:, None]
    y = x.sin().requires_grad_()  # the targets get a meta-gradient, too
    start = dict(net.named_parameters())

    def loss(theta, batch):
        return F.huber_loss(call_module(net, theta, batch["x"]), batch["y"])

    found = []
    for function in (loss_gradient, plain_gradient):
        theta = sgd(start, lambda t, f=function: f(loss, t, {"x": x, "y": y}), [0.1] * 4)
        value = call_module(net, theta, x).square().mean()
        found.append(torch.autograd.grad(value, [*start.values(), y]))
    for left, right in zip(*found, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-10, atol=1e-12)


def test_without_gradients_the_gradient_is_a_constant():
    module, images, labels, weights = make_problem(multilayer)
    theta = dict(module.named_parameters())
    expected, value = plain_gradient(support_loss(module), theta, images[:5], labels[:5], weights)
    with torch.no_grad():
        g, found = loss_gradient(support_loss(module), theta, images[:5], labels[:5], weights)
    assert torch.equal(found, value)
    for name, right in expected.items():
        assert not g[name].requires_grad
        assert torch.equal(g[name], right)


class ElementaryNorm(nn.LayerNorm):
    """Layer norm by elementary operators: third derivatives of torch's own operator are wrong."""

    def forward(self, x):
        centred = x - x.mean(-1, keepdim=True)
        variance = centred.square().mean(-1, keepdim=True)
        return centred * (variance + self.eps) ** -0.5 * self.weight + self.bias


def test_third_derivatives_equal_plain_autograd_with_elementary_operators():
    module, images, labels, weights = make_problem(multilayer)
    elementary = copy.deepcopy(module)
    elementary[2].__class__ = ElementaryNorm
    start = dict(module.named_parameters())
    names = list(start)
    found = []
    for function, net in ((loss_gradient, module), (plain_gradient, elementary)):
        g, _ = function(support_loss(net), start, images[:5], labels[:5], weights)
        penalty = sum(value.square().sum() for value in g.values())
        steps = torch.autograd.grad(penalty, list(start.values()), create_graph=True)
        total = sum(step.square().sum() for step in steps)
        found.append(torch.autograd.grad(total, [*start.values(), weights]))
    for name, left, right in zip([*names, "weights"], *found, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-10, atol=1e-12, msg=name)


def test_a_loss_may_contain_gradients():
    module, images, labels, weights = make_problem(Residual)
    start = dict(module.named_parameters())

    def loss(theta, images, labels, weights):
        value = support_loss(module)(theta, images, labels, weights)
        weights = [theta["first.weight"], theta["head.weight"]]
        g = torch.autograd.grad(value, weights, create_graph=True)
        return value + sum(t.square().sum() for t in g)

    module.eval()  # third derivatives of torch's batch norm are wrong
    found = []
    for function in (loss_gradient, plain_gradient):
        theta = sgd(
            start, lambda t, f=function: f(loss, t, images[:5], labels[:5], weights), [0.1, 0.1]
        )
        value = sum(t.square().sum() for t in theta.values())
        found.append(torch.autograd.grad(value, [*start.values(), weights]))
    for left, right in zip(*found, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-10, atol=1e-12)


def test_dropout_draws_the_same_numbers_in_the_backward_pass():
    net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Tanh(), nn.Linear(8, 1)).double()
    x = torch.linspace(-1, 1, 20, dtype=torch.float64).view(5, 4)
    start = dict(net.named_parameters())

    def loss(theta, x):
        return call_module(net, theta, x).square().mean()

    found = []
    for function in (loss_gradient, plain_gradient):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3)
            theta = sgd(start, lambda t, f=function: f(loss, t, x), [0.3] * 3)
            after = torch.rand(1)
            value = sum(t.square().sum() for t in theta.values())
            torch.manual_seed(99)  # the backward pass must not depend on this
            found.append([*torch.autograd.grad(value, list(start.values())), after])
    for left, right in zip(*found, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-10, atol=1e-12)


def test_a_captured_tensor_that_requires_a_gradient_is_an_error():
    module, images, labels, weights = make_problem(multilayer)
    scale = torch.ones(17, requires_grad=True).double()

    def loss(theta, images, labels):
        scores = call_module(module, theta, images) * scale.sum()
        return F.cross_entropy(scores, labels)

    with pytest.raises(SettingsError, match="17"):
        loss_gradient(loss, dict(module.named_parameters()), images, labels)
    head = {name: value for name, value in module.named_parameters() if name.startswith("4.")}
    with pytest.raises(SettingsError, match="inputs"):  # the body's own parameters are captured
        loss_gradient(support_loss(module), head, images[:5], labels[:5], weights)


def test_a_loss_that_is_not_a_scalar_is_an_error():
    with pytest.raises(SettingsError, match=r"\[3\]"):
        loss_gradient(lambda theta: theta["x"], {"x": torch.ones(3)})


def test_torch_func_transforms_work():
    module, images, labels, weights = make_problem(multilayer)
    start = {name: value.detach() for name, value in module.named_parameters()}
    loss = support_loss(module)

    def step(images):
        return loss_gradient(loss, start, images, labels[:5], weights.detach())[0]

    found = torch.func.vmap(step)(torch.stack([images[:5], images[4:]]))
    for name, value in step(images[4:]).items():
        torch.testing.assert_close(found[name][1], value, rtol=1e-10, atol=1e-12)


class Spy(nn.Module):
    """Remembers its activations weakly, and how many are alive at each call."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.alive = []
        self.most = 0

    def forward(self, x):
        gc.collect()
        self.most = max(self.most, sum(ref() is not None for ref in self.alive))
        hidden = self.layer(x).tanh()
        self.alive.append(weakref.ref(hidden))
        return hidden


@pytest.mark.parametrize(("function", "flat"), [(loss_gradient, True), (plain_gradient, False)])
def test_the_activations_of_only_one_step_are_alive_at_a_time(function, flat):
    spy = Spy()
    start = dict(spy.named_parameters())
    x = torch.rand(5, 4)

    def loss(theta, x):
        return call_module(spy, theta, x).square().mean()

    theta = sgd(start, lambda t: function(loss, t, x), [0.1] * 6)
    gc.collect()
    kept = sum(ref() is not None for ref in spy.alive)
    assert (kept == 0) if flat else (kept >= 6)
    sum(t.square().sum() for t in theta.values()).backward()
    assert (spy.most <= 1) == flat


@pytest.mark.parametrize(("page", "count"), [("any_module.md", 1), ("coming_from.md", 6)])
def test_the_examples_of_the_docs_run(page, count):
    text = (Path(__file__).parents[2] / "docs" / page).read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    examples = [block for block in blocks if "anyshot." in block and "from_module" not in block]
    assert len(examples) == count
    scope = {"__name__": "docs"}
    with torch.random.fork_rng(devices=[]):
        for example in examples:
            exec(example, scope)
            network = scope["net"]
            assert all(p.grad is not None and p.grad.isfinite().all() for p in network.parameters())
            assert any(p.grad.any() for p in network.parameters())
    if "rates" in scope:
        assert all(rate.grad.any() for rate in scope["rates"].values())
    if "rate" in scope:
        assert scope["rate"].item() != pytest.approx(0.01, rel=1e-6)


def test_a_name_that_the_module_does_not_have_is_refused():
    net = nn.Sequential(nn.Linear(2, 1))
    with pytest.raises(SettingsError, match=r"no parameter '0.wieght'; did you mean '0.weight'"):
        call_module(net, {"0.wieght": torch.ones(1, 2)}, torch.ones(3, 2))


def test_a_loss_or_parameters_of_another_type_are_refused():
    theta = {"x": torch.ones(2)}
    with pytest.raises(SettingsError, match=r"The loss is 3.0; expected"):
        loss_gradient(lambda theta: 3.0, theta)
    with pytest.raises(SettingsError, match=r"theta is a dict_values; expected"):
        loss_gradient(lambda theta: theta["x"].sum(), theta.values())
