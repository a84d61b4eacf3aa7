"""Relations between methods, and what holds for each: reductions, invariances, predictions."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from support import make_imageset, make_method, make_task
from torch.distributions import Gamma, Normal, kl_divergence

from anyshot.core.builtin_options import TAMLOptions
from anyshot.core.errors import CodeError, SettingsError
from anyshot.core.parallel.threads import map_tasks
from anyshot.core.random import torch_rng
from anyshot.core.settings import MethodSettings, TaskSettings
from anyshot.data.tasks import Task, TaskStream
from anyshot.inner_loop import adapt
from anyshot.methods import MAML, METHODS, abml, create_method
from anyshot.training.meta_training import task_gradients


# ---------------------------------------------------------------------- reductions
def test_taml_with_uniform_omega_gamma_one_and_z_zero_is_meta_sgd_exactly():
    task, taml, sgd = (
        make_task(),
        make_method("taml", alpha=0.1),
        make_method("meta-sgd", alpha=0.1),
    )
    sgd.load_state_dict({k: v for k, v in taml.state_dict().items() if not k.startswith("encoder")})
    x, y, _, _ = taml.task_tensors(task)
    neutral = {
        "omega": torch.zeros(3).double(),
        "gamma": torch.zeros(5).double(),
        "z": torch.zeros(32).double(),
    }
    for site in ("weight", "activation"):
        taml.options = TAMLOptions(z_site=site)
        a, b = (
            adapt(taml.inner_problem(x, y, 3, neutral, 5)),
            adapt(sgd.inner_problem(x, y, 3, {}, 5)),
        )
        assert all(torch.equal(a[name], b[name]) for name in b) or site == "activation"
        for name in b:
            torch.testing.assert_close(a[name], b[name], rtol=1e-12, atol=1e-12)


def test_meta_sgd_with_constant_steps_is_maml():
    task, maml, sgd = (
        make_task(),
        make_method("maml", alpha=0.1),
        make_method("meta-sgd", alpha=0.1),
    )
    sgd.load_state_dict(
        {
            **maml.state_dict(),
            **{k: torch.full_like(v, 0.1) for k, v in sgd.state_dict().items() if "rate" in k},
        }
    )
    torch.testing.assert_close(sgd.predict(task), maml.predict(task), rtol=1e-12, atol=1e-12)
    a, b = sgd.objective(task).loss, maml.objective(task).loss
    for name in ("conv1_weight", "conv4_weight"):
        torch.testing.assert_close(
            torch.autograd.grad(a, sgd.theta[name], retain_graph=True)[0],
            torch.autograd.grad(b, maml.theta[name], retain_graph=True)[0], rtol=1e-9, atol=1e-12,
        )  # fmt: skip


def test_proto_maml_without_steps_is_a_prototypical_network():
    task = make_task()
    proto, maml = make_method("protonet"), make_method("proto-maml", test_steps=0)
    maml.load_state_dict(proto.state_dict())
    torch.testing.assert_close(maml.predict(task), proto.predict(task))


def test_mt_net_with_all_channels_moving_and_no_mixing_is_maml():
    task, maml = make_task(), make_method("maml", alpha=0.1)
    mt_net = make_method("mt-net", alpha=0.1, zeta=50.0)
    with torch.no_grad():
        for name in mt_net.mixing:
            mt_net.mixing[name].copy_(torch.eye(4))
    mt_net.load_state_dict({**mt_net.state_dict(), **maml.state_dict()})
    torch.testing.assert_close(mt_net.predict(task), maml.predict(task))


# --------------------------------------------------------------------- invariances
def renamed(task: Task, new: torch.Tensor) -> Task:
    """Class c is now called new[c]."""
    return Task(
        task.support, new[task.support_labels], task.query, new[task.query_labels], seed=task.seed
    )


@pytest.mark.parametrize("name", METHODS)
@given(seed=st.integers(0, 10_000), way=st.integers(2, 4))
@settings(max_examples=8)
def test_permuting_classes_permutes_probabilities(name, seed, way):
    method, task = make_method(name, alpha=0.1), make_task(seed, way)
    if name == "mt-net":  # the mask is noise, drawn class by class: let it be all ones
        torch.nn.init.constant_(method.zeta["head_weight"], 50.0)
    with pytest.MonkeyPatch.context() as patch:
        if name == "abml":  # likewise its weights: let there be no noise
            patch.setattr(
                abml,
                "draw_noise",
                lambda q, noise: {
                    n: torch.zeros_like(q[f"mean {n}"]) for n in abml.parameter_names(q)
                },
            )
        new = torch.randperm(way, generator=torch_rng(seed))
        p = method.predict(task, torch_rng(0), prediction="naive")
        q = method.predict(renamed(task, new), torch_rng(0), prediction="naive")
    torch.testing.assert_close(q[:, new], p, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", METHODS)
@given(seed=st.integers(0, 10_000))
@settings(max_examples=8)
def test_the_order_of_support_images_changes_nothing(name, seed):
    method, task = make_method(name, alpha=0.1), make_task(seed)
    order = torch.randperm(len(task), generator=torch_rng(seed))
    shuffled = Task(
        task.support[order],
        task.support_labels[order],
        task.query,
        task.query_labels,
        seed=task.seed,
    )
    torch.testing.assert_close(method.predict(shuffled), method.predict(task), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", METHODS)
@given(neighbours=st.lists(st.integers(0, 1000), max_size=3), workers=st.integers(1, 3))
@settings(max_examples=5)
def test_a_tasks_result_does_not_depend_on_its_neighbours(name, neighbours, workers):
    method, task = make_method(name, torch.float32, alpha=0.05), make_task(1)
    (alone, info), = map_tasks(lambda t: task_gradients(method, t), [task], 1)  # fmt: skip
    batch = [make_task(i) for i in neighbours] + [task]
    gradients, again = map_tasks(lambda t: task_gradients(method, t), batch, workers, size=len)[-1]
    assert again == info
    assert all(torch.equal(a, b) for a, b in zip(alone, gradients, strict=True))


@pytest.mark.parametrize("name", METHODS)
def test_equal_seeds_give_equal_numbers_and_others_do_not(name):
    task = make_task(2)
    first, second = (make_method(name, alpha=0.1).predict(task) for _ in range(2))
    assert torch.equal(first, second)
    assert not torch.equal(first, make_method(name, alpha=0.1, seed=1).predict(task))


@pytest.mark.parametrize("name", METHODS)
def test_any_way_at_test_time_and_classes_of_one_image(name):
    method = create_method(MethodSettings(name=name, test_steps=2), (16, 16))
    for way in (2, 4):
        settings = TaskSettings(way=way, shots="fixed:1", query=2)
        p = method.predict(TaskStream(make_imageset(), "test", settings).task(0))
        assert p.shape == (2 * way, way)
        torch.testing.assert_close(p.sum(1), torch.ones(2 * way))
        assert not p.requires_grad


# --------------------------------------------------------------------- predictions
def certain(method) -> None:
    """σ → 0: the second half of each output is softplus's input."""
    with torch.no_grad():
        for head in method.encoder.heads.values():
            last = head[-1]
            half = len(last.bias) // 2
            last.weight[half:] = 0
            last.bias[half:] = -60.0


def test_mc_prediction_without_uncertainty_is_the_naive_one():
    method, task = make_method("taml", alpha=0.1), make_task()
    assert (method.predict(task) - method.predict(task, prediction="naive")).abs().max() > 1e-6
    certain(method)
    torch.testing.assert_close(method.predict(task), method.predict(task, prediction="naive"))


def test_mc_prediction_averages_the_softmax_of_each_sample():
    method, task = make_method("taml", alpha=0.1), make_task()
    x, y, xq, _ = method.task_tensors(task)
    noise, parts = task.noise(), []
    q = method.posterior(x, y, task.way)
    for _ in range(3):
        inner = method.inner_problem(x, y, task.way, q.sample(noise), 10)
        parts.append(inner.query_logits(adapt(inner), xq).softmax(1))
    torch.testing.assert_close(method.predict(task), torch.stack(parts).mean(0))


def test_the_objective_is_query_loss_plus_kl_over_all_images():
    method, task = make_method("taml", alpha=0.1), make_task()
    x, y, _, _ = method.task_tensors(task)
    q, images = method.posterior(x, y, task.way), len(task) + len(task.query)
    torch.testing.assert_close(method.objective(task).penalty, q.kl() / images)
    method.options = TAMLOptions(bayesian=False)
    torch.testing.assert_close(
        method.objective(task).penalty, 0.5 * sum((m**2).sum() for m in q.mean.values()) / images
    )


def test_the_elbo_equals_its_monte_carlo_estimate():
    """E[objective] = E[−log p(query | φ) + (log q(φ) − log p(φ)) / (N + M)]."""
    method, task = make_method("taml", alpha=0.1, steps=1), make_task()
    x, y, xq, yq = method.task_tensors(task)
    q, images = method.posterior(x, y, task.way), len(task) + len(task.query)
    differences = []
    with torch.no_grad():
        for i in range(300):
            phi = q.sample(torch_rng(i))
            ratio = sum(
                (Normal(q.mean[k], q.deviation[k]).log_prob(v) - Normal(0.0, 1.0).log_prob(v)).sum()
                for k, v in phi.items()
            )
            inner = method.inner_problem(x, y, task.way, phi, 1)
            theta = adapt(inner, "autograd")
            fit = -inner.query_logits(theta, xq).log_softmax(1)[torch.arange(len(yq)), yq].mean()
            o = method.objective(task, torch_rng(i))
            differences.append((o.loss + o.penalty) - (fit + ratio / images))
    d = torch.stack(differences)
    assert abs(d.mean()) < 4 * d.std() / len(d) ** 0.5
    assert d.std() > 0


def test_switching_every_variable_off_leaves_meta_sgd():
    method = make_method("taml", balance=())
    o = method.objective(make_task())
    assert method.encoder is None
    assert o.penalty == 0


@pytest.mark.parametrize("name", ["maml", "meta-sgd", "mt-net", "protonet", "proto-maml"])
def test_methods_without_a_posterior_have_no_penalty(name):
    o = make_method(name).objective(make_task())
    assert (o.penalty, o.kl) == (0, 0)


@pytest.mark.parametrize("name", ["maml", "meta-sgd", "protonet", "taml"])
def test_the_objectives_accuracy_is_that_of_the_prediction_after_as_many_steps(name):
    method, task = make_method(name, alpha=0.1, bayesian=False, steps=3, test_steps=3), make_task()
    right = method.predict(task).argmax(1) == task.query_labels
    assert method.objective(task).accuracy == pytest.approx(right.double().mean().item())
    assert right.double().mean() != 0.5  # or the share of wrong ones would do


@pytest.mark.parametrize("name", ["taml", "abml", "mt-net"])
def test_noise_is_the_tasks_own_unless_it_is_given(name):
    method, task = make_method(name, alpha=0.1, deviation=0.3), make_task()
    for use in (method.predict, lambda *noise: method.objective(*noise).loss.detach()):
        assert torch.equal(use(task), use(task, task.noise()))
        assert not torch.equal(use(task), use(task, torch_rng(9)))


@pytest.mark.parametrize("path", ["collections:OrderedDict", "math:sqrt"])
def test_object_that_is_not_a_method_is_refused(path):
    with pytest.raises(CodeError, match=path):
        create_method(MethodSettings(name=path))


@pytest.mark.parametrize("settings", ["maml", None, {"name": "maml"}, MethodSettings])
def test_create_method_refuses_what_is_not_method_settings(settings):
    with pytest.raises(SettingsError, match=r"MethodSettings\(name='maml'\)"):
        create_method(settings)


def test_switches_reach_the_inner_problem():
    task = make_task(shots="class-imbalance:1-6")
    for switch in (False, True):
        method = make_method(
            "meta-sgd", centre=switch, class_mean=switch, transductive=switch, test_steps=7
        )
        x, y, _, _ = method.task_tensors(task)
        inner = method.inner_problem(x, y, task.way, {}, 4)
        assert (inner.centre, inner.transductive, inner.steps) == (switch, switch, 4)
        shares = torch.bincount(y, inner.weights, minlength=task.way)
        expected = (
            torch.ones(task.way) if switch else torch.tensor(task.shots) * task.way / len(task)
        )
        torch.testing.assert_close(shares, expected.double() / task.way)
        assert (method.embed(x).mean(0).abs().max() < 1e-12) == switch
        assert method.means_head is None


# ---------------------------------------------------------------------------- ABML
def test_abmls_kl_and_hyperprior_equal_torchs():
    method = make_method("abml", deviation=0.2)
    x, y, _, _ = method.task_tensors(make_task())
    inner, prior, q = method.run_inner_loop(x, y, torch_rng(0), 3, 1)
    softplus = torch.nn.functional.softplus
    exact = sum(
        kl_divergence(
            Normal(q[f"mean {n}"], softplus(q[f"rho {n}"])),
            Normal(prior[f"mean {n}"], softplus(prior[f"rho {n}"])),
        ).sum()
        for n in inner.theta
    )
    torch.testing.assert_close(abml.gaussian_kl(q, prior), exact)
    assert exact > 0
    minus_log = -sum(Normal(0.0, 1.0).log_prob(m).sum() for m in method.theta.values())
    minus_log -= sum(
        Gamma(1.0, 0.01).log_prob(softplus(r) ** -2).sum() for r in method.rho.values()
    )
    count = (
        sum(m.numel() for m in method.theta.values()),
        sum(r.numel() for r in method.rho.values()),
    )
    constant = count[0] * 0.5 * torch.log(torch.tensor(2 * torch.pi)) - count[1] * torch.log(
        torch.tensor(0.01)
    )
    torch.testing.assert_close(method.hyperprior() + constant, minus_log)


def test_abmls_objective_adds_its_kl_and_hyperprior_over_all_images():
    method, task = make_method("abml", alpha=0.3, deviation=0.3), make_task()
    x, y, _, _ = method.task_tensors(task)
    _, prior, q = method.run_inner_loop(x, y, torch_rng(1), method.settings.steps, 1)
    o = method.objective(task, torch_rng(1))
    expected = (abml.gaussian_kl(q, prior) + method.hyperprior()) / (len(task) + len(task.query))
    torch.testing.assert_close(o.penalty, expected)
    assert o.kl == pytest.approx(abml.gaussian_kl(q, prior).item())


def test_abmls_deviations_start_where_the_settings_say():
    for head, expected in ((None, 0.2), (0.5, 0.5)):
        method = create_method(
            MethodSettings(name="abml", options={"deviation": 0.2, "deviation_head": head}),
            (16, 16),
        )
        found = {name: F.softplus(rho).unique().tolist() for name, rho in method.rho.items()}
        assert found["conv1_weight"] == found["conv4_weight"] == pytest.approx([0.2])
        assert found["head_weight"] == found["head_bias"] == pytest.approx([expected])


def test_abml_stays_finite_at_the_papers_step_size():
    method, task = make_method("abml", torch.float32, start="paper"), make_task(shots="fixed:1")
    o = method.objective(task)
    assert torch.isfinite(o.loss + o.penalty)
    assert o.kl < 1e4


def stepped(inner, start, loss, rates, steps: int) -> dict[str, torch.Tensor]:
    """Steps of autograd's gradient of ``loss(θ, support loss)``, without the engine."""
    at = {name: value.detach() for name, value in start.items()}
    for _ in range(steps):
        at = {name: value.detach().requires_grad_() for name, value in at.items()}

        def support_loss(theta: dict[str, torch.Tensor]) -> torch.Tensor:
            return F.cross_entropy(
                inner.query_logits(theta, inner.images), inner.labels
            )  # the mean

        found = torch.autograd.grad(loss(at, support_loss), list(at.values()), allow_unused=True)
        at = {
            name: value if g is None else value - rates[name] * g
            for (name, value), g in zip(at.items(), found, strict=True)
        }
    return at


def test_abmls_steps_are_those_of_its_definition():
    """On (μ, ρ) of CE(μ + σ ∘ ε) + KL(q ‖ p) / N, with the same ε."""
    method, task = make_method("abml", alpha=0.3, deviation=0.3), make_task()
    x, y, _, _ = method.task_tensors(task)
    inner, prior, found = method.run_inner_loop(x, y, torch_rng(5), 3, order=0)
    noise, n, softplus = torch_rng(5), len(y), F.softplus

    def loss(q, support_loss):
        epsilon = {
            name: torch.randn(v.shape, generator=noise).double() for name, v in inner.theta.items()
        }
        total = support_loss(
            {
                name: q[f"mean {name}"] + softplus(q[f"rho {name}"]) * epsilon[name]
                for name in epsilon
            }
        )
        for name in epsilon:
            mine, theirs = (
                Normal(of[f"mean {name}"], softplus(of[f"rho {name}"])) for of in (q, prior)
            )
            total = total + kl_divergence(mine, theirs).sum() / n
        return total

    start = {key: value.detach() for key, value in prior.items()}
    rates = dict.fromkeys(start, 0.3)
    for name in inner.theta:
        rates[f"mean {name}"] = 1 / (1 / 0.3 + 1 / (n * softplus(start[f"rho {name}"]) ** 2))
    expected = stepped(inner, start, loss, rates, 3)
    assert found.keys() == expected.keys()
    for key in expected:
        torch.testing.assert_close(found[key], expected[key], rtol=1e-9, atol=1e-12, msg=key)


# -------------------------------------------------------------------------- MT-net
def test_mt_nets_steps_move_masked_weights_before_the_mixing():
    """W ← W − α M ∘ ∇_W CE(T W), T as a 1×1 convolution."""
    method, task = make_method("mt-net", alpha=0.3), make_task()
    x, y, _, _ = method.task_tensors(task)
    inner, found = method.run_inner_loop(x, y, torch_rng(5), 2, order=0)
    mask = {
        name: value.detach().round() for name, value in method.mask(torch_rng(5), task.way).items()
    }
    assert {value for m in mask.values() for value in m.tolist()} == {0.0, 1.0}

    def mixed(theta):
        return theta | {
            layer.weight: (method.mixing[layer.weight] @ theta[layer.weight].flatten(1)).view_as(
                theta[layer.weight]
            )
            for layer in method.body.layers
        }

    moving = {"head_bias": mask["head_weight"], "head_weight": mask["head_weight"][:, None]}
    moving |= {
        layer.weight: mask[layer.weight][:, None, None, None] for layer in method.body.layers
    }
    rates = {name: 0.3 * moving.get(name, 1.0) for name in inner.theta}
    expected = mixed(
        stepped(
            inner, inner.theta, lambda theta, support_loss: support_loss(mixed(theta)), rates, 2
        )
    )
    for name in moving:
        torch.testing.assert_close(found[name], expected[name], rtol=1e-9, atol=1e-12, msg=name)


# --------------------------------------------------------------------------- rates
def test_step_sizes_learn_in_proportion_to_their_start_at_most_ten_times_as_fast():
    slow = make_method("meta-sgd", alpha=0.003, alpha_head=1.0).learning_rate_multipliers()
    assert slow["rate.conv2_weight"] == pytest.approx(0.3)
    assert slow["rate.head_weight"] == slow["rate.head_bias"] == 10
    assert make_method("taml", alpha=0.01).learning_rate_multipliers()[
        "rate.conv1_weight"
    ] == pytest.approx(1)
    assert (
        make_method("taml", alpha=0.0).learning_rate_multipliers()["rate.conv1_weight"] == 1
    )  # or it would never leave zero
    assert make_method("maml").learning_rate_multipliers() == {}


def test_training_gives_the_objective_a_generator_that_depends_on_the_task_alone():
    class Noisy(MAML):
        def objective(self, task, noise=None):
            result = super().objective(task, noise)
            return replace(result, penalty=torch.randn((), generator=noise).item())

    noisy = Noisy(make_method("maml").settings, make_method("maml").body, torch_rng(0)).double()
    penalties = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        penalties.append(task_gradients(noisy, make_task())[1]["penalty"])
    assert penalties[0] == penalties[1]
    assert task_gradients(noisy, make_task(1))[1]["penalty"] != penalties[0]


@pytest.mark.parametrize("name", ["mt-net", "abml"])
def test_methods_that_do_not_use_adapt_body_ignore_it(name):
    task = make_task()
    on, off = (make_method(name, adapt_body=value, alpha=0.1) for value in (True, False))
    torch.testing.assert_close(off.predict(task), on.predict(task))
    torch.testing.assert_close(off.objective(task).loss, on.objective(task).loss)
